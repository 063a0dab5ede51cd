"""Who holds a device: the driver's lists joined with open files, as far as each may be looked into."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.devices.device import Device, Process
from core.devices.nvidia import preflight
from core.memory_watch import gpu_processes
from core.memory_watch.gpu_processes import scan
from core.memory_watch.watch import HostProcesses
from core.system import processes, procfs
from core.system.process_info import ProcessInfo, describe
from core.system.processes import ProcessId
from tests.support.fake_proc import add_process
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
GPUS = [
    Device(id=f"GPU-{number}", kind="nvidia", label=f"GPU {number}", name="RTX", minor=minor)
    for number, minor in enumerate((1, 0))  # the numbers of files need not be those of the driver
]
NOBODY = 65534
GB = 10**9


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


def found(proc: Path, **listed: list[Process]) -> list[tuple[str | None, int, int | None]]:
    """(device, pid, memory) of all holders; `listed` by the GPU's number."""
    by_id = {f"GPU-{name[1:]}": each for name, each in listed.items()}
    return [
        (each.device_id, each.pid, each.memory_used_bytes)
        for each in gpu_processes.scan(GPUS, by_id, proc=proc).holders
    ]


def test_the_driver_s_list_and_open_files_make_one_holder(proc: Path) -> None:
    add_process(proc, 7, open_files=["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1"], run_id="run-1", created=9)
    add_process(proc, 8)
    result = scan(GPUS, {"GPU-0": [Process(pid=7, memory_used_bytes=GB)], "GPU-1": []}, proc)
    (holder,) = result.holders
    me = pwd.getpwuid(os.getuid()).pw_name
    assert holder == ProcessInfo(
        pid=7, created=9.0, device_id="GPU-0", memory_used_bytes=GB, name="python", user=me,
        command="python train.py", age_s=holder.age_s, run_id="run-1", state="S", ours=True, listed=True,
    )  # fmt: skip
    assert (result.trouble, result.blind) == (None, False)
    assert holder.words == f"pid 7 python ({me})"


def test_a_data_loader_worker_that_the_driver_does_not_name_is_found_by_its_open_files(proc: Path) -> None:
    """The driver books its memory on the parent, which is dead."""
    add_process(proc, 8, open_files=["/dev/nvidia0"], run_id="run-1")
    assert found(proc, _1=[Process(pid=7, memory_used_bytes=GB)]) == [("GPU-1", 7, GB), ("GPU-1", 8, None)]
    (dead, worker) = scan(GPUS, {"GPU-1": [Process(pid=7)]}, proc).holders
    assert (dead.listed, dead.name, dead.created, dead.ours) == (True, None, None, False)
    assert dead.words == "pid 7 (in a container, or already ended)"
    assert not worker.listed


def test_of_the_files_that_all_devices_share_only_a_run_s_process_is_taken_for_a_holder(proc: Path) -> None:
    add_process(proc, 8, open_files=["/dev/nvidiactl", "/dev/nvidia-uvm"])
    add_process(proc, 9, open_files=["/dev/nvidia-uvm"], run_id="run-1")
    assert found(proc) == [(None, 9, None)]


def test_who_is_on_another_device_alone_holds_none_of_these(proc: Path) -> None:
    add_process(proc, 8, open_files=["/dev/nvidia5", "/dev/nvidiactl"], run_id="run-1")
    assert found(proc) == []


def test_a_device_that_does_not_name_its_file_may_be_any(proc: Path) -> None:
    add_process(proc, 8, open_files=["/dev/nvidia5"], run_id="run-1")
    unnamed = [Device(id="GPU-7", kind="nvidia", label="GPU 7", name="RTX")]
    assert [(each.device_id, each.pid) for each in scan(unnamed, {}, proc).holders] == [(None, 8)]


def test_one_on_two_devices_is_told_for_each(proc: Path) -> None:
    add_process(proc, 8, open_files=["/dev/nvidia0", "/dev/nvidia1"])
    assert found(proc, _0=[Process(pid=8, memory_used_bytes=GB)]) == [("GPU-0", 8, GB), ("GPU-1", 8, None)]


def test_memory_that_the_driver_does_not_tell_is_none(proc: Path) -> None:
    add_process(proc, 8)
    assert found(proc, _0=[Process(pid=8)]) == [("GPU-0", 8, None)]


def test_programs_that_watch_the_devices_hold_nothing(proc: Path) -> None:
    add_process(proc, 8, name="nvtop", open_files=["/dev/nvidia0"])
    add_process(proc, 9, open_files=["/dev/nvidia0"], command=[sys.executable, "-m", "core.devices.helper", "x"])
    add_process(proc, 10, name="nvidia-smi", open_files=["/dev/nvidia0"])
    add_process(proc, 11, open_files=["/dev/nvidia0"], command=[sys.executable, "-I", str(preflight.ASK), "25"])
    assert found(proc, _1=[Process(pid=10, memory_used_bytes=5)]) == [("GPU-1", 10, 5)]


def test_without_proc_only_the_driver_s_lists_are_known_and_that_is_said(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    result = scan(GPUS, {"GPU-0": [Process(pid=7, memory_used_bytes=GB)], "GPU-1": None}, nowhere)
    assert [(each.device_id, each.pid, each.name) for each in result.holders] == [("GPU-0", 7, None)]
    assert result.blind
    assert result.trouble == f"There is no {nowhere}: only processes on the driver's lists are known."
    assert processes.tagged("run-1", nowhere) == []
    assert HostProcesses("run-1", nowhere).tagged() is None
    nowhere.mkdir()  # as where /proc is not mounted
    assert scan(GPUS, {}, nowhere).blind
    assert HostProcesses("run-1", nowhere).tagged() is None


UNPRIVILEGED = """
import json, os
from core.devices.device import Device
from core.memory_watch.gpu_processes import scan
os.setuid(65534)
found = scan([Device(id="GPU-0", kind="nvidia", label="GPU 0", name="RTX", minor=0)], {})
print(json.dumps([found.trouble, found.blind]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_processes_that_may_not_be_looked_into_are_counted() -> None:
    """Those of root, of which there is one at least, seen by somebody else."""
    with subprocess.Popen([sys.executable, "-c", UNPRIVILEGED], cwd=ROOT, stdout=subprocess.PIPE) as child:
        trouble, blind = json.loads(child.communicate()[0])
    assert not blind
    assert trouble is not None
    assert re.fullmatch(
        r"(1 process could not be inspected for lack of permission: it|"
        r"\d+ processes could not be inspected for lack of permission: one of them) may hold a device unseen\.",
        trouble,
    )


def test_threads_of_the_kernel_are_no_processes_that_could_not_be_looked_into(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_process(proc, 2, name="kthreadd", command=(), flags=procfs.KERNEL_THREAD)
    add_process(proc, 8, uid=1)

    def closed(folder: bytes) -> Iterator[bytes]:
        raise PermissionError(folder)

    monkeypatch.setattr(gpu_processes, "_links", closed)
    assert scan(GPUS, {}, proc).trouble == (
        "1 process could not be inspected for lack of permission: it may hold a device unseen."
    )


def test_a_process_is_described_as_far_as_it_may_be_read(proc: Path) -> None:
    add_process(proc, 8, name="a) b (c", uid=4_000_000, state="D", created=12.5, command=("sh", "-c", "x y"))
    one = describe(8, proc)
    assert (one.name, one.user, one.state, one.created, one.command, one.ours) == (
        "a) b (c", "user 4000000", "D", 12.5, "sh -c x y", False,
    )  # fmt: skip
    assert describe(9, proc) == ProcessInfo(pid=9)
    me = describe(os.getpid())
    assert me.ours
    assert me.created == processes.identify(os.getpid()).created  # type: ignore[union-attr]
    assert me.age_s is not None
    assert me.age_s >= 0


# -- whom a run may signal -----------------------------------------------------------------------

OWN_RUN = f"run-{os.getpid()}"
"""The whole machine is looked through for it: another test run beside this one has another."""


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A real process, which is to survive."""
    with subprocess.Popen(["sleep", "600"], env={**os.environ, processes.TAG: OWN_RUN}) as process:
        wait_until(lambda: processes.tagged(OWN_RUN), what="the sleeper to have become itself")
        yield process
        process.kill()


def real(process: subprocess.Popen[bytes]) -> ProcessId:
    identity = processes.identify(process.pid)
    assert identity
    return identity


def test_a_process_of_another_user_is_never_signalled(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    """With the tag, the pid and the create time of one of ours; as a user namespace may show it."""
    own = real(sleeper)
    add_process(proc, own.pid, uid=os.getuid() + 1, run_id=OWN_RUN, created=own.created)
    machine = HostProcesses(OWN_RUN, proc)
    assert machine.tagged() == []
    assert machine.inspect(own) is not None
    assert not machine.send(own, signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_recycled_pid_is_never_signalled(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    own = real(sleeper)
    add_process(proc, own.pid, run_id=OWN_RUN, created=own.created + 1)
    machine = HostProcesses(OWN_RUN, proc)
    assert machine.inspect(own) is None
    assert not machine.send(own, signal.SIGKILL)
    assert not HostProcesses(OWN_RUN).send(ProcessId(pid=own.pid, created=own.created - 1), signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_similar_command_line_is_never_signalled(proc: Path, sleeper: subprocess.Popen[bytes]) -> None:
    own = real(sleeper)
    add_process(proc, own.pid, command=["python", f"TRAINYARD_RUN={OWN_RUN}", "train.py"], created=own.created)
    machine = HostProcesses(OWN_RUN, proc)
    assert machine.tagged() == []
    assert not machine.send(own, signal.SIGKILL)
    assert not HostProcesses(f"{OWN_RUN}0").send(own, signal.SIGKILL)  # another run's
    assert sleeper.poll() is None


def test_a_zombie_s_living_child_is_found_and_signalled_and_the_zombie_is_not() -> None:
    """A worker that has ended, and that nobody has waited for; what it forked holds on."""
    machine = HostProcesses(OWN_RUN)
    tag = {**os.environ, processes.TAG: OWN_RUN}
    parent = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], env=tag, stdout=subprocess.PIPE)
    try:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_until(lambda: describe(parent.pid).state == "Z", what="the parent to have ended")
        wait_until(lambda: describe(child).name == "sleep", what="the child to have become itself")
        (found,) = machine.tagged() or ()
        assert found.pid == child
        ended = ProcessId(pid=parent.pid, created=describe(parent.pid).created or 0.0)
        assert machine.inspect(ended) is None
        assert not machine.send(ended, signal.SIGKILL)
        assert machine.send(found, signal.SIGTERM)
        wait_until(lambda: machine.inspect(found) is None, what="the child to have ended")
    finally:
        processes.end_tagged(OWN_RUN, signal.SIGKILL)
        parent.communicate()


def test_one_s_own_is_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    machine = HostProcesses(OWN_RUN)
    own = real(sleeper)
    assert machine.tagged() == [own]
    seen = machine.inspect(own)
    assert seen is not None
    assert (seen.name, seen.run_id, seen.ours) == ("sleep", OWN_RUN, True)
    assert seen.memory_used_bytes
    assert machine.cores(own.pid) == os.sched_getaffinity(0)
    assert machine.send(own, signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM
    assert machine.inspect(own) is None
    assert machine.cores(own.pid) == frozenset()
