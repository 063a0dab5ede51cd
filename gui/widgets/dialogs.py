"""Dialogs: information, questions, names and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QToolButton,
    QTreeView,
    QWidget,
)

from core.language import tr, tr_noop
from gui.base.icons import ButtonIcon
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.widgets.buttons import push_button
from gui.widgets.fields import FormScroll
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import PlainLabel, bold_label, named

if TYPE_CHECKING:
    from gui.runs.words import QuestionWords


MARGINS_PX = (20, 18, 20, 14)
LABEL = 16
"""Width of the label of a row, in letters."""


FRAME = QSize(8, 48)
"""Room for what a window manager adds around a window. Its real size is known only when the window is shown."""

SCROLL_BAR_PX = 14


class ScreenDialog(QDialog):
    """A dialog that is no larger than its screen: what has no room is scrolled, between its first part and its last."""

    def event(self, event: QEvent) -> bool:
        """Fit the dialog to the screen when it is about to be shown, and when its content has changed."""
        handled = super().event(event) if event.type() == QEvent.Type.LayoutRequest else False
        if event.type() == QEvent.Type.Show or (handled and self.isVisible()):
            self._fit_screen()  # before Qt places it
        return handled or super().event(event)

    def _fit_screen(self) -> None:
        layout, room = self.layout(), self.screen().availableSize() - FRAME
        assert isinstance(layout, QBoxLayout)
        width = min(self.width(), room.width())
        needed = max(layout.totalMinimumSize().height(), layout.totalMinimumHeightForWidth(width))
        if needed > room.height() and not self.findChildren(FormScroll):
            inside = vbox(ground := QWidget(), gap=layout.spacing(), margins=(0, 0, SCROLL_BAR_PX, 0))
            while layout.count() > 2 and (item := layout.takeAt(1)) is not None:
                if (widget := item.widget()) is not None:
                    inside.addWidget(widget)
                elif (part := item.layout()) is not None:
                    inside.addLayout(part)
            layout.insertWidget(1, FormScroll(ground), 1)
            layout.activate()  # else the dialog keeps its least height
        self.resize(QSize(width, max(self.height(), needed)).boundedTo(room))


class InfoDialog(ScreenDialog):
    """Is deleted when it is closed. `content` has the layout between heading and buttons."""

    def __init__(self, parent: QWidget, *, name: str, heading: str) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(heading)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        close = named(QPushButton(tr("Close")), "closeButton")
        close.clicked.connect(self.reject)
        close.setDefault(True)
        layout = vbox(self, PlainLabel(heading, role="heading"), gap=12, margins=MARGINS_PX)
        self.content = vbox(layout, gap=12)
        layout.setStretch(1, 1)
        self._buttons = hbox(layout, 0, close, gap=12)
        self.ensurePolished()  # so that sizes are those of the font that is shown

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Let Enter in a field end the typing there: Qt would press Close."""
        is_enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if not (is_enter and isinstance(self.focusWidget(), (QLineEdit, QComboBox, QAbstractSpinBox))):
            super().keyPressEvent(event)

    def add_button(
        self, name: str, text: str, action: Callable[[], object] | None = None, tip: str = ""
    ) -> QPushButton:
        """Add a button at the left of the row."""
        button = push_button(name, text, tip, does=action)
        self._buttons.insertWidget(self._buttons.count() - 2, button)  # left of the stretch
        return button

    def add_form(self, title: str) -> QFormLayout:
        """Add a group of rows with a heading."""
        form = QFormLayout()
        self.content.addLayout(form)
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow(bold_label(title))
        return form

    def row_label(self, text: str, buddy: QWidget | None = None) -> PlainLabel:
        """Return the label of a row; all are equally wide, so that the groups are aligned."""
        made = PlainLabel(text)
        if buddy is not None:
            made.setBuddy(buddy)
        made.setMinimumWidth(self.characters(LABEL))
        return made

    def characters(self, count: int) -> int:
        """Return the width of this many characters of the font, in pixels."""
        return self.fontMetrics().horizontalAdvance("n") * count

    def lines(self, count: int) -> int:
        """Return the height of this many lines of text, in pixels."""
        return self.fontMetrics().lineSpacing() * count


class Question(ScreenDialog):
    """A dialog that does not block the window: a heading, other parts, and buttons. It is deleted when it is closed."""

    def __init__(self, parent: QWidget, name: str, yes: str) -> None:
        """`yes`: the text of the button that accepts it, which is proposed."""
        super().__init__(parent)
        named(self, name).setWindowTitle("Trainyard")
        self.yes = named(QPushButton(yes), "yesButton", role="primary")
        self.yes.setDefault(True)
        self.no = push_button("noButton", tr("Cancel"))
        self.buttons = QDialogButtonBox()
        self.buttons.addButton(self.yes, QDialogButtonBox.ButtonRole.AcceptRole)
        self.buttons.addButton(self.no, QDialogButtonBox.ButtonRole.RejectRole)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.finished.connect(self.deleteLater)

    def lay_out(self, *parts: QWidget) -> None:
        """Lay out these parts, and the buttons below them."""
        vbox(self, *parts, self.buttons, gap=12, margins=MARGINS_PX)


QUESTION_PX = 460


class ConfirmDialog(Question):
    """Asks whether to do something. Cancel is proposed, or another answer where none destroys anything."""

    def __init__(
        self, parent: QWidget, *, question: str, words: str, yes: str, is_destructive: bool = True,
        other: tuple[str, Callable[[], object]] | None = None,
    ) -> None:
        """`yes`: text of the agreeing button; `is_destructive`: mark that button as dangerous.

        `other`: text and action of another answer.
        """
        super().__init__(parent, "question", yes)
        self.question = _label(question, "heading")
        self.words = _label(words, "")
        mark(self.yes, role="danger" if is_destructive else "")
        self.yes.setDefault(False)
        self.yes.setAutoDefault(False)
        proposed = self.no
        if other is not None:
            text, action = other
            button = push_button("otherButton", text, role="" if is_destructive else "primary", does=self.reject)
            button.clicked.connect(lambda _: action())
            self.buttons.addButton(button, QDialogButtonBox.ButtonRole.ActionRole)
            proposed = self.no if is_destructive else button
        proposed.setAutoDefault(True)  # so that Enter on another button does not give this answer
        proposed.setDefault(True)
        self.lay_out(self.question, self.words)
        proposed.setFocus()

    @property
    def text(self) -> str:
        """The whole text of the dialog."""
        return f"{self.question.text()}\n{self.words.text()}"


def ask(
    parent: QWidget, agreed: Callable[[], object], *, question: str, words: str, yes: str, is_destructive: bool = True,
    other: tuple[str, Callable[[], object]] | None = None,
) -> None:
    """Ask, unless another question is open; call `agreed` if the answer is yes."""
    if not any(each.isVisible() for each in parent.findChildren(ConfirmDialog)):
        dialog = ConfirmDialog(
            parent, question=question, words=words, yes=yes, is_destructive=is_destructive, other=other
        )
        dialog.accepted.connect(agreed)
        dialog.open()


def _label(text: str, role: str) -> PlainLabel:
    label = PlainLabel(text, role=role, wraps=True, selectable=True)
    label.setMinimumWidth(QUESTION_PX)
    label.setMaximumWidth(QUESTION_PX + 200)
    return label


def ask_first(window: QWidget, question: QuestionWords | None, action: Callable[[], object]) -> None:
    """Do something, after a yes to the question if there is one."""
    if question is None:
        action()
    else:
        ask(window, action, **question._asdict())


NAME_PX = 380


class NameDialog(Question):
    """Asks for a name or another text."""

    def __init__(
        self, parent: QWidget, take: Callable[[str], object], *, question: str, name: str, yes: str,
        judge: Callable[[str], tuple[str, str]], may_be_empty: bool = False,
    ) -> None:
        """`take`: called with what was entered.

        `judge`: returns why a name cannot be used (or the empty string), and a notice about it.
        """
        super().__init__(parent, "nameDialog", yes)
        self.accepted.connect(lambda: take(self.name))
        self._judge, self._may_be_empty = judge, may_be_empty
        self.edit = named(QLineEdit(name), "nameEdit", question)
        self.edit.setMinimumWidth(NAME_PX)
        self.notice = PlainLabel(wraps=True)
        self.edit.textChanged.connect(lambda _: self._check_name())
        self.lay_out(PlainLabel(question, role="heading"), self.edit, self.notice)
        self._check_name()
        self.edit.selectAll()
        self.edit.setFocus()

    @property
    def name(self) -> str:
        """What was entered."""
        return self.edit.text().strip()

    def _check_name(self) -> None:
        name = self.name
        problem, notice = self._judge(name) if name or self._may_be_empty else (tr("Enter a name."), "")
        self.yes.setEnabled(not problem)
        self.notice.setText(problem or notice or " ")
        mark(self.notice, tone="bad" if problem and name else "warn" if notice else "muted")


ANY_FILE = tr_noop("All files (*)")
WIDTH_PX = 760
"""Width in which the names of files have room beside size, kind and date."""


def python_files() -> str:
    """Return the filters of a dialog that asks for a Python file."""
    return f"{tr('Python files (*.py)')};;{tr(ANY_FILE)}"


def script_files() -> str:
    """Return the filters of a dialog that asks for a script."""
    return f"{tr('Python files and notebooks (*.py *.ipynb)')};;{tr(ANY_FILE)}"


class FileDialog(QFileDialog):
    """Calls a function with what was chosen; open it with `open`."""

    last_folder: ClassVar[str] = ""
    """The folder of the last choice in any of these dialogs; the settings file keeps it."""

    def __init__(
        self, parent: QWidget, title: str, chosen: Callable[[str], object], *, begin: str = "", names: str = ""
    ) -> None:
        """`begin`: where to begin if it exists, otherwise in the folder used last. `names`: the files to show."""
        folder = next((each for each in (begin, self.last_folder) if each and Path(each).is_dir()), "")
        super().__init__(parent, title, folder, names or tr(ANY_FILE))
        self.setFileMode(QFileDialog.FileMode.ExistingFile)
        self.fileSelected.connect(chosen)
        self.fileSelected.connect(_remember)
        self.finished.connect(self.deleteLater)
        self._draw_arrows()
        self._widen_columns()

    def ask_for_folder(self) -> None:
        """Offer folders in place of files."""
        self.setFileMode(QFileDialog.FileMode.Directory)
        self.setOption(QFileDialog.Option.ShowDirsOnly)

    def _draw_arrows(self) -> None:
        """Draw the arrows in the colour of the text: Qt's own are black in every theme."""
        for name, arrow in (("backButton", "left"), ("forwardButton", "right"), ("toParentButton", "up")):
            button = self.findChild(QToolButton, name)
            if button is not None:  # the desktop's dialog has none
                ButtonIcon(button, arrow, "text")

    def _widen_columns(self) -> None:
        """Show size, kind and date whole, and give the names the rest: Qt cuts the texts of a larger font."""
        rows = self.findChild(QTreeView, "treeView")
        if rows is None:  # as above
            return
        header = rows.header()
        for column in range(1, header.count()):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.resize(max(self.width(), scaled(WIDTH_PX)), self.height())


def _remember(path: str) -> None:
    FileDialog.last_folder = str(path if Path(path).is_dir() else Path(path).parent)
