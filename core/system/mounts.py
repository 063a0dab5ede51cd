"""Find the mounted file system of a path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from core.system.procfs import PROC

if TYPE_CHECKING:
    from pathlib import Path


class Mount(NamedTuple):
    """A mounted file system."""

    point: str
    """The folder where it is mounted."""
    kind: str
    """Its type, such as `ext4` or `nfs4`."""


def mount_of(path: Path, proc: Path = PROC) -> Mount | None:
    """Return the file system of a path; None where that cannot be read (see proc(5), `/proc/PID/mountinfo`)."""
    try:
        lines = (proc / "self" / "mountinfo").read_text(errors="surrogateescape").splitlines()
        here = path.resolve()
    except OSError:
        return None
    found = [
        Mount(_plain(before.split()[4]), after.split()[0]) for before, _, after in (x.partition(" - ") for x in lines)
    ]
    above = [each for each in found if here.is_relative_to(each.point)]
    return max(reversed(above), key=lambda each: len(each.point), default=None)  # the last of several at one point


def _plain(field: str) -> str:
    """Return a field without the octal escapes of spaces and the like."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)
