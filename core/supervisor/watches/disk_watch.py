"""Notice that the disk of a run is full, and name it. A script may fill it with its output without an error."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from core.language import tr
from core.schema.paths import EVENTS, RESERVE
from core.system.mounts import mount_of

if TYPE_CHECKING:
    from pathlib import Path


class DiskWatch:
    """Remembers when the disk of a run directory was first seen full."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._reserve = run_dir, run_dir / EVENTS / RESERVE
        self._sentence = ""

    def poll(self) -> str:
        """Return in a sentence which disk was full when; the empty string if it was not."""
        if not self._sentence and self._is_full():
            mount = mount_of(self._run_dir)
            disk = (
                tr("The disk of {run_dir}", run_dir=self._run_dir)
                if mount is None
                else tr("The disk at {point} ({kind})", point=mount.point, kind=mount.kind)
            )
            self._sentence = tr("{disk} was full at {time}.", disk=disk, time=time.strftime("%H:%M:%S"))
        return self._sentence

    def _is_full(self) -> bool:
        """Return whether there is no room, or a process of the run had to use its reserve since there was none."""
        try:
            found = os.statvfs(self._run_dir)
        except OSError:
            return False
        free = found.f_bfree if os.geteuid() == 0 else found.f_bavail  # some blocks are kept for root
        return (free == 0 and found.f_blocks > 0) or not self._reserve.exists()
