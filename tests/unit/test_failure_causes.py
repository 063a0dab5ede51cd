"""The cause of a failure in what launchers, pools and frameworks print around it.

The outputs follow reports in public issue trackers, which their comments name; paths and long parts are shortened.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from core.diagnosis.causes import Cause
from core.diagnosis.device_argument import device_argument
from core.diagnosis.failures import failure_of
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import WorkerError
from core.schema.events import Tail
from core.schema.paths import EVENTS, LOG_FILE, RESERVE, log_of_rank
from core.schema.settings import Script
from core.schema.spec import RankAssignment, RunSpec
from core.supervisor.jobs import MeetingSigns, RecipeJob, ScriptJob
from core.supervisor.workers import Worker, WorkerGroup

SITE = "/env/lib/python3.10/site-packages"
TRACE = "Traceback (most recent call last):"


class Output(NamedTuple):
    """What a program printed, and what must be found in it."""

    name: str
    text: str
    begins: str
    """The beginning of the exception's sentence."""
    cause: Cause = Cause.CODE
    place: str = ""
    """The file and the line in the user's code."""
    exit_code: int = 1


ELASTIC = f"""{TRACE}
  File "/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "{SITE}/torch/distributed/launcher/api.py", line 264, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-02-05_01:02:51
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 907695)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
KILLED = ELASTIC.replace("exitcode  : 1 (pid: 907695)", "exitcode  : -9 (pid: 907695)").replace(
    "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    "Signal 9 (SIGKILL) received by PID 907695",
)
RECORDED = ELASTIC.replace(
    "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
    f"""{TRACE}
    File "{SITE}/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 346, in wrapper
      return f(*args, **kwargs)
    File "/home/u/train.py", line 52, in main
      loss = criterion(model(x), y)
  ValueError: Expected input batch_size (32) to match target batch_size (16).
""",
)
CALLED = f"""{TRACE}
  File "/env/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "{SITE}/accelerate/commands/launch.py", line 628, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['/env/bin/python', 'train.py']' returned non-zero exit status 1.
"""
EPOCHS = "".join(f"epoch {epoch} loss 1.0\n" for epoch in range(30))
HANDLED = f"""{TRACE}
  File "/home/u/train.py", line 3, in load
    import apex
ModuleNotFoundError: No module named 'apex'
apex is not used
"""


def box(*frames: str) -> str:
    """Return a traceback as rich draws it."""
    inner = "".join(f"│ {frame:<76} │\n" for frame in frames)
    return f"╭{'─' * 21} Traceback (most recent call last) {'─' * 22}╮\n{inner}╰{'─' * 78}╯\n"


OUTPUTS = (
    # https://github.com/hiyouga/LlamaFactory/issues/6827
    Output("torchrun with the ranks' names", f"""step 10 loss 2.1
[rank0]: {TRACE}
[rank0]:   File "/home/u/train.py", line 31, in <module>
[rank0]:     main()
[rank0]:   File "{SITE}/torch/nn/functional.py", line 2140, in linear
[rank0]:     return torch._C._nn.linear(input, weight, bias)
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 132.00 MiB. GPU 0 has 98.00 MiB free.
W0205 01:02:50.100000 907600 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 907696 SIGTERM
E0205 01:02:51.100000 907600 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0
{ELASTIC}""", "torch.OutOfMemoryError: CUDA out of memory.", Cause.DEVICE_MEMORY, "train.py:31"),
    # https://github.com/bghira/SimpleTuner/issues/40: two processes write at the same time
    Output("torchrun with mixed lines of two ranks", f"""{TRACE}
  File "/home/u/train.py", line 1191, in <module>
{TRACE}
  File "/home/u/train.py", line 1191, in <module>
    main()
  File "/home/u/train.py", line 156, in main
    accelerator = Accelerator(
    main()
  File "{SITE}/accelerate/state.py", line 790, in set_device
  File "/home/u/train.py", line 156, in main
    torch.cuda.set_device(self.device)
    accelerator = Accelerator(
RuntimeError: CUDA error: invalid device ordinal
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1.
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 12) of binary: python
{ELASTIC}""", "RuntimeError: CUDA error: invalid device ordinal", Cause.DEVICE_NUMBER, "train.py:156"),
    # https://github.com/hpcaitech/ColossalAI/issues/3172
    Output("torchrun whose rank was killed", f"""step 3 loss 8.1
WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2410413 closing signal SIGTERM
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 907695) of binary: python
{KILLED}""", "", Cause.KILLED),
    # the form of https://github.com/pytorch/pytorch/blob/main/torch/distributed/elastic/multiprocessing/errors
    Output("torchrun with a recorded traceback", RECORDED, "ValueError: Expected input batch_size (32)", Cause.CODE,
           "train.py:52"),
    # https://github.com/bmaltais/kohya_ss/issues/1334
    Output("accelerate in frames of rich", f"""steps:   0%|          | 0/1600 [00:00<?, ?it/s]
{box("/home/u/train_network.py:873 in <module>", "", "❱ 873 trainer.train(args)")}\
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
steps:   0%|          | 0/1600 [00:09<?, ?it/s]
{box("/env/bin/accelerate:8 in <module>", f"{SITE}/accelerate/commands/launch.py:580 in", "simple_launcher")}\
CalledProcessError: Command '['/env/bin/python', 'train_network.py']' returned non-zero exit status 1.
""", "RuntimeError: Expected all tensors to be on the same device", Cause.CODE, "train_network.py:873"),
    # https://github.com/huggingface/accelerate/issues/4277
    Output("accelerate on one device", f"""{TRACE}
  File "/home/u/train.py", line 12, in <module>
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
  File "{SITE}/transformers/utils/hub.py", line 446, in cached_file
    raise EnvironmentError(
OSError: We couldn't connect to 'https://huggingface.co' to load this file.
Checkout your internet connection or see how to run the library in offline mode.
{CALLED}""", "OSError: We couldn't connect to 'https://huggingface.co' to load this file.", Cause.CODE, "train.py:12"),
    # https://github.com/deepspeedai/DeepSpeed/issues/5302
    Output("deepspeed", f"""{TRACE}
  File "/home/u/train.py", line 77, in <module>
    model_engine.step()
  File "{SITE}/deepspeed/runtime/engine.py", line 3100, in save_checkpoint
    raise ValueError("loss scale")
ValueError: Current loss scale already at minimum - cannot decrease scale anymore.
[2024-03-20 20:31:29,210] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 3353707
[2024-03-20 20:31:29,240] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 3353708
[2024-03-20 20:31:29,269] [ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = 1
""", "ValueError: Current loss scale already at minimum", Cause.CODE, "train.py:77"),
    # https://github.com/deepspeedai/DeepSpeed/issues/3232
    Output("deepspeed whose rank was killed", """step 4 loss 2.0
[2023-04-14 13:11:27,879] [INFO] [launch.py:428:sigkill_handler] Killing subprocess 13266
[2023-04-14 13:11:27,885] [ERROR] [launch.py:434:sigkill_handler] ['python', 'main.py'] exits with return code = -9
""", "", Cause.KILLED, exit_code=247),
    # https://github.com/deepspeedai/DeepSpeed/issues/1581
    Output("old launcher of deepspeed", f"""{TRACE}
  File "/home/u/pretrain.py", line 240, in <module>
    train(args)
  File "/home/u/data.py", line 9, in item
    return self.index[number]
IndexError: index 512 is out of bounds for axis 0 with size 512
[2021-11-21 08:32:07,148] [INFO] [launch.py:131:sigkill_handler] Killing subprocess 250621
{TRACE}
  File "/usr/lib/python3.6/runpy.py", line 193, in _run_module_as_main
    "__main__", mod_spec)
  File "{SITE}/deepspeed/launcher/launch.py", line 167, in <module>
    main()
  File "{SITE}/deepspeed/launcher/launch.py", line 137, in sigkill_handler
    raise subprocess.CalledProcessError(returncode=last_return_code, cmd=cmd)
subprocess.CalledProcessError: Command '['python', 'pretrain.py', '--local_rank=7']' returned non-zero exit status 1.
""", "IndexError: index 512 is out of bounds", Cause.CODE, "data.py:9"),
    # https://github.com/greatlog/SWAHR-HumanPose/issues/11
    Output("torch.multiprocessing.spawn", f"""{TRACE}
  File "/home/u/train.py", line 320, in <module>
    mp.spawn(main_worker, nprocs=2)
  File "{SITE}/torch/multiprocessing/spawn.py", line 150, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 0 terminated with the following error:
{TRACE}
  File "{SITE}/torch/multiprocessing/spawn.py", line 59, in _wrap
    fn(i, *args)
  File "/home/u/train.py", line 161, in main_worker
    rank=args.rank
RuntimeError: Address already in use

""", "RuntimeError: Address already in use", Cause.PORT, "train.py:161"),
    # https://github.com/lyu-yx/ACUMEN/issues/4
    Output("spawned process that was killed", f"""{TRACE}
  File "/home/u/train.py", line 88, in <module>
    mp.spawn(main_worker, nprocs=2)
  File "{SITE}/torch/multiprocessing/spawn.py", line 130, in join
    raise ProcessExitedException(
torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL
""", "torch.multiprocessing.spawn.ProcessExitedException", Cause.KILLED, "train.py:88"),
    # https://github.com/lmy98129/VLPD/issues/6
    Output("arguments of torch.distributed.launch", f"""usage: train.py [-h] [--local_rank LOCAL_RANK]
train.py: error: unrecognized arguments: --local-rank=0
[2023-12-08 01:40:46,962] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 2) local_rank: 0
{ELASTIC.replace("exitcode  : 1", "exitcode  : 2")}""", "train.py: error: unrecognized arguments: --local-rank=0",
           Cause.LOCAL_RANK),
    # https://github.com/joblib/joblib and https://docs.python.org/3/library/multiprocessing.html: a pool
    Output("pool of multiprocessing", f'''multiprocessing.pool.RemoteTraceback:
"""
{TRACE}
  File "/usr/lib/python3.10/multiprocessing/pool.py", line 125, in worker
    result = (True, func(*args, **kwds))
  File "/home/u/prepare.py", line 7, in convert
    return float(cell)
ValueError: could not convert string to float: 'N/A'
"""

The above exception was the direct cause of the following exception:

{TRACE}
  File "/home/u/train.py", line 20, in <module>
    rows = pool.map(convert, cells)
  File "/usr/lib/python3.10/multiprocessing/pool.py", line 774, in get
    raise self._value
ValueError: could not convert string to float: 'N/A'
''', "ValueError: could not convert string to float: 'N/A'", Cause.CODE, "prepare.py:7"),
    # https://github.com/banteg/multicall.py/issues/42
    Output("pool whose process broke", f"""Process SpawnProcess-1:
{TRACE}
  File "/usr/lib/python3.10/multiprocessing/spawn.py", line 134, in _check_not_importing_main
    raise RuntimeError('''
RuntimeError:
        An attempt has been made to start a new process before the
        current process has finished its bootstrapping phase.

        This probably means that you are not using fork to start your
        child processes.
{TRACE}
  File "/home/u/train.py", line 46, in <module>
    multi()
  File "/usr/lib/python3.10/concurrent/futures/_base.py", line 403, in __get_result
    raise self._exception
concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while pending.
""", "RuntimeError: An attempt has been made to start a new process before the", Cause.CODE),
    # https://github.com/ray-project/ray/issues/39672
    Output("Ray Train", f"""{TRACE}
  File "/home/u/tune.py", line 60, in <module>
    results = tuner.fit()
  File "{SITE}/ray/_private/worker.py", line 2554, in get
    raise value.as_instanceof_cause()
ray.exceptions.RayTaskError(DeferredCudaCallError): ray::_Inner.train() (pid=10349, ip=10.5.166.177, repr=TorchTrainer)
  File "{SITE}/ray/tune/trainable/trainable.py", line 400, in train
    raise skipped from exception_cause(skipped)
ray.exceptions.RayTaskError(DeferredCudaCallError): ray::_RayTrainWorker__execute.get_next() (pid=10481)
  File "/home/u/tune.py", line 31, in train_func
    model = train.torch.prepare_model(model)
  File "{SITE}/torch/cuda/__init__.py", line 298, in _lazy_init
    raise DeferredCudaCallError(msg) from e
torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization with error: device >= 0 && device < num_gpus
""", "torch.cuda.DeferredCudaCallError: CUDA call failed lazily", Cause.DEVICE_NUMBER, "tune.py:31"),
    # https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html
    Output("Ray without memory of the machine", f"""{TRACE}
  File "/home/u/tune.py", line 60, in <module>
    ray.get(refs)
  File "{SITE}/ray/_private/worker.py", line 2551, in get
    raise value
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 10.5.166.177) was 124.1GB / 125.9GB (0.98), which exceeds the threshold of 0.95.
""", "ray.exceptions.OutOfMemoryError: Task was killed", Cause.HOST_MEMORY, "tune.py:60"),
    # https://github.com/hotosm/fAIr/issues/59
    Output("TensorFlow without memory", f"""{TRACE}
  File "/home/u/train.py", line 279, in <module>
    history = the_model.fit(
  File "{SITE}/tensorflow/python/eager/execute.py", line 54, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle, device_name, op_name,
tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:

OOM when allocating tensor with shape[16,64,64,64] and type float on /job:localhost/device:GPU:0 by allocator GPU_0_bfc
\t [[{{{{node model/down/conv}}}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom.
 [Op:__inference_train_function_9501]
""", "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error: OOM when allocating",
           Cause.DEVICE_MEMORY, "train.py:279"),
    # https://github.com/jax-ml/jax/issues/13428: the message has hundreds of lines
    Output("JAX without memory", f"""{TRACE}
  File "/home/u/train.py", line 204, in <module>
    state, stats, rng = train_pstep(rng, state, batch)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    6.00MiB
Peak buffers:
""" + "".join(f"\tBuffer {number}:\n\t\tSize: 6.00MiB\n\t\tShape: f32[4096,128,3]\n\t\t==========================\n\n"
              for number in range(1, 41)) + """\
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception. Set
JAX_TRACEBACK_FILTERING=off to include these.
""", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", Cause.DEVICE_MEMORY, "train.py:204"),
    # https://github.com/pytorch/pytorch/issues/1355 and Lightning's issue 19598: destructors of loaders at the end
    Output("destructor of a loader", f"""{TRACE}
  File "/home/u/train.py", line 90, in <module>
    trainer.fit(model)
  File "/home/u/model.py", line 14, in training_step
    return self.loss(y, labels)
IndexError: Target 10 is out of bounds.
Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f61a4bf0d40>
{TRACE}
  File "{SITE}/torch/utils/data/dataloader.py", line 1510, in __del__
    self._shutdown_workers()
  File "/usr/lib/python3.10/multiprocessing/process.py", line 160, in is_alive
    assert self._parent_pid == os.getpid(), 'can only test a child process'
AssertionError: can only test a child process
""", "IndexError: Target 10 is out of bounds.", Cause.CODE, "train.py:90"),
    # https://github.com/pytorch/pytorch/issues/108861
    Output("worker of a loader without shared memory", f"""{TRACE}
  File "{SITE}/torch/utils/data/dataloader.py", line 1132, in _try_get_data
    data = self._data_queue.get(timeout=timeout)
  File "{SITE}/torch/utils/data/_utils/signal_handling.py", line 66, in handler
    _error_if_any_worker_fails()
RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error. It is possible that workers are out of \
shared memory. Please try to raise your shared memory limit.

The above exception was the direct cause of the following exception:

{TRACE}
  File "/home/u/train.py", line 52, in <module>
    for images, labels in loader:
  File "{SITE}/torch/utils/data/dataloader.py", line 1145, in _try_get_data
    raise RuntimeError('DataLoader worker (pid(s) 11011) exited unexpectedly') from e
RuntimeError: DataLoader worker (pid(s) 11011) exited unexpectedly
""", "RuntimeError: DataLoader worker (pid 11011) is killed by signal: Bus error.", Cause.CODE),
    # https://github.com/horovod/horovod/issues/2255
    Output("Horovod with the names of its processes", f"""[1,0]<stdout>:Train Epoch: 1 [59520/60000] Loss: 0.319679
[1,0]<stderr>:{TRACE}
[1,0]<stderr>:  File "/home/u/pytorch_mnist.py", line 101, in <module>
[1,0]<stderr>:    train(epoch)
[1,0]<stderr>:RuntimeError: DataLoader worker (pid(s) 372) exited unexpectedly
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
""", "RuntimeError: DataLoader worker (pid(s) 372) exited unexpectedly", Cause.CODE, "pytorch_mnist.py:101"),
    # https://github.com/openai/mujoco-py/issues/808
    Output("Hydra", f"""Error executing job with overrides: ['task=dexart_laptop', 'training.seed=0']
{TRACE}
  File "/home/u/train.py", line 506, in main
    workspace.run()
  File "/home/u/workspace.py", line 33, in run
    dataset = open(path)
FileNotFoundError: [Errno 2] No such file or directory: 'data/laptop.zarr'

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
""", "FileNotFoundError: [Errno 2] No such file or directory", Cause.CODE, "train.py:506"),
    # gloo and NCCL: the rank that failed first speaks first, and the others only say that they lost it
    Output("peer that lost the rank which failed", f"""[rank1]: {TRACE}
[rank1]:   File "/home/u/train.py", line 40, in <module>
[rank1]:     loss.backward()
[rank1]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB
[rank0]: {TRACE}
[rank0]:   File "/home/u/train.py", line 41, in <module>
[rank0]:     dist.all_reduce(loss)
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]
{ELASTIC.replace("rank      : 0 (local_rank: 0)", "rank      : 1 (local_rank: 1)")}""",
           "RuntimeError: CUDA out of memory.", Cause.DEVICE_MEMORY, "train.py:40"),
    # a wrapper of one's own: https://github.com/open-mmlab/mim/issues/122
    Output("wrapper that starts a command", f"""usage: train.py [-h] [--work-dir WORK_DIR] config
train.py: error: the following arguments are required: config
{TRACE}
  File "/home/u/run_all.py", line 4, in <module>
    subprocess.check_call(["python", "train.py"])
  File "/usr/lib/python3.10/subprocess.py", line 369, in check_call
    raise CalledProcessError(retcode, cmd)
subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 2.
""", "train.py: error: the following arguments are required: config", Cause.EXIT),
    Output("end of the input below a handled exception", f"""{HANDLED}{TRACE}
  File "/home/u/train.py", line 20, in <module>
    model = torch.load(file)
EOFError: Ran out of input
""", "EOFError: Ran out of input", Cause.CODE, "train.py:20"),
    Output("server's answer below a handled exception", f"""{HANDLED}{TRACE}
  File "/home/u/train.py", line 20, in <module>
    download()
HTTPError: the server returned status code 503
""", "HTTPError: the server returned status code 503", Cause.CODE, "train.py:20"),
    Output("other program below a handled exception", f"""{HANDLED}{TRACE}
  File "/home/u/train.py", line 20, in <module>
    subprocess.check_call(["ffmpeg"])
subprocess.CalledProcessError: Command '['ffmpeg']' returned non-zero exit status 1.
""", "subprocess.CalledProcessError: Command '['ffmpeg']'", Cause.CODE, "train.py:20"),
    Output("connection that ends long after a handled exception", f"""{HANDLED}{EPOCHS}{TRACE}
  File "/home/u/train.py", line 20, in <module>
    download()
ConnectionResetError: [Errno 104] Connection reset by peer
""", "ConnectionResetError: [Errno 104] Connection reset by peer", Cause.CODE, "train.py:20"),
    Output("thread that lost the main thread", f"""{TRACE}
  File "/home/u/train.py", line 4, in <module>
    step()
RuntimeError: shape mismatch
Exception in thread Thread-1 (_pin_memory_loop):
{TRACE}
  File "/usr/lib/python3.10/threading.py", line 9, in run
    data = queue.get()
ConnectionResetError: [Errno 104] Connection reset by peer
""", "RuntimeError: shape mismatch", Cause.CODE, "train.py:4"),
    Output("command that was missing long before", f"""bash: nvidia-smi: command not found
{EPOCHS}{CALLED}""",
           "subprocess.CalledProcessError: Command '['/env/bin/python', 'train.py']'"),
    Output("torchrun that ended the other ranks itself", f"step 3 loss 2.0{chr(10)}" + KILLED.replace(
        "  <NO_OTHER_FAILURES>", "[1]:\n  exitcode  : -15 (pid: 907696)\n  traceback : Signal 15 (SIGTERM) received"
    ), "", Cause.KILLED),
    Output("keyboard without a terminal", f"""{TRACE}
  File "/home/u/train.py", line 5, in <module>
    tty.setcbreak(sys.stdin.fileno())
termios.error: (25, 'Inappropriate ioctl for device')
""", "termios.error: (25, 'Inappropriate ioctl for device')", Cause.CODE, "train.py:5"),
    Output("quota of a service", f"""{TRACE}
  File "/home/u/train.py", line 5, in <module>
    answer = client.generate()
google.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED. {{'error': 'You exceeded your current quota'}}
""", "google.genai.errors.ClientError: 429 RESOURCE_EXHAUSTED.", Cause.CODE, "train.py:5"),
    Output("memory of a GPU with JAX", f"""{TRACE}
  File "/home/u/train.py", line 5, in <module>
    state = step(state)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.
""", "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED", Cause.DEVICE_MEMORY, "train.py:5"),
    Output("number of a sound device", f"""{TRACE}
  File "/home/u/train.py", line 5, in <module>
    stream = sounddevice.query_devices(3)
sounddevice.PortAudioError: Error querying device 3: Invalid device ID
""", "sounddevice.PortAudioError: Error querying device 3", Cause.CODE, "train.py:5"),
)
GPU = {"GPU-aa": {"label": "GPU 5", "memory_total_bytes": 24 * 2**30}}
SPEC = RunSpec(
    name="train", framework="script", strategy="as-is", script=Script(path="/home/u/train.py"), devices=("GPU-aa",),
    python="/usr/bin/python3", working_dir="/home/u",
)


RANK = RankAssignment(
    rank=0, world_size=1, devices=("GPU-aa",), own=("GPU-aa",), kind="nvidia", cores=(), target="",
)


@pytest.mark.parametrize("output", OUTPUTS, ids=[each.name for each in OUTPUTS])
def test_cause_is_found_below_what_only_reports_it(output: Output, tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_text(output.text)
    (tmp_path / EVENTS).mkdir()
    (tmp_path / EVENTS / RESERVE).touch()  # without it, the disk counts as full
    worker = Worker(RANK, None, None, Tail(tmp_path), exit_code=output.exit_code)
    sentence, trace = ScriptJob(SPEC, tmp_path, 0o22, lambda _: MeetingSigns()).failure(worker)
    assert f"ended with exit code {output.exit_code}: {output.begins}" in sentence or not output.begins
    failure = failure_of(
        RunFacts(state=RunState.FAILED, error=sentence, traceback=trace, devices=GPU), SPEC, log_end=output.text
    )
    assert failure is not None
    place = f"{failure.place.file.rpartition('/')[2]}:{failure.place.line}" if failure.place is not None else ""
    assert (failure.cause, place) == (output.cause, output.place)


GLOO = """RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer \
[127.0.0.1]:11697. This is typically caused by a remote worker crashing."""
"""What PyTorch 2.13 prints with Gloo, here and below."""
RESET = GLOO.replace("553] Connection closed by peer", "537] Read error").replace(":11697.", ":1: Connection reset.")
BARRIER = "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 1000 ms"
STORE = "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote \
server shutdown or crash?"
# https://github.com/hiyouga/LlamaFactory/issues/7396 and https://github.com/sgl-project/sglang/issues/1693, shortened
NCCL = """[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.
[rank0]:[E321 02:07:08.519 ProcessGroupNCCL.cpp:621] [Rank 0] Some NCCL operations have failed or timed out.
[rank0]:[E321 02:07:08.519 ProcessGroupNCCL.cpp:627] [Rank 0] To avoid data inconsistency, we are taking the entire \
process down.
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG 0 Rank 0] Process group watchdog thread terminated with exception: [Rank 0] Watchdog caught collective \
operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds.
Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:609 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f3b6d41df86 in libc10.so)
"""
ROOT = "ValueError: bad shard"
SIGTERM = "SIGTERMException: SIGTERM"


def raised(exception: str, name: str = "") -> str:
    trace = f'{TRACE}\n  File "/home/u/train.py", line 7, in <module>\n    step()\n{exception}\n'
    return "".join(f"{name}{line}\n" for line in trace.splitlines())


class Rank(NamedTuple):
    """How a process ended: its exit code, what it printed, and for a recipe the exception that it reported."""

    code: int
    printed: str = ""
    error: str = ""
    signalled: bool = False


@pytest.mark.parametrize(
    ("ranks", "first", "words", "clause"),
    [
        ((Rank(-6, NCCL), Rank(1, raised(ROOT))), 1, ROOT, True),
        ((Rank(-6, NCCL), Rank(-15, raised(ROOT), signalled=True)), 1, ROOT, True),
        ((Rank(-6, NCCL), Rank(-15, signalled=True)), 0, "SIGABRT", False),
        ((Rank(-6, NCCL), Rank(1, raised(SIGTERM), signalled=True)), 0, "SIGABRT", False),
        ((Rank(-6, NCCL), Rank(1, raised("SignalException: Process 7 got signal: 15"), signalled=True)), 0, "SIGABRT",
         False),
        ((Rank(-6, NCCL), Rank(-15, raised("ConnectionError: retrying in 5 s") + "step 8\n", signalled=True)), 0,
         "SIGABRT", False),
        ((Rank(1, raised(ROOT)), Rank(1, raised(ROOT)), Rank(1, raised(GLOO))), 0, ROOT, False),
        ((Rank(-6, raised(ROOT) + NCCL), Rank(-6, NCCL)), 0, "SIGABRT", True),
        ((Rank(-6, NCCL), Rank(-11)), 1, "SIGSEGV", True),
        ((Rank(1, raised(GLOO)), Rank(1, raised(ROOT))), 1, ROOT, True),
        ((Rank(1, raised(RESET)), Rank(3, "bye\n")), 1, "exit code 3. Its last line", True),
        ((Rank(1, raised(BARRIER)), Rank(1, raised("threading.BrokenBarrierError")), Rank(1, raised(ROOT))), 2, ROOT,
         True),
        ((Rank(1, raised(STORE)), Rank(1, raised(GLOO))), 0, "DistNetworkError", False),
        ((Rank(1, raised(ROOT)), Rank(1, raised(ROOT))), 0, ROOT, False),
        ((Rank(-15, signalled=True), Rank(1, raised(SIGTERM), signalled=True)), None, "", False),
        # reported by workers of a recipe
        ((Rank(1, error=GLOO), Rank(3)), 1, "ended with exit code 3 before", True),
        ((Rank(1, error=GLOO), Rank(1, error=ROOT)), 1, ROOT, True),
        ((Rank(-6, NCCL), Rank(1, error=ROOT)), 1, ROOT, True),
        ((Rank(-6, f"terminate called after 'std::logic_error'\n{raised(GLOO)}"), Rank(1, error=GLOO)), 0, "SIGABRT",
         True),  # all print into one file
        ((Rank(1, error=GLOO), Rank(-15, signalled=True)), 0, "Connection closed by peer", False),
    ],
)
def test_root_wins_over_a_cascade_of_another_rank(ranks, first, words, clause, tmp_path: Path) -> None:
    (tmp_path / EVENTS).mkdir()
    (tmp_path / EVENTS / RESERVE).touch()
    group, reports = WorkerGroup(tmp_path), any(each.error for each in ranks)
    for rank, each in enumerate(ranks):
        log_of_rank(tmp_path, rank).write_text(each.printed)
        kind, _, message = each.error.partition(": ")
        error = WorkerError(type_name=kind, message=message, traceback=raised(each.error)) if kind else None
        assignment = replace(RANK, rank=rank, world_size=len(ranks), target="x" if reports else "")
        group.add(Worker(assignment, None, None, Tail(tmp_path), exit_code=each.code, error=error,
                         signalled=each.signalled))
    job = RecipeJob(SPEC, tmp_path) if reports else ScriptJob(SPEC, tmp_path, 0o22, lambda _: MeetingSigns())
    found = job.cause(group.culprits(), RunFacts(starts=1))
    if first is None:
        assert found is None
        return
    assert found is not None
    worker, sentence, trace = found
    assert (worker.assignment.rank, words in sentence) == (first, True), sentence
    assert sentence.endswith(f"Worker {first} failed first, and the others because of it.") is clause, sentence
    facts = RunFacts(state=RunState.FAILED, error=sentence, traceback=trace, devices=GPU, starts=1)
    failure = failure_of(facts, SPEC, log_end=ranks[first].printed)
    assert failure is not None
    assert (failure.cause is Cause.WAITED) is not (clause or words == ROOT)


def test_rank_of_a_root_is_named_where_a_launcher_has_one_log_for_all(tmp_path: Path) -> None:
    (tmp_path / EVENTS).mkdir()
    (tmp_path / EVENTS / RESERVE).touch()
    job = ScriptJob(SPEC, tmp_path, 0o22, lambda _: MeetingSigns())
    clause = " Worker 1 failed first, and the others because of it."
    for lost in (NCCL, raised(GLOO, "[rank0]: "), ""):
        (tmp_path / LOG_FILE).write_text(f"step 1\n{raised(ROOT, '[rank1]: ')}{lost}{ELASTIC}")
        sentence, _ = job.failure(Worker(RANK, None, None, Tail(tmp_path), exit_code=1))
        assert sentence == f"train.py ended with exit code 1: ValueError: bad shard.{clause if lost else ''}"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("--gpu 2", ("--gpu 2", 2)),
        ("--lr 0.1 --device=cuda:3", ("--device=cuda:3", 3)),
        ("-d cuda:1", ("-d cuda:1", 1)),
        ("--gpu_ids 0 1 5 --epochs 9", ("--gpu_ids 0 1 5", 5)),
        ("--devices 2,3", ("--devices 2,3", 3)),
        ("device=0,1", ("device=0,1", 1)),
        ("trainer.devices=[2]", ("trainer.devices=[2]", 2)),
        ("--devices 4", None),
        ("--gpus 4 --num_gpu 4", None),
        ("--device cpu --cuda --epochs 3", None),
        ("--gpu -1", None),
        ("--batch_size_per_gpu 64 --samples-per-gpu=4", None),
        ("--use_gpu 1 --no-cuda 1 --use_multi_gpu 1", None),
        ("--gpu_memory_utilization 1 --port 0", None),
    ],
)
def test_number_of_a_gpu_is_found_among_the_arguments(arguments: str, found: tuple[str, int] | None) -> None:
    assert device_argument(arguments.split()) == found


def test_gpu_that_a_run_does_not_have_is_explained_by_the_argument_or_the_line() -> None:
    trace = f'{TRACE}\n  File "/home/u/train.py", line 3, in <module>\nRuntimeError: invalid device ordinal\n'
    facts = RunFacts(state=RunState.FAILED, error="train.py ended with exit code 1.", traceback=trace, devices=GPU)
    remedies = {("--gpu", "2"): "Leave out --gpu 2, or", (): "Change the number that train.py, line 3"}
    for arguments, remedy in remedies.items():
        failure = failure_of(facts, replace(SPEC, script=Script(path="/home/u/train.py", arguments=arguments)))
        assert failure is not None
        assert failure.sentence.startswith("Inside a run numbers of GPUs begin at 0, and the last one here is 0.")
        assert remedy in failure.sentence


def test_terminal_and_rank_are_explained_where_the_exception_does_not() -> None:
    trace = f"""{TRACE}
  File "/home/u/utils.py", line 45, in <module>
    _, term_width = os.popen('stty size', 'r').read().split()
ValueError: not enough values to unpack (expected 2, got 0)
"""
    facts = RunFacts(state=RunState.FAILED, error="train.py ended with exit code 1.", traceback=trace, devices=GPU)
    failure = failure_of(facts, SPEC)
    assert failure is not None
    assert (failure.cause, failure.title) == (Cause.TERMINAL, "The program asks for the size of a terminal")
    assert "so stty size fails" in failure.sentence
