"""Which files of a run travel from an agent to a copy, and which names they and their runs may have.

Both sides check every name: nothing outside of the folder of runs is read there, or written here.
"""

from __future__ import annotations

import hashlib
import re

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
    SPEC_FILE,
    SUPERVISOR_EVENTS,
    WORKLOAD_FILE,
)

WHOLE = frozenset({SPEC_FILE, NAME_FILE, QUEUE_FILE, RULES_FILE, WORKLOAD_FILE})
"""Files that are replaced as a whole. All others are only appended to."""
SMALL = WHOLE | {
    MARKS_FILE, *(f"{EVENTS}/{name}" for name in (SUPERVISOR_EVENTS, GUARD_EVENTS, NOTIFICATION_EVENTS)),
}  # fmt: skip
"""Files that a list of runs needs. Those with measurements and output are copied after them."""
_LARGE = re.compile(
    rf"{EVENTS}/(?:worker-\d{{1,5}}\.jsonl|{COLLECTOR_EVENTS}|{DEVICE_EVENTS})|log(?:\.\d{{1,5}})?\.txt"
)
MAX_WHOLE_BYTES = 4 * 1024 * 1024
"""Largest file that is replaced as a whole: no reader takes a larger one."""
MAX_FILES = 4096 + 64
"""Files of one run that travel: more than there are ranks."""
TAIL_BYTES = 1024
"""Bytes before an offset by which both sides recognise that a file is still the one that was copied."""
MAX_NAME_BYTES = 255


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
    return hashlib.sha256(data).hexdigest()[:32]
