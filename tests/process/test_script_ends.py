"""How a script ends: the exception of a child, one that the exit code 0 hides, runs that it queued, its last output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.cli.output import failure_words
from core.diagnosis.causes import Cause
from core.diagnosis.failures import failure_of, short_cause
from core.history.index import directories
from core.queue import control
from core.queue.request import QueueRequest
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.events import Tail
from core.schema.paths import COLLECTOR_EVENTS, EVENTS, log_of_rank
from core.series.run_series import RunSeries
from tests.support.queueing import LABELS
from tests.support.running import Followed, source_spec, start, train
from tests.support.waiting import wait_until

COLLECT = """\
import os, sys
from pathlib import Path
from core.metrics.collector import MetricsCollector, collect
from core.schema.spec import read_spec
run_dir = Path(sys.argv[1])
stop, end = os.pipe()
ready = os.open(os.devnull, os.O_WRONLY)
os.close(end)  # the script has ended
read = MetricsCollector.read

def noted(self, *, last=False):
    print("last" if last else "more follows", flush=True)
    read(self, last=last)

MetricsCollector.read = noted
collect(run_dir, read_spec(run_dir), ready_fd=ready, stop_fd=stop)
"""
ROOT = Path(__file__).resolve().parents[2]
DIVERGES = """\
import time
for step in range(10**9):
    print(f"step {step} loss {0.5 if step < 3 else float('nan')}")
    time.sleep(0.05)
"""
CHILD = 'raise RuntimeError("no such thing")\n'
OUTER = "import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], check=True)\n"
THREAD = """\
import threading
def work():
    raise RuntimeError("no such thing")
thread = threading.Thread(target=work)
thread.start()
thread.join()
print("done")
"""


def test_exception_of_a_child_is_the_cause_and_not_that_of_the_program_that_started_it(
    tmp_path: Path, runs_root: Path
) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    followed = train(source_spec(tmp_path, OUTER), runs_root)
    assert followed.run.facts.error == "train.py ended with exit code 1: RuntimeError: no such thing."
    assert failure_words(followed.run) == "It was raised in child.py, line 1."


def test_run_that_a_script_queued_survives_it(tmp_path: Path, runs_root: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "inner.py").write_text("print('loss 1.0')\n")
    command = [sys.executable, "-m", "core.cli", "run", "--runs", str(runs_root), "--script", "inner/inner.py",
               "--name", "inner", "--devices", "cpu:0", "--queue", "--detach"]
    queues = f"import subprocess\nsubprocess.run({command}, check=True)\nprint('loss 1.0')\n"
    variables = {"PYTHONPATH": str(ROOT)}
    outer = train(source_spec(tmp_path, queues, environment=variables, devices="cpu:0,cpu:1"), runs_root)
    (inner,) = [Run.attach(each) for each in directories(runs_root) if "-inner-" in each.name]
    assert Followed(inner).until_over().state is RunState.FINISHED
    assert outer.state is RunState.FINISHED
    assert not any("outlived" in notice for notice in outer.run.facts.notices)


@pytest.mark.slow
def test_exception_of_a_thread_is_told_although_the_exit_code_is_0_and_to_the_run_that_follows(
    tmp_path: Path, runs_root: Path
) -> None:
    first = train(source_spec(tmp_path, THREAD), runs_root)
    assert first.state is RunState.FINISHED
    (notice,) = first.run.facts.notices
    assert notice == ("train.py ended with exit code 0, but its output ends with an exception: RuntimeError: no such "
                      "thing. It was raised in train.py, line 3, in work().")
    request = QueueRequest(labels=LABELS, after=str(first.run.dir), after_mode="ok")
    run = control.enqueue(source_spec(tmp_path, "print('loss 1.0')\n"), runs_root, request)
    wait_until(lambda: control.until_waiting(run), "the run to be in the line")
    following = Followed(run).until_over()
    assert following.state is RunState.FINISHED
    (notice,) = following.run.facts.notices
    assert notice.startswith(f"Run {first.run.id}, which this run follows, finished, but its output ends")


def test_last_read_keeps_what_it_has_read_when_it_is_ended(tmp_path: Path, runs_root: Path) -> None:
    run = train(source_spec(tmp_path, ""), runs_root).run
    events = run.dir / EVENTS / COLLECTOR_EVENTS
    events.unlink()
    log_of_rank(run.dir, 0).write_text("".join(f"step {step} loss {1 / (step + 1):.6f}\n" for step in range(600_000)))
    collecting = subprocess.Popen([sys.executable, "-c", COLLECT, run.dir], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: events.exists() and '"loss"' in events.read_text(), "the first measurements")
        assert collecting.poll() is None, "it reads on"
    finally:
        collecting.kill()
        reads, _ = collecting.communicate()
    assert reads.startswith(b"more follows\n"), "not all of it is read before the first is recorded"
    series = RunSeries()
    series.fold(Tail(events).read())
    assert 0 < len(series.metrics["loss"]) < 600_000


def test_loss_that_ceases_to_be_a_number_is_told_while_the_script_trains(tmp_path: Path, runs_root: Path) -> None:
    followed = start(source_spec(tmp_path, DIVERGES), runs_root)
    wait_until(lambda: followed.poll().run.facts.notices, "a notice")
    assert followed.state is RunState.RUNNING
    assert followed.run.facts.notices[0].startswith("The loss became NaN at step 3. Try a lower rate")
    followed.run.request("stop")
    followed.until_over()


POLITE = """
import time
try:
    for step in range(1, 1000):
        {measured}
        time.sleep(0.01)
except KeyboardInterrupt:
    print("saved")
"""
"""Ends by itself after ten seconds."""
OF_NAN = "print(f'step {step} loss {1 / step if step < 20 else float(\"nan\"):.3f}', flush=True)"
OF_ANOTHER = "print(f'step {step} loss {1 / step:.3f} grad_norm nan', flush=True)"
OF_VALIDATION = "print(f'step {step} val_loss {1 / step if step < 20 else float(\"inf\"):.3f}', flush=True)"


@pytest.mark.parametrize(("measured", "became"), [(OF_NAN, "NaN"), (OF_VALIDATION, "infinite")])
def test_script_whose_loss_is_no_number_is_asked_to_stop_and_has_failed(
    tmp_path: Path, runs_root: Path, measured: str, became: str
) -> None:
    source = POLITE.format(measured=measured)
    run = train(source_spec(tmp_path, source, training={"stop_on_nan": True}), runs_root).run
    facts = run.facts
    assert facts.state is RunState.FAILED
    sentence = (f"The loss became {became} at step 20. The run was stopped, as its setting “Stop on NaN” says. Try a "
                "lower rate, warm-up or gradient clipping, and check the data for NaN.")
    assert (facts.error, facts.notices) == (sentence, (sentence,))
    assert [step.name for step in facts.stop_steps] == ["SIGINT"]
    assert log_of_rank(run.dir, 0).read_text().endswith("saved\n")
    failure = failure_of(facts, run.spec())
    assert failure is not None
    assert (failure.cause, failure.title) == (Cause.NOT_FINITE, "The loss was no longer a number at step 20")
    assert short_cause(facts.error) == "loss not a number"


@pytest.mark.parametrize(
    ("source", "stops", "state"),
    [
        (POLITE.replace("1000", "60").format(measured=OF_ANOTHER), True, RunState.FINISHED),
        ("print('step 1 loss nan')\n", True, RunState.FAILED),  # it has ended before it can be stopped
        ("print('step 1 loss nan')\n", False, RunState.FINISHED),
    ],
)
def test_only_the_loss_and_only_with_the_setting_fails_a_script(tmp_path, runs_root, source, stops, state) -> None:
    followed = train(source_spec(tmp_path, source, training={"stop_on_nan": stops}), runs_root)
    assert followed.state is state
    assert followed.run.spec().training.stop_on_nan is stops


MEET = """\
import os, socket, sys, time
import torch, torch.distributed as dist
from datetime import timedelta
rank = int(os.environ["RANK"])
"""
TAKEN = MEET + """\
taken = socket.create_server(("127.0.0.1", 0))
dist.TCPStore("127.0.0.1", taken.getsockname()[1], 1, is_master=True)
"""
CASCADE = MEET + """\
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if rank == 1:
    time.sleep(0.5)  # the other one waits meanwhile
    raise ValueError("bad shard")
dist.all_reduce(torch.ones(1))
"""
CASCADE_ENDS_FIRST = MEET + """\
import atexit
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if rank == 1:
    atexit.register(lambda: (dist.destroy_process_group(), time.sleep(1000)))
    raise ValueError("bad shard")
dist.all_reduce(torch.ones(1))
"""
ONE_IS_MISSING = MEET + """\
dist.init_process_group("gloo", timeout=timedelta(seconds=2))
if rank == 1:
    time.sleep(1000)
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "devices", "cause", "words"),
    [
        (TAKEN, "cpu:0", Cause.PORT, "Another program listens there"),
        (CASCADE, "cpu:0,cpu:1", Cause.CODE, "bad shard"),
        (CASCADE_ENDS_FIRST, "cpu:0,cpu:1", Cause.CODE, "bad shard"),
        (ONE_IS_MISSING, "cpu:0,cpu:1", Cause.WAITED, "The other one hung, or ended first."),
    ],
    ids=["port in use", "a root and its cascade", "a cascade that ends before its root", "a cascade alone"],
)
def test_cause_is_told_of_workers_that_meet(tmp_path, runs_root, source, devices, cause, words) -> None:
    followed = train(source_spec(tmp_path, source, devices=devices, launch="per-device"), runs_root)
    assert followed.state is RunState.FAILED
    failure = failure_of(followed.run.facts, followed.run.spec(), log_end=followed.run.log_end(1 << 16))
    assert failure is not None
    assert (failure.cause, words in failure.sentence) == (cause, True), (followed.failure, failure)
    if source is CASCADE_ENDS_FIRST:
        assert followed.run.facts.workers[0].exit_code == 1, "rank 0 ended by itself"
        assert (failure.rank, failure.others) == (1, "Worker 1 failed first, and the others because of it.")
