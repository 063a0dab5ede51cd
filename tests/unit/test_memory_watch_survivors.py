"""MemoryWatch with processes of the run that outlive their worker: they are terminated, or named with a remedy."""

from __future__ import annotations

from dataclasses import replace

from core.memory_watch.gpu_processes import GpuProcessScan
from core.memory_watch.watch import MemoryWatch
from core.schema.event_kinds import Verdict
from core.schema.settings import ReleaseWatch
from tests.support.fake_machine import (
    CPU,
    GB,
    GPU,
    RUN,
    WORKER,
    FakeMachine,
    other,
    read,
    read_until_verdict,
    reading,
    trained,
)


def test_survivors_are_terminated_and_named(machine: FakeMachine) -> None:
    machine.leave(200)
    watch = trained(machine)
    found = read_until_verdict(watch, machine, GB // 2)
    assert machine.sent == [(200, "SIGTERM")]
    assert found[0].verdict is Verdict.RELEASED
    assert found[0].sentence.endswith("pid 200 python had outlived its worker and was terminated.")
    assert [(each.pid, each.name, each.signal) for each in watch.ended()] == [(200, "python", "SIGTERM")]


def test_survivor_that_ignores_sigterm_is_killed_after_grace_period(machine: FakeMachine) -> None:
    machine.leave(200, immune="SIGTERM")
    watch = trained(machine)
    watch.step()
    assert machine.sent == [(200, "SIGTERM")]
    read(watch, machine, seconds=1.9)
    assert machine.sent == [(200, "SIGTERM")]
    assert not watch.done
    read(watch, machine, seconds=0.2)
    assert machine.sent == [(200, "SIGTERM"), (200, "SIGKILL")]
    assert read_until_verdict(watch, machine, GB // 2)[0].verdict is Verdict.RELEASED
    assert [each.signal for each in watch.ended()] == ["SIGKILL"]


def test_resource_tracker_of_python_ends_by_itself_after_the_others(machine: FakeMachine) -> None:
    tracker = machine.leave(200, immune="SIGTERM")
    command = "python -c 'from multiprocessing.resource_tracker import main;main(7)'"
    machine.left[tracker] = replace(machine.left[tracker], command=command)
    other_one = machine.leave(201, immune="SIGTERM")
    watch = trained(machine)
    watch.step()
    read(watch, machine, seconds=1.5)
    assert machine.sent == [(201, "SIGTERM")]
    del machine.left[other_one]
    read(watch, machine, seconds=0.9)
    read(watch, machine, seconds=0.9)
    assert machine.sent == [(201, "SIGTERM")]
    read(watch, machine, seconds=0.2)
    assert machine.sent[1:] == [(200, "SIGTERM")], "it had time to end by itself"
    del machine.left[tracker]
    assert read_until_verdict(watch, machine, GB // 2)[0].verdict is Verdict.RELEASED


def test_survivor_that_forks_while_terminated_leaves_no_process(machine: FakeMachine) -> None:
    machine.leave(201)
    watch = trained(machine, device=CPU, before=None)
    watch.step()
    machine.leave(203)  # forked right after the scan
    found = read(watch, machine, seconds=0.01)
    assert found == []
    assert read(watch, machine, seconds=0.01)[0].verdict is Verdict.RELEASED
    assert machine.sent == [(201, "SIGTERM"), (203, "SIGTERM")]


def test_process_stuck_in_kernel_is_reported_and_not_signalled_again(machine: FakeMachine) -> None:
    stuck = machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    watch = trained(machine, wait_s=10)
    found = read_until_verdict(watch, machine, 4 * GB)
    assert machine.sent == [(200, "SIGTERM"), (200, "SIGKILL")]
    assert found[0].verdict is Verdict.HELD_BY_RUN
    assert found[0].seconds == 10
    assert found[0].sentence == (
        "GPU 0 is still held by this run: pid 200 python (anna), 1.0 GB. It was sent SIGKILL and waits inside the "
        "kernel (state D), where no signal reaches it: only a driver reload or a reboot helps."
    )
    assert [holder.pid for holder in found[0].holders] == [200]
    assert watch.done
    assert [each.process for each in watch.survivors] == [stuck]
    assert watch.ended() == []


def test_exiting_process_that_closed_its_files_still_counts(machine: FakeMachine) -> None:
    """While the driver cleans up, the process has no open files and no tag, only its pid."""
    machine.leave(200, on="elsewhere", immune="SIGTERM SIGKILL", state="D")
    watch = trained(machine, wait_s=5)
    machine.scan = lambda *_: GpuProcessScan()  # type: ignore[method-assign]
    found = read_until_verdict(watch, machine, 4 * GB)
    assert found[0].verdict is Verdict.HELD_BY_RUN
    assert "pid 200 python (anna)." in found[0].sentence


def test_worker_that_survived_sigkill_is_watched_like_a_survivor(machine: FakeMachine) -> None:
    process = machine.leave(100, immune="SIGTERM SIGKILL", state="D")
    watch = MemoryWatch(RUN, [GPU], ReleaseWatch(wait_s=5), machine, machine.clock)
    watch.begin([reading(0)])
    watch.track_killed([process])
    watch.end([WORKER])
    assert read_until_verdict(watch, machine, 4 * GB)[0].verdict is Verdict.HELD_BY_RUN
    assert machine.sent == []


def test_process_that_left_the_killed_group_is_killed_later(machine: FakeMachine) -> None:
    process = machine.leave(200)
    watch = MemoryWatch(RUN, [CPU], ReleaseWatch(), machine, machine.clock)
    watch.begin([])
    watch.track_killed([process])
    watch.end([WORKER])
    assert watch.step() == []
    assert machine.sent == []
    read(watch, machine, seconds=2)
    assert machine.sent == [(200, "SIGKILL")]
    assert read(watch, machine)[0].verdict is Verdict.RELEASED


def test_process_that_survives_both_signals_is_named_with_remedy(machine: FakeMachine) -> None:
    machine.leave(200, immune="SIGTERM SIGKILL")
    found = read_until_verdict(trained(machine, wait_s=10), machine, 4 * GB)
    assert found[0].sentence == (
        "GPU 0 is still held by this run: pid 200 python (anna), 1.0 GB. "
        "Look again in a moment; if it stays, end it by hand (kill -9)."
    )
    machine.leave(202, immune="SIGTERM SIGKILL", state="D")
    found = read_until_verdict(trained(machine, wait_s=10), machine, 4 * GB)
    assert found[0].sentence == (
        "GPU 0 is still held by this run: pid 200 python (anna), 1.0 GB; pid 202 python (anna), 1.0 GB. "
        "pid 202 was sent SIGKILL and waits inside the kernel (state D), where no signal reaches it: only a driver "
        "reload or a reboot helps. Look again in a moment; if pid 200 stays, end it by hand (kill -9)."
    )


def test_stuck_process_on_cpu_device_does_not_suggest_driver_reload(machine: FakeMachine) -> None:
    machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    watch = trained(machine, device=CPU, before=None, wait_s=5)
    watch.step()
    found = read(watch, machine, seconds=2) or read(watch, machine, seconds=5)
    assert found[0].sentence == (
        "CPU 0 is still held by this run: pid 200 python (anna), 1.0 GB. It was sent SIGKILL and waits inside the "
        "kernel (state D), where no signal reaches it. If it does not end when a disk or a driver has answered, only a "
        "reboot helps."
    )


def test_process_in_disk_wait_is_reported_as_reading_or_writing(machine: FakeMachine) -> None:
    """For example, it is writing a large checkpoint."""
    machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    watch = trained(machine)
    watch.step()
    assert watch.waiting() is None  # usually brief, so not reported at once
    read(watch, machine, seconds=2)
    assert watch.waiting() == (
        "GPU 0: pid 200 python (anna), which is reading or writing, outlived its worker and is being terminated."
    )


def test_slow_process_is_not_reported_as_reading_or_writing(machine: FakeMachine) -> None:
    for pid in (200, 202):
        machine.leave(pid, immune="SIGTERM SIGKILL")
    watch = trained(machine)
    read(watch, machine, seconds=2)
    assert watch.waiting() == (
        "GPU 0: pid 200 python (anna); pid 202 python (anna) outlived their worker and are being terminated."
    )


def test_living_child_of_a_zombie_is_terminated(machine: FakeMachine) -> None:
    """The driver attributes the child's memory to the parent, an unreaped zombie."""
    watch = trained(machine)
    machine.others = [replace(other(WORKER.pid, memory=8 * GB), created=WORKER.created, state="Z")]
    machine.leave(200, immune="SIGTERM")
    for _ in range(6):
        assert read(watch, machine, reading(9 * GB)) == []
    assert machine.sent == [(200, "SIGTERM"), (200, "SIGKILL")]
    machine.others = []
    (found,) = read_until_verdict(watch, machine, GB // 2)
    assert (found.verdict, found.holders) == (Verdict.RELEASED, ())
    assert found.sentence.endswith("pid 200 python had outlived its worker and was terminated.")


def test_process_alive_at_the_deadline_is_to_be_ended_by_hand(machine: FakeMachine) -> None:
    machine.leave(200, immune="SIGTERM SIGKILL", state="R")
    found = read_until_verdict(trained(machine, wait_s=1), machine, 4 * GB)
    assert found[0].seconds == 4  # SIGKILL always gets its grace period, whatever wait_s is
    assert "Look again in a moment; if it stays, end it by hand (kill -9)." in found[0].sentence
