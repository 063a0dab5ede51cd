"""Failures in words: each cause is recognised from what a run recorded, with its device, its place and its lines."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from core.config.validation import smaller_batch
from core.devices.device import Device
from core.devices.nvidia.health import xid_problem
from core.diagnosis.causes import Cause
from core.diagnosis.evidence import FAILED_FIRST, GROUP_KILLED, KERNEL_KILLED
from core.diagnosis.failures import Failure, failure_of, short_cause, short_reason
from core.language import Message, join_sentences, stored, tr
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.schema.event_kinds import Checkpoint, MemoryPeak, Release, SupervisorStart, Verdict
from core.schema.settings import Script
from core.schema.spec import RunSpec
from core.system.processes import ProcessId
from gui.features.run.events import failure_view
from tests.support.running import make_spec

GB = 2**30
GPU = {"GPU-aa": {"label": "GPU 5", "memory_total_bytes": 24 * GB}, "GPU-bb": {"label": "GPU 6"}}
TRACE = """Traceback (most recent call last):
  File "/home/u/project/train.py", line 31, in <module>
    main()
  File "/home/u/project/train.py", line 12, in loss
    return crossentropy(output)
           ^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3/site-packages/torch/nn.py", line 400, in forward
    return self.module(x)
ValueError: shapes do not fit
"""


def script() -> RunSpec:
    return RunSpec(
        name="train", framework="script", strategy="as-is", script=Script(path="/home/u/project/train.py"),
        devices=("GPU-aa",), python="/usr/bin/python3", working_dir="/home/u/project",
    )


def failed(error: str, *, spec: RunSpec | None = None, log_end: str = "", **known: Any) -> Failure:
    facts = RunFacts(**{"state": RunState.FAILED, "error": error, "devices": GPU, **known})
    found = failure_of(facts, spec or script(), log_end=log_end)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("error", "cause", "title"),
    [
        ("Worker 0 on GPU-aa: OutOfMemoryError: Device GPU-aa ran out of memory when allocating 2.00 GiB more.",
         Cause.DEVICE_MEMORY, "GPU 5 ran out of memory at step 214"),
        (("train.py ended with exit code 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
         "GPU 1 has a total capacity of 24 GiB."), Cause.DEVICE_MEMORY, "GPU 6 ran out of memory at step 214"),
        ("Worker 1 on GPU-bb: ResourceExhaustedError: Device GPU-bb ran out of memory.",
         Cause.DEVICE_MEMORY, "GPU 6 ran out of memory at step 214"),
        ("train.py ended with exit code 1: MemoryError.", Cause.HOST_MEMORY,
         "The machine ran out of memory at step 214"),
        ("Worker 0 on GPU-aa: ModuleNotFoundError: No module named 'einops'.", Cause.MISSING_MODULE,
         "The module einops is missing"),
        ("Worker 0 on GPU-aa: AttributeError: module 'tensorflow' has no attribute 'placeholder'.", Cause.TENSORFLOW_1,
         "The program needs TensorFlow 1"),
        ("a.py ended with exit code 1: ModuleNotFoundError: No module named 'tensorflow.examples'.",
         Cause.TENSORFLOW_1, "The program needs TensorFlow 1"),
        (("a.py ended with exit code 1: AttributeError: module 'tensorflow._api.v2.train' has no attribute "
         "'AdamOptimizer'."), Cause.TENSORFLOW_1, "The program needs TensorFlow 1"),
        ("a.py ended with exit code 1: AttributeError: module 'tensorflow' has no attribute 'fucntion'.", Cause.CODE,
         "AttributeError"),
        ("Worker 0 on GPU-aa: FrameworkError: pytorch could not be imported by /p: No module named 'torch'.",
         Cause.FRAMEWORK, "The framework could not be loaded"),
        ("The CUDA driver's library cannot be used, so nothing can train on a GPU: libcuda.so.1 is missing.",
         Cause.CUDA, "The GPUs cannot be used by CUDA"),
        ("Worker 0 on GPU-aa: NotFiniteError: The loss is nan at step 9.", Cause.NOT_FINITE,
         "The loss was no longer a number at step 9"),
        ("Worker 0 on GPU-aa was ended by SIGKILL, which this run did not send.", Cause.KILLED,
         "A process was killed from outside at step 214"),
        ("Worker 0 on GPU-aa was ended by SIGSEGV, which this run did not send.", Cause.SIGNAL,
         "A process was ended by SIGSEGV at step 214"),
        ("The disk of /runs is full.", Cause.DISK, "The disk is full"),
        ("Worker 0 on GPU-aa: ValueError: shapes do not fit.", Cause.CODE, "ValueError"),
        ("train.py ended with exit code 3. It printed nothing.", Cause.EXIT, "The program ended with exit code 3"),
        ("Something else.", Cause.OTHER, "The run failed"),
    ],
)
def test_cause_is_told_in_words(error: str, cause: Cause, title: str) -> None:
    failure = failed(error, step=214)
    assert (failure.cause, failure.title) == (cause, title)
    assert failure.sentence.endswith((".", "'killed process'"))


FAULT = "The driver says that GPU 6 needs a reset (its recovery action). End what runs on it first."


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("Worker 0 on GPU-aa: RuntimeError: CUDA error: uncorrectable ECC error encountered", Cause.FAULT),
        ("Worker 0 on GPU-aa: RuntimeError: CUDA error: an illegal memory access was encountered", Cause.FAULT),
        ("Worker 0 on GPU-aa: DistBackendError: NCCL error: unhandled cuda error", Cause.FAULT),
        ("Worker 0 on GPU-aa: RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", Cause.FAULT),
        ("Worker 0 on GPU-aa: RuntimeError: CUDA driver initialization failed, error 802.", Cause.FAULT),
        ("Worker 0 on GPU-aa: InternalError: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", Cause.FAULT),
        ("Worker 0 on GPU-aa: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", Cause.DEVICE_MEMORY),
        ("Worker 0 on GPU-aa: ModuleNotFoundError: No module named 'einops'.", Cause.MISSING_MODULE),
        ("Worker 0 on GPU-aa: ValueError: shapes do not fit.", Cause.CODE),
        ("Worker 0 on GPU-aa: AcceleratorError: CUDA error: device-side assert (cudaErrorAssert).", Cause.ACCESS),
        ("Worker 0 on GPU-aa: RuntimeError: CUDA error: no kernel image is available for execution.", Cause.NO_KERNEL),
    ],
)
def test_faulty_gpu_explains_what_a_gpu_can_cause(error: str, cause: Cause) -> None:
    failure = failed(error, faults={"GPU-bb": FAULT})
    assert failure.cause is cause
    if cause is Cause.FAULT:
        assert (failure.title, failure.sentence) == ("Something is wrong with GPU 6", FAULT)
        assert failed(error).cause is not Cause.FAULT, "without a word of the driver it may be the program"


def test_card_offers_to_go_on_without_the_device_that_failed() -> None:
    spec = make_spec("digits_mlp", devices="cpu:0,cpu:1", strategy="ddp")
    facts = RunFacts(
        state=RunState.FAILED, error="Worker 1 on cpu:1: RuntimeError: CUDA error: unknown", faults={"cpu:1": FAULT},
        supervisor=ProcessId(pid=1, created=1.0), checkpoint=Checkpoint(step=5, name="step-00000005"),
        devices={"cpu:0": {}, "cpu:1": {}},
    )

    def offered(facts: RunFacts) -> list[tuple[tuple[str, ...], str]]:
        view = failure_view(facts, spec, log_end="", labels={"cpu:0": "CPU 0"})
        assert view is not None
        return [(each.devices, words) for each, words in view.changes if each.devices != spec.devices]

    assert offered(facts) == [(("cpu:0",), "resume on CPU 0")]
    assert offered(replace(facts, checkpoint=None)) == []
    assert offered(replace(facts, faults={"cpu:0": FAULT, "cpu:1": FAULT})) == [], "no device is left"


MEMORY = "OutOfMemoryError: CUDA out of memory."
LATE = (
    "[rank{0}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600060 milliseconds "
    "before timing out.\n"
)
WAITED = "A worker waited in vain for another one"
ABORTED = "train.py was ended by SIGABRT, which this run did not send."


@pytest.mark.parametrize(
    ("error", "log_end", "cause", "title", "words"),
    [
        # https://github.com/hiyouga/LlamaFactory/issues/7396
        (ABORTED, "".join(LATE.format(rank, 1580, "ALLREDUCE") for rank in (0, 3, 2, 1)), Cause.WAITED,
         WAITED, "ALLREDUCE took longer than its limit of 600 s. All workers waited"),
        # https://github.com/pytorch/pytorch/issues/118369
        (ABORTED, "".join(LATE.format(*each, "_ALLGATHER_BASE") for each in (
            (0, 96120), (0, 96117), (1, 96120), (2, 96120), (3, 64088))), Cause.WAITED, WAITED,
         "limit of 600 s. Worker 3 was behind the others, at collective 64088."),
        (ABORTED, "".join(LATE.format(rank, 7, "ALLREDUCE") for rank in (0, 2, 3)), Cause.WAITED,
         WAITED, "Worker 1 reported nothing: it hung, or had ended."),
        # https://github.com/Project-MONAI/model-zoo/issues/685
        (ABORTED, f"terminate called\n  what():  [PG 0 Rank 0] terminated: {LATE.format(0, 7, 'ALLREDUCE')}",
         Cause.WAITED, WAITED, "Which worker was late is not known."),
        # https://github.com/om-ai-lab/VLM-R1/issues/257
        (ABORTED, "[Rank 6] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n",
         Cause.WAITED, WAITED, "hung, or ended first"),
        # https://github.com/wilicc/gpu-burn/issues/92
        (ABORTED, "terminate called\n  what():  Error (gpu_burn-drv.cpp:298): system not yet initialized\n",
         Cause.FABRIC, "The connection between the GPUs is not set up", "fabric manager"),
        ("a.py ended with exit code 1: ValueError: eps must be above 1e-6.", LATE.format(0, 7, "ALLREDUCE"), Cause.CODE,
         "ValueError", "eps must be above 1e-6."),
        (ABORTED, "terminate called\n", Cause.SIGNAL, "A process was ended by SIGABRT", "ended it on purpose"),
        (("a.py ended with exit code 1: RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer "
          "[127.0.1.1]:4555."), "", Cause.WAITED, WAITED, "hung, or ended first"),
        ("a.py ended with exit code 1: ConnectionResetError: [Errno 104] Connection reset by peer.", "", Cause.CODE,
         "ConnectionResetError", "Connection reset by peer"),
        # https://github.com/meta-pytorch/torchtune/issues/1025
        (("a.py ended with exit code 1: torch.distributed.DistNetworkError: The server socket has failed to listen on "
          "any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already "
          "in use)."), "", Cause.PORT, "Port 29500 is in use", "another port"),
        # https://github.com/xdit-project/mochi-xdit/issues/22
        (("a.py ended with exit code 1: RuntimeError: The server socket has failed to listen on any local network "
          "address. port: 29501, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use."), "",
         Cause.PORT, "Port 29501 is in use", "another port"),
        ("Worker 0 on GPU-aa: RuntimeError: Address already in use.", "", Cause.PORT, "A port is in use", "another"),
        # https://github.com/evo-design/evo/issues/136
        ("Worker 0 on GPU-aa: RuntimeError: CUDA error: an illegal memory access was encountered.", "", Cause.ACCESS,
         "A kernel on GPU 5 used memory that it must not", "with CUDA_LAUNCH_BLOCKING=1 in the environment it is"),
        # https://github.com/hszhao/semseg/issues/29
        ("Worker 0 on GPU-aa: RuntimeError: CUDA error: device-side assert triggered.",
         "ClassNLLCriterion.cu:104: block: [3,0,0], thread: [160,0,0] Assertion `t >= 0 && t < n_classes` failed.\n",
         Cause.ACCESS, "An assertion failed on GPU 5", "The assertion t >= 0 && t < n_classes failed. Most often"),
        # https://github.com/huggingface/huggingface_hub/issues/4134
        (("a.py ended with exit code 1: RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system "
          "not yet initialized."), "", Cause.FABRIC, "The connection between the GPUs is not set up", "fabric manager"),
        (("a.py ended with exit code 1: RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system "
          "has unsupported display driver / cuda driver combination."), "", Cause.MISMATCH, "The driver does not fit",
         "After an update of the driver, restart the machine."),
        ("Worker 0 on GPU-aa: RuntimeError: CUDA error: no kernel image is available for execution.", "",
         Cause.NO_KERNEL, "The framework is not built for GPU 5", "Choose another Python"),
    ],
)
def test_causes_of_gpus_and_their_connections(error: str, log_end: str, cause: Cause, title: str, words: str) -> None:
    four = {f"GPU-{name}": {"label": f"GPU {number}"} for number, name in ((5, "aa"), (6, "bb"), (7, "cc"), (8, "dd"))}
    failure = failed(error, log_end=log_end, devices=four)
    assert (failure.cause, failure.title) == (cause, title)
    assert words in failure.sentence, failure.sentence
    if cause is Cause.WAITED and log_end:
        assert failed(error, log_end=log_end, devices=four, starts=2).cause is Cause.SIGNAL, "of the time before"


@pytest.mark.parametrize(
    ("numbers", "error", "cause", "begins"),
    [
        ((31, 45), "CUDA error: an illegal memory access was encountered.", Cause.ACCESS, "Most often an index or"),
        ((79, 31), "CUDA error: an illegal memory access was encountered.", Cause.FAULT, "GPU 5 does not answer on"),
        ((31,), "CUDA error: unspecified launch failure.", Cause.CODE, "CUDA error: unspecified launch failure."),
        ((31, 48), "CUDA error: unspecified launch failure.", Cause.FAULT, "A program used memory of GPU 5"),
        ((31,), "ValueError: shapes do not fit.", Cause.CODE, "shapes do not fit."),
    ],
)
def test_error_that_a_program_causes_confirms_an_illegal_access(numbers, error, cause, begins) -> None:
    gpu = Device(id="GPU-aa", kind="nvidia", label="GPU 5", name="H100")
    told = join_sentences(part for each in numbers for part in attrgetter("sentence", "remedy")(xid_problem(each, gpu)))
    failure = failed(f"Worker 0 on GPU-aa: RuntimeError: {error}".replace("RuntimeError: V", "V"),
                     faults={"GPU-aa": told})
    assert (failure.cause, failure.sentence[: len(begins)]) == (cause, begins)
    confirmed = "The driver reports it, too: A program used memory of GPU 5 that is not its own (Xid 31)."
    assert (confirmed in failure.sentence) is ("CUDA" in error and cause is not Cause.FAULT), failure.sentence
    worn = join_sentences([told, "Memory errors of GPU 5 could not be corrected: 3.", "Replace it."])
    broken = failed(f"Worker 0 on GPU-aa: RuntimeError: {error}", faults={"GPU-aa": worn})
    assert broken.cause is (Cause.FAULT if "CUDA" in error else Cause.CODE)


def test_full_device_says_how_full_it_was() -> None:
    release = Release(
        device_id="GPU-aa", verdict=Verdict.RELEASED, before_bytes=0, peak_bytes=int(23.6 * GB), after_bytes=0,
        seconds=1.0, sentence="",
    )
    error = "Worker 0 on GPU-aa: OutOfMemoryError: Device GPU-aa ran out of memory when allocating 2.00 GiB more."
    sentence = failed(error, releases={"GPU-aa": release}).sentence
    assert "23.6 of 24.0 GB were in use at most. The step that failed asked for 2.00 GB more." in sentence


def test_host_is_full_where_only_cpu_devices_were_used_or_the_kernel_ended_a_process() -> None:
    error = "Worker 0 on cpu:0: OutOfMemoryError: Device cpu:0 ran out of memory."
    assert failed(error, devices={"cpu:0": {"label": "CPU 0"}}).cause is Cause.HOST_MEMORY
    error = f"Worker 0 on GPU-aa was ended by SIGKILL, which this run did not send. {KERNEL_KILLED}"
    failure = failed(error, step=9)
    assert failure.title == "The machine ran out of memory at step 9"
    assert failure.sentence.startswith("The kernel ended the training process on GPU 5 to free memory.")


def test_place_is_the_deepest_line_of_the_users_code() -> None:
    failure = failed("train.py ended with exit code 1: ValueError: shapes do not fit.", traceback=TRACE)
    assert str(failure.place) == "train.py, line 12, in loss()"
    assert failure.lines == ('  File "/usr/lib/python3/site-packages/torch/nn.py", line 400, in forward',
                             "    return self.module(x)", "ValueError: shapes do not fit")
    trace = TRACE.replace(
        "ValueError: shapes do not fit", "torch.OtherProblem: no data:\ntried one\ntried two\n\nlast line"
    )
    failure = failed("train.py ended with exit code 1: torch.OtherProblem: no data: tried one.", traceback=trace)
    assert (failure.title, failure.sentence) == ("OtherProblem", "no data: tried one")
    assert failure.lines[-1] == "torch.OtherProblem: no data:", "of many lines, from the name on"
    assert str(failure.place) == "train.py, line 12, in loss()"
    handled = "ModuleNotFoundError: No module named 'flash_attn'\n\nDuring handling ...\nValueError: no\n"
    failure = failed("train.py ended with exit code 1: ValueError: no.", traceback=handled)
    assert (failure.cause, failure.title) == (Cause.CODE, "ValueError"), "what was handled is not the cause"
    assert failed("train.py ended with exit code 3.", log_end="a\nb\n\nc\nd\n").lines == ("b", "c", "d")
    assert failed("train.py ended with exit code 3.").lines == ()


def test_rank_that_failed_is_named() -> None:
    assert failed("train.py (Worker 2 on GPU-bb) ended with exit code 1.").rank == 2
    assert failed("Worker 3 on GPU-bb: ValueError: no.").rank == 3
    assert failed("The run failed.").rank == 0


def test_root_from_which_others_failed_says_so_once_and_is_no_cascade() -> None:
    first = tr(FAILED_FIRST, rank=2)
    error = join_sentences(["Worker 2 on GPU-bb: OutOfMemoryError: CUDA out of memory.", first])
    view = failure_view(RunFacts(state=RunState.FAILED, error=error, devices=GPU), script(), log_end="", labels={})
    assert view is not None
    assert (view.title, view.rank) == ("GPU 6 ran out of memory", 2)
    assert view.sentence == "Try a smaller batch. Worker 2 failed first, and the others because of it."
    failure = failed(join_sentences([ABORTED, first]), log_end=LATE.format(0, 7, "ALLREDUCE"))
    assert (failure.cause, failure.others) == (Cause.SIGNAL, first)


FULL = """OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 24.00 GiB of which 9.00 MiB is free.
 Process 4711 has 5.00 GiB memory in use. Process 4712 has 1.50 GiB memory in use."""


@pytest.mark.parametrize(
    ("before", "peaks", "traceback", "said"),
    [
        (0, {}, "", "23.0 of 24.0 GB were in use at most. "),
        (0, {"GPU-aa": 17}, "", "23.0 of 24.0 GB were in use at most: 17.0 GB by this run. "),
        (6, {"GPU-aa": 17}, "", "23.0 of 24.0 GB were in use at most: 17.0 GB by this run and 6.0 GB by others"),
        (6, {}, "", "23.0 of 24.0 GB were in use at most, 6.0 GB by others before the run. "),
        (6, {}, FULL, "23.0 of 24.0 GB were in use at most, 5.00 GB by pid 4711 and 1.50 GB by pid 4712. "),
        (None, {"GPU-aa": 17}, "", "This run itself had taken 17.0 GB. "),
        (None, {}, "", "Try a smaller batch."),
    ],
)
def test_full_device_says_whose_memory_it_was(before, peaks, traceback, said) -> None:
    release = None if before is None else Release(
        device_id="GPU-aa", verdict=Verdict.RELEASED, before_bytes=before * GB, peak_bytes=23 * GB, after_bytes=0,
        seconds=1.0, sentence="Back.",
    )
    recorded = [MemoryPeak(rank=0, device=name, peak_bytes=size * GB).event() for name, size in peaks.items()]
    facts = fold(RunFacts(devices=GPU), recorded)
    error = f"Worker 0 on GPU-aa: {MEMORY}"
    failure = failed(error, releases={"GPU-aa": release} if release else {}, peaks=facts.peaks, traceback=traceback)
    assert failure.sentence.startswith(said)


def test_peaks_of_the_workers_on_a_device_are_added_up_and_are_those_of_the_last_start() -> None:
    peaks = [MemoryPeak(rank=rank, device=device, peak_bytes=size, left_bytes=left).event()
             for rank, device, size, left in ((0, "GPU-aa", 3, None), (1, "GPU-aa", 4, 9), (1, "GPU-zz", 5, 9))]
    facts = fold(RunFacts(devices=GPU), peaks)
    assert [(name, each.peak_bytes, each.left_bytes) for name, each in facts.peaks.items()] == [("GPU-aa", 7, 9)]
    again = SupervisorStart(pid=1, created=1.0).event()
    assert fold(facts, [again, again, peaks[0]]).peaks["GPU-aa"].peak_bytes == 3


def test_lost_run_says_what_resuming_would_do() -> None:
    saved = Checkpoint(step=40, name="a", time=1.0, reason="epoch")
    for kept, words in ((None, "no checkpoint: Resume starts over."), (saved, "Resume continues from step 40.")):
        failure = failed("The run's supervisor exited unexpectedly.", state=RunState.LOST, checkpoint=kept)
        assert failure.sentence.endswith(words)
    for state in (RunState.RUNNING, RunState.FINISHED, RunState.STOPPED):
        assert failure_of(RunFacts(state=state, error=None), script()) is None, "no failure"


def test_part_whose_head_is_lost_says_where_to_resume_and_is_not_run_again() -> None:
    facts = RunFacts(state=RunState.HEAD_LOST, error="alpha has not been connected for 60 s.")
    view = failure_view(facts, script(), log_end="", labels={})
    assert view is not None
    assert view.title == "The machine that has this run was lost"
    assert view.sentence.startswith("alpha has not been connected for 60 s. Resume the run there.")
    assert not view.can_run_again


def test_half_batch_is_divided_evenly_over_the_devices_and_offered_only_where_memory_was_missing() -> None:
    spec = make_spec("digits_mlp", strategy="ddp", devices="cpu:0,cpu:1", batch_size=52)
    smaller, words = smaller_batch(spec) or (spec, "")
    assert (smaller.training.batch_size, words) == (26, "batch 26")
    assert smaller_batch(replace(spec, training=replace(spec.training, batch_size=2))) is None
    limit = f"The worker ended. {tr(GROUP_KILLED, size='1.5 GB', file='/sys/fs/cgroup/memory.max')}"
    offered = ["batch 26", "fsdp", "bfloat16", "accumulation 2", "Find the largest batch"]
    for error, words in ((MEMORY, offered), ("ValueError: no.", []), (limit, offered)):
        facts = RunFacts(state=RunState.FAILED, error=f"Worker 0 on GPU-aa: {error}", devices=GPU)
        view = failure_view(facts, spec, log_end="", labels={"GPU-aa": "GPU 0"})
        assert view is not None
        assert [each for _, each in view.changes] == words


def test_kernels_launched_one_by_one_are_offered_where_a_kernel_failed_and_are_not_yet() -> None:
    error = "train.py ended with exit code 1: RuntimeError: CUDA error: an illegal memory access was encountered."
    facts, spec = RunFacts(state=RunState.FAILED, error=error, devices=GPU), script()
    view = failure_view(facts, spec, log_end="", labels={})
    assert view is not None
    ((changed, words),) = view.changes
    assert changed.script is not None
    assert (words, changed.script.environment) == ("CUDA_LAUNCH_BLOCKING=1", {"CUDA_LAUNCH_BLOCKING": "1"})
    again = failure_view(facts, changed, log_end="", labels={})
    assert again is not None
    assert again.changes == ()


@pytest.mark.parametrize(
    ("given", "then"),
    [
        (("--batch-size", "64", "--lr", "1"), ("--batch-size", "32", "--lr", "1")),
        (("--per_device_train_batch_size=8",), ("--per_device_train_batch_size=4",)),
        (("-b", "3"), ("-b", "1")),
        (("--batch-size", "1"), None),
        (("--batch-size",), None),
        (("--batches", "4"), None),
        ((), None),
    ],
)
def test_half_batch_of_a_script_is_the_value_of_its_option(given: tuple[str, ...], then: tuple[str, ...]) -> None:
    spec = script()
    assert spec.script is not None
    found = smaller_batch(replace(spec, script=replace(spec.script, arguments=given)))
    assert (found and found[0].script and found[0].script.arguments) == then


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("Worker 1 on GPU-bb: OutOfMemoryError: Device GPU-bb ran out of memory.", "out of memory"),
        ("Worker 0 on cpu:0: ModuleNotFoundError: No module named 'einops'.", "module einops is missing"),
        ("Worker 0 on cpu:0 was ended by SIGKILL, which this run did not send.", "killed from outside"),
        ("Worker 0 on cpu:0: ValueError: The queue is full.", ""),
        ("The disk of /runs is full.", "disk full"),
        (str(tr(GROUP_KILLED, size="1.5 GB", file="/sys/fs/cgroup/memory.max")), "memory limit"),
        ("", ""),
    ],
)
def test_list_of_runs_has_the_cause_in_a_few_words(error: str, words: str) -> None:
    assert short_cause(error) == words


def test_list_of_runs_has_what_a_script_raised_not_that_it_ended() -> None:
    ended = tr("{program} ended with exit code {code}: {error}.", program="fit.py", code=1, error="KeyError: 'b'")
    assert short_reason(Message.read(stored(ended))) == "KeyError: 'b'"
    assert short_reason(tr("{program} ended with exit code {code}. It printed nothing.", program="fit.py", code=1)) == (
        "fit.py ended with exit code 1. It printed nothing."
    )
