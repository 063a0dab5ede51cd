"""Start the process that sends a notification. Supervisor and guard never wait for it."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Literal

from core.language import tr
from core.notifications.channels import bus_address
from core.notifications.settings import load
from core.supervisor.companion import Companion
from core.system.own_processes import NOTIFIER, own_command, start_in_background

Event = Literal["ended", "stalled", "lost"]
"""What has happened: the run has ended, it makes no progress, or its supervisor has disappeared."""


class Notifier(Companion):
    """Sends the notifications of a run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def stalled(self) -> None:
        """See `Companion`."""
        self._notify("stalled")

    def ended(self) -> None:
        """See `Companion`."""
        self._notify("ended")

    def lost(self) -> None:
        """See `Companion`."""
        self._notify("lost")

    def _notify(self, what: Event) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the run's folder is gone
            notify(self._run_dir, what)


def notify(run_dir: Path, what: Event) -> None:
    """Start the process, unless nothing is set that could reach the user. Returns at once.

    If it cannot be started, this is recorded in the run.
    """
    loaded = load()
    can_reach = loaded.settings.has_addresses or (loaded.settings.desktop and bus_address())
    if not can_reach and not loaded.problem:
        return
    try:
        start_in_background(own_command(NOTIFIER, str(run_dir.resolve()), what), subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        from core.notifications.delivery import record  # imported here: most runs need none of its channels

        why = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
        record(run_dir, [tr("The process that sends notifications could not be started: {why}.", why=why)])
