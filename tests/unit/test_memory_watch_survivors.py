"""MemoryWatch with processes of the run that outlive their worker: they are terminated, or named with a remedy."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from core.memory_watch.gpu_processes import GpuProcessScan
from core.memory_watch.watch import MemoryWatch
from core.schema.event_kinds import Ended, Notice, Record, Verdict
from core.schema.settings import ReleaseWatch
from core.supervisor.monitor import watch_release
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
    assert [(each.pid, each.name, each.signal) for each in watch.ended()] == [
        (201, "python", "SIGTERM"), (203, "python", "SIGTERM"),
    ]


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


HELD = "GPU 0 is still held by this run: pid 200 python (anna), 1.0 GB"
BY_HAND = "end it by hand (kill -9)."
IN_KERNEL = "inside the kernel (state D), where no signal reaches"


@pytest.mark.parametrize(
    ("states", "options", "refused", "seconds", "sentence"),
    [
        ("S", {"wait_s": 10}, "", 10, f"{HELD}. Look again in a moment; if it stays, {BY_HAND}"),
        ("D", {"wait_s": 10}, "", 10,
         f"{HELD}. It was sent SIGKILL and waits {IN_KERNEL} it: only a driver reload or a reboot helps."),
        ("SD", {"wait_s": 10}, "", 10, (
            f"{HELD}; pid 201 python (anna), 1.0 GB. pid 201 was sent SIGKILL and waits {IN_KERNEL} it: only a driver "
            f"reload or a reboot helps. Look again in a moment; if pid 200 stays, {BY_HAND}")),
        ("DDS", {"wait_s": 10}, "", 10, (
            f"{HELD}; pid 201 python (anna), 1.0 GB; pid 202 python (anna), 1.0 GB. pid 200; pid 201 were sent SIGKILL "
            f"and wait {IN_KERNEL} them: only a driver reload or a reboot helps. Look again in a moment; if pid 202 "
            f"stays, {BY_HAND}")),
        # while the driver cleans up, the process has no tag that identifies it, and is not sent SIGKILL
        ("D", {"wait_s": 10}, "SIGKILL", 10, (
            f"{HELD}. It was sent SIGTERM and waits {IN_KERNEL} it. If it does not end when the driver is done, only a "
            "driver reload or a reboot helps.")),
        ("D", {"wait_s": 5, "device": CPU, "before": None}, "", 5, (
            f"{HELD.replace('GPU', 'CPU')}. It was sent SIGKILL and waits {IN_KERNEL} it. If it does not end when a "
            "disk or a driver has answered, only a reboot helps.")),
        # SIGKILL always gets its grace period, whatever wait_s is
        ("R", {"wait_s": 1}, "", 4, f"{HELD}. Look again in a moment; if it stays, {BY_HAND}"),
    ],
)
def test_process_that_survives_both_signals_is_named_with_remedy(
    machine: FakeMachine, states: str, options: dict[str, object], refused: str, seconds: float, sentence: str
) -> None:
    left = [machine.leave(200 + at, immune="SIGTERM SIGKILL", state=state) for at, state in enumerate(states)]
    machine.refuses = {refused}
    watch = trained(machine, **options)  # type: ignore[arg-type]
    (found,) = read_until_verdict(watch, machine, 4 * GB, device=options.get("device", GPU))
    assert (found.verdict, found.seconds, found.sentence) == (Verdict.HELD_BY_RUN, seconds, sentence)
    sent = [(each.pid, name) for name in ("SIGTERM", "SIGKILL") if name != refused for each in left]
    assert [*dict.fromkeys(machine.sent)] == sent
    assert all(machine.sent.count(each) == 1 for each in sent if states[each[0] - 200] == "D")
    assert [holder.pid for holder in found.holders] == [each.pid for each in left]
    assert [(each.process, each.stuck) for each in watch.survivors] == [
        (process, state == "D") for process, state in zip(left, states, strict=True)
    ]
    assert (watch.done, watch.ended()) == (True, [])


@pytest.mark.parametrize(
    ("states", "sentence"),
    [
        ("D", "GPU 0: pid 200 python (anna), which is reading or writing, outlived its worker and is being terminated"),
        ("SS", "GPU 0: pid 200 python (anna); pid 201 python (anna) outlived their worker and are being terminated"),
    ],
)
def test_process_that_is_slow_to_end_is_named(machine: FakeMachine, states: str, sentence: str) -> None:
    """For example, it is writing a large checkpoint."""
    for at, state in enumerate(states):
        machine.leave(200 + at, immune="SIGTERM SIGKILL", state=state)
    watch = trained(machine)
    watch.step()
    assert watch.waiting() is None  # usually brief, so not reported at once
    read(watch, machine, seconds=2)
    assert watch.waiting() == f"{sentence}."


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


@pytest.mark.parametrize("blind", [True, False])
def test_unreadable_memory_of_a_cpu_device_is_not_reported_as_zero(machine: FakeMachine, *, blind: bool) -> None:
    process = machine.leave(200, immune="SIGTERM SIGKILL")
    machine.left[process] = replace(machine.left[process], memory_used_bytes=None)
    machine.blind = blind
    watch = trained(machine, device=CPU, before=None, wait_s=1)
    (found,) = watch.step() or read(watch, machine, seconds=5)
    assert found.verdict is (Verdict.CANNOT_BE_JUDGED if blind else Verdict.HELD_BY_RUN)
    assert (found.before_bytes, found.after_bytes) == (None if blind else 0, None)
    sentence = "CPU 0: it is not known whether processes of the run are left, since this machine has no /proc."
    assert (found.sentence == sentence) is blind


@pytest.mark.parametrize(
    ("pids", "sentence"),
    [
        ([201], "A process outlived its worker and was sent SIGTERM: pid 201 python (anna)."),
        ([201, 203],
         "Processes outlived their worker and were sent SIGTERM: pid 201 python (anna); pid 203 python (anna)."),
    ],
)
def test_notice_names_terminated_processes_with_their_users(machine, pids, sentence) -> None:
    for pid in pids:
        machine.leave(pid)
    written: list[Record] = []
    watch = MemoryWatch(RUN, [CPU], ReleaseWatch(), machine, machine.clock)
    watch.begin([])
    without_samples: Any = SimpleNamespace(poll=tuple, hasten=lambda: None)
    watch_release(watch, without_samples, written.append, [WORKER], is_hurried=lambda: False, meanwhile=lambda: None)
    assert [each.text for each in written if isinstance(each, Notice)] == [sentence]
    assert [each.by for each in written if isinstance(each, Ended)] == ["supervisor"]
