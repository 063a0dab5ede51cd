"""What was asked of the queue for one run: `queue.json` in its folder."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.language import tr
from core.queue.decision import shown_name
from core.runs.directory import MAX_WORKLOAD_BYTES, workload_file
from core.schema.codec import Sentence, decode, encode
from core.schema.files import read_json, read_whole, write_whole
from core.schema.paths import QUEUE_FILE
from core.schema.spec import RunSpec

MAX_BYTES = 64 * 1024
IF_CHANGED = ("hold", "recorded", "current")
"""What to do at the start if the recipe or script has changed: hold the run, or train one or the other."""
AFTER = ("end", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRequest:
    """What was asked of the queue. The devices that a run needs exactly are those of its spec."""

    any_of: tuple[str, ...] = ()
    """Devices of which any will do, `count` of them; empty if the run needs those of its spec."""
    count: int = 0
    free_memory_bytes: int | None = None
    """Memory that must be free on each device; then other programs may use the rest."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of the devices as their user knows them."""
    priority: int = 0
    order: float = field(default_factory=time.time)
    """Its place among runs of equal priority; unix seconds at which it was queued, unless it was moved."""
    after: str = ""
    """The folder of a run whose end it waits for."""
    after_mode: str = "end"
    """`end` for any end of that run; `ok` if it must have finished."""
    not_before: float | None = None
    """Unix seconds before which it does not start."""
    requeue: bool = False
    """Whether it goes on from its last checkpoint after a reboot."""
    at_once: bool = False
    """Whether it starts now, beside the runs that use its devices."""
    held: bool = False
    why_held: Sentence = ""
    """A sentence unless its user held it."""
    workload_hash: str = ""
    """The hash of the recipe or script, as it was queued; empty if it could not be read."""
    if_changed: str = "hold"
    sweep: str = ""
    """As in the spec."""

    def __post_init__(self) -> None:
        if self.if_changed not in IF_CHANGED or self.after_mode not in AFTER or not 0 <= self.count <= len(self.any_of):
            raise ValueError(self)

    def ticket(self, spec: RunSpec) -> dict[str, Any]:
        """Return the fields of the ticket of the waiting run; see `core.queue.decision.Ticket`."""
        wanted = {"any": self.count, "among": list(self.any_of)} if self.count else {"devices": list(spec.devices)}
        return {
            "state": "waiting", "name": shown_name(spec.name), **wanted, "labels": dict(self.labels),
            "priority": self.priority, "order": self.order, "since": time.time(), "held": self.held,
            "not_before": self.not_before, "after": shown_name(self.after.rpartition("/")[2]),
            "limit_s": spec.time_limit_s,
        }


def read_request(run_dir: Path) -> QueueRequest | None:
    """Return what was asked of the queue for a run; None if nothing was. Raises `ValueError` with a sentence."""
    path = run_dir / QUEUE_FILE
    try:
        return decode(QueueRequest, read_json(path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(
            tr("{path} is not a valid request to the queue. Stop the run, and queue another.", path=path)
        ) from error


def write_request(run_dir: Path, request: QueueRequest) -> None:
    """Write what is asked of the queue. Raises `OSError`."""
    write_whole(run_dir / QUEUE_FILE, json.dumps(encode(request), indent=1) + "\n")


def change_request(run_dir: Path, **changes: Any) -> QueueRequest:  # noqa: ANN401 (fields of different types)
    """Change what is asked of the queue for a run; return it. Raises `ValueError` or `OSError`."""
    request = read_request(run_dir)
    if request is None:
        raise ValueError(tr("Run {run} was not put into the queue.", run=run_dir.name))
    request = replace(request, **changes)
    write_request(run_dir, request)
    return request


def hash_of(spec: RunSpec) -> str:
    """Return the SHA-256 of the recipe or script; the empty string if it cannot be read, or is a module."""
    path = workload_file(spec)
    try:
        text = None if path is None else read_whole(path, MAX_WORKLOAD_BYTES, follow_link=True)
    except OSError:
        return ""
    return "" if text is None else hashlib.sha256(text).hexdigest()
