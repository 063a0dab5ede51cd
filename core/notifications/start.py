"""Start the process that sends a notification. Supervisor and guard never wait for it."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from core.language import tr
from core.notifications.channels import bus_address
from core.notifications.settings import CHANNELS, load
from core.supervisor.companion import Companion
from core.system.own_processes import NOTIFIER, own_command, start_in_background


class Notifier(Companion):
    """Sends the notifications of a run."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def not_finite(self) -> None:
        self.notify("nan")

    def stalled(self) -> None:
        self.notify("stalled")

    def ended(self) -> None:
        self.notify("ended")

    def lost(self) -> None:
        self.notify("lost")

    def notify(self, what: str) -> None:
        """Start the process, unless nothing is set that could reach the user. Returns at once.

        `what`: as the process takes it. If it cannot be started, this is recorded in the run.
        """
        with contextlib.suppress(OSError, RuntimeError):  # the run's folder is gone
            loaded = load()
            are_set = [each.name for each in CHANNELS if getattr(loaded.settings, each.name)]
            can_reach = bus_address() if are_set == ["desktop"] else are_set
            if not can_reach and not loaded.problem:
                return
            try:
                start_in_background(own_command(NOTIFIER, str(self._run_dir.resolve()), what), subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError) as error:
                from core.notifications.delivery import record  # imported here: most runs need none of its channels

                why = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
                text = tr("The process that sends notifications could not be started: {why}.", why=why)
                record(self._run_dir, [text])
