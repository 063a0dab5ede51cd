"""What the processes of a run print: one file for all that train a recipe, one for each rank of a script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.schema.paths import LOG_FILE, RANK_LOGS

if TYPE_CHECKING:
    from pathlib import Path


def printed_logs(run_dir: Path) -> list[Path]:
    """Those of all ranks in which something stands."""
    ranks = sorted(run_dir.glob(RANK_LOGS), key=lambda path: (len(path.name), path.name))
    return [path for path in (run_dir / LOG_FILE, *ranks) if path.is_file() and path.stat().st_size]


def end_of(path: Path, max_bytes: int) -> str:
    """The last lines of a file: whole ones, but for a single one that is longer than all this. None is no error."""
    try:
        with path.open("rb") as file:
            begin = max(0, file.seek(0, 2) - max_bytes)
            file.seek(max(0, begin - 1))  # with the byte before: what begins after a newline is a whole line
            text = file.read(max_bytes + 1)
    except OSError:
        return ""
    if begin:
        _, newline, rest = text.partition(b"\n")
        text = rest if newline and rest.strip() else text[1:]
    return text.decode(errors="replace")
