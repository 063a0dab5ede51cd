"""Warm processes in which runs train: a framework is imported once, and every supervisor and worker is forked from it.

    python -m tests.support.worker_pool torch|tensorflow

The supervisor is the real one, `core.supervisor`, started by `fork` in the place of a command line; so are its workers:
the child begins a session, takes log, stdin, environment and cores as `core.launchers.local` gives them, and calls the
worker's `main` under the private name. What is recorded is what a cold run records, but for the last digits of
TensorFlow's losses (`WITHOUT_ONEDNN`); `test_pool.py` compares the two.

Limits: no framework does anything before the fork but being imported, since the threads it would start are not forked;
and but converting functions of ours by AutoGraph (`tests.support.autograph_cache`).
The environment that `/proc` shows of a forked process is the pool's: the run's tag is not in it. So nothing about tags,
orphans, the guard, boot, or the start of a supervisor or a worker may be tested with a pool.

A pool also runs plain programs (`WorkerPools.run`), such as a loop written by hand that a run is compared with.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.runs.directory import launch_supervisor
from core.system import processes
from tests.support.autograph_cache import AutographCache
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.system.processes import ProcessId

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {"pytorch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow"}
"""The pool of each framework."""
WITHOUT_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
"""Each process that has oneDNN goes through all kernels of TensorFlow for every kind of operation in its graphs, which
is a fifth of a short run. Cold runs have it, as those of users do. TensorFlow reads this when it is imported."""


class WorkerPool:
    """The process of one pool, started on first use."""

    def __init__(self, family: str, temporary: Path, changes: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it is there as long as the process)
        environment = {name: value for name, value in os.environ.items() if name != "TESTS_OF_TRAINYARD"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, family],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            env={
                **environment, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary),
                "OPENBLAS_NUM_THREADS": "1",  # numpy's starts them at once
                **changes,
            },
        )

    def supervise(self, run_dir: Path, *options: str, **variables: str) -> ProcessId | None:
        """Fork a supervisor for a run directory, as `core.runs.directory.launch_supervisor` starts one."""
        environment = {**os.environ, **variables}
        return processes.identify(self._ask(run_dir=str(run_dir), options=options, environment=environment))

    def run(self, code: str, arguments: Sequence[str], environment: Mapping[str, str], status: int) -> str:
        """Run a program in a forked process: see `WorkerPools.run`."""
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            found = self._ask(
                code=code, arguments=arguments, environment={**os.environ, **environment},
                output=output.name, errors=errors.name,
            )
            assert found == status, f"the program ended with {found}:\n{errors.read()}"
            return output.read()

    def wait(self) -> None:
        """Wait until no supervisor is left."""
        wait_until(lambda: not self._ask(), "the pool's supervisors to end")

    def close(self) -> None:
        """End the process and all that it started."""
        self._process.communicate()
        self._log.close()

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            self._log.seek(0)
            raise AssertionError(f"the pool has ended:\n{self._log.read()}")
        return int(reply)


class WorkerPools:
    """All pools of a test session, and whether runs start in them now."""

    def __init__(self, temporary: Path, changes: Mapping[str, str] = WITHOUT_ONEDNN) -> None:
        """`changes`: to the environment in which the frameworks are imported."""
        self.temporary = temporary
        """A folder for temporary files. A pool that is killed leaves some."""
        self._changes = changes
        self._pools: dict[str, WorkerPool] = {}
        self._is_cold = False

    def launch(self, run_dir: Path, *options: str, **variables: str) -> ProcessId | None:
        """Replace `core.runs.directory.launch_supervisor`."""
        spec = json.loads((run_dir / "spec.json").read_text())
        family = FAMILIES.get(spec["framework"])
        if self._is_cold or family is None or spec["python"] != sys.executable:
            return launch_supervisor(run_dir, *options, **variables)
        return self._of(family).supervise(run_dir, *options, **variables)

    def run(
        self, family: str, code: str, *arguments: object, environment: Mapping[str, str] | None = None, status: int = 0
    ) -> str:
        """Run a program where a framework is loaded, but has done nothing, and return what it printed.

        Its folder is the project's. It shares no module of ours with a worker, which has them under the private name.
        Raise AssertionError unless it ends with `status`, its exit code or minus its signal.
        """
        return self._of(family).run(textwrap.dedent(code), [*map(str, arguments)], environment or {}, status)

    @contextlib.contextmanager
    def cold(self, *, is_cold: bool = True) -> Iterator[None]:
        """Within this context, start runs as users start them; or, in a cold test, in pools."""
        before, self._is_cold = self._is_cold, is_cold
        yield
        self._is_cold = before

    def wait(self) -> None:
        """Wait until no pool has a supervisor left."""
        for pool in self._pools.values():
            pool.wait()

    def close(self) -> None:
        """End all pools."""
        for pool in self._pools.values():
            pool.close()

    def _of(self, family: str) -> WorkerPool:
        if family not in self._pools:
            self._pools[family] = WorkerPool(family, self.temporary, self._changes)
        return self._pools[family]


# -- in the process of the pool ------------------------------------------------------------------


class Forked(subprocess.Popen):
    """A forked process with the interface of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: int) -> None:
        self.pid, self.returncode, self.args = pid, None, ["forked"]
        self.stdin, self.stdout, self.stderr = os.fdopen(stdin, "wb", 0), None, None
        self._child_created, self._input, self._communication_started = True, None, False
        self._waitpid_lock = threading.Lock()


def load(family: str) -> None:
    """Import all that runs of this family need, as boot does: our package is under its private name, too."""
    from core.catalog.strategies import STRATEGIES
    from core.worker import boot

    boot._load_privately(str(ROOT / "core"))
    targets = [
        row.target.partition(":")[0] for row in STRATEGIES if FAMILIES.get(row.framework) == family and row.target
    ]
    for name in ("main", *targets):
        importlib.import_module(f"{boot.PRIVATE_NAME}.worker.{name}")
    importlib.import_module("core.supervisor.__main__")
    if family == "torch":
        importlib.import_module("torch._dynamo")  # which the first optimizer imports
    gc.collect()
    gc.freeze()


def serve(family: str) -> None:
    """Fork a supervisor for each request, until stdin ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    load(family)
    cache = AutographCache() if family == "tensorflow" else None
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread would not be forked"
    children: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        children -= {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]}
        if not request:
            replies.write(f"{len(children)}\n")
            continue
        if "code" in request:
            replies.write(f"{run_program(**request)}\n")
            continue
        if cache is not None:
            cache.convert()
        pid = os.fork()
        if pid == 0:
            leave(become_supervisor, family, cache, **request)
        children.add(pid)
        replies.write(f"{pid}\n")
    for pid in children:
        with contextlib.suppress(OSError):  # it has ended
            for supervisor in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(supervisor), signal.SIGKILL)  # its workers notice
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    if cache is not None:
        cache.close()


def leave(function: Any, *arguments: Any, **keywords: Any) -> None:
    """Call a function and exit with its result, as the interpreter would, but without unloading modules."""
    code = 1
    try:
        code = function(*arguments, **keywords) or 0
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 (as the interpreter shows it)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_program(code: str, arguments: list[str], environment: dict[str, str], output: str, errors: str) -> int:
    """Run a program in a forked process, as `python -c` would, and return its exit code, or minus its signal."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(round(2 * PATIENCE_S))  # less than a test may take: a program may have many tests' work to do
        sys.argv = ["-c", *arguments]
        os.environ.clear()
        os.environ.update(environment)
        for number, path in ((0, os.devnull), (1, output), (2, errors)):
            os.dup2(os.open(path, os.O_RDWR), number)
        os.closerange(3, 1024)
        tempfile.tempdir = None  # TMPDIR says where it is
        leave(exec, compile(code, "<string>", "exec"), {"__name__": "__main__"})
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def take_over(run_dir: Path, environment: dict[str, str], stdin: int | None = None, gate: int | None = None) -> None:
    """Take the run's log for output, this input and this environment. `gate`: a descriptor to keep."""
    if stdin is not None:
        os.dup2(stdin, 0)
    log = os.open(run_dir / "log.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 1024 if gate is None else gate)
    os.closerange(3 if gate is None else gate + 1, 1024)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdout.reconfigure(write_through=True)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def become_supervisor(
    family: str, cache: AutographCache | None, run_dir: str, options: list[str], environment: dict[str, str]
) -> int:
    """Run as `core.supervisor.__main__` does, with forked workers."""
    from core.launchers import local, loopback
    from core.supervisor import __main__ as supervisor

    take_over(Path(run_dir), environment, os.open(os.devnull, os.O_RDONLY))

    def launch(spec: Any, run_dir: Path, assignment: Any, names: Any = None, network: Any = None) -> Forked:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            if network is not None:
                loopback.enter(network.descriptors)
            if cache is not None:
                atexit.register(cache.note)
            leave(become_worker, family, spec, run_dir, assignment, names, reading)
        os.close(reading)
        return Forked(pid, writing)

    local.launch = launch
    sys.argv = ["core.supervisor", run_dir, *options]
    return supervisor.main()


def become_worker(family: str, spec: Any, run_dir: Path, assignment: Any, names: Any, stdin: int) -> int:
    """Run a worker as `core.launchers.local.launch` starts one."""
    from core.launchers import local

    os.setsid()  # not the supervisor: its guard begins a session, and may not lead one before
    environment = local.environment(os.environ, run_dir.name, assignment, names)
    take_over(run_dir, {**environment, processes.RUN_DIR: str(run_dir)}, stdin, assignment.gate)
    os.chdir(spec.working_dir)
    sys.argv = [str(local.BOOT), str(run_dir), assignment.to_text()]
    if family == "torch":
        # Each rank of fsdp thaws and collects everything at its end: here also all that the pool has imported, page by
        # page. Without that, it collects what it has made itself, which is what it means to.
        gc.freeze = gc.unfreeze = lambda: None
    if family == "torch" and assignment.cores:
        import torch

        torch.set_num_threads(len(assignment.cores))  # as it would have found by itself
    return importlib.import_module("_trainyard.worker.main").main(*sys.argv[1:])


if __name__ == "__main__":
    serve(sys.argv[1])
