"""gpu_processes.scan: driver process lists joined with open device files; which processes may be signalled."""

import json
import os
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.devices.device import Device, Process
from core.devices.nvidia import preflight
from core.memory_watch import gpu_processes
from core.memory_watch.gpu_processes import scan
from core.memory_watch.watch import HostProcesses
from core.schema.event_kinds import ProcessInfo
from core.system import processes, procfs
from core.system.processes import ProcessId, describe
from core.system.terminate import RunProcesses
from tests.support.acting import OWN_RUN
from tests.support.fake_proc import add_process
from tests.support.running import kill_tagged
from tests.support.two_users import OTHER_UID
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
GPUS = [
    Device(id=f"GPU-{number}", kind="nvidia", label=f"GPU {number}", name="RTX", minor=minor)
    for number, minor in enumerate((1, 0))  # minor numbers may differ from the driver's order
]
GB = 10**9


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


def found(proc: Path, **listed: list[Process]) -> list[tuple[str | None, int, int | None]]:
    """(device, pid, memory) of all processes found; `listed`: the driver's lists by "_" and the GPU's number."""
    by_id = {f"GPU-{name[1:]}": each for name, each in listed.items()}
    return [
        (each.device_id, each.pid, each.memory_used_bytes)
        for each in gpu_processes.scan(GPUS, by_id, proc=proc).holders
    ]


def test_driver_list_and_open_files_are_merged_into_one_process(proc: Path) -> None:
    add_process(proc, 7, open_files=["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1"], run_id="run-1", created=9)
    add_process(proc, 8)
    result = scan(GPUS, {"GPU-0": [Process(pid=7, memory_used_bytes=GB)], "GPU-1": []}, proc)
    (holder,) = result.holders
    me = pwd.getpwuid(os.getuid()).pw_name
    assert holder == ProcessInfo(
        pid=7, created=9.0, device_id="GPU-0", memory_used_bytes=GB, name="python", user=me,
        command="python train.py", age_s=holder.age_s, run_id="run-1", state="S", ours=True, listed=True,
    )
    assert (result.trouble, result.blind) == (None, False)
    assert holder.words == f"pid 7 python ({me})"


def test_data_loader_worker_missing_from_driver_list_is_found_by_open_files(proc: Path) -> None:
    """The driver attributes its memory to the dead parent."""
    add_process(proc, 8, open_files=["/dev/nvidia0"], run_id="run-1")
    assert found(proc, _1=[Process(pid=7, memory_used_bytes=GB)]) == [("GPU-1", 7, GB), ("GPU-1", 8, None)]
    (dead, worker) = scan(GPUS, {"GPU-1": [Process(pid=7)]}, proc).holders
    assert (dead.listed, dead.name, dead.created, dead.ours) == (True, None, None, False)
    assert dead.words == "pid 7 (in a container, or already ended)"
    assert not worker.listed


@pytest.mark.parametrize(
    ("known", "listed", "holders"),
    [
        # files of all devices count only for the processes of a run
        ({8: {"open_files": ["/dev/nvidiactl", "/dev/nvidia-uvm"]},
          9: {"open_files": ["/dev/nvidia-uvm"], "run_id": "run-1"}}, {}, [(None, 9, None)]),
        ({8: {"open_files": ["/dev/nvidia5", "/dev/nvidiactl"], "run_id": "run-1"}}, {}, []),  # another device only
        ({8: {"open_files": ["/dev/nvidia0", "/dev/nvidia1"]}}, {"_0": [Process(8, GB)]},
         [("GPU-0", 8, GB), ("GPU-1", 8, None)]),
        ({8: {}}, {"_0": [Process(pid=8)]}, [("GPU-0", 8, None)]),  # the driver does not say how much it holds
        # who watches devices is no holder, but for what the driver lists
        ({8: {"name": "nvtop", "open_files": ["/dev/nvidia0"]},
          9: {"open_files": ["/dev/nvidia0"], "command": [sys.executable, "-m", "core.devices.helper", "x"]},
          10: {"open_files": ["/dev/nvidia0"], "name": "nvidia-smi"},
          11: {"open_files": ["/dev/nvidia0"], "command": [sys.executable, "-I", str(preflight.ASK), "25"]}},
         {"_1": [Process(10, 5)]}, [("GPU-1", 10, 5)]),
    ],
)
def test_holders_are_told_from_other_processes(proc, known, listed, holders) -> None:
    for pid, facts in known.items():
        add_process(proc, pid, **facts)
    assert found(proc, **listed) == holders


def test_device_without_minor_number_may_match_any_device_file(proc: Path) -> None:
    add_process(proc, 8, open_files=["/dev/nvidia5"], run_id="run-1")
    unnamed = [Device(id="GPU-7", kind="nvidia", label="GPU 7", name="RTX")]
    assert [(each.device_id, each.pid) for each in scan(unnamed, {}, proc).holders] == [(None, 8)]


def test_without_proc_only_driver_lists_are_known_with_a_notice(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    result = scan(GPUS, {"GPU-0": [Process(pid=7, memory_used_bytes=GB)], "GPU-1": None}, nowhere)
    assert [(each.device_id, each.pid, each.name) for each in result.holders] == [("GPU-0", 7, None)]
    assert result.blind
    assert result.trouble == f"There is no {nowhere}: only processes on the driver's lists are known."
    assert processes.tagged("run-1", nowhere) == []
    assert HostProcesses(RunProcesses(run_id="run-1", proc=nowhere)).tagged() is None
    nowhere.mkdir()  # an empty folder, as where /proc is not mounted
    assert scan(GPUS, {}, nowhere).blind
    assert HostProcesses(RunProcesses(run_id="run-1", proc=nowhere)).tagged() is None


UNPRIVILEGED = f"""
import json, os
from core.devices.device import Device
from core.memory_watch.gpu_processes import scan
os.setuid({OTHER_UID})
found = scan([Device(id="GPU-0", kind="nvidia", label="GPU 0", name="RTX", minor=0)], {{}})
print(json.dumps([found.trouble, found.blind]))
"""


@pytest.mark.two_users
def test_processes_without_permission_are_counted() -> None:
    """Scan as an unprivileged user; at least one process belongs to root."""
    with subprocess.Popen([sys.executable, "-c", UNPRIVILEGED], cwd=ROOT, stdout=subprocess.PIPE) as child:
        trouble, blind = json.loads(child.communicate()[0])
    assert not blind
    assert trouble is not None
    assert re.fullmatch(
        r"(1 process could not be inspected for lack of permission: it|"
        r"\d+ processes could not be inspected for lack of permission: one of them) may hold a device\.",
        trouble,
    )


def test_kernel_threads_are_not_counted_as_uninspected_processes(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_process(proc, 2, name="kthreadd", command=(), flags=procfs.KERNEL_THREAD)
    add_process(proc, 8, uid=1)

    def raise_permission_error(folder: bytes) -> Iterator[bytes]:
        raise PermissionError(folder)

    monkeypatch.setattr(gpu_processes, "_links", raise_permission_error)
    assert scan(GPUS, {}, proc).trouble == (
        "1 process could not be inspected for lack of permission: it may hold a device."
    )


def test_process_description_contains_what_may_be_read(proc: Path) -> None:
    add_process(proc, 8, name="a) b (c", uid=4_000_000, state="D", created=12.5, command=("sh", "-c", "x y"))
    one = describe(8, proc)
    assert (one.name, one.user, one.state, one.created, one.command, one.ours) == (
        "a) b (c", "user 4000000", "D", 12.5, "sh -c x y", False,
    )
    assert describe(9, proc) == ProcessInfo(pid=9)
    me = describe(os.getpid())
    assert me.ours
    assert me.created == processes.identify(os.getpid()).created  # type: ignore[union-attr]
    assert me.age_s is not None
    assert me.age_s >= 0


def identity_of(process: subprocess.Popen[bytes]) -> ProcessId:
    identity = processes.identify(process.pid)
    assert identity
    return identity


@pytest.mark.parametrize(
    ("shown", "later", "is_seen"),
    [
        # the tag, pid and start time of one of our processes, as a user namespace may show it
        ({"uid": os.getuid() + 1, "run_id": OWN_RUN}, 0, True),
        ({"run_id": OWN_RUN}, 1, False),  # its pid was used again
        ({"command": ["python", f"TRAINYARD_RUN={OWN_RUN}", "train.py"]}, 0, True),
    ],
    ids=["another-user", "recycled-pid", "similar-command-line"],
)
def test_process_that_is_none_of_the_run_is_never_signalled(proc, sleeper, shown, later, is_seen) -> None:
    own = identity_of(sleeper)
    add_process(proc, own.pid, created=own.created + later, **shown)
    machine = HostProcesses(RunProcesses(run_id=OWN_RUN, proc=proc))
    assert (machine.inspect(own) is not None) is is_seen
    assert own not in machine.tagged()
    assert not machine.send(own, signal.SIGKILL)
    assert not HostProcesses(RunProcesses(run_id=f"{OWN_RUN}0")).send(own, signal.SIGKILL), "the tag of another run"
    earlier = ProcessId(pid=own.pid, created=own.created - 1)
    assert not HostProcesses(RunProcesses(run_id=OWN_RUN)).send(earlier, signal.SIGKILL)
    assert sleeper.poll() is None


def test_living_child_of_a_zombie_is_found_and_signalled_but_not_the_zombie() -> None:
    """The worker has exited but is not reaped, and its child still holds the device."""
    machine = HostProcesses(RunProcesses(run_id=OWN_RUN))
    tag = {**os.environ, processes.TAG: OWN_RUN}
    parent = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!"], env=tag, stdout=subprocess.PIPE)
    try:
        assert parent.stdout
        child = int(parent.stdout.readline())
        wait_until(lambda: describe(parent.pid).state == "Z", "the parent to have ended")
        wait_until(lambda: describe(child).name == "sleep", "the child to run its own program")
        (found,) = wait_until(machine.tagged, "the child to have its environment") or ()
        assert found.pid == child
        ended = ProcessId(pid=parent.pid, created=describe(parent.pid).created or 0.0)
        assert machine.inspect(ended) is None
        assert not machine.send(ended, signal.SIGKILL)
        assert machine.send(found, signal.SIGTERM)
        wait_until(lambda: machine.inspect(found) is None, "the child to have ended")
    finally:
        kill_tagged(OWN_RUN)
        parent.communicate()


def test_own_process_is_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    machine = HostProcesses(RunProcesses(run_id=OWN_RUN))
    own = identity_of(sleeper)
    assert machine.tagged() == [own]
    seen = machine.inspect(own)
    assert seen is not None
    assert (seen.name, seen.run_id, seen.ours) == ("sleep", OWN_RUN, True)
    assert seen.memory_used_bytes
    assert machine.cores(own.pid) == os.sched_getaffinity(0)
    assert machine.send(own, signal.SIGTERM)
    assert sleeper.wait(PATIENCE_S) == -signal.SIGTERM
    assert machine.inspect(own) is None
    assert machine.cores(own.pid) == frozenset()
