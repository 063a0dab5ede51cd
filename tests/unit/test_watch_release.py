"""What the end of a run writes down, with a watch on a machine that is played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.memory_watch.watch import MemoryWatch
from core.schema.settings import ReleaseWatch
from core.supervisor.monitor import watch_release
from tests.support.playing import CPU, RUN, WORKER, Played

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Sample


class Nothing:
    """Readings that never come."""

    def poll(self) -> Sequence[Sample]:
        return ()

    def hasten(self) -> None:
        pass


def notices(machine: Played) -> list[object]:
    """What is told of those that had to be ended."""
    written: list[tuple[str, dict[str, object]]] = []
    watch = MemoryWatch(RUN, [CPU], ReleaseWatch(), machine, machine.clock)
    watch.begin([])
    watch_release(
        watch, Nothing(), lambda kind, **fields: written.append((kind, fields)), [WORKER],  # type: ignore[arg-type]
        is_hurried=lambda: False, meanwhile=lambda: None,
    )  # fmt: skip
    return [fields["text"] for kind, fields in written if kind == "notice"]


def test_those_that_had_to_be_ended_are_told_by_name_and_user() -> None:
    machine = Played()
    machine.leave(201)
    assert notices(machine) == ["A process outlived its worker and was sent SIGTERM: pid 201 python (anna)."]
    machine.leave(201)
    machine.leave(203)
    assert notices(machine) == [
        "Processes outlived their worker and were sent SIGTERM: pid 201 python (anna); pid 203 python (anna)."
    ]
