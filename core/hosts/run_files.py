"""Which files of a run travel from an agent to a copy, their names, and what an agent says of its runs.

Both sides check every name: nothing outside of the folder of runs is read there, or written here.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.language import Message
from core.schema.codec import Limits, Sentence, decode, named, rare
from core.schema.paths import (
    COLLECTOR_EVENTS,
    DEVICE_EVENTS,
    EVENTS,
    GUARD_EVENTS,
    MARKS_FILE,
    NAME_FILE,
    NOTIFICATION_EVENTS,
    QUEUE_FILE,
    RULES_FILE,
    SETTING_EVENTS,
    SPEC_FILE,
    SUPERVISOR_EVENTS,
    WORKLOAD_FILE,
)
from core.text import replace_control_characters

WHOLE = frozenset({SPEC_FILE, NAME_FILE, QUEUE_FILE, RULES_FILE, WORKLOAD_FILE})
"""Files that are replaced as a whole. All others are only appended to."""
SMALL = WHOLE | {
    MARKS_FILE, *(f"{EVENTS}/{name}" for name in (SUPERVISOR_EVENTS, GUARD_EVENTS, NOTIFICATION_EVENTS)),
}
"""Files that a list of runs needs. Those with measurements and output are copied after them."""
_LARGE = re.compile(
    rf"{EVENTS}/(?:worker-\d{{1,5}}\.jsonl|{COLLECTOR_EVENTS}|{DEVICE_EVENTS}|{SETTING_EVENTS})|log(?:\.\d{{1,5}})?\.txt"
)
MAX_WHOLE_BYTES = 4 * 1024 * 1024
"""Largest file that is replaced as a whole: no reader takes a larger one."""
MAX_PART_BYTES = 1024 * 1024
"""Bytes of one part after it was unpacked: more than an agent sends."""
MAX_FILES = 4096 + 64
"""Files of one run that travel: more than there are ranks."""
TAIL_BYTES = 1024
"""Bytes before an offset by which both sides recognise that a file is still the one that was copied."""
MAX_NAME_BYTES = 255
MAX_TEXT = 4000
"""Characters of a sentence that are kept."""

FileState = tuple[int, int]
"""Size in bytes, and modification time in nanoseconds."""


def travels(name: str) -> bool:
    """Return whether a file of a run travels. `name`: relative to its folder."""
    return name in SMALL or _LARGE.fullmatch(name) is not None


def is_run_name(name: object) -> bool:
    """Return whether this can be the name of the folder of a run: one part of a path, without control characters."""
    return (
        isinstance(name, str)
        and bool(name)
        and name[0] != "."
        and "/" not in name
        and name.isprintable()
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES
    )


def tail_hash(data: bytes) -> str:
    """Return by what the end of a copied part is recognised. `data`: the `TAIL_BYTES` before the offset, or fewer."""
    return hashlib.sha256(data).hexdigest()[:32] if data else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """One run of the host."""

    identity: str = field(default="", metadata=named("id"))
    """Identifies its folder there, also after it was renamed."""
    live: bool = False
    lost: Sentence = rare(default="")  # noqa: RUF009 (as `field`)
    stopped: Sentence = rare(default="")  # noqa: RUF009
    owner: str = rare(default="")
    files: Mapping[str, FileState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """An item of the stream of runs."""

    runs: Mapping[str, RunEntry]
    gone: tuple[str, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """The bytes of a file from an offset on."""

    size: int = 0
    """Of the whole file, in bytes."""
    mtime: int = 0
    """When the file was changed, in unix nanoseconds."""
    data: str = ""
    """The bytes as Base64 of what zlib has compressed; see `unpacked`."""
    changed: bool = False
    """Whether the file is another one before the offset; then there is no part."""
    error: str = ""
    """Why the file cannot be read; the empty string if it can."""

    @staticmethod
    def packed(size: int, mtime: int, data: bytes) -> FilePart:
        """Return a part with these bytes."""
        return FilePart(size=size, mtime=mtime, data=base64.b64encode(zlib.compress(data, 1)).decode("ascii"))

    def unpacked(self) -> bytes:
        """Return the bytes. Raises `ValueError` for what are none, and for more than `MAX_PART_BYTES`."""
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(base64.b64decode(self.data, validate=True), MAX_PART_BYTES)
        except zlib.error as error:
            raise ValueError("data") from error
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise ValueError("data")
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class FileParts:
    """The answer to `read`: parts of the files that were asked for, in their order; not always of all."""

    parts: tuple[FilePart, ...]


def unpack_parts(found: Any, most: int) -> tuple[FilePart, ...]:  # noqa: ANN401 (JSON)
    """Return the parts of an answer to `read`, at most `most`. Raises `ValueError` for anything else."""
    parts = decode(FileParts, found).parts
    if not 0 < len(parts) <= most:
        raise ValueError("parts")
    return parts


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
        owner=_printable(entry.owner), files={name: file_state(*state) for name, state in entry.files.items()},
    )


def file_state(size: int, mtime: int) -> FileState:
    """Return size and time of a file. Raises `ValueError` for a size that no file has."""
    if not 0 <= size < 2**62:
        raise ValueError("files")
    # Times that no file system has would fail where they are set.
    return size, min(max(mtime, 0), 2**62)


def _safe(message: str) -> str:
    is_safe = all(text == _printable(text) for text in Message.read(message).texts())
    return message if is_safe else _printable(message)


def _printable(text: str) -> str:
    return "\n".join(map(replace_control_characters, text.split("\n")))  # the end of a log has several lines
