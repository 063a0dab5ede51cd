"""The readings of the last hour in a file of the cache, so that the next window shows them, too."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import time
import zipfile
from typing import TYPE_CHECKING

from core.arrays import np
from core.schema.files import read_whole, write_parts
from core.series.device_readings import HEAT, Slowdown
from core.series.run_series import RunSeries
from core.system.folders import cache_folder, make_cache_folder

if TYPE_CHECKING:
    from pathlib import Path

STEP_S = 3.0
"""Seconds of which one reading is kept: an hour of eight GPUs takes less than a megabyte."""
KEPT_S = 3600.0
MAX_BYTES = 64 * 1024 * 1024
KINDS = ("utilisation", "memory", *HEAT)
"""The readings in the order of `RunSeries.every_reading`."""
SLOWDOWNS = "slowdowns"


def path_of(host: str) -> Path:
    """Return the file of a host; the empty string for this machine. Several machines may have one home."""
    return cache_folder() / f"readings-{host or socket.gethostname()}.npz"


def pack(series: RunSeries) -> bytes:
    """Return readings and slowdowns as the content of the file."""
    arrays = {
        f"{kind} {device}": np.array([each.times, each.values])[:, np.diff(each.times // STEP_S, prepend=-1) > 0]
        for kind, readings in zip(KINDS, series.every_reading, strict=True)
        for device, each in readings.items()
    }
    slowed = {device: [(each.since, each.until, each.words) for each in known]
              for device, known in series.slowdowns.items()}
    arrays[SLOWDOWNS] = np.array(json.dumps(slowed))
    np.savez(file := io.BytesIO(), **arrays)  # type: ignore[arg-type]  # numpy has an option among the names
    return file.getvalue()


def save(path: Path, packed: bytes) -> None:
    """Write the file. Raises `OSError`."""
    make_cache_folder(path.parent)
    write_parts(path, [packed])


def load(path: Path) -> RunSeries | None:
    """Return the readings of the last hour, with a gap after the last ones; None if the file cannot be used."""
    found, now = RunSeries(), time.time()
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile):
        arrays = np.load(io.BytesIO(read_whole(path, MAX_BYTES)))
        for name in set(arrays.files) - {SLOWDOWNS}:
            kind, _, device = name.partition(" ")
            times, values = arrays[name]
            kept = (times > now - KEPT_S) & (times <= now)
            gap_s = min(STEP_S, now - max(times[kept], default=0.0))  # the next reading may come at once
            found.begin(KINDS.index(kind), device, times[kept], values[kept], gap_s)
        for device, known in json.loads(str(arrays[SLOWDOWNS])).items():
            found.slowdowns[device] = [
                Slowdown(since=since, until=until, words=tuple(words), over=True) for since, until, words in known
            ]
        return found
    return None
