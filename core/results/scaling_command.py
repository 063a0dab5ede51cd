"""Start and stop the command that makes the runs of a scaling table; delete a table, on request with its runs.

The command goes on without the window that has started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from core.config import builds, validation
from core.config.finding import problems_of
from core.devices.device import Device
from core.errors import RunError
from core.history import removal
from core.history.index import is_run
from core.history.removal import Removed
from core.history.summary import present_facts
from core.language import join_sentences, tr
from core.results.scaling_record import ScalingRecord, read_record
from core.runs.facts import state_info
from core.runs.owners import owner_of_file
from core.system import processes
from core.system.logout import start_in_background
from core.system.own_processes import own_command
from core.text import first_names, join_names

WAIT_S, LOOK_S = 10.0, 0.05
"""Seconds to wait for the command until it makes the runs, and between two looks."""


def begin(record: ScalingRecord, devices: Sequence[Device]) -> None:
    """Write the record of a new table and start its command. `devices`: all devices of this machine.

    Raises `ValueError` with sentences on what keeps a training from starting; otherwise as `launch`.
    """
    for spec in reversed(record.specs):  # what the largest lacks, the others may lack, too
        problems = [*map(str, validation.problems(spec, devices)), *problems_of(builds.judge(spec, devices))]
        found = [*validation.recipe_problems(spec), *problems]
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


# -- deletion -------------------------------------------------------------------------------------


def own_runs(record: ScalingRecord) -> list[Path]:
    """Return the folders of all runs that were made for a table and still exist, also those that do not count.

    A run of another user than that of the record is left out: anybody could name it there.
    """
    folders = [record.root / name for name in dict.fromkeys(each.run for each in record.runs)]
    try:
        owner = record.path.stat().st_uid
        return [each for each in folders if is_run(each) and each.lstat().st_uid == owner]
    except OSError:  # it vanishes now
        return []


def why_not(record: ScalingRecord) -> str:
    """Return why a table cannot be deleted now; the empty string if it can."""
    owner = owner_of_file(record.path)
    if owner and os.geteuid() != 0:
        return tr("The scaling table {name} belongs to {owner}, who alone can delete it.",
                  name=record.name, owner=owner)
    if record.is_measured:
        return tr("The scaling table {name} is being measured, so it was not deleted. Stop the measuring first.",
                  name=record.name)
    if record.measured_by is not None and record.host.host != processes.here().host:
        return tr(
            "The scaling table {name} may be measured on the machine {host}, so it was not deleted. Delete it there.",
            name=record.name, host=record.host.host,
        )
    if live := [each.name for each in own_runs(record) if not state_info(present_facts(each).state).over]:
        return tr(
            "The scaling table {name} was not deleted, since a run of it goes on: {runs}. Stop it first.",
            name=record.name, runs=join_names(first_names(live)),
        )
    return ""


def delete(root: Path, name: str, *, with_runs: bool) -> Removed:
    """Delete a table unless `why_not` has an objection. `with_runs`: its runs, too.

    If a run cannot be deleted, the table stays, so that it can be deleted again.
    """
    try:
        record = read_record(root, name)  # as it is now: it may be measured since
    except ValueError as error:
        return Removed(freed_bytes=0, problem=str(error))
    if problem := why_not(record):
        return Removed(freed_bytes=0, problem=problem)
    removed = [removal.remove(each) for each in own_runs(record)] if with_runs else []
    freed = sum(each.freed_bytes for each in removed)
    problems = [each.problem for each in removed if each.problem]
    if not problems:
        try:
            record.path.unlink(missing_ok=True)
        except OSError as error:
            problems = [tr("The file {path} of the scaling table stays, since it cannot be deleted: {strerror}.",
                           path=record.path, strerror=error.strerror)]
    return Removed(freed_bytes=freed, problem=join_sentences(problems))
