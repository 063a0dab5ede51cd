"""Start the command that makes the runs of a scaling table, so that it goes on without its window, and stop it."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from core.errors import RunError
from core.language import tr
from core.system import processes
from core.system.own_processes import own_command, start_in_background

if TYPE_CHECKING:
    from core.scaling.record import ScalingRecord
    from core.system.processes import ProcessId


def launch(record: ScalingRecord) -> ProcessId | None:
    """Start the command that makes the missing runs of a table; return None if it has exited already.

    Raises `RunError` with a sentence if it cannot be started. What keeps it from going on is in the record's `note`.
    """
    # With --json it speaks English, as everything does that is stored.
    words = own_command("core.cli", "scale", "--resume", record.name, "--runs", str(record.root.resolve()), "--json")
    try:
        return start_in_background(words, subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RunError(tr("The measuring could not be started: {error}.", error=error)) from error


def stop(record: ScalingRecord) -> bool:
    """Stop the run that is made now, and let nothing more be started. Return False if no command of here makes any."""
    if not record.is_measured or record.measured_by is None:
        return False
    return processes.send(record.measured_by, signal.SIGINT)
