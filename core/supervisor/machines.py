"""On which machines the ranks of a run train: all here, some on hosts, or here for a run of another machine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from core.catalog.strategies import strategy_of
from core.errors import RunError
from core.hosts.names import devices_here
from core.language import tr
from core.launchers import ranks
from core.runs.part import KeptWatch, continue_holder, read_part
from core.schema.events import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from core.devices.device import Device
    from core.schema.event_kinds import Record
    from core.schema.rank import RankAssignment
    from core.schema.spec import RunSpec
    from core.supervisor.hosts.run_hosts import RunHosts
    from core.supervisor.workers import WorkerGroup


class Machines:
    """The machines of one run. For a run whose devices are all here, its methods do nothing."""

    def __init__(self, run_dir: Path, spec: RunSpec, write: Callable[[Record], None]) -> None:
        """`write`: writes an event. Raises `ValueError` for a part that is damaged."""
        self.here = devices_here(spec.devices)
        """The ids of the run's devices on this machine."""
        self._run_dir, self._spec, self._write = run_dir, spec, write
        self._hosts: RunHosts | None = None
        """The other machines; None if all devices are here."""
        self._part = read_part(run_dir)
        """Which ranks of a run of another machine train here; None if the run is of this machine."""
        self._head_lost = ""
        self._kept = KeptWatch(run_dir, self._part.grace_s) if self._part is not None else None

    @property
    def is_part(self) -> bool:
        """Whether the run belongs to another machine."""
        return self._part is not None

    def connect(self, *, resumes: bool) -> list[Device]:
        """Connect to the other machines, and return their devices in the run. Raises `RunError`.

        `resumes`: whether the run was trained before.
        """
        if len(self.here) == len(self._spec.devices):
            return []
        from core.supervisor.hosts.run_hosts import RunHosts  # imported here, since other runs do not need it

        self._hosts = RunHosts(self._run_dir, self._spec, write=self._write, resumes=resumes)
        return self._hosts.connect()

    def assign(self, devices: Sequence[Device], away: Sequence[Device]) -> list[RankAssignment]:
        """Return the assignments of the ranks that train here. `away`: the devices that `connect` has returned."""
        if self._part is not None:
            return list(self._part.assignments)
        assignments = ranks.assign_ranks([*devices, *away], strategy_of(self._spec))
        return assignments if self._hosts is None else self._hosts.spread(assignments)

    def start(self, workers: WorkerGroup, spec: RunSpec) -> None:
        """Start the ranks on the other machines, and add them to the workers. Raises `RunError`.

        `spec`: what they train.
        """
        if self._hosts is not None:
            self._hosts.start(workers, spec)

    def poll(self) -> None:
        """Take what has arrived from other machines. Raises `RunError` when one is lost, or this part was left."""
        if self._hosts is not None:
            self._hosts.poll()
        if self._part is not None and self._kept is not None and self._kept.is_left:
            self._head_lost = tr(
                "{head}, on which this run is supervised, has not been connected for {seconds:.0f} s, so its part "
                "here was ended.",
                head=self._part.head,
                seconds=self._part.grace_s,
            )
            continue_holder(self._run_dir)
            raise RunError(self._head_lost)

    def head_lost(self) -> str:
        """Return that the machine which has the run is lost: the part was ended for it, or it is not connected now.

        The empty string if it is connected, or if the run is of this machine.
        """
        if not self._head_lost and self._part is not None and self._kept is not None and self._kept.is_away:
            self._head_lost = tr(
                "{head}, on which this run is supervised, was not connected any more when its part here ended.",
                head=self._part.head,
            )
        return self._head_lost

    def finish(self, is_hurried: Callable[[], bool]) -> None:
        """Wait for the ends of the ranks on other machines, and record a verdict on each of their devices."""
        if self._hosts is not None:
            self._hosts.finish(self._spec.release.wait_s, is_hurried)

    def close(self) -> None:
        """End all connections."""
        if self._hosts is not None:
            with contextlib.suppress(RecordError):
                self._hosts.close()
