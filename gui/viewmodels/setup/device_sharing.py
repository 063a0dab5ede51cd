"""The question before a run shares devices with live runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.devices.device import Survey
from core.history.summary import RunSummary
from core.language import tr, tr_noop
from core.schema.spec import RunSpec
from core.text import join_names
from gui.viewmodels.runs.run_rows import run_title

Neighbour = tuple[str, Path]
"""A device id, and the directory of a live run on that device."""


QUESTIONS = {
    "Start": (tr_noop("Start {name} and share {devices} with {runs}?"), tr_noop("Start anyway")),
    "Resume": (tr_noop("Resume {name} and share {devices} with {runs}?"), tr_noop("Resume anyway")),
}
"""By verb, the question and the text of the button that agrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDeviceQuestion:
    """The texts of the question."""

    question: str
    words: str
    """The consequences."""
    yes: str
    """The text of the button that agrees."""
    neighbours: frozenset[Neighbour]
    """What a yes agrees to."""


def shared_device_question(
    verb: str,
    spec: RunSpec,
    survey: Survey,
    on_devices: Mapping[str, Sequence[RunSummary]],
    *,
    agreed: frozenset[Neighbour],
    own: Path | None = None,
) -> SharedDeviceQuestion | None:
    """Return the question before this run shares its devices; None if it shares them only as `agreed`.

    `verb`: `Start` or `Resume`; `on_devices`: the live runs by device id; `own`: the directory of this run, if it has
    one, since another window may have resumed it just now.
    """
    on_it = {device: [each for each in on_devices.get(device, ()) if each.dir != own] for device in spec.devices}
    neighbours = frozenset((device, each.dir) for device, runs in on_it.items() for each in runs)
    if neighbours <= agreed:
        return None
    where = join_names([device.label for device in survey.devices if on_it.get(device.id)])
    now = time.time()
    runs = {each.dir: run_title(each, now) for those in on_it.values() for each in those}
    question, yes = QUESTIONS[verb]
    return SharedDeviceQuestion(
        question=tr(question, name=spec.name, devices=where, runs=join_names(list(runs.values()))),
        words=tr("Sharing a device slows down both runs, and either may run out of memory.")
        if len(runs) == 1
        else tr("Sharing a device slows down all runs, and any may run out of memory."),
        yes=tr(yes),
        neighbours=neighbours,
    )
