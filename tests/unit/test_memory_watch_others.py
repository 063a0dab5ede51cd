"""The watch over memory beside other people's processes: who came and who left must hide no leak, and make none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.devices.device import Process
from core.runs.verdicts import Verdict
from tests.support.playing import CPU, GB, GPU, WORKER, Played, other, over, read, reading, trained


@pytest.fixture
def machine() -> Played:
    return Played()


def twice(machine: Played, memory: int, *, before: int, **more: object):
    """What two readings after the end find out: the least that there must be."""
    watch = trained(machine, before=before)
    machine.others = more.pop("then", [])  # type: ignore[assignment]
    read(watch, machine, reading(memory))
    return watch, read(watch, machine, reading(memory))


# -- who left ------------------------------------------------------------------------------------


def test_a_neighbour_that_left_meanwhile_hides_no_leak(machine: Played) -> None:
    machine.others = [other(memory=4 * GB)]
    watch, found = twice(machine, 4 * GB, before=5 * GB)
    assert found == []
    machine.now += 2
    assert watch.waiting() == (
        "GPU 0 uses no more than before the run, but others have released memory since; waiting for it."
    )
    (found,) = read(watch, machine, reading(4 * GB), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert found.sentence == (
        "GPU 0 uses 4.0 GB, no more than the 5.0 GB before the run; but of these some belonged to processes that seem "
        "to have released it (pid 4711 blender (bob), 4.0 GB): whether all of this run's memory came back is not known."
    )


def test_a_neighbour_that_left_and_took_its_memory_along_is_not_waited_for(machine: Played) -> None:
    """What is used is as much less as it had: nothing of the run's is there."""
    machine.others = [other(memory=5 * GB)]
    _, found = twice(machine, GB, before=6 * GB)
    assert [(each.verdict, each.seconds) for each in found] == [(Verdict.RELEASED, 1.0)]


def test_one_whose_place_another_took_hides_no_leak(machine: Played) -> None:
    """What the newcomer has is less than what is missing: the rest is in the place of the one that left."""
    machine.others = [other(memory=5 * GB)]
    watch, found = twice(machine, 8 * GB, before=6 * GB, then=[other(812, memory=3 * GB)])
    assert found == []
    (found,) = read(watch, machine, reading(8 * GB), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert (
        "which others have: pid 812 blender (bob), 3.0 GB; but of what was used before some belonged" in found.sentence
    )
    assert "(pid 4711 blender (bob), 5.0 GB): whether all of this run's memory came back is not" in found.sentence


def test_one_that_took_the_whole_place_of_another_is_no_leak(machine: Played) -> None:
    machine.others = [other(memory=5 * GB)]
    _, found = twice(machine, 6 * GB, before=6 * GB, then=[other(812, memory=5 * GB)])
    assert [each.verdict for each in found] == [Verdict.RELEASED]
    machine.others = [other(memory=5 * GB)]
    _, found = twice(machine, 8 * GB, before=6 * GB, then=[other(812, memory=7 * GB)])
    assert [each.verdict for each in found] == [Verdict.HELD_BY_OTHERS]


def test_one_of_unknown_memory_that_left_hides_no_leak(machine: Played) -> None:
    machine.others = [other(memory=None)]
    watch, found = twice(machine, 5 * GB, before=6 * GB)
    assert found == []
    (found,) = read(watch, machine, reading(5 * GB), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert "seem to have released it (pid 4711 blender (bob), an unknown amount)" in found.sentence


def test_of_one_that_only_had_the_file_open_nothing_is_missed(machine: Played) -> None:
    machine.others = [other(memory=None, listed=False)]
    _, found = twice(machine, 6 * GB, before=6 * GB)
    assert [each.verdict for each in found] == [Verdict.RELEASED]


def test_where_next_to_nothing_is_used_it_does_not_matter_who_left(machine: Played) -> None:
    machine.others = [other(memory=None), other(812, memory=4 * GB)]
    _, found = twice(machine, 0, before=6 * GB)
    assert [each.verdict for each in found] == [Verdict.RELEASED]


def test_a_neighbour_that_ended_and_is_in_the_driver_s_books_still_has_not_left(machine: Played) -> None:
    machine.others = [other(memory=5 * GB)]
    watch = trained(machine, before=6 * GB)
    machine.others = []
    booked = reading(6 * GB, pids=[Process(pid=4711, memory_used_bytes=5 * GB)])
    read(watch, machine, booked)
    (found,) = read(watch, machine, booked)
    assert found.verdict is Verdict.RELEASED


# -- who is not known ----------------------------------------------------------------------------


def test_a_dead_pid_that_nobody_knows_is_not_said_to_be_another_s(machine: Played) -> None:
    """It may be one of the recipe's own, which the driver has not let go of."""
    found = over(
        trained(machine, wait_s=10), machine, GB // 2 + 4 * GB, pids=[Process(pid=4711, memory_used_bytes=4 * GB)]
    )
    assert (found[0].verdict, found[0].seconds) == (Verdict.HELD_BY_OTHERS, 10)
    assert "released it" not in found[0].sentence
    assert "Trainyard did not end it; end it yourself if it is not needed, and see whether" in found[0].sentence
    assert (
        "No process of this run is left; others may have it: pid 4711 (in a container, or already ended), 4.0 GB."
        in found[0].sentence
    )
    assert found[0].sentence.endswith(
        "An unknown pid may also belong to a process of this run that has exited, but whose memory the driver has not "
        "freed."
    )


def test_one_that_is_not_known_and_has_too_little_explains_nothing(machine: Played) -> None:
    found = over(trained(machine, wait_s=10), machine, GB // 2 + 4 * GB, pids=[Process(pid=4711, memory_used_bytes=GB)])
    assert found[0].verdict is Verdict.UNEXPLAINED
    assert "pid 4711 (in a container, or already ended), 1.0 GB has a part of it." in found[0].sentence
    machine.others = []
    watch = trained(machine, wait_s=10)
    machine.others = [other(memory=GB), other(812, memory=GB)]
    (both,) = over(watch, machine, GB // 2 + 4 * GB)
    assert "pid 4711 blender (bob), 1.0 GB; pid 812 blender (bob), 1.0 GB have a part of it." in both.sentence


def test_whom_the_driver_did_not_name_before_may_have_been_there(machine: Played) -> None:
    """Its list could not be read at that moment: what an old neighbour has explains no leak."""
    watch = trained(machine, before=6 * GB, unlisted=True, wait_s=10)
    machine.others = [other(memory=5 * GB)]
    found = over(watch, machine, 10 * GB)
    assert (found[0].verdict, found[0].seconds) == (Verdict.HELD_BY_OTHERS, 10)
    assert "others may have it, how much is not known: pid 4711 blender (bob), 5.0 GB." in found[0].sentence


def test_a_list_that_cannot_be_read_once_leaves_the_one_before(machine: Played) -> None:
    watch = trained(machine, before=GB)
    have = [Process(pid=4711, memory_used_bytes=3 * GB)]
    machine.others = [other()]
    machine.scan = lambda devices, listed: replace(  # type: ignore[method-assign]
        Played.scan(machine, devices, listed), holders=tuple(machine.others) if listed[GPU.id] else ()
    )
    read(watch, machine, reading(4 * GB, pids=have))
    (found,) = read(watch, machine, reading(4 * GB, pids=None))
    assert found.verdict is Verdict.HELD_BY_OTHERS


# -- what is left of the run ---------------------------------------------------------------------


def test_memory_is_read_again_after_the_end_of_a_survivor(machine: Played) -> None:
    """However short the waiting: what was read while it lived says nothing of what came back."""
    machine.leave(200, immune="SIGTERM")
    watch = trained(machine, wait_s=1)
    for _ in range(5):
        assert read(watch, machine, reading(9 * GB)) == []
    assert machine.sent == [(200, "SIGTERM"), (200, "SIGKILL")]
    assert read(watch, machine, reading(9 * GB)) == []  # its end has been seen; this may have been read before it
    (found,) = read(watch, machine, reading(GB // 2))
    assert (found.verdict, found.after_bytes) == (Verdict.RELEASED, GB // 2)
    assert watch.done


def test_memory_that_does_not_come_back_after_it_is_not_waited_for_for_ever(machine: Played) -> None:
    machine.leave(200, immune="SIGTERM")
    watch = trained(machine, wait_s=1)
    found = over(watch, machine, 9 * GB)
    assert (found[0].verdict, found[0].seconds) == (Verdict.UNEXPLAINED, 5.5)


def test_survivors_that_come_up_again_and_again_do_not_make_it_endless(machine: Played) -> None:
    watch = trained(machine, wait_s=1)
    for pid in range(200, 240):
        machine.leave(pid)
        if found := read(watch, machine, reading(9 * GB)):
            break
    assert [each.seconds <= 7 for each in found] == [True]


def test_of_one_that_was_only_sent_term_no_kill_is_told(machine: Played) -> None:
    """In the driver's clean-up it has no tag any more, by which it could be told from others."""
    machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    machine.refuses = {"SIGKILL"}
    watch = trained(machine, wait_s=10)
    found = over(watch, machine, 4 * GB)
    assert found[0].sentence == (
        "GPU 0 is still held by this run: pid 200 python (anna), 1.0 GB. It was sent SIGTERM and waits inside the "
        "kernel (state D), where no signal reaches it. If it does not end when the driver is done, only a driver "
        "reload or a reboot helps."
    )
    assert [each.stuck for each in watch.survivors] == [True]


def test_of_several_each_is_told_what_it_was_sent(machine: Played) -> None:
    machine.leave(200, immune="SIGTERM SIGKILL", state="D")
    machine.leave(201, immune="SIGTERM SIGKILL", state="D")
    machine.leave(202, immune="SIGTERM SIGKILL")
    found = over(trained(machine, wait_s=10), machine, 4 * GB)
    assert (
        "pid 200; pid 201 were sent SIGKILL and wait inside the kernel (state D), where no signal reaches them: only "
        "a driver reload or a reboot helps. Look again in a moment; if pid 202 stays, end it by hand (kill -9)."
    ) in found[0].sentence


@pytest.mark.parametrize("blind", [True, False])
def test_what_could_not_be_read_of_a_cpu_device_is_not_told_as_nothing(machine: Played, *, blind: bool) -> None:
    process = machine.leave(200, immune="SIGTERM SIGKILL")
    machine.left[process] = replace(machine.left[process], memory_used_bytes=None)
    machine.blind = blind
    watch = trained(machine, device=CPU, before=None, wait_s=1)
    found = watch.step() or read(watch, machine, seconds=5)
    assert found[0].verdict is (Verdict.CANNOT_BE_JUDGED if blind else Verdict.HELD_BY_RUN)
    assert (found[0].before_bytes, found[0].after_bytes) == (None if blind else 0, None)


def test_a_worker_s_dead_pid_is_never_another_s(machine: Played) -> None:
    found = over(trained(machine, wait_s=5), machine, 4 * GB, pids=[Process(pid=WORKER.pid, memory_used_bytes=4 * GB)])
    assert found[0].verdict is Verdict.UNEXPLAINED
