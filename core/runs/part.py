"""The part of a run of another machine: a run directory here, in which some of the ranks train.

The other machine, the head, has the run itself. It starts the part through the agent, follows its files, and removes
it. While it follows, the agent holds a lock on a file of the part. A supervisor whose part has not been held for
`grace_s` seconds ends it: the head is gone, and the other ranks with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.schema.files import open_to_append, read_json, write_whole
from core.schema.paths import KEPT_FILE, PART_FILE
from core.schema.rank import RankAssignment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GRACE_S = 60.0
"""Default time for which a part trains on without its head, in seconds."""
MAX_GRACE_S = 3600.0
MISSING = "missing"
UNREADABLE = "unreadable"
"""Why a part cannot use a path."""
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which ranks of which run train here."""

    head: str
    """The name of the machine that has the run."""
    run: str
    """The id of the run there."""
    assignments: tuple[RankAssignment, ...]
    grace_s: float = GRACE_S

    def to_json(self) -> dict[str, Any]:
        """Return the content of `part.json`."""
        return {
            "head": self.head, "run": self.run, "grace_s": self.grace_s,
            "assignments": [each.to_text() for each in self.assignments],
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> Part:  # noqa: ANN401 (JSON)
        """Return what `to_json` gave. Raises `ValueError` for anything else."""
        try:
            grace_s = data["grace_s"]
            if not isinstance(grace_s, (int, float)) or not 0 <= grace_s <= MAX_GRACE_S:
                raise ValueError
            texts = [data["head"], data["run"]]
            if not all(isinstance(each, str) and each.isprintable() for each in texts):
                raise ValueError
            assignments = tuple(RankAssignment.from_text(each) for each in data["assignments"])
        except (LookupError, TypeError) as error:
            raise ValueError from error
        if not assignments:
            raise ValueError
        return cls(head=texts[0], run=texts[1], assignments=assignments, grace_s=float(grace_s))


def write_part(run_dir: Path, part: Part) -> None:
    """Write `part.json`, and make the file that is locked. Raises `OSError`."""
    os.close(open_to_append(run_dir / KEPT_FILE))
    write_whole(run_dir / PART_FILE, json.dumps(part.to_json(), indent=1) + "\n")


def read_part(run_dir: Path) -> Part | None:
    """Return which ranks train in this run directory; None for a run that is no part. Raises `ValueError`."""
    try:
        return Part.from_json(read_json(run_dir / PART_FILE, MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error


@contextlib.contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Hold a part for as long as the block lasts, or this process lives. Raises `OSError`."""
    handle = open_to_append(run_dir / KEPT_FILE)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


class KeptWatch:
    """Notices that nothing holds a part any more."""

    def __init__(self, run_dir: Path, grace_s: float) -> None:
        self._path, self._grace_s = run_dir / KEPT_FILE, grace_s
        self._held_at = time.monotonic()

    @property
    def is_left(self) -> bool:
        """Whether nothing has held the part for its grace time."""
        if self._is_held():
            self._held_at = time.monotonic()
            return False
        return time.monotonic() - self._held_at > self._grace_s

    def _is_held(self) -> bool:
        try:
            handle = open_to_append(self._path)
        except OSError:  # the folder was removed, which the supervisor notices by itself
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False
