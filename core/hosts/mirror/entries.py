"""What an agent says of its runs, checked field by field. Nothing that arrives is trusted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from core.hosts.run_files import MAX_FILES, is_run_name, travels
from core.schema.codec import Limits, Sentence, decode, named
from core.text import replace_control_characters

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 4000
"""Characters of a sentence that are kept."""

FileState = tuple[int, int]
"""Size in bytes, and modification time in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run of the host."""

    identity: str = field(default="", metadata=named("id"))
    """Identifies its folder there, also after it was renamed."""
    live: bool = False
    lost: Sentence = ""
    stopped: Sentence = ""
    owner: str = ""
    files: Mapping[str, FileState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """An item of the stream of runs."""

    runs: Mapping[str, RunEntry]
    gone: tuple[str, ...] = ()
    complete: bool = False


def unpack_listing(item: Any) -> Listing:  # noqa: ANN401 (JSON)
    """Return an item of the stream. Raises `ValueError` for anything else, also for a name that no run can have."""
    listing = decode(Listing, item, Limits(text=MAX_TEXT))
    if not all(map(is_run_name, (*listing.runs, *listing.gone))):
        raise ValueError("runs")
    return replace(listing, runs={name: _checked(found) for name, found in listing.runs.items()})


def _checked(entry: RunEntry) -> RunEntry:
    if len(entry.files) > MAX_FILES or not all(map(travels, entry.files)):
        raise ValueError("files")
    return replace(
        entry, identity=_printable(entry.identity), lost=_safe(entry.lost), stopped=_safe(entry.stopped),
        owner=_printable(entry.owner), files={name: file_state(state) for name, state in entry.files.items()},
    )  # fmt: skip


def file_state(found: Any) -> FileState:  # noqa: ANN401 (JSON)
    """Return size and time of a file. Raises `ValueError` for anything else."""
    if not isinstance(found, (list, tuple)) or [*map(type, found)] != [int, int] or not 0 <= found[0] < 2**62:
        raise ValueError("files")
    # Times that no file system has would fail where they are set.
    return found[0], min(max(found[1], 0), 2**62)


def _safe(message: str) -> str:
    shown = _printable(message)
    return message if shown == message else shown


def _printable(text: str) -> str:
    return "\n".join(map(replace_control_characters, text.split("\n")))  # the end of a log has several lines
