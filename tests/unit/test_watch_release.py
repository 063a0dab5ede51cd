"""The notices of `watch_release` about terminated processes, on a fake machine."""

from __future__ import annotations

from collections.abc import Sequence

from core.devices.device import Sample
from core.memory_watch.watch import MemoryWatch
from core.schema.event_kinds import Ended, Notice, Record
from core.schema.settings import ReleaseWatch
from core.supervisor.monitor import watch_release
from tests.support.fake_machine import CPU, RUN, WORKER, FakeMachine


class NoSamples:
    """A sampler that never has a sample."""

    def poll(self) -> Sequence[Sample]:
        return ()

    def hasten(self) -> None:
        pass


def notices(machine: FakeMachine) -> list[object]:
    """The notices about terminated processes."""
    written: list[Record] = []
    watch = MemoryWatch(RUN, [CPU], ReleaseWatch(), machine, machine.clock)
    watch.begin([])
    watch_release(
        watch, NoSamples(), written.append, [WORKER],  # type: ignore[arg-type]
        is_hurried=lambda: False, meanwhile=lambda: None,
    )
    if ended := [each for each in written if isinstance(each, Ended)]:
        assert [each.by for each in ended] == ["supervisor"]
    return [each.text for each in written if isinstance(each, Notice)]


def test_notice_names_terminated_processes_with_their_users() -> None:
    machine = FakeMachine()
    machine.leave(201)
    assert notices(machine) == ["A process outlived its worker and was sent SIGTERM: pid 201 python (anna)."]
    machine.leave(201)
    machine.leave(203)
    assert notices(machine) == [
        "Processes outlived their worker and were sent SIGTERM: pid 201 python (anna); pid 203 python (anna)."
    ]
