"""What a queued run trains when its turn has come: whether the recipe or script has changed, and on which devices."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from core.language import tr_noop
from core.queue.request import change_request, read_request
from core.runs.workload_text import MAX_BYTES, keep_workload, workload_file
from core.schema.files import is_regular, read_whole
from core.schema.paths import WORKLOAD_FILE
from core.schema.spec import read_spec, write_spec
from core.system.own_processes import QUEUE, own_command

if TYPE_CHECKING:
    from pathlib import Path

    from core.queue.claims import Claims
    from core.queue.request import QueueRequest
    from core.schema.spec import RunSpec

CHANGED = tr_noop(
    "{file} has changed since the run was queued. Start what was queued with "
    "`trainyard queue release {run} --recorded`, or the file as it is with `trainyard queue release {run} --current`."
)
NOT_RECORDED = tr_noop(
    "{file} has changed since the run was queued, and it cannot be run from a copy. Start it as it is now with "
    "`trainyard queue release {run} --current`, or put the old text back."
)
GONE = tr_noop(
    "{file} is gone since the run was queued. Put it back, or start what was queued with "
    "`trainyard queue release {run} --recorded`."
)


def hash_of(spec: RunSpec) -> str:
    """Return the SHA-256 of the recipe or script; the empty string if it cannot be read, or is a module."""
    path = workload_file(spec)
    try:
        return "" if path is None else hashlib.sha256(read_whole(path, MAX_BYTES, follow_link=True)).hexdigest()
    except OSError:
        return ""


def change(run_dir: Path, spec: RunSpec, request: QueueRequest) -> str:
    """Return that the recipe or script has changed since it was queued; the empty string if it has not."""
    path, now = workload_file(spec), hash_of(spec)
    if path is None or not request.workload_hash or now == request.workload_hash:
        return ""
    sentence = (CHANGED if now else GONE) if _is_recorded(run_dir, path) else NOT_RECORDED
    return sentence.format(file=path, run=run_dir.name)


def _is_recorded(run_dir: Path, path: Path) -> bool:
    """Return whether there is a copy that can be run in place of the file: not of a notebook, or of a folder."""
    return path.suffix == ".py" and path.name != "__main__.py" and is_regular(run_dir / WORKLOAD_FILE)


def as_chosen(run_dir: Path, spec: RunSpec, request: QueueRequest) -> RunSpec:
    """Return the spec of a run whose recipe or script has changed, as its user has chosen. Raises `OSError`."""
    if request.if_changed == "recorded":
        return replace(spec, recorded=True)
    keep_workload(run_dir, spec)
    return spec


def spec_to_start(run_dir: Path, claims: Claims) -> RunSpec:
    """Return the spec of a queued run whose devices are claimed, which become those of the spec.

    If the recipe or script has changed and nothing says what to do then, the run is held, and this process waits again.
    Raises `ValueError` or `OSError`.
    """
    spec, request = read_spec(run_dir), read_request(run_dir)
    new = replace(spec, devices=claims.devices) if {*spec.devices} != {*claims.devices} else spec
    if request is not None and (why := change(run_dir, new, request)):
        path = workload_file(new)
        cannot = request.if_changed == "recorded" and (path is None or not _is_recorded(run_dir, path))
        if request.if_changed == "hold" or cannot:
            change_request(run_dir, held=True, why_held=why, at_once=False)
            claims.release()
            command = own_command(QUEUE, str(run_dir), "enter")
            os.execv(command[0], command)  # noqa: S606
        new = as_chosen(run_dir, new, request)
    if request is not None and request.at_once:
        change_request(run_dir, at_once=False)  # after a reboot it waits for its devices again
    if new != spec:
        write_spec(run_dir, new)
    return new
