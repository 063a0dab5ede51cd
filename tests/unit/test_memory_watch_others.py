"""MemoryWatch with other users' processes: those that start or exit must not hide a leak or look like one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.devices.device import Process
from core.schema.event_kinds import Verdict
from tests.support.fake_machine import (
    CPU,
    GB,
    GPU,
    WORKER,
    FakeMachine,
    other,
    read,
    read_until_verdict,
    reading,
    trained,
)


def findings_of_two_readings(machine: FakeMachine, memory: int, *, before: int, **options: object):
    """The watch and its findings after two readings past the end, the minimum for a verdict."""
    watch = trained(machine, before=before)
    machine.others = options.pop("then", [])  # type: ignore[assignment]
    read(watch, machine, reading(memory))
    return watch, read(watch, machine, reading(memory))


# -- processes that exited -------------------------------------------------------------------------


def test_process_that_exited_during_the_run_does_not_hide_a_leak(machine: FakeMachine) -> None:
    machine.others = [other(memory=4 * GB)]
    watch, found = findings_of_two_readings(machine, 4 * GB, before=5 * GB)
    assert found == []
    machine.now += 2
    assert watch.waiting() == (
        "GPU 0 uses no more than before the run, but other processes have released memory since; "
        "waiting until this run's memory is released."
    )
    (found,) = read(watch, machine, reading(4 * GB), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert found.sentence == (
        "GPU 0 uses 4.0 GB, no more than the 5.0 GB before the run. But processes that used memory before the run seem "
        "to have released it (pid 4711 blender (bob), 4.0 GB), so it is not known whether all of this run's memory "
        "came back."
    )


def test_process_that_exited_with_its_memory_is_not_waited_for(machine: FakeMachine) -> None:
    """Usage fell by exactly its memory, so none of the run's memory is left."""
    machine.others = [other(memory=5 * GB)]
    _, found = findings_of_two_readings(machine, GB, before=6 * GB)
    assert [(each.verdict, each.seconds) for each in found] == [(Verdict.RELEASED, 1.0)]


def test_process_replaced_by_a_smaller_one_does_not_hide_a_leak(machine: FakeMachine) -> None:
    """The new process uses less than the missing amount, so the rest may be a leak of this run."""
    machine.others = [other(memory=5 * GB)]
    watch, found = findings_of_two_readings(machine, 8 * GB, before=6 * GB, then=[other(812, memory=3 * GB)])
    assert found == []
    (found,) = read(watch, machine, reading(8 * GB), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert "which other processes have: pid 812 blender (bob), 3.0 GB. But processes that used" in found.sentence
    assert "(pid 4711 blender (bob), 5.0 GB), so it is not known whether all of this run's memory" in found.sentence


def test_process_replaced_by_an_equal_one_is_not_a_leak(machine: FakeMachine) -> None:
    machine.others = [other(memory=5 * GB)]
    _, found = findings_of_two_readings(machine, 6 * GB, before=6 * GB, then=[other(812, memory=5 * GB)])
    assert [each.verdict for each in found] == [Verdict.RELEASED]
    machine.others = [other(memory=5 * GB)]
    _, found = findings_of_two_readings(machine, 8 * GB, before=6 * GB, then=[other(812, memory=7 * GB)])
    assert [each.verdict for each in found] == [Verdict.HELD_BY_OTHERS]


def test_exited_process_of_unknown_memory_does_not_hide_a_leak(machine: FakeMachine) -> None:
    machine.others = [other(memory=None)]
    watch, found = findings_of_two_readings(machine, 5 * GB, before=6 * GB)
    assert found == []
    (found,) = read(watch, machine, reading(5 * GB), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert "seem to have released it (pid 4711 blender (bob), an unknown amount)" in found.sentence


def test_exited_process_that_only_had_the_file_open_is_ignored(machine: FakeMachine) -> None:
    machine.others = [other(memory=None, listed=False)]
    _, found = findings_of_two_readings(machine, 6 * GB, before=6 * GB)
    assert [each.verdict for each in found] == [Verdict.RELEASED]


def test_almost_no_memory_used_is_released_whatever_exited(machine: FakeMachine) -> None:
    machine.others = [other(memory=None), other(812, memory=4 * GB)]
    _, found = findings_of_two_readings(machine, 0, before=6 * GB)
    assert [each.verdict for each in found] == [Verdict.RELEASED]


def test_exited_process_still_on_the_driver_list_has_not_released_memory(machine: FakeMachine) -> None:
    machine.others = [other(memory=5 * GB)]
    watch = trained(machine, before=6 * GB)
    machine.others = []
    booked = reading(6 * GB, pids=[Process(pid=4711, memory_used_bytes=5 * GB)])
    read(watch, machine, booked)
    (found,) = read(watch, machine, booked)
    assert found.verdict is Verdict.RELEASED


# -- unknown processes -----------------------------------------------------------------------------


def test_unknown_dead_pid_is_not_attributed_to_other_users(machine: FakeMachine) -> None:
    """It may be a process of this run whose memory the driver has not freed yet."""
    found = read_until_verdict(
        trained(machine, wait_s=10), machine, GB // 2 + 4 * GB, pids=[Process(pid=4711, memory_used_bytes=4 * GB)]
    )
    assert (found[0].verdict, found[0].seconds) == (Verdict.HELD_BY_OTHERS, 10)
    assert "released it" not in found[0].sentence
    assert "Trainyard did not end it; end it yourself if it is not needed, and see whether" in found[0].sentence
    assert (
        "No process of this run is left; other processes may have it: pid 4711 (in a container, or already ended), "
        "4.0 GB." in found[0].sentence
    )
    assert found[0].sentence.endswith(
        "An unknown pid may also belong to a process of this run that has exited, but whose memory the driver has not "
        "freed."
    )


def test_unknown_process_with_too_little_memory_does_not_explain_the_excess(machine: FakeMachine) -> None:
    found = read_until_verdict(
        trained(machine, wait_s=10), machine, GB // 2 + 4 * GB, pids=[Process(pid=4711, memory_used_bytes=GB)]
    )
    assert found[0].verdict is Verdict.UNEXPLAINED
    assert "pid 4711 (in a container, or already ended), 1.0 GB has a part of it." in found[0].sentence
    machine.others = []
    watch = trained(machine, wait_s=10)
    machine.others = [other(memory=GB), other(812, memory=GB)]
    (both,) = read_until_verdict(watch, machine, GB // 2 + 4 * GB)
    assert "pid 4711 blender (bob), 1.0 GB; pid 812 blender (bob), 1.0 GB have a part of it." in both.sentence


def test_process_missing_from_earlier_list_may_be_old(machine: FakeMachine) -> None:
    """The driver's list could not be read before the run, so an old process must not explain a leak."""
    watch = trained(machine, before=6 * GB, unlisted=True, wait_s=10)
    machine.others = [other(memory=5 * GB)]
    found = read_until_verdict(watch, machine, 10 * GB)
    assert (found[0].verdict, found[0].seconds) == (Verdict.HELD_BY_OTHERS, 10)
    assert "other processes may have it (amount unknown): pid 4711 blender (bob), 5.0 GB." in found[0].sentence


def test_process_list_that_fails_once_keeps_the_previous_list(machine: FakeMachine) -> None:
    watch = trained(machine, before=GB)
    holders = [Process(pid=4711, memory_used_bytes=3 * GB)]
    machine.others = [other()]
    machine.scan = lambda devices, listed: replace(  # type: ignore[method-assign]
        FakeMachine.scan(machine, devices, listed), holders=tuple(machine.others) if listed[GPU.id] else ()
    )
    read(watch, machine, reading(4 * GB, pids=holders))
    (found,) = read(watch, machine, reading(4 * GB, pids=None))
    assert found.verdict is Verdict.HELD_BY_OTHERS


# -- processes left from the run -------------------------------------------------------------------


def test_memory_is_read_again_after_a_survivor_exits(machine: FakeMachine) -> None:
    """Readings taken while the survivor was alive do not count, even after a short wait_s."""
    machine.leave(200, immune="SIGTERM")
    watch = trained(machine, wait_s=1)
    for _ in range(5):
        assert read(watch, machine, reading(9 * GB)) == []
    assert machine.sent == [(200, "SIGTERM"), (200, "SIGKILL")]
    assert read(watch, machine, reading(9 * GB)) == []  # the exit has been seen, but this reading may predate it
    (found,) = read(watch, machine, reading(GB // 2))
    assert (found.verdict, found.after_bytes) == (Verdict.RELEASED, GB // 2)
    assert watch.done


def test_memory_not_freed_after_a_survivor_is_not_waited_for_forever(machine: FakeMachine) -> None:
    machine.leave(200, immune="SIGTERM")
    watch = trained(machine, wait_s=1)
    found = read_until_verdict(watch, machine, 9 * GB)
    assert (found[0].verdict, found[0].seconds) == (Verdict.UNEXPLAINED, 5.5)


def test_new_survivors_do_not_prolong_the_watch_forever(machine: FakeMachine) -> None:
    watch = trained(machine, wait_s=1)
    for pid in range(200, 240):
        machine.leave(pid)
        if found := read(watch, machine, reading(9 * GB)):
            break
    assert [each.seconds <= 7 for each in found] == [True]


def test_process_sent_only_sigterm_is_not_reported_as_killed(machine: FakeMachine) -> None:
    """While the driver cleans up, the process has no tag that identifies it."""
    machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    machine.refuses = {"SIGKILL"}
    watch = trained(machine, wait_s=10)
    found = read_until_verdict(watch, machine, 4 * GB)
    assert found[0].sentence == (
        "GPU 0 is still held by this run: pid 200 python (anna), 1.0 GB. It was sent SIGTERM and waits inside the "
        "kernel (state D), where no signal reaches it. If it does not end when the driver is done, only a driver "
        "reload or a reboot helps."
    )
    assert [each.stuck for each in watch.survivors] == [True]


def test_each_stuck_process_is_reported_with_the_signal_it_was_sent(machine: FakeMachine) -> None:
    machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    machine.leave(201, immune="SIGTERM SIGKILL", state="D")
    machine.leave(202, immune="SIGTERM SIGKILL")
    found = read_until_verdict(trained(machine, wait_s=10), machine, 4 * GB)
    assert (
        "pid 200; pid 201 were sent SIGKILL and wait inside the kernel (state D), where no signal reaches them: only "
        "a driver reload or a reboot helps. Look again in a moment; if pid 202 stays, end it by hand (kill -9)."
    ) in found[0].sentence


@pytest.mark.parametrize("blind", [True, False])
def test_unreadable_memory_of_a_cpu_device_is_not_reported_as_zero(machine: FakeMachine, *, blind: bool) -> None:
    process = machine.leave(200, immune="SIGTERM SIGKILL")
    machine.left[process] = replace(machine.left[process], memory_used_bytes=None)
    machine.blind = blind
    watch = trained(machine, device=CPU, before=None, wait_s=1)
    found = watch.step() or read(watch, machine, seconds=5)
    assert found[0].verdict is (Verdict.CANNOT_BE_JUDGED if blind else Verdict.HELD_BY_RUN)
    assert (found[0].before_bytes, found[0].after_bytes) == (None if blind else 0, None)


def test_dead_pid_of_a_worker_is_not_attributed_to_other_users(machine: FakeMachine) -> None:
    found = read_until_verdict(
        trained(machine, wait_s=5), machine, 4 * GB, pids=[Process(pid=WORKER.pid, memory_used_bytes=4 * GB)]
    )
    assert found[0].verdict is Verdict.UNEXPLAINED
