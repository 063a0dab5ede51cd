"""This machine: ask its runs for something, check choices, start and remove runs.

`core.hosts` is not loaded for it. `HostMachine` has the same methods for the runs of a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import FRAMEWORKS
from core.config.examination import GpuCheck
from core.config.validation import is_installed, recipe_problems
from core.devices.device import Survey
from core.history import removal, trash
from core.history.marks import change_marks, rename
from core.language import join_sentences, tr
from core.queue.control import enqueue
from core.queue.request import QueueRequest
from core.runs.directory import folder_problem
from core.runs.facts import RunFacts
from core.runs.run import Run
from core.schema.spec import RunSpec
from gui.machine.monitor import ReadingsSource
from gui.machine.start_check import (
    StartCheck,
    StartConditions,
    check_start,
    recheck,
    resume_problems,
    spec_problems,
)
from gui.runs.session import ask_run

if TYPE_CHECKING:
    from core.history.removal import Removed
    from gui.machine.start_check import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCheck:
    """Whether a run can be deleted."""

    why_not: str = ""
    """Why it cannot be deleted: a sentence, or the empty string."""
    size_bytes: int = 0


class Machine:
    """Methods that may block are called on a thread of their own; they raise `RunError` or `ValueError`."""

    host = ""
    """The name of the host; the empty string for this machine."""

    @property
    def is_here(self) -> bool:
        """Whether it is this machine."""
        return not self.host

    def __init__(self, root: Path) -> None:
        self.root = root
        """The folder of runs; for a host, that of their copies."""
        self._gpus = GpuCheck()  # which remembers what it was answered

    @property
    def knows_runs(self) -> bool:
        """Whether all runs are known, so that an empty list means that there are none."""
        return True

    def sampler(self) -> ReadingsSource | None:
        """Return where the readings of the devices come from; None for the drivers of this machine."""
        return None

    def close(self, *, wait: bool = True) -> None:
        """End what was begun for the window; a connection, if there is one. `wait`: until that has ended."""

    def folder_of(self, run_dir: Path) -> str:
        """Return the path of a run's folder, as it is shown to the user."""
        return str(run_dir)

    def obstacles(self, run_dir: Path) -> dict[str, str]:
        """Return why actions cannot be done with a run of this machine, by their names in `run_actions`."""
        del run_dir
        return {}

    # -- at once ---------------------------------------------------------------------------------

    def request(self, run: Run, name: str) -> None:
        """Ask a run for something (`core.runs.requests.REQUESTS`)."""
        ask_run(run, name)

    def rename(self, run_dir: Path, name: str) -> None:
        """Give a run another name."""
        rename(run_dir, name)

    def change_marks(self, run_dir: Path, **changes: Any) -> None:  # noqa: ANN401 (as `change_marks`)
        """Change the marks of a run."""
        change_marks(run_dir, **changes)

    def start(self, spec: RunSpec) -> Run:
        """Start a run."""
        return Run.start(spec, self.root)

    def enqueue(self, spec: RunSpec, labels: Mapping[str, str]) -> Run:
        """Let a run wait in the queue. `labels`: of its devices, by id."""
        return enqueue(spec, self.root, QueueRequest(labels=labels))

    # -- may block -------------------------------------------------------------------------------

    def resume(self, run_dir: Path, on: RunSpec | None = None) -> None:
        """Resume a run, and return when it has been resumed. `on`: see `Run.resume`; of a run of this machine."""
        Run.resume(run_dir, on=on)

    def check(self, choices: Choices, now: StartConditions) -> StartCheck:
        """Check choices, whether runs can be kept, and whether CUDA shows the GPUs."""
        found = check_start(choices, replace(now, folder_problem=folder_problem(self.root) or ""))
        if found.spec is None or found.problems:
            return found
        return found.without_gpus(self._gpus.problem(found.spec, now.survey.devices), now.survey)

    def check_again(self, check: StartCheck, choices: Choices, now: StartConditions) -> StartCheck:
        """Check choices once more right before the start."""
        found = recheck(check, choices, replace(now, folder_problem=folder_problem(self.root) or ""))
        if not found.problems and found.spec is not None and (problems := recipe_problems(found.spec)):
            raise ValueError(join_sentences(problems))
        return found

    def spec_problems(self, spec: RunSpec, survey: Survey) -> list[str]:
        """Return why a spec cannot be started again."""
        found = spec_problems(spec, survey, tr("Duplicate the run, and tick another device."))
        return found or recipe_problems(spec)

    def resume_problems(self, run: Run, spec: RunSpec, facts: RunFacts, survey: Survey) -> list[str]:
        """Return why a run cannot be resumed."""
        return resume_problems(run.id, spec, facts, survey)

    def installed_frameworks(self) -> frozenset[str]:
        """Return the ids of the frameworks that are installed."""
        return frozenset(row.id for row in FRAMEWORKS if is_installed(row))

    def check_removal(self, run_dir: Path) -> RemovalCheck:
        """Check whether a run can be deleted, and measure its size on disk."""
        why_not = removal.why_not(run_dir)
        return RemovalCheck(why_not=why_not, size_bytes=0 if why_not else removal.size_bytes(run_dir))

    def remove(self, run_dir: Path, *, for_good: bool) -> Removed:
        """Delete a run; unless it is `for_good`, and `is_here`, it can be restored for a week."""
        return removal.remove(run_dir) if for_good else trash.put(run_dir)
