"""Start the process that sends a notification. Supervisor and guard never wait for it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Literal

from core.language import tr_noop
from core.notifications.channels.desktop import bus_address
from core.notifications.delivery import record
from core.notifications.settings import load
from core.system import processes
from core.system.own_processes import NOTIFIER, own_command

if TYPE_CHECKING:
    from pathlib import Path

Event = Literal["ended", "stalled", "lost"]
"""What the process is told: the run ends, it makes no progress, or its supervisor has disappeared."""


def notify(run_dir: Path, what: Event) -> None:
    """Start the process, unless nothing is set that could reach the user. Returns at once.

    A shell starts it in the background, so that no process of Trainyard is its parent. If it cannot be started, this is
    recorded in the run.
    """
    loaded = load()
    can_reach = loaded.settings.has_addresses or (loaded.settings.desktop and bus_address())
    if not can_reach and not loaded.problem:
        return
    # The tag of a run that this run was started from would make it a process of that run.
    environment = {name: text for name, text in os.environ.items() if name not in {processes.TAG, processes.RUN_DIR}}
    try:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *own_command(NOTIFIER, str(run_dir.resolve()), what)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env=environment,
            start_new_session=True, check=False,
        )  # fmt: skip
    except OSError as error:
        text = tr_noop("The process that sends notifications could not be started: {strerror}.")
        record(run_dir, [text.format(strerror=error.strerror)])
