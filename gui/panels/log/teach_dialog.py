"""Ask what a number of the log is: its name, the rule, and the curve that it gives over the whole log."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QPushButton, QVBoxLayout, QWidget

from core.language import tr
from core.text import one_line
from gui.style.theme import current_theme, mark
from gui.widgets.plain_text import PlainLabel

WIDTH_PX, CURVE_PX = 520, 110
MARGIN_PX = 6
SHOWN_CHARACTERS = 200


class CurvePreview(QWidget):
    """Draws one small curve without axes."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("curvePreview")
        self.setAccessibleName(tr("The curve that the rule gives"))
        self.setFixedHeight(CURVE_PX)
        self.points: Sequence[tuple[int, float]] = ()

    def show_points(self, points: Sequence[tuple[int, float]]) -> None:
        """Draw these steps and values."""
        self.points = points
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's signature)
        """Draw the curve over the whole width."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), QColor(current_theme().field))
        finite = [(step, value) for step, value in self.points if abs(value) < float("inf")]
        if finite:
            painter.setPen(QPen(QColor(current_theme().train), 1.6))
            drawn = [self._place(finite, *point) for point in finite]
            painter.drawPolyline(QPolygonF(drawn)) if len(drawn) > 1 else painter.drawEllipse(drawn[0], 2, 2)
        painter.end()

    def _place(self, points: Sequence[tuple[int, float]], step: int, value: float) -> QPointF:
        steps, values = [each for each, _ in points], [each for _, each in points]
        across, up = max(steps) - min(steps) or 1, max(values) - min(values) or 1
        width, height = self.width() - 2 * MARGIN_PX, self.height() - 2 * MARGIN_PX
        return QPointF(
            MARGIN_PX + width * (step - min(steps)) / across, MARGIN_PX + height * (1 - (value - min(values)) / up)
        )


class TeachDialog(QDialog):
    """Does not block the window. `named` asks for another name, `keep_asked` to keep what is shown."""

    named = Signal(str)
    keep_asked = Signal(str)

    def __init__(self, parent: QWidget, *, line: str, heading: str, has_name: bool) -> None:
        super().__init__(parent)
        self.setObjectName("teachDialog")
        self.setWindowTitle("Trainyard")
        title, shown = PlainLabel(heading), PlainLabel(one_line(line, SHOWN_CHARACTERS))
        title.setProperty("role", "heading")
        mark(shown, tone="muted")
        self.edit = QLineEdit()
        self.edit.setObjectName("metricNameEdit")
        self.edit.setAccessibleName(tr("Name of the metric"))
        self.edit.setPlaceholderText(tr("name of the metric"))
        self.edit.setVisible(has_name)
        self.words = PlainLabel(tr("Reading the log ..."), name="teachWords")
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.curve = CurvePreview()
        self.curve.setVisible(has_name)
        for label in (title, shown, self.words):
            label.setWordWrap(True)
            label.setFixedWidth(WIDTH_PX)
        self.keep = QPushButton(tr("Keep"))
        self.keep.setObjectName("keepRuleButton")
        self.keep.setEnabled(False)
        mark(self.keep, role="primary")
        cancel = QPushButton(tr("Cancel"))
        cancel.setAutoDefault(False)
        buttons = QDialogButtonBox()
        buttons.addButton(self.keep, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(cancel, QDialogButtonBox.ButtonRole.RejectRole)
        buttons.rejected.connect(self.reject)
        self.keep.clicked.connect(self._keep)
        self.edit.textEdited.connect(self._rename)
        self.finished.connect(self.deleteLater)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 14)
        layout.setSpacing(12)
        for part in (title, shown, self.edit, self.curve, self.words, buttons):
            layout.addWidget(part)

    def show_lesson(self, name: str, rule: str, sentences: Sequence[str], points: Sequence[tuple[int, float]]) -> None:
        """Show a rule and what it gives."""
        if not self.edit.isModified() and name:
            self.edit.setText(name)
            self.edit.selectAll()
        self.words.setText("\n".join([tr("Rule: {rule}", rule=rule), *sentences]))
        mark(self.words, tone="")
        self.curve.show_points(points)
        self.keep.setEnabled(True)
        self.adjustSize()

    def show_problem(self, sentence: str) -> None:
        """Show why there is no rule, or why it was not kept."""
        self.words.setText(sentence)
        mark(self.words, tone="bad")
        self.curve.show_points(())
        self.keep.setEnabled(False)

    def _rename(self, text: str) -> None:
        self.keep.setEnabled(False)  # until the curve of this name is there
        if text.strip():
            self.named.emit(text.strip())

    def _keep(self) -> None:
        self.keep.setEnabled(False)
        self.keep_asked.emit(self.edit.text().strip())
