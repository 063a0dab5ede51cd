"""What an agent says of its runs, checked field by field. Nothing that arrives is trusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.hosts.run_files import MAX_FILES, is_run_name, travels
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

    identity: str = ""
    """Identifies its folder there, also after it was renamed."""
    live: bool = False
    lost: str = ""
    stopped: str = ""
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
    if not isinstance(item, dict) or not isinstance(item.get("runs"), dict) or not isinstance(item.get("gone"), list):
        raise ValueError  # noqa: TRY004 (what the other side wrote)
    names = [*item["runs"], *item["gone"]]
    if not all(is_run_name(name) for name in names):
        raise ValueError
    return Listing(
        runs={name: _entry(found) for name, found in item["runs"].items()},
        gone=tuple(item["gone"]),
        complete=item.get("complete") is True,
    )


def _entry(found: Any) -> RunEntry:  # noqa: ANN401 (JSON)
    if not isinstance(found, dict) or not isinstance(found.get("files"), dict) or len(found["files"]) > MAX_FILES:
        raise ValueError
    return RunEntry(
        identity=_text(found, "id"),
        live=found.get("live") is True,
        lost=_text(found, "lost"),
        stopped=_text(found, "stopped"),
        owner=_text(found, "owner"),
        files={_file(name): file_state(state) for name, state in found["files"].items()},
    )


def _file(name: str) -> str:
    if not travels(name):
        raise ValueError(name)
    return name


def file_state(found: Any) -> FileState:  # noqa: ANN401 (JSON)
    """Return size and time of a file. Raises `ValueError` for anything else."""
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError
    size, mtime = found
    # Times that no file system has would fail where they are set.
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in found) or not 0 <= size < 2**62:
        raise ValueError
    return size, min(max(mtime, 0), 2**62)


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 (what the other side wrote)
    lines = value[:MAX_TEXT].split("\n")  # the end of a log has several
    return "\n".join(replace_control_characters(line) for line in lines)
