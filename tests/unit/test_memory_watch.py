"""MemoryWatch: verdicts and their sentences, on a fake machine with a fake clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.devices.device import Process
from core.memory_watch.watch import MemoryWatch
from core.runs.facts import BADNESS, worst
from core.schema import event_kinds
from core.schema.event_kinds import Release, Verdict
from core.schema.settings import ReleaseWatch
from tests.support.fake_machine import (
    CPU,
    CPU_1,
    GB,
    GPU,
    MB,
    RUN,
    WORKER,
    FakeMachine,
    other,
    read,
    read_until_verdict,
    reading,
    trained,
)

# -- released --------------------------------------------------------------------------------------


def test_memory_that_falls_after_the_end_is_released(machine: FakeMachine) -> None:
    watch = trained(machine)
    assert watch.step() == []
    assert read(watch, machine, reading(GB // 2)) == []  # this reading may predate the end
    (found,) = read(watch, machine, reading(GB // 2 + 64 * MB))
    assert (found.verdict, found.before_bytes, found.peak_bytes) == (Verdict.RELEASED, GB // 2, 9 * GB)
    assert (found.after_bytes, found.seconds, found.holders) == (576 * MB, 1.0, ())
    assert found.sentence == (
        "The memory of GPU 0 came back: 512 MB were used before the run, 9.0 GB at most, 576 MB after its end."
    )
    assert watch.done
    assert machine.sent == []


def test_memory_that_falls_slowly_is_waited_for_with_a_notice(machine: FakeMachine) -> None:
    watch = trained(machine)
    for _ in range(10):
        assert read(watch, machine, reading(9 * GB)) == []
    assert watch.waiting() == (
        "GPU 0 uses 8.5 GB more than before the run (512 MB before, 9.0 GB at most, 9.0 GB 5 s after its end); "
        "waiting until it is released."
    )
    assert watch.waiting() is None  # reported only once
    (found,) = read(watch, machine, reading(GB // 2))
    assert found.verdict is Verdict.RELEASED
    assert "512 MB 6 s after its end" in found.sentence


def test_clock_jump_does_not_change_the_verdict(machine: FakeMachine) -> None:
    """Reading timestamps come from an adjustable clock, so the arrival time counts."""
    watch = trained(machine)
    for time in (-1e9, 1e9):
        assert read(watch, machine, reading(9 * GB, time=time)) == []
    (found,) = read(watch, machine, reading(GB // 2, time=-5e9))
    assert (found.verdict, found.seconds) == (Verdict.RELEASED, 1.5)


def test_reading_from_before_the_end_does_not_count_as_release(machine: FakeMachine) -> None:
    """The driver answered before the last process ended and never after, so no release was observed."""
    watch = trained(machine, peak=GB // 2)
    read(watch, machine, reading(GB // 2))
    (found,) = read(watch, machine, seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert found.after_bytes is None
    assert found.sentence == (
        "The memory of GPU 0 could not be read within 60 s after the run's end, so it is not known whether it came "
        "back."
    )


# -- held by others --------------------------------------------------------------------------------


def test_other_processes_that_explain_the_excess_are_named_at_once(machine: FakeMachine) -> None:
    watch = trained(machine)
    machine.others = [other(), other(812, memory=GB, run_id="20260101-other")]
    read(watch, machine, reading(9 * GB))
    (found,) = read(watch, machine, reading(GB // 2 + 4 * GB))
    assert (found.verdict, found.seconds) == (Verdict.HELD_BY_OTHERS, 1.0)
    assert found.sentence == (
        "This run released its memory on GPU 0. Other processes took 4.0 GB meanwhile: pid 4711 blender (bob), "
        "3.0 GB; pid 812 blender (bob) of run 20260101-other, 1.0 GB. Trainyard did not end them; end them yourself "
        "if they are not needed."
    )
    assert [holder.pid for holder in found.holders] == [4711, 812]
    assert machine.sent == []


def test_process_present_before_the_run_explains_only_its_growth(machine: FakeMachine) -> None:
    machine.others = [other(memory=GB)]
    watch = trained(machine, before=2 * GB)
    machine.others = [other(memory=3 * GB)]
    read(watch, machine, reading(4 * GB))
    assert read(watch, machine, reading(5 * GB)) == []  # 1 GB of the 3 GB excess is unexplained
    (found,) = read(watch, machine, reading(4 * GB))
    assert found.verdict is Verdict.HELD_BY_OTHERS


def test_other_processes_of_unknown_memory_are_named_at_the_deadline(machine: FakeMachine) -> None:
    watch = trained(machine, wait_s=10)
    machine.others = [other(memory=None)]
    found = read_until_verdict(watch, machine, 4 * GB)
    assert (found[0].verdict, found[0].seconds) == (Verdict.HELD_BY_OTHERS, 10)
    assert "other processes may have it (amount unknown): pid 4711 blender (bob)." in found[0].sentence


def test_process_that_only_kept_the_device_file_open_explains_nothing(machine: FakeMachine) -> None:
    """For example, a device monitor."""
    machine.others = [other(memory=None, listed=False)]
    found = read_until_verdict(trained(machine, wait_s=5), machine, 4 * GB)
    assert found[0].verdict is Verdict.UNEXPLAINED


def test_unknown_pid_is_waited_for_and_reported(machine: FakeMachine) -> None:
    """In a container the driver reports host pids; while its list is outdated, they may be this run's own."""
    watch = trained(machine, wait_s=10)
    strange = [Process(pid=31337, memory_used_bytes=4 * GB)]
    for _ in range(5):
        assert read(watch, machine, reading(GB // 2 + 4 * GB, pids=strange)) == []
    (found,) = read(watch, machine, reading(GB // 2 + 4 * GB, pids=strange), seconds=10)
    assert found.verdict is Verdict.HELD_BY_OTHERS
    assert "pid 31337 (in a container, or already ended), 4.0 GB" in found.sentence


# -- unexplained -----------------------------------------------------------------------------------


def test_memory_without_any_holder_is_unexplained_and_remedies_are_listed(machine: FakeMachine) -> None:
    found = read_until_verdict(trained(machine, wait_s=10), machine, 4 * GB)
    assert (found[0].verdict, found[0].seconds, found[0].after_bytes) == (Verdict.UNEXPLAINED, 10, 4 * GB)
    assert found[0].sentence == (
        "GPU 0 uses 3.5 GB more than before the run (512 MB before, 9.0 GB at most, 4.0 GB 10 s after its end), and "
        "no program was found that holds it. What you can try, gentlest first: find what uses this GPU "
        "(fuser -v /dev/nvidia*, as root) and end it; reset it (nvidia-smi --gpu-reset -i 0000:01:00.0, as "
        "root); reload the driver (modprobe -r, then modprobe); reboot. Trainyard never does these for you."
    )


def test_dead_parent_to_which_the_driver_attributes_memory_is_named(machine: FakeMachine) -> None:
    watch = trained(machine, wait_s=10)
    dead = [Process(pid=WORKER.pid, memory_used_bytes=3 * GB)]
    found = read_until_verdict(watch, machine, 4 * GB, pids=dead)
    assert found[0].verdict is Verdict.UNEXPLAINED
    assert "The driver attributes it to pid 100, 3.0 GB, of this run, which ended." in found[0].sentence
    assert [holder.pid for holder in found[0].holders] == [100]


def test_process_with_a_reused_worker_pid_is_another_process(machine: FakeMachine) -> None:
    watch = trained(machine)
    machine.others = [other(WORKER.pid, memory=4 * GB)]
    assert read_until_verdict(watch, machine, GB // 2 + 4 * GB)[0].verdict is Verdict.HELD_BY_OTHERS


def test_processes_that_could_not_be_inspected_are_reported(machine: FakeMachine) -> None:
    machine.trouble = "7 processes could not be looked into."
    found = read_until_verdict(trained(machine, wait_s=5), machine, 4 * GB)
    assert "7 processes could not be looked into." in found[0].sentence


# -- cannot be judged ------------------------------------------------------------------------------


def test_shared_memory_is_not_judged(machine: FakeMachine) -> None:
    machine.leave(200)
    watch = trained(machine, device=replace(GPU, shared_memory=True))
    found = read_until_verdict(watch, machine, GB // 2)
    assert found[0].verdict is Verdict.CANNOT_BE_JUDGED
    assert found[0].sentence == (
        "GPU 0 shares its memory with the host, so its readings do not show which process uses it. "
        "No process of this run is left. pid 200 python had outlived its worker and was terminated."
    )


def test_lost_device_is_retried_and_then_not_judged(machine: FakeMachine) -> None:
    watch = trained(machine)
    for _ in range(20):
        assert read(watch, machine, reading(None, lost="GPU 0 does not answer: “Unknown Error”.")) == []
    assert watch.waiting() == "GPU 0 does not answer; its memory is read as soon as it does."
    (found,) = read(watch, machine, seconds=5)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert found.seconds == 15
    assert found.sentence == (
        "GPU 0 has not answered since the run's end, so it is not known whether its memory came back. "
        "GPU 0 does not answer: “Unknown Error”."
    )


def test_device_that_answers_again_is_judged(machine: FakeMachine) -> None:
    watch = trained(machine)
    read(watch, machine, reading(None, lost="It is lost."), seconds=12)
    assert read(watch, machine, reading(GB // 2))[0].verdict is Verdict.RELEASED


def test_missing_reading_from_before_the_run_cannot_be_judged(machine: FakeMachine) -> None:
    found = read_until_verdict(trained(machine, before=None), machine, GB)
    assert (found[0].verdict, found[0].before_bytes) == (Verdict.CANNOT_BE_JUDGED, None)
    assert found[0].sentence == (
        "The memory of GPU 0 could not be read before the run. 1.0 GB are used now, and it is not known whether they "
        "were used before."
    )


def test_almost_no_memory_used_counts_as_released_without_earlier_reading(machine: FakeMachine) -> None:
    """A laptop GPU was asleep before the run and was not read."""
    found = read_until_verdict(trained(machine, before=None), machine, 50 * MB)
    assert found[0].verdict is Verdict.RELEASED
    assert found[0].sentence == "The memory of GPU 0 came back: 9.0 GB at most, 50 MB after its end."


def test_gpu_that_fell_asleep_is_not_woken_up_and_not_judged(machine: FakeMachine) -> None:
    watch = trained(machine)
    read(watch, machine, replace(reading(None), asleep=True))
    (found,) = read(watch, machine, replace(reading(None), asleep=True))
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert found.sentence.startswith("GPU 0 is asleep, so no process uses it any more. It was not woken up")


def test_driver_that_hangs_after_the_end_is_not_waited_for_forever(machine: FakeMachine) -> None:
    watch = trained(machine, wait_s=5)
    assert watch.step() == []
    (found,) = read(watch, machine, seconds=5)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert watch.done


def test_watch_that_is_cut_short_reports_it(machine: FakeMachine) -> None:
    watch = trained(machine)
    machine.leave(200)
    read(watch, machine, reading(4 * GB))
    watch.hurry()
    read(watch, machine, reading(4 * GB), seconds=0.1)
    assert machine.sent == [(200, "SIGTERM")]
    read(watch, machine, reading(4 * GB), seconds=1)
    (found,) = read(watch, machine, reading(4 * GB), seconds=2)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert "and the check was skipped, so it is not known whether the rest is released." in found.sentence


def test_hurry_kills_survivors_at_once(machine: FakeMachine) -> None:
    machine.leave(200)
    watch = trained(machine, device=CPU, before=None)
    watch.hurry()
    watch.step()
    assert machine.sent == [(200, "SIGKILL")]


# -- CPU devices -----------------------------------------------------------------------------------


def test_cpu_run_without_survivors_is_released_at_the_first_step(machine: FakeMachine) -> None:
    watch = trained(machine, device=CPU, before=None, peak=2 * GB)
    (found,) = watch.step()
    assert watch.done
    assert machine.scans == 0
    assert (found.verdict, found.before_bytes, found.peak_bytes, found.after_bytes, found.seconds) == (
        Verdict.RELEASED, 0, 2 * GB, 0, 0.0,
    )
    assert found.sentence == "Nothing of this run is left on CPU 0: its memory came back. It held 2.0 GB at most."


def test_survivor_is_assigned_to_the_cpu_device_of_its_cores(machine: FakeMachine) -> None:
    machine.leave(201, immune="SIGTERM SIGKILL", state="D")
    watch = MemoryWatch(RUN, [CPU, CPU_1], ReleaseWatch(wait_s=5), machine, machine.clock)
    watch.begin([])
    watch.end([WORKER])
    assert [(each.device_id, each.verdict) for each in watch.step()] == [("cpu:0", Verdict.RELEASED)]
    (found,) = read(watch, machine, seconds=5)
    assert (found.device_id, found.verdict, found.after_bytes) == ("cpu:1", Verdict.HELD_BY_RUN, GB)
    assert "CPU 1 is still held by this run: pid 201 python (anna), 1.0 GB." in found.sentence


def test_cpu_device_is_not_judged_without_proc(machine: FakeMachine) -> None:
    machine.blind = True
    (found,) = trained(machine, device=CPU, before=None).step()
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert (
        found.sentence
        == "CPU 0: it is not known whether processes of the run are left, since this machine has no /proc."
    )


def test_gpu_without_proc_is_judged_by_its_driver_with_a_notice(machine: FakeMachine) -> None:
    machine.blind, machine.trouble = True, "There is no /proc to look into."
    found = read_until_verdict(trained(machine), machine, GB // 2)
    assert found[0].verdict is Verdict.RELEASED
    assert found[0].sentence.endswith("There is no /proc to look into.")


# -- as events -------------------------------------------------------------------------------------


def test_release_event_round_trip(machine: FakeMachine) -> None:
    machine.others = [other(memory=None)]
    watch = trained(machine, wait_s=5)
    machine.others = [replace(other(), command="x" * 1000, created=None)]
    found = replace(read_until_verdict(watch, machine, 9 * GB)[0], seconds=5.0)
    event = found.event()
    assert event_kinds.read(event).fields() == found.fields()
    assert len(event["holders"][0]["command"]) == 300
    with pytest.raises(ValueError, match="Its field holders is 'pid 5' where an object is expected"):
        event_kinds.read({**event, "holders": ["pid 5"]})


def test_worst_verdict_of_several_devices_counts() -> None:
    released, others, unexplained = (
        Release(
            device_id="GPU-0", verdict=verdict, before_bytes=0, peak_bytes=1, after_bytes=0, seconds=1.0, sentence="."
        )
        for verdict in (Verdict.RELEASED, Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED)
    )
    slower = replace(released, seconds=2.0)
    assert worst([]) is None
    assert worst([released, slower]) is slower
    assert worst([unexplained, others, slower]) is unexplained
    assert set(BADNESS) == set(Verdict)
