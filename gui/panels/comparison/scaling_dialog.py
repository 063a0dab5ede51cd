"""Ask for the name, the batch and the repeats of a new scaling table; say what would be trained."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QVBoxLayout, QWidget

from core.language import tr
from core.scaling.record import FIXED, MAX_REPEATS, PER_DEVICE
from gui.style.text_size import scaled
from gui.style.theme import mark
from gui.widgets.dialogs.dialog import answer_buttons
from gui.widgets.forms.fields import choice, form, label, line, whole_number
from gui.widgets.plain_text import PlainLabel

WIDTH_PX = 460
Asked = tuple[str, str, int]
"""Name, one of `core.scaling.record.BATCHES`, repeats."""


class ScalingDialog(QDialog):
    """A dialog that does not block the window; `asked` reports what is to be measured."""

    asked = Signal(str, str, int)
    """Name, batch, repeats."""

    def __init__(self, parent: QWidget, *, name: str, judge: Callable[[Asked], tuple[str, str]]) -> None:
        """`judge`: returns why this cannot be measured (or the empty string), and what would be trained."""
        super().__init__(parent)
        self.setObjectName("scalingDialog")
        self.setWindowTitle("Trainyard")
        self._judge = judge
        self._make_fields(name)
        self.yes, buttons = answer_buttons(self, tr("Measure"))
        self.accepted.connect(lambda: self.asked.emit(*self.chosen))
        heading = PlainLabel(tr("Measure a scaling table"))
        heading.setProperty("role", "heading")
        words = _wrapped(
            tr("The chosen recipe is trained on 1, 2, 4, … of the ticked devices, one training after the other. "
               "The measuring goes on when the window is closed.")
        )  # fmt: skip
        self.preview = _wrapped()
        self.preview.setObjectName("scalingPreview")
        self.problem = _wrapped()
        self.problem.setObjectName("scalingProblem")
        mark(self.problem, tone="bad")
        fields = QWidget()
        rows = form(fields)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 14)
        layout.setSpacing(12)
        for part in (heading, words, fields, self.preview, self.problem, buttons):
            layout.addWidget(part)
        for text, widget in ((tr("Name"), self.name), (tr("Batch"), self.batch), (tr("Repeats"), self.repeats)):
            rows.addRow(label(text, widget), widget)
        self.finished.connect(self.deleteLater)
        self._check()

    def _make_fields(self, name: str) -> None:
        self.name = line("scalingName", tr("Name"), tr("The names of its runs begin with it"))
        self.name.setText(name)
        self.batch = choice(
            "scalingBatch", tr("Batch"),
            tr("With a fixed global batch, n devices compute an n-th of it each; with a fixed batch per device it "
               "grows"),
            ((tr("Fixed global batch"), FIXED), (tr("Fixed batch per device"), PER_DEVICE)),
        )  # fmt: skip
        self.repeats = whole_number(
            "scalingRepeats", tr("Repeats"), tr("Train so many times on each number of devices, for the spread"),
            minimum=1, value=1,
        )  # fmt: skip
        self.repeats.setMaximum(MAX_REPEATS)
        self.name.textChanged.connect(lambda _: self._check())
        self.batch.currentIndexChanged.connect(lambda _: self._check())
        self.repeats.valueChanged.connect(lambda _: self._check())

    @property
    def chosen(self) -> Asked:
        """What is asked for now."""
        return self.name.text(), str(self.batch.currentData()), self.repeats.value()

    def _check(self) -> None:
        problem, preview = self._judge(self.chosen)
        self.yes.setEnabled(not problem)
        for part, text in ((self.problem, problem), (self.preview, preview)):
            part.setText(text)
            part.setVisible(bool(text))


def _wrapped(text: str = "") -> PlainLabel:
    made = PlainLabel(text)
    made.setWordWrap(True)
    made.setMinimumWidth(scaled(WIDTH_PX))
    return made
