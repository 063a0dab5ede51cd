"""Start the command that makes the runs of a scaling table, so that it goes on without its window, and stop it."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

from core.config import validation
from core.errors import RunError
from core.language import join_sentences, tr
from core.scaling.record import read_record
from core.system import processes
from core.system.own_processes import own_command, start_in_background

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.devices.device import Device
    from core.scaling.record import ScalingRecord


WAIT_S, LOOK_S = 10.0, 0.05
"""Seconds to wait for the command until it makes the runs, and between two looks."""


def begin(record: ScalingRecord, devices: Sequence[Device]) -> None:
    """Write the record of a new table and start its command. `devices`: all devices of this machine.

    Raises `ValueError` with sentences on what keeps a training from starting; otherwise as `launch`.
    """
    for spec in reversed(record.specs):  # what the largest lacks, the others may lack, too
        found = [*validation.recipe_problems(spec), *map(str, validation.problems(spec, devices))]
        if found:
            raise ValueError(join_sentences(dict.fromkeys(found)))
    launch(record.saved())


def launch(record: ScalingRecord) -> None:
    """Start the command that makes the missing runs of a table, and wait until it does so, or has ended.

    Raises `RunError` with a sentence if it cannot be started, and `ValueError` if the record cannot be read, or is not
    this user's or this machine's. What keeps the command from going on is in the record's `note`.
    """
    record.check_takeable()
    # With --json it speaks English, as everything does that is stored.
    words = own_command("core.cli", "scale", "--resume", record.name, "--runs", str(record.root.resolve()), "--json")
    try:
        command = start_in_background(words, subprocess.DEVNULL, survives_logout=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RunError(tr("The measuring could not be started: {error}.", error=error)) from error
    until = time.monotonic() + WAIT_S
    while command is not None and processes.is_alive(command) and time.monotonic() < until:
        if read_record(record.root, record.name).measured_by == command:
            break
        time.sleep(LOOK_S)


def stop(record: ScalingRecord) -> bool:
    """Stop the run that is made now, and let nothing more be started. Return False if no command of here makes any."""
    if not record.is_measured or record.measured_by is None:
        return False
    return processes.send(record.measured_by, signal.SIGINT)
