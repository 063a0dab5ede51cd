"""Raise alarms, and start the process that sends a notification. Supervisor and guard never wait for it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Collection, Container, Mapping
from pathlib import Path

from core.devices.device import HEAT, Survey
from core.language import join_sentences, tr
from core.notifications.channels import DISK, GONE, HOT, NAN, STALLED, bus_address
from core.notifications.settings import CHANNELS, load
from core.runs.facts import RunFacts
from core.supervisor.companion import Companion
from core.supervisor.watches import SlowdownWatch
from core.system.logout import start_in_background
from core.system.own_processes import NOTIFIER, own_command
from core.text import BYTES_PER_GB, size

HOT_S, LOOK_S = 30.0, 10.0
"""Seconds for which a driver slows a GPU down at its limit of heat before that is an alarm; between looks at a disk."""
LOW_SHARE, LOW_BYTES, MORE = 0.05, 20 * BYTES_PER_GB, 1.2
"""A disk is nearly full if less than both is free, until so many times as much is."""
Alarms = Mapping[tuple[str, str], str]
"""Sentences, by occasion and what they are about: a device's id, a run's folder, or for the disk nothing."""


class Notifier(Companion):
    """Sends the notifications of a run and its devices, or with the folder of all runs those of the machine."""

    def __init__(self, run_dir: Path, device_ids: Collection[str] | None = None) -> None:
        self._run_dir, self._device_ids, self._due, self._low = run_dir, device_ids, 0.0, ""
        self._heat = SlowdownWatch(device_ids, lasts_s=HOT_S, reasons=HEAT)
        self._hot, self._present = dict[tuple[str, str], str](), dict[tuple[str, str], str]()

    def not_finite(self) -> None:
        self.notify(NAN)

    def watch(self, survey: Survey, facts: RunFacts) -> None:
        self.look(survey, {(STALLED, ""): facts.stalled or ""}, (facts.checkpoint and facts.checkpoint.size_bytes) or 0)

    def look(self, survey: Survey, others: Alarms, needed_bytes: int = 0, *, told: Container[str] = ()) -> Alarms:
        """Send new alarms, unless on what is `told` by others; return all that last, with these `others`. May block."""
        if (now := time.monotonic()) >= self._due:
            self._low = low_disk_words(self._run_dir, needed_bytes, is_low=bool(self._low))
            self._due = now + LOOK_S
        self._hot |= {(HOT, each.device_id): each.sentence for each in self._heat.poll(survey, now)}
        restart, ids = tr("Restart this machine if it stays away."), self._device_ids
        lost = [each for each in survey.samples if each.lost and (ids is None or each.device_id in ids)]
        gone = {(GONE, each.device_id): join_sentences([each.lost, each.fault or restart]) for each in lost}
        found = {key: text for key, text in {**others, **gone, **self._hot, (DISK, ""): self._low}.items() if text}
        for what, about in [key for key in found if key not in self._present and key[1] not in told]:
            self.notify(what, found[what, about])
        self._present = found
        return found

    def ended(self) -> None:
        self.notify("ended")

    def lost(self) -> None:
        self.notify("lost")

    def notify(self, what: str, *sentences: str) -> None:
        """Start the process, unless nothing is set that could reach the user. Returns at once.

        `what`, `sentences`: as the process takes them. If it cannot be started, this is recorded in the run.
        """
        with contextlib.suppress(OSError, RuntimeError):  # the run's folder is gone
            loaded = load()
            are_set = [each.name for each in CHANNELS if getattr(loaded.settings, each.name)]
            can_reach = bus_address() if are_set == ["desktop"] else are_set
            if not can_reach and not loaded.problem:
                return
            command = own_command(NOTIFIER, str(self._run_dir.resolve()), what, *sentences)
            try:
                start_in_background(command, subprocess.DEVNULL)
            except (OSError, subprocess.CalledProcessError) as error:
                from core.notifications.delivery import record  # imported here: most runs need none of its channels

                why = error.strerror if isinstance(error, OSError) else str(error).rstrip(".")
                text = tr("The process that sends notifications could not be started: {why}.", why=why)
                record(self._run_dir, [text])


def low_disk_words(folder: Path, needed_bytes: int = 0, *, is_low: bool = False) -> str:
    """Return that the disk of a folder is nearly full; "" if it is not, or cannot be read. `is_low`: it was before."""
    try:
        total, _, free = shutil.disk_usage(folder)
    except OSError:
        return ""
    if free >= max(min(LOW_SHARE * total, LOW_BYTES), needed_bytes) * (MORE if is_low else 1.0):
        return ""
    low = tr("Only {size} are free on the disk of {folder}.", size=size(free), folder=folder)
    needed = tr("The next checkpoint takes {size}.", size=size(needed_bytes)) if needed_bytes > free else None
    return join_sentences([low, needed, tr("Delete old runs or checkpoints, or move them to another disk.")])
