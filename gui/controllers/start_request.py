"""A run to be started, queued or resumed, and the last check before that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.config.validation import recipe_problems
from core.language import join_sentences
from core.runs.directory import folder_problem
from gui.viewmodels.setup.start_check import StartCheck, StartConditions, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core.schema.spec import RunSpec
    from gui.viewmodels.setup.device_sharing import Neighbour
    from gui.viewmodels.setup.start_check import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A run to be started, queued or resumed."""

    verb: str
    """`Start` or `Resume`."""
    prepare: Callable[[], RunSpec | StartCheck]
    """Return the spec; raise `ValueError`, or return a check with problems, if it cannot be started. May block."""
    begin: Callable[[RunSpec], None]
    """Raises `RunError` or `ValueError`."""
    choices: Choices | None = None
    """The choices that must still be chosen; None for a run that does not depend on them."""
    run_dir: Path | None = None
    """The run to be resumed."""
    agreed: frozenset[Neighbour] = frozenset()
    """The runs that the user agreed to share devices with."""
    queues: bool = False
    """Whether the run is put into the queue, and so shares no device."""


def verified(check: StartCheck, choices: Choices, now: StartConditions, root: Path) -> RunSpec | StartCheck:
    """Return the spec of choices right before the start, or a check with problems. Raises `ValueError`. May block."""
    found = verify(check, choices, replace(now, folder_problem=folder_problem(root) or ""))
    if found.problems or found.spec is None:
        return found
    return without(recipe_problems(found.spec), found.spec)


def without(problems: list[str], spec: RunSpec) -> RunSpec:
    """Return the spec. Raises `ValueError` if there are problems."""
    if problems:
        raise ValueError(join_sentences(problems))
    return spec


def attempt(prepare: Callable[[], RunSpec | StartCheck]) -> RunSpec | StartCheck | Exception:
    """Return what `prepare` returns, or its `ValueError`."""
    try:
        return prepare()
    except ValueError as error:
        return error
