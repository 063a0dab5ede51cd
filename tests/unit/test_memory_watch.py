"""MemoryWatch: verdicts and their sentences, on a fake machine with a fake clock."""

from dataclasses import replace

import pytest

from core.devices.device import Process
from core.memory_watch.watch import MemoryWatch
from core.runs.facts import BADNESS, worst
from core.schema import event_kinds
from core.schema.event_kinds import ProcessInfo, Release, Verdict
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
    """Reading timestamps come from an adjustable clock, so the arrival time counts."""
    watch = trained(machine)
    for time in (-1e9, 1e9) * 5:
        assert read(watch, machine, reading(9 * GB, time=time)) == []
    assert watch.waiting() == (
        "GPU 0 uses 8.5 GB more than before the run (512 MB before, 9.0 GB at most, 9.0 GB 5 s after its end); "
        "waiting until it is released."
    )
    assert watch.waiting() is None  # reported only once
    (found,) = read(watch, machine, reading(GB // 2, time=-5e9))
    assert (found.verdict, found.seconds) == (Verdict.RELEASED, 5.5)
    assert "512 MB 6 s after its end" in found.sentence


def test_reading_from_before_the_end_does_not_count_as_release(machine: FakeMachine) -> None:
    """The driver answered before the last process ended and never after, so no release was observed."""
    watch = trained(machine, peak=GB // 2)
    read(watch, machine, reading(GB // 2))
    (found,) = read(watch, machine, seconds=60)
    assert (found.verdict, found.after_bytes, watch.done) == (Verdict.CANNOT_BE_JUDGED, None, True)
    assert found.sentence == (
        "The memory of GPU 0 could not be read within 60 s after the run's end, so it is not known whether it came "
        "back."
    )


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


@pytest.mark.parametrize(
    ("memory", "lost", "verdict", "after"),
    [
        (4 * GB, None, Verdict.UNEXPLAINED, " What you can try, gentlest first:"),
        (None, "GPU 0 does not answer.", Verdict.CANNOT_BE_JUDGED, ""),
    ],
)
def test_what_the_driver_says_of_a_gpu_is_in_the_verdict(machine: FakeMachine, memory, lost, verdict, after) -> None:
    fault = "The driver says that GPU 0 needs a reset (its recovery action)."
    watch = trained(machine, wait_s=10)
    (found,) = read_until_verdict(watch, machine, memory, lost=lost, fault=fault)
    assert found.verdict is verdict
    assert f". {fault}{after}" in found.sentence
    (well,) = read_until_verdict(trained(machine), machine, GB // 2, fault=fault)
    assert well.verdict is Verdict.RELEASED
    assert fault not in well.sentence


def test_process_present_before_the_run_explains_only_its_growth(machine: FakeMachine) -> None:
    machine.others = [other(memory=GB)]
    watch = trained(machine, before=2 * GB)
    machine.others = [other(memory=3 * GB)]
    read(watch, machine, reading(4 * GB))
    assert read(watch, machine, reading(5 * GB)) == []  # 1 GB of the 3 GB excess is unexplained
    (found,) = read(watch, machine, reading(4 * GB))
    assert found.verdict is Verdict.HELD_BY_OTHERS


@pytest.mark.parametrize(
    ("changes", "options", "memory", "pids", "verdict", "seconds", "words"),
    [
        ({"others": [other(memory=None)]}, {}, 4 * GB, {}, Verdict.HELD_BY_OTHERS, 10,
         "other processes may have it (amount unknown): pid 4711 blender (bob)."),
        # a new process with the pid of a worker is another process
        ({"others": [other(WORKER.pid, memory=4 * GB)]}, {}, GB // 2 + 4 * GB, {}, Verdict.HELD_BY_OTHERS, 1, ""),
        # the driver's list could not be read before the run, so an old process must not explain a leak
        ({"others": [other(memory=5 * GB)]}, {"before": 6 * GB, "unlisted": True}, 10 * GB, {},
         Verdict.HELD_BY_OTHERS, 10, "other processes may have it (amount unknown): pid 4711 blender (bob), 5.0 GB."),
        ({"others": [other(memory=GB), other(812, memory=GB)]}, {}, GB // 2 + 4 * GB, {}, Verdict.UNEXPLAINED, 10,
         "pid 4711 blender (bob), 1.0 GB; pid 812 blender (bob), 1.0 GB have a part of it."),
        ({}, {}, 4 * GB, {}, Verdict.UNEXPLAINED, 10, (
            "GPU 0 uses 3.5 GB more than before the run (512 MB before, 9.0 GB at most, 4.0 GB 10 s after its end), "
            "and no program was found that holds it. What you can try, gentlest first: find what uses this GPU "
            "(fuser -v /dev/nvidia*, as root) and end it; reset it (nvidia-smi --gpu-reset -i 0000:01:00.0, as "
            "root); reload the driver (modprobe -r, then modprobe); reboot. Trainyard never does these for you.")),
        ({}, {}, 4 * GB, {WORKER.pid: 3 * GB}, Verdict.UNEXPLAINED, 10,
         "The driver attributes it to pid 100, 3.0 GB, of this run, which ended."),
        # an unknown pid may be a process of this run whose memory the driver has not freed yet
        ({}, {}, GB // 2 + 4 * GB, {4711: 4 * GB}, Verdict.HELD_BY_OTHERS, 10, (
            "No process of this run is left; other processes may have it: pid 4711 (in a container, or already "
            "ended), 4.0 GB.")),
        ({}, {}, GB // 2 + 4 * GB, {4711: 4 * GB}, Verdict.HELD_BY_OTHERS, 10, (
            "Trainyard did not end it; end it yourself if it is not needed, and see whether the memory comes back. "
            "An unknown pid may also belong to a process of this run that has exited, but whose memory the driver "
            "has not freed.")),
        ({}, {}, GB // 2 + 4 * GB, {4711: GB}, Verdict.UNEXPLAINED, 10,
         "pid 4711 (in a container, or already ended), 1.0 GB has a part of it."),
        ({"trouble": "7 processes could not be looked into."}, {}, 4 * GB, {}, Verdict.UNEXPLAINED, 10,
         "7 processes could not be looked into."),
        ({"blind": True, "trouble": "There is no /proc to look into."}, {}, GB // 2, {}, Verdict.RELEASED, 1,
         "There is no /proc to look into."),
        ({}, {"before": None}, GB, {}, Verdict.CANNOT_BE_JUDGED, 1, (
            "The memory of GPU 0 could not be read before the run. 1.0 GB are used now, and it is not known whether "
            "they were used before.")),
        # a laptop GPU was asleep before the run and was not read
        ({}, {"before": None}, 50 * MB, {}, Verdict.RELEASED, 1,
         "The memory of GPU 0 came back: 9.0 GB at most, 50 MB after its end."),
    ],
)
def test_memory_that_stays_is_explained_at_the_deadline(
    machine: FakeMachine, changes: dict[str, object], options: dict[str, object], memory: int, pids: dict[int, int],
    verdict: Verdict, seconds: float, words: str,
) -> None:
    watch = trained(machine, wait_s=10, **options)  # type: ignore[arg-type]
    vars(machine).update(changes)
    known = [Process(pid=pid, memory_used_bytes=held) for pid, held in pids.items()]
    (found,) = read_until_verdict(watch, machine, memory, pids=known)
    assert (found.verdict, found.seconds, found.before_bytes) == (verdict, seconds, options.get("before", GB // 2))
    assert words in found.sentence
    assert "have released it" not in found.sentence
    assert WORKER.pid not in pids or [holder.pid for holder in found.holders] == [WORKER.pid]


def test_process_that_only_kept_the_device_file_open_explains_nothing(machine: FakeMachine) -> None:
    """For example, a device monitor."""
    machine.others = [other(memory=None, listed=False)]
    found = read_until_verdict(trained(machine, wait_s=5), machine, 4 * GB)
    assert found[0].verdict is Verdict.UNEXPLAINED


@pytest.mark.parametrize(
    ("first", "then", "before", "memory", "verdict"),
    [
        # usage fell by exactly the memory of the process, so none of the run's memory is left
        ([other(memory=5 * GB)], [], 6 * GB, GB, Verdict.RELEASED),
        ([other(memory=5 * GB)], [other(812, memory=5 * GB)], 6 * GB, 6 * GB, Verdict.RELEASED),
        ([other(memory=5 * GB)], [other(812, memory=7 * GB)], 6 * GB, 8 * GB, Verdict.HELD_BY_OTHERS),
        ([other(memory=None, listed=False)], [], 6 * GB, 6 * GB, Verdict.RELEASED),  # it only had the file open
        ([other(memory=None), other(812, memory=4 * GB)], [], 6 * GB, 0, Verdict.RELEASED),  # almost none is used
    ],
)
def test_processes_that_account_for_the_difference_are_not_waited_for(
    machine: FakeMachine, first: list[ProcessInfo], then: list[ProcessInfo], before: int, memory: int, verdict: Verdict
) -> None:
    machine.others = first
    watch = trained(machine, before=before)
    machine.others = then
    assert read(watch, machine, reading(memory)) == []
    assert [(each.verdict, each.seconds) for each in read(watch, machine, reading(memory))] == [(verdict, 1.0)]


@pytest.mark.parametrize(
    ("first", "then", "before", "memory", "words"),
    [
        (other(memory=4 * GB), [], 5 * GB, 4 * GB, (
            "GPU 0 uses 4.0 GB, no more than the 5.0 GB before the run. But processes that used memory before the run "
            "seem to have released it (pid 4711 blender (bob), 4.0 GB), so it is not known whether all of this run's "
            "memory came back.")),
        # the new process uses less than the missing amount, so the rest may be a leak of this run
        (other(memory=5 * GB), [other(812, memory=3 * GB)], 6 * GB, 8 * GB,
         "which other processes have: pid 812 blender (bob), 3.0 GB. But processes that used"),
        (other(memory=5 * GB), [other(812, memory=3 * GB)], 6 * GB, 8 * GB,
         "(pid 4711 blender (bob), 5.0 GB), so it is not known whether all of this run's memory"),
        (other(memory=None), [], 6 * GB, 5 * GB,
         "seem to have released it (pid 4711 blender (bob), an unknown amount)"),
    ],
)
def test_process_that_exited_during_the_run_does_not_hide_a_leak(machine, first, then, before, memory, words) -> None:
    machine.others = [first]
    watch = trained(machine, before=before)
    machine.others = then
    for _ in range(2):
        assert read(watch, machine, reading(memory)) == []
    if memory < before:
        machine.now += 2
        assert watch.waiting() == (
            "GPU 0 uses no more than before the run, but other processes have released memory since; "
            "waiting until this run's memory is released."
        )
    (found,) = read(watch, machine, reading(memory), seconds=60)
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert words in found.sentence


def test_exited_process_still_on_the_driver_list_has_not_released_memory(machine: FakeMachine) -> None:
    machine.others = [other(memory=5 * GB)]
    watch = trained(machine, before=6 * GB)
    machine.others = []
    booked = reading(6 * GB, pids=[Process(pid=4711, memory_used_bytes=5 * GB)])
    read(watch, machine, booked)
    (found,) = read(watch, machine, booked)
    assert found.verdict is Verdict.RELEASED


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
    assert (found.verdict, found.seconds) == (Verdict.CANNOT_BE_JUDGED, 15)
    assert found.sentence == (
        "GPU 0 has not answered since the run's end, so it is not known whether its memory came back. "
        "GPU 0 does not answer: “Unknown Error”."
    )
    again = trained(machine)
    read(again, machine, reading(None, lost="It is lost."), seconds=12)
    assert read(again, machine, reading(GB // 2))[0].verdict is Verdict.RELEASED, "it answers again"


def test_gpu_that_fell_asleep_is_not_woken_up_and_not_judged(machine: FakeMachine) -> None:
    watch = trained(machine)
    read(watch, machine, replace(reading(None), asleep=True))
    (found,) = read(watch, machine, replace(reading(None), asleep=True))
    assert found.verdict is Verdict.CANNOT_BE_JUDGED
    assert found.sentence.startswith("GPU 0 is asleep, so no process uses it any more. It was not woken up")


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
    machine.sent.clear()
    machine.leave(200)
    watch = trained(machine, device=CPU, before=None)
    watch.hurry()
    watch.step()
    assert machine.sent == [(200, "SIGKILL")], "what is found in a hurry is killed at once"


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


def test_release_event_is_cut_and_checked(machine: FakeMachine) -> None:
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
