"""What goes along with a run besides its training. Rooms add companions; the supervisor knows none of them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from core.devices.device import Device, Survey
from core.runs.facts import RunFacts
from core.schema.event_kinds import Record
from core.schema.events import Event
from core.schema.spec import RankAssignment, RunSpec
from core.supervisor.workers import WorkerGroup


class Companion:
    """A part of a run's supervision. Its methods are called in the order in which they stand; all are optional.

    `core.companions` lists the companions of a run.
    """

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Descriptors that no process but the supervisor and its guard may keep open."""
        return ()

    def begin(self, close_fds: Iterable[int]) -> None:
        """Start what must start before the supervisor has a thread; a forked process closes `close_fds`."""

    def find(self, devices: Sequence[Device], record: Callable[[Record], None], *, resumes: bool) -> Sequence[Device]:  # noqa: ARG002
        """Look at the devices before the start; return devices of the run on other machines. Raises `RunError`.

        `devices`: the devices found so far. `record`: writes an event. `resumes`: whether
        the run was trained before.
        """
        return ()

    def assign(self, assignments: Sequence[RankAssignment]) -> Sequence[RankAssignment]:
        """Return the ranks that are started here. Raises `RunError`. `assignments`: what the strategy requires."""
        return assignments

    def start(self, workers: WorkerGroup, spec: RunSpec) -> None:
        """Do what must be done before the first process starts, or add workers. Raises `RunError`.

        `spec`: what workers on other machines train.
        """

    def poll(self, facts: RunFacts) -> str:  # noqa: ARG002
        """Called a few times per second; return why the run must be stopped, or the empty string. Raises `RunError`."""
        return ""

    def read(self) -> list[Event]:
        """Return new events of the training that its workers do not write."""
        return []

    def trouble(self) -> str:
        """Return once a sentence that the user must know while training goes on; the empty string if there is none."""
        return ""

    def not_finite(self) -> None:
        """Called when the loss has ceased to be a number, unless the run is ended for it."""

    def watch(self, survey: Survey, facts: RunFacts) -> None:
        """Called a few times per second while workers run. `survey`: the latest readings of the devices here."""

    def delays_force(self) -> bool:
        """Return whether the next step of a stop that is not answered must wait: for a few seconds, once."""
        return False

    def finish(self, is_hurried: Callable[[], bool]) -> None:
        """Wait for what belongs to the run elsewhere. `is_hurried`: whether the user does not want to wait."""

    def settle(self) -> str:
        """Called after all processes have ended; return a sentence that the record of the run must have."""
        return ""

    def blame(self) -> str:
        """Return what outside this machine ended a run that failed; the empty string if nothing did."""
        return ""

    def over(self, facts: RunFacts) -> None:
        """Called just before the end of the run is recorded, in the supervisor. `facts`: with that end."""

    def ended(self) -> None:
        """Called after the end was recorded."""

    def lost(self) -> None:
        """Called in the guard when the supervisor has disappeared, and all processes of the run have ended."""

    def close(self) -> None:
        """Release all resources."""
