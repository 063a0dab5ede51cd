"""Ask a run that trains for other settings, for its end after an epoch, or for a trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QWidget

from core.language import tr
from core.runs.run import Run
from core.schema.event_kinds import Trace
from core.schema.paths import OUTPUTS, SET, TRACE
from core.schema.settings import COUNTED
from core.schema.spec import RunSpec, changeable, changeable_values, changed_in_epoch, read_spec
from core.text import capital
from gui.base.theme import mark
from gui.widgets.dialogs import QUESTION_PX, Question
from gui.widgets.fields import form, label
from gui.widgets.forms import of_setting
from gui.widgets.messages import open_path
from gui.widgets.plain_text import PlainLabel, named, verbatim
from gui.window.feature import Feature

STEPS = 20
"""Steps of a trace."""


class ChangeDialog(Question):
    """Asks for other values of the settings that can change while a run trains."""

    def __init__(self, parent: QWidget, spec: RunSpec, judge: Callable[[dict[str, Any]], str]) -> None:
        """`judge`: returns why what is `asked` is impossible, or the empty string."""
        super().__init__(parent, "changeDialog", tr("Change"))
        self._judge, self._before = judge, changeable_values(spec)
        fields, self.problem = QWidget(), named(PlainLabel(" ", wraps=True), "changeProblem")
        mark(self.problem, tone="bad")
        self.problem.setMinimumWidth(QUESTION_PX)
        rows, self.editors = form(fields), {}
        for name, value in self._before.items():
            row = changeable(name)
            editor = self.editors[name] = of_setting(row, self._check, f"change_{name}")
            editor.set_value(value)
            editor.widget.setToolTip(verbatim(capital(tr(row.help))))
            rows.addRow(label(tr(row.title), editor.widget), editor.widget)
        words = PlainLabel(tr("New values hold for all later steps, also after a resume."), wraps=True)
        self.lay_out(PlainLabel(tr("Change settings"), role="heading"), words, fields, self.problem)
        self._check()

    @property
    def asked(self) -> dict[str, Any]:
        """The new values by the names of `CHANGEABLE`."""
        values = {name: editor.value() for name, editor in self.editors.items()}
        return {name: value for name, value in values.items() if value not in {None, self._before[name]}}

    def _check(self) -> None:
        if len(self.editors) < len(self._before):
            return  # the other rows are about to be added
        problem = self._judge(self.asked)
        self.yes.setEnabled(bool(self.asked) and not problem)
        self.problem.setText(problem or " ")
        counts = self.editors["checkpoints.unit"].value() in COUNTED
        self.editors["checkpoints.every"].widget.setEnabled(counts)


class LiveController(Feature):
    """The answers are events of the run, which the tab Events and the plot of the loss show."""

    def set_up(self) -> None:
        self._shown: Trace | None = None
        self.panels.actions.provide(
            set=self._ask_for_settings,
            finish=lambda run_dirs: self._request(Path(run_dirs[0]), SET, {"finish": True}),
            trace=lambda run_dirs: self._request(Path(run_dirs[0]), TRACE, {"steps": STEPS, "ranks": [0]}),
        )
        self._session.attached.connect(self._forget)
        self._session.changed.connect(self._show_trace)

    def _ask_for_settings(self, run_dirs: Sequence[str]) -> None:
        summary = self._run_list.summary(run_dirs[0])
        if summary is None:
            return
        epoch = 1 if summary.plan is None else summary.plan.epoch_of(summary.step)

        def ask() -> None:
            spec = read_spec(summary.dir)

            def judge(asked: dict[str, Any]) -> str:
                try:
                    changed_in_epoch(spec, asked, epoch)
                except ValueError as error:
                    return str(error)
                return ""

            dialog = ChangeDialog(self.panels.window, spec, judge)
            dialog.accepted.connect(lambda: self._request(summary.dir, SET, dialog.asked))
            dialog.open()

        self._message.attempt(ask)

    def _request(self, run_dir: Path, name: str, asked: dict[str, Any]) -> None:
        if self._message.attempt(lambda: Run(run_dir).request(name, json.dumps(asked))):
            self._message.show_passing(tr("Requested. The events of the run say when it is done."))

    def _forget(self) -> None:
        self._shown = self._session.facts.trace

    def _show_trace(self) -> None:
        """Say where a new trace of the shown run is."""
        run, trace = self._session.run, self._session.facts.trace
        if run is not None and trace is not None and trace is not self._shown and self._session.opening is None:
            self._shown, folder = trace, run.dir / OUTPUTS
            self._message.show_message(
                tr("The trace is in {file}. Open it on ui.perfetto.dev.", file=folder / trace.file),
                "good", details=True, details_text=tr("Open folder"), does=lambda: open_path(folder, self._message),
            )
