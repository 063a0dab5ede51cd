"""What a run starts and listens to: workers that train a recipe, or the processes of a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from core.errors import RunError
from core.launchers import local
from core.launchers.script import Launcher
from core.metrics.process import MetricsProcess
from core.runs.output_log import end_of
from core.schema.paths import log_of_rank
from core.supervisor.workers import describe

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from core.schema.events import Event
    from core.schema.rank import RankAssignment
    from core.schema.spec import RunSpec
    from core.supervisor.workers import Worker

LAST_WORDS_BYTES = 16 * 1024
LAST_LINE = 300
TRACEBACK = "Traceback (most recent call last):"
RANK = re.compile(r"^\[rank\d+\]:[ ]?", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Job(Protocol):
    """What the supervisor need not know of the processes that it supervises."""

    def prepare(self, names: Mapping[str, str] | None) -> None:
        """Before the first process. `names`: see `core.launchers.local.cuda_names`. Raises `RunError`."""
        raise NotImplementedError

    def launch(self, placement: RankAssignment) -> subprocess.Popen[bytes]:
        """Start one process. Raises `OSError`."""
        raise NotImplementedError

    def has_begun(self, events: Sequence[Event]) -> bool:
        """Whether training is under way, when these are the workers' latest events."""
        raise NotImplementedError

    def read(self) -> list[Event]:
        """What was measured since the last call, besides what the workers tell."""
        raise NotImplementedError

    def trouble(self) -> str | None:
        """What keeps measurements from being read while training goes on: a sentence, told once."""
        raise NotImplementedError

    def settle(self) -> str | None:
        """All processes have ended: what they left to be read is read. A sentence where that could not be done."""
        raise NotImplementedError

    def failure(self, member: Worker) -> tuple[str, str | None]:
        """How one failed, in a sentence, and its traceback, where there is one."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything."""
        raise NotImplementedError


def job(spec: RunSpec, run_dir: Path, *, let_go: Iterable[int], umask: int) -> Job:
    """For this run. `let_go`: see `Collecting`; call it before any thread is started. `umask`: of who began the run."""
    if spec.script is None:
        return RecipeJob(spec, run_dir)
    return ScriptJob(spec, Launcher(spec, run_dir, umask), MetricsProcess(run_dir, spec, close_fds=let_go), run_dir)


class RecipeJob:
    """Workers of ours, which tell by themselves what happens."""

    def __init__(self, spec: RunSpec, run_dir: Path) -> None:
        self._spec, self._run_dir = spec, run_dir
        self._names: Mapping[str, str] | None = None

    def prepare(self, names: Mapping[str, str] | None) -> None:
        """See `Job`."""
        self._names = names

    def launch(self, placement: RankAssignment) -> subprocess.Popen[bytes]:
        """See `Job`."""
        return local.launch(self._spec, self._run_dir, placement, self._names)

    def has_begun(self, events: Sequence[Event]) -> bool:
        """Once a worker is ready for its first step."""
        return any(event["kind"] == "ready" for event in events)

    def read(self) -> list[Event]:
        """Nothing."""
        return []

    def trouble(self) -> str | None:
        """Nothing."""
        return None

    def settle(self) -> str | None:
        """Nothing."""
        return None

    def failure(self, member: Worker) -> tuple[str, str | None]:
        """What it said."""
        return describe(member), (member.error or {}).get("traceback")

    def close(self) -> None:
        """Nothing."""


class ScriptJob:
    """A program of the user's own: what it prints and writes is read by a process beside it."""

    def __init__(self, spec: RunSpec, launcher: Launcher, collecting: MetricsProcess, run_dir: Path) -> None:
        assert spec.script is not None
        self._name, self._run_dir, self._collecting = spec.script.name, run_dir, collecting
        self._launcher = launcher
        self._told = False

    def prepare(self, names: Mapping[str, str] | None) -> None:
        """Also wait until the reader has seen which files there are: what they hold by now is not of this run."""
        self._launcher.names = names
        if not self._collecting.wait():
            raise RunError("The process that reads measurements did not come up. Start the run again.")

    def launch(self, placement: RankAssignment) -> subprocess.Popen[bytes]:
        """See `Job`."""
        return self._launcher.launch(placement)

    def has_begun(self, events: Sequence[Event]) -> bool:  # noqa: ARG002 (they tell nothing)
        """From the first moment: when it is ready for its first step, only the script could tell."""
        return True

    def read(self) -> list[Event]:
        """What was measured."""
        return self._collecting.read()

    def trouble(self) -> str | None:
        """Its reader was killed."""
        if self._told or not self._collecting.gone:
            return None
        self._told = True
        return (
            "The process that reads measurements from what the script prints has ended, so the curves stand still. "
            "The script goes on, and its log is whole."
        )

    def settle(self) -> str | None:
        """What was printed last is read, too."""
        return self._collecting.finish()

    def failure(self, member: Worker) -> tuple[str, str | None]:
        """Its exit code, and the error at the end of what it printed, or the last that it printed."""
        printed = as_printed(end_of(log_of_rank(self._run_dir, member.placement.rank), LAST_WORDS_BYTES))
        trace = last_traceback(printed)
        if (member.exit_code or 0) <= 0:
            return describe(member), trace
        which = f" ({member.name})" if member.placement.world_size > 1 else ""
        error = (trace or "").rstrip().rpartition("\n")[2].strip().rstrip(".")
        last = printed.rstrip().rpartition("\n")[2].strip()[:LAST_LINE].rstrip(".")
        why = f": {error}." if error else f". It printed last: {last}." if last else ", and printed nothing."
        return f"{self._name}{which} ended with exit code {member.exit_code}{why}", trace

    def close(self) -> None:
        """End the reader."""
        self._collecting.close()


def as_printed(text: str) -> str:
    """What stands on a terminal when this was printed: no colours, and of lines that are written over the last.

    Without the `[rank1]: ` that PyTorch puts before each line of an error's traceback.
    """
    text = RANK.sub("", COLOURS.sub("", text))
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def last_traceback(text: str) -> str | None:
    """The traceback with which a Python program ended, if that is how its output ends; None if not."""
    _, heading, after = text.rpartition(TRACEBACK)
    lines = after.splitlines()
    body = [number for number, line in enumerate(lines) if line.startswith("  ")]
    if not heading or not body or body[-1] + 1 >= len(lines):
        return None
    return "\n".join([heading, *lines[1:]]) + "\n"
