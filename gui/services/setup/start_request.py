"""A run to be started, queued or resumed, and the last check before that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.language import join_sentences
from core.schema.spec import RunSpec
from core.system.own_processes import at_logout
from gui.services.machine.machine import Machine
from gui.viewmodels.setup.start_check import StartCheck, StartConditions

if TYPE_CHECKING:
    from gui.viewmodels.setup.device_sharing import Neighbour
    from gui.viewmodels.setup.start_check import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A run to be started, queued or resumed."""

    verb: str
    """`Start` or `Resume`."""
    check: Callable[[], RunSpec | StartCheck]
    """The last check. Returns the spec; raises `ValueError` or returns a check if there are problems. May block."""
    launch: Callable[[RunSpec], None]
    """Starts, queues or resumes the run. Raises `RunError` or `ValueError`."""
    choices: Choices | None = None
    """The choices that must still be chosen; None for a run that does not depend on them."""
    run_dir: Path | None = None
    """The run to be resumed."""
    agreed: frozenset[Neighbour] = frozenset()
    """The runs that the user agreed to share devices with."""
    queues: bool = False
    """Whether the run is put into the queue, and so shares no device."""


def spec_of_choices(
    machine: Machine, check: StartCheck, choices: Choices, now: StartConditions
) -> RunSpec | StartCheck:
    """Check choices again, right before the start. Return their spec, or a check with problems. May block."""
    found = machine.check_again(check, choices, now)
    return found if found.problems or found.spec is None else found.spec


def spec_unless(problems: list[str], spec: RunSpec) -> RunSpec:
    """Return the spec; raise `ValueError` with the problems if there are any."""
    if problems:
        raise ValueError(join_sentences(problems))
    return spec


def last_check(check: Callable[[], RunSpec | StartCheck]) -> RunSpec | StartCheck:
    """Return what `check` returns. Ask also what a log-out does, since the start needs it. May block."""
    at_logout()
    return check()
