"""Tables of the window: their columns, each declared once, the model of their rows, and the view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, Generic

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QColor, QFont, QIcon, QKeyEvent, QPixmap, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from core.language import tr
from core.table import Column as ReadColumn
from core.table import Row, Table
from gui.base.formatting import DASH
from gui.base.painting import Index
from gui.base.text_size import scaled
from gui.base.theme import current_theme, look
from gui.widgets.context_menu import Entry, copy_entries, give_menu
from gui.widgets.plain_text import PlainLabel, named, verbatim

ROW_PX, HEADING_PX, MIN_COLUMN_PX = 24, 26, 44
STRETCH = 0
"""The width of a column that takes the room that the others leave."""
ROW = Qt.ItemDataRole.UserRole + 1
"""Item data: the row."""
DESCENDING, ASCENDING = "▾", "▴"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ReadColumn[Row]):
    """What people and programs read in a column, and how it looks. A column whose title is None is not shown."""

    sort: Callable[[Row], Any] | None = None
    """Returns what sorts the rows, None if unknown; by default the value."""
    is_descending: bool = False
    """Whether the first click on the heading sorts in descending order."""
    tip: Callable[[Row], str] | None = None
    spoken: Callable[[Row], str] | None = None
    """Returns what a screen reader says in place of the text."""
    tone: Callable[[Row], str] | None = None
    """Returns the name of a colour of `Theme`."""
    is_bold: Callable[[Row], bool] | None = None
    icon: Callable[[Row], QPixmap | QIcon | None] | None = None
    is_number: bool = False
    """Whether heading and cells are aligned right."""
    width_px: int | None = None
    """The first width, which the user may change; None: always as wide as its cells."""
    about: str = ""
    """The tooltip of the heading."""
    heading_px: int | None = None
    """Font size to measure the heading with: Qt measures in bold, and bold 11 is as wide as the theme's regular 12."""


def text_columns(titles: Sequence[str], numbers: Collection[int] = ()) -> list[Column[Sequence[str]]]:
    """Return the columns of rows of texts; tooltips have the whole texts. `numbers`: the columns of numbers."""
    texts = [itemgetter(at) for at in range(len(titles))]
    return [
        Column(title, title=title, text=text, tip=text, is_number=at in numbers)
        for at, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]


class RowsModel(QStandardItemModel):
    """The cells of rows. They are kept, since Qt asks for them at each frame; only cells that differ are set again."""

    def __init__(self, key: Callable[[Any], Hashable], parent: QAbstractItemView) -> None:
        super().__init__(parent)
        self.key = key
        self.columns: Sequence[Column[Any]] = ()
        self.rows: Sequence[Any] = ()
        self._cells: list[list[dict[int, object]]] = []
        """What each cell has for each role."""
        cell = QStandardItem()
        cell.setEditable(False)
        self.setItemPrototype(cell)

    def show_columns(self, columns: Sequence[Column[Any]]) -> None:
        """Show these columns, and no rows yet."""
        self.columns = columns
        self.show_rows(())
        self.setColumnCount(len(columns))
        for at, column in enumerate(columns):
            heading = QStandardItem(column.title or "")
            heading.setTextAlignment(Qt.AlignmentFlag(_alignment(is_number=column.is_number)))
            heading.setToolTip(verbatim(column.about))
            if column.heading_px is not None:
                heading.setFont(_font(pixels=scaled(column.heading_px)))
            self.setHorizontalHeaderItem(at, heading)

    def show_rows(self, rows: Sequence[Any], *, again: bool = False) -> None:
        """Show these rows. `again`: also those that have not changed."""
        before, self.rows = self.rows, rows
        self.setRowCount(len(rows))
        del self._cells[len(rows) :]
        self._cells += [[{}] * len(self.columns) for _ in rows[len(self._cells) :]]
        changed = [at for at, row in enumerate(rows) if again or at >= len(before) or row != before[at]]
        self.blockSignals(True)  # one signal for all cells
        for at in changed:
            cells = [self._cell(column, rows[at]) for column in self.columns]
            for place, (new, old) in enumerate(zip(cells, self._cells[at], strict=True)):
                differing = {role: value for role, value in new.items() if value != old.get(role)}
                self.setItemData(self.index(at, place), differing)
            self._cells[at] = cells
        self.blockSignals(False)
        if changed:
            self.dataChanged.emit(self.index(changed[0], 0), self.index(changed[-1], len(self.columns) - 1))

    def number_of(self, key: Hashable) -> int:
        """Return the number of the row with a key; -1 without it."""
        return next((at for at, row in enumerate(self.rows) if self.key(row) == key), -1)

    def _cell(self, column: Column[Any], row: Any) -> dict[int, object]:  # noqa: ANN401 (a row of any table)
        text = column.cell(row)
        return {
            ROW: row,
            Qt.ItemDataRole.DisplayRole: DASH if text is None else text,
            Qt.ItemDataRole.TextAlignmentRole: _alignment(is_number=column.is_number),
            Qt.ItemDataRole.ToolTipRole: column.tip and verbatim(column.tip(row)),
            Qt.ItemDataRole.AccessibleTextRole: column.spoken and column.spoken(row),
            Qt.ItemDataRole.DecorationRole: column.icon and column.icon(row),
            Qt.ItemDataRole.ForegroundRole: column.tone and _colour(getattr(current_theme(), column.tone(row))),
            Qt.ItemDataRole.FontRole: column.is_bold and _font(is_bold=column.is_bold(row)),
        }


class LongRowsModel(RowsModel):
    """Makes the cells of a row when Qt asks for the first of them, since of thousands of rows few are seen.

    To be asked costs more than to keep the cells of a few rows.
    """

    def __init__(self, key: Callable[[Any], Hashable], parent: QAbstractItemView) -> None:
        super().__init__(key, parent)
        self._made: dict[int, list[dict[int, object]]] = {}

    def show_rows(self, rows: Sequence[Any], *, again: bool = False) -> None:
        """Show these rows. `again`: also those that have not changed."""
        made, before, self.rows = self._made, self.rows, rows
        kept = {at for at in made if at < len(rows) and not again and rows[at] == before[at]}
        changed = [at for at in made if at < len(rows) and at not in kept]
        self._made = {at: made[at] for at in kept}
        self.setRowCount(len(rows))
        if changed:
            self.dataChanged.emit(self.index(min(changed), 0), self.index(max(changed), len(self.columns) - 1))

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return what a cell has for a role."""
        at = index.row()
        if not 0 <= at < len(self.rows):
            return None
        if at not in self._made:
            self._made[at] = [self._cell(column, self.rows[at]) for column in self.columns]
        return self._made[at][index.column()].get(role)


class RowsTable(QTableView, Generic[Row]):
    """Shows rows. With `sorted_by`, the name of a column, a click on a heading sorts them."""

    chosen_changed = Signal()
    """Another row is selected, or the selected row has changed."""
    row_opened = Signal(object)
    """A row was double-clicked, or one of the `open_keys` was pressed on it."""
    table_asked = Signal(str, str, object)
    """What the user wants, `markdown` or `csv` to be copied or a `file`; how the file's name begins; the `Table`."""
    model_type = RowsModel

    def __init__(
        self, name: str, accessible: str, columns: Sequence[Column[Row]], *, key: Callable[[Row], Hashable] = hash,
        sorted_by: str = "", open_keys: Collection[Qt.Key] = (), group: Callable[[Row], Any] | None = None,
    ) -> None:
        """`group`: returns what sorts the rows before any column."""
        super().__init__()
        self._model = self.model_type(key, self)
        self._sorted_by: Column[Row] | None = None
        self._is_descending = False
        look.changed.connect(self._recolour)
        self._columns: Sequence[Column[Row]] = ()
        self._unsorted: Sequence[Row] = ()
        self._open_keys, self._group = open_keys, group
        named(self, name, accessible)
        self.setModel(self._model)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setMinimumSectionSize(1)
        self.horizontalHeader().setMinimumSectionSize(MIN_COLUMN_PX)
        self.horizontalHeader().setHighlightSections(False)
        self.set_heights()
        self.show_columns(columns)
        self.selectionModel().selectionChanged.connect(lambda *_: self.chosen_changed.emit())
        self.doubleClicked.connect(lambda index: self.row_opened.emit(self.rows[index.row()]))
        if sorted_by:
            self.horizontalHeader().setSectionsClickable(True)
            self.horizontalHeader().sectionClicked.connect(self.sort_by)
            self.sort_by(self.place(sorted_by))

    @property
    def rows(self) -> Sequence[Row]:
        """The shown rows in their order."""
        return self._model.rows

    def show_columns(self, columns: Sequence[Column[Row]], rows: Sequence[Row] = ()) -> None:
        """Show other columns, with these rows; the selected row stays selected."""
        chosen, self._columns = self.chosen(), columns
        bars = (self.horizontalScrollBar(), self.verticalScrollBar())
        scrolled = [bar.value() for bar in bars]
        self.blockSignals(True)
        self._model.show_columns([each for each in columns if each.title is not None])
        header, modes = self.horizontalHeader(), QHeaderView.ResizeMode
        for at, each in enumerate(self._model.columns):
            mode = modes.Stretch if each.width_px == STRETCH else modes.Interactive
            header.setSectionResizeMode(at, modes.ResizeToContents if each.width_px is None else mode)
            if each.width_px:
                header.resizeSection(at, each.width_px)
        self.blockSignals(False)
        self.show_rows(rows)
        if chosen is not None:
            self.choose(self._model.key(chosen))
            if self.chosen() is None:
                self.chosen_changed.emit()
        self.updateGeometries()  # the bars have no range while there are no rows
        for bar, value in zip(bars, scrolled, strict=True):
            bar.setValue(value)

    def show_rows(self, rows: Sequence[Row], *, again: bool = False) -> None:
        """Show these rows; the selected row stays selected. `again`: also rows that have not changed."""
        self._unsorted = rows
        chosen, scrolled = self.chosen(), self.verticalScrollBar().value()
        self.blockSignals(True)
        self._model.show_rows(self._ordered(), again=again)
        number = -1 if chosen is None else self._model.number_of(self._model.key(chosen))
        if number < 0:
            self.clearSelection()
        elif number != self.chosen_number():
            self.selectRow(number)
        self.blockSignals(False)
        self.verticalScrollBar().setValue(scrolled)
        if self.chosen() != chosen:
            self.chosen_changed.emit()

    def chosen(self) -> Row | None:
        """Return the selected row."""
        return self.rows[self.chosen_number()] if self.chosen_number() >= 0 else None

    def chosen_number(self) -> int:
        """Return the number of the selected row; -1 for none."""
        return next((each.row() for each in self.selectionModel().selectedRows()), -1)

    def choose(self, key: Hashable) -> None:
        """Select the row with this key, if there is one."""
        self.selectRow(self._model.number_of(key))

    def sort_by(self, at: int) -> None:
        """Sort by a column; the same column again reverses the order."""
        column: Column[Row] = self._model.columns[at]
        again = column is self._sorted_by
        self._is_descending = not self._is_descending if again else column.is_descending
        self._sorted_by = column
        self.show_arrow(column.name, is_descending=self._is_descending)
        self.show_rows(self._unsorted)

    def show_arrow(self, name: str, *, is_descending: bool) -> None:
        """Show that the rows are sorted by the column with this name."""
        arrow = DESCENDING if is_descending else ASCENDING
        for place, each in enumerate(self._model.columns):
            # In the text: Qt's own arrow would be above the text or cut it.
            title = f"{each.title} {arrow}" if each.name == name else each.title
            self._model.setHeaderData(place, Qt.Orientation.Horizontal, title)

    def place(self, name: str) -> int:
        """Return the number of the shown column with this name."""
        return [each.name for each in self._model.columns].index(name)

    def offer(self, menu: str, file_name: str, entries: Callable[[], Sequence[Entry]] = tuple) -> None:
        """Add a context menu: these entries, and below them those that copy and save the table."""

        def ask(form: str) -> None:
            table = Table(self._columns, self.rows, unknown=DASH, capitals=False)
            self.table_asked.emit(form, file_name, table)

        give_menu(self, menu, lambda _: [*entries(), *copy_entries(ask), (tr("Save table…"), lambda: ask("file"))])

    def height_of_rows(self) -> int:
        """Return the height at which all rows can be seen."""
        return scaled(HEADING_PX) + self.row_px() * len(self.rows) + 4

    def _recolour(self) -> None:
        self.show_rows(self._unsorted, again=True)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the current row with one of its keys."""
        at = self.currentIndex().row()  # which Tab sets without selecting it
        if event.key() in self._open_keys and at >= 0:
            self.row_opened.emit(self.rows[at])
        else:
            super().keyPressEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802 (Qt's name)
        """Follow the size of the text."""
        super().changeEvent(event)
        if event.type() in {QEvent.Type.FontChange, QEvent.Type.StyleChange}:
            self.set_heights()

    def row_px(self) -> int:
        """Return the height of a row."""
        return scaled(ROW_PX)

    def set_heights(self) -> None:
        """Give the rows and the headings their heights."""
        self.verticalHeader().setDefaultSectionSize(self.row_px())
        self.horizontalHeader().setFixedHeight(scaled(HEADING_PX))

    def _ordered(self) -> list[Row]:
        """Return the rows in the order of the column by which they are sorted; unknown values come last."""
        column = self._sorted_by
        if column is None:
            return list(self._unsorted)
        key: Callable[[Row], Any] = column.sort or column.value or column.cell
        known = [row for row in self._unsorted if key(row) is not None]
        unknown = [row for row in self._unsorted if key(row) is None]
        rows = [*sorted(known, key=key, reverse=self._is_descending), *unknown]
        return sorted(rows, key=self._group) if self._group is not None else rows


def empty_label(text: str = "") -> PlainLabel:
    """Return a wrapping label for an empty table."""
    label = PlainLabel(text, role="empty", wraps=True)
    label.setContentsMargins(8, 6, 8, 6)
    return label


@cache
def _alignment(*, is_number: bool) -> int:
    side = Qt.AlignmentFlag.AlignRight if is_number else Qt.AlignmentFlag.AlignLeft
    return (side | Qt.AlignmentFlag.AlignVCenter).value


@cache
def _colour(name: str) -> QColor:
    return QColor(name)


@cache
def _font(*, is_bold: bool = False, pixels: int = 0) -> QFont:
    font = QFont()
    font.setBold(is_bold)
    if pixels:
        font.setPixelSize(pixels)
    return font
