"""The part of a run of another machine: a run directory here, in which some of the ranks train.

The other machine, the head, has the run itself. It starts the part through the agent, follows its files, and removes
it (`core.hosts.parts.head`).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from core.schema.codec import decode, encode
from core.schema.files import open_to_append, read_json, write_whole
from core.schema.paths import KEPT_FILE, PART_FILE
from core.schema.rank import RankAssignment

GRACE_S = 60.0
"""Default time for which a part trains on without its head, in seconds."""
MAX_GRACE_S = 3600.0
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

    def __post_init__(self) -> None:
        for name in ("head", "run"):
            if not getattr(self, name).isprintable():
                raise ValueError(name)
        if not 0 <= self.grace_s <= MAX_GRACE_S:
            raise ValueError("grace_s")
        if not self.assignments:
            raise ValueError("assignments")


def write_part(run_dir: Path, part: Part) -> None:
    """Write `part.json`, and make the file that is locked. Raises `OSError`."""
    os.close(open_to_append(run_dir / KEPT_FILE))
    write_whole(run_dir / PART_FILE, json.dumps(encode(part), indent=1) + "\n")


def read_part(run_dir: Path) -> Part | None:
    """Return which ranks train in this run directory; None for a run that is no part. Raises `ValueError`."""
    try:
        return decode(Part, read_json(run_dir / PART_FILE, MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(str(error)) from error
