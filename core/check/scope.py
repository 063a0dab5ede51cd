"""Make the scope of a check: its devices, and the lock that keeps two checks from computing at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.check.check import Scope
from core.check.driver import Driver
from core.devices.device import Survey
from core.errors import RunError
from core.history.device_use import devices_in_use, sharing_sentence
from core.language import tr
from core.system.folders import cache_folder, make_cache_folder

LOCK = "check.lock"
CPU_DEVICES = 2
"""Devices that are checked where there is no GPU."""


@contextlib.contextmanager
def scope_of(survey: Survey, ids: Sequence[str], *, computes: bool) -> Iterator[Scope]:
    """Yield a scope; what its checks have started is ended afterwards. `ids`: the devices; empty for the usual ones.

    `computes`: whether devices are used. Raises `ValueError` with a sentence for an unknown device.
    """
    known = {device.id: device for device in survey.devices}
    if unknown := [each for each in ids if each not in known]:
        raise ValueError(tr("There is no device {unknown} here; `trainyard devices` lists them.",
                            unknown=", ".join(unknown)))
    gpus = [device for device in survey.devices if device.kind == "nvidia"]
    chosen = [known[each] for each in ids] or gpus or list(survey.devices[:CPU_DEVICES])
    if len({device.kind for device in chosen}) > 1:
        raise ValueError(tr("Name devices of one kind: GPUs, or CPU devices."))
    scope = Scope(survey=survey, devices=tuple(chosen), driver=Driver())
    with scope.stack:
        scope.stack.callback(scope.driver.close)
        if computes and not _locked(scope):
            scope.busy = tr("another check is computing; check again when it has ended")
        yield scope


def leave_out_work(scope: Scope, runs: Path) -> str | None:
    """Have nothing compute on devices that a run or another large program uses; return who does, as a sentence."""
    sharing = sharing_sentence(scope.devices, devices_in_use(scope.survey, runs))
    if sharing is not None and not scope.busy:
        scope.busy = tr("left out, since something else uses the devices")
    return sharing


def _locked(scope: Scope) -> bool:
    """Keep other checks of this user from computing until the scope ends. Return False if one does so."""
    try:
        make_cache_folder(cache_folder())
        handle = os.open(cache_folder() / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, RunError):
        return True  # a folder that cannot be written must not keep anybody from checking
    scope.stack.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
