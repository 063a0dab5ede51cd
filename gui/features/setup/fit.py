"""Measure whether what is chosen fits into memory: on a thread, with the answer below the form."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from core.config.finding import FIND_LARGEST, FIT, Cure, Finding, Mark, batch_cure
from core.config.fit import of_size
from core.devices.device import devices_here
from core.fit.answer import Answer, measured_answer
from core.fit.probe import writing_words
from core.history.summary import setting_values
from core.language import join_sentences, tr
from gui.base.jobs import Jobs, sentence
from gui.runs.words import QuestionWords
from gui.widgets.dialogs import ask_first

if TYPE_CHECKING:
    from core.schema.spec import RunSpec
    from gui.features.setup.start import StartController
    from gui.machine.start_check import StartCheck

CANCEL, LARGEST = "cancel", "largest"


class FitController:
    """Makes one measurement at a time. Its answer is shown while what it is about is chosen."""

    def __init__(self, start: StartController) -> None:
        self._start, self._jobs = start, Jobs(start, "fit", guards=True)
        self._wanted: str | None = None
        """What to measure once the choices are checked; see `begin`."""
        self._cancelled, self._told, self._about = Event(), list[str](), object()
        self._answer: Answer | str = ""
        """The last answer, or why there was none; it is about what `_about` says."""

    def begin(self, kind: str = "") -> None:
        """Measure the batch, and perhaps also the largest (`LARGEST`), once the choices are checked; or `CANCEL`."""
        if kind == CANCEL:
            self._cancelled.set()
            self._told.append(tr("Ending the measurement …"))
        elif not self._jobs.busy:
            self._wanted = kind
        self._start.check_again()

    def complete(self, check: StartCheck) -> StartCheck:
        """Return a check with the answer about what was checked; begin the measurement that waits for it."""
        spec, panels, found = check.spec, self._start.panels, list[Finding]()
        may = spec is not None and spec.recipe is not None and not (check.problems or check.others) and (
            self._start.services.machine.is_here and devices_here(spec.devices) == spec.devices)
        panels.setup.status.offer_fit(offered=may and not self._jobs.busy)
        if may and spec is not None:
            about = spec.devices, of_size(setting_values(spec, {})), check.changed
            if self._wanted is not None:
                words = writing_words(Path(spec.own_recipe.path))
                asked = QuestionWords(tr("Measure the memory of {name}?", name=spec.name), words, tr("Measure"))
                measure = partial(self._measure, spec, about, is_largest=self._wanted == LARGEST)
                ask_first(panels.window, asked if words else None, measure)
            found = self._findings(spec.training.batch_size) if about == self._about else found
        self._wanted = self._wanted if check.pending else None
        if self._jobs.busy:
            cancel = Cure(does=FIT, words=tr("Cancel"), values=(CANCEL,))
            found = [Finding(mark=Mark.READY, sentence=self._told[-1], cures=(cancel,))]
        return replace(check, findings=(*check.findings, *found))

    def _findings(self, batch: int) -> list[Finding]:
        if isinstance(self._answer, str):
            return [Finding(mark=Mark.WARNING, sentence=self._answer)]
        answer, best, cures = self._answer.at(batch), self._answer.largest, list[Cure]()
        if best is not None and not self._answer.proved:
            cures = [Cure(does=FIT, words=tr(FIND_LARGEST), values=(LARGEST,))]
        elif best not in {None, batch}:
            cures = [batch_cure(best or 0)]
        return [] if answer is None else [Finding(mark=Mark.READY if answer.fits else Mark.WARNING,
                                                  sentence=join_sentences(answer.sentences), cures=tuple(cures))]

    def _measure(self, spec: RunSpec, about: object, *, is_largest: bool) -> None:
        self._cancelled, self._told = Event(), [tr("Preparing the measurement …")]
        survey, root = self._start.services.device_monitor.all_machines, self._start.services.machine.root

        def take(answer: Answer | str) -> None:
            self._about, self._answer = about, answer
            self._start.check_again()

        work = partial(measured_answer, spec, survey, root, self._told.append, largest=is_largest,
                       cancelled=self._cancelled)
        self._jobs.start(work, take, lambda error: take(sentence(error)))
        self._start.check_again()
