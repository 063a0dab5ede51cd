"""The card about a failed run. It lies over the first plot until it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QToolButton, QVBoxLayout, QWidget

from core.language import tr
from core.schema.spec import RunSpec
from gui.style.icons import ButtonIcon
from gui.style.theme import current_theme, mark
from gui.widgets.announcement import announce
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.painting import paint_card
from gui.widgets.plain_text import PlainLabel

if TYPE_CHECKING:
    from gui.viewmodels.run.failure_view import FailureView


SPACING_PX, LINE_SPACING_PX, QUOTE_MARGIN_PX = 5, 1, 4


class FailureCard(QFrame):
    """Shows one failure. After it was closed it stays hidden until there is another, or another run."""

    smaller_asked = Signal(object)
    """The `RunSpec` with a smaller batch is to be filled into the form."""
    log_asked = Signal(int, str)
    """The log of a rank is to be shown at the last line that contains this text."""
    again_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("failureCard")
        self._shown: FailureView | None = None
        self._smaller: RunSpec | None = None
        self.title = PlainLabel()
        self.title.setObjectName("failureTitle")
        self.title.setProperty("role", "heading")
        mark(self.title, tone="bad")
        self.sentence, self.place = PlainLabel(), PlainLabel()
        self.sentence.setObjectName("failureSentence")
        self.place.setObjectName("failurePlace")
        for label in (self.title, self.sentence, self.place):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.lines = [ElidedLabel() for _ in range(3)]
        self._line_count = 0
        """The number of lines that there are; `fit` may show fewer."""
        self.smaller_button = _button("failureSmallerButton", "")
        self.smaller_button.setToolTip(tr("Fill the training card with these settings and a smaller batch"))
        self.log_button = _button("failureLogButton", tr("Show it in the log"))
        self.log_button.setToolTip(tr("Show the log at this error"))
        self.again_button = _button("failureAgainButton", tr("Run again"))
        self.again_button.setToolTip(tr("Start a new run with the same settings"))
        self.close_button = QToolButton()
        self.close_button.setObjectName("failureCloseButton")
        self.close_button.setAccessibleName(tr("Dismiss this message"))
        self.close_button.setToolTip(tr("Dismiss"))
        ButtonIcon(self.close_button, "cross")
        self.close_button.clicked.connect(self.hide)
        self.smaller_button.clicked.connect(lambda: self.smaller_asked.emit(self._smaller))
        self.log_button.clicked.connect(self._ask_log)
        self.again_button.clicked.connect(self.again_asked)
        self._lay_out()
        self.hide()

    def show_failure(self, view: FailureView | None) -> None:
        """Show a failure; None hides the card. A failure that was closed stays hidden."""
        if view == self._shown:
            return
        self._shown = view
        if view is None:
            self.hide()
            return
        self._smaller = view.smaller
        self.title.setText(view.title)
        self.sentence.setText(view.sentence)
        self.place.setText(view.place)
        self.place.setVisible(bool(view.place))
        self._show_lines(view.lines)
        self.smaller_button.setText(tr("Try {settings}", settings=view.smaller_words))
        self.smaller_button.setVisible(view.smaller is not None)
        self.log_button.setVisible(bool(view.sought))
        self.again_button.setVisible(view.can_run_again)
        self.setAccessibleName(view.title)
        self.setAccessibleDescription(view.spoken)
        self.show()
        self.raise_()
        announce(self, view.spoken, urgent=True)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002, N802 (Qt's name)
        """Paint the card in the colour of failures."""
        paint_card(self, current_theme().bad_soft, current_theme().bad)

    def _ask_log(self) -> None:
        if self._shown is not None:
            self.log_asked.emit(self._shown.rank, self._shown.sought)

    def fit(self, width: int, height: int, most: int) -> None:
        """Leave out lines, then the place, if the card would be higher than `height`; if it is still, than `most`.

        The log and the tab Error have them, too.
        """
        layout = self.layout()
        assert layout is not None
        rest = layout.totalHeightForWidth(width) - self._details_px(self._seen_lines, self.place.isVisibleTo(self))
        has_place = bool(self.place.text())
        forms = [(self._line_count, has_place), (1, has_place), (0, has_place), (0, False)]
        possible = [(min(count, self._line_count), placed) for count, placed in forms]
        fitting = (form for limit in (height, most) for form in possible if rest + self._details_px(*form) <= limit)
        count, placed = next(fitting, possible[-1])
        if (count, placed) != (self._seen_lines, self.place.isVisibleTo(self)):
            self._see_lines(count)
            self.place.setVisible(placed)

    @property
    def _seen_lines(self) -> int:
        return sum(label.isVisibleTo(self) for label in self.lines)

    def _details_px(self, line_count: int, placed: bool) -> int:
        """Return the height of so many lines, and of the place."""
        place = self.place.sizeHint().height() + SPACING_PX if placed else 0
        if not line_count:
            return place
        lines = line_count * (self.lines[0].sizeHint().height() + LINE_SPACING_PX) - LINE_SPACING_PX
        return place + lines + 2 * QUOTE_MARGIN_PX + SPACING_PX

    def _show_lines(self, lines: tuple[str, ...]) -> None:
        self._line_count = min(len(lines), len(self.lines))
        for label, line in zip(self.lines, (*lines, "", "", ""), strict=False):
            label.setText(line)
        self._see_lines(self._line_count)

    def _see_lines(self, count: int) -> None:
        """Show the last lines."""
        for number, label in enumerate(self.lines):
            label.setVisible(self._line_count - count <= number < self._line_count)
        self._quote.setVisible(count > 0)

    def _lay_out(self) -> None:
        monospace = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
        self._quote = QWidget()
        quote = QVBoxLayout(self._quote)
        quote.setContentsMargins(0, QUOTE_MARGIN_PX, 0, QUOTE_MARGIN_PX)
        quote.setSpacing(LINE_SPACING_PX)
        for label in self.lines:
            label.setStyleSheet(f'font-family: "{monospace}";')
            quote.addWidget(label)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 10, 10, 12)
        layout.setSpacing(SPACING_PX)
        head, buttons = QHBoxLayout(), QHBoxLayout()
        layout.addLayout(head)
        for part in (self.sentence, self.place, self._quote):
            layout.addWidget(part)
        layout.addSpacing(3)
        layout.addLayout(buttons)
        head.addWidget(self.title, 1)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignTop)
        buttons.setSpacing(8)
        for button in (self.smaller_button, self.log_button, self.again_button):
            buttons.addWidget(button)
        buttons.addStretch(1)


def _button(name: str, text: str) -> QPushButton:
    button = QPushButton(text)
    button.setObjectName(name)
    button.setAutoDefault(False)
    return button
