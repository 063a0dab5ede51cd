"""Tables of the window: their columns, each declared once, the model of their rows, and the view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPixmap
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from core.language import tr
from core.table import Column as ReadColumn
from core.table import Row, Table
from gui.style.formatting import DASH
from gui.style.text_size import scaled
from gui.style.theme import current_theme
from gui.widgets.context_menu import Entry, copy_entries, give_menu
from gui.widgets.painting import Index
from gui.widgets.plain_text import PlainLabel, verbatim

ROW_PX, HEADING_PX, MIN_COLUMN_PX = 24, 26, 44
STRETCH = 0
"""The width of a column that takes the room that the others leave."""
ROW = Qt.ItemDataRole.UserRole + 1
"""Item data: the row."""
DESCENDING, ASCENDING = "▾", "▴"
NOWHERE = QModelIndex()


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
    """Returns the name of a colour of the theme."""
    is_bold: Callable[[Row], bool] | None = None
    icon: Callable[[Row], QPixmap | None] | None = None
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


class RowsModel(QAbstractTableModel):
    """Rows that are known by their keys: a row that moves stays selected."""

    def __init__(self, key: Callable[[Any], Hashable], parent: QAbstractItemView) -> None:
        super().__init__(parent)
        self.key = key
        self.columns: Sequence[Column[Any]] = ()
        self.rows: Sequence[Any] = ()
        self.sorted_by: Column[Any] | None = None
        self.is_descending = False

    def show_columns(self, columns: Sequence[Column[Any]]) -> None:
        """Show these columns."""
        self.beginResetModel()
        self.columns = columns
        self.endResetModel()

    def show_rows(self, rows: Sequence[Any]) -> None:
        """Show these rows."""
        before, were, are = self.rows, [*map(self.key, self.rows)], [*map(self.key, rows)]
        if were == are:
            self.rows = rows
            changed = [at for at, (old, new) in enumerate(zip(before, rows, strict=True)) if old != new]
        else:
            # A removal of rows would have Qt select the neighbour of a selected row.
            self.layoutAboutToBeChanged.emit()
            self.rows, changed, places = rows, list(range(len(rows))), {key: at for at, key in enumerate(are)}
            kept = self.persistentIndexList()
            moved = [self.index(places.get(were[each.row()], -1), each.column()) for each in kept]
            self.changePersistentIndexList(kept, moved)
            self.layoutChanged.emit()
        for at in changed:
            self.dataChanged.emit(self.index(at, 0), self.index(at, len(self.columns) - 1))

    def number_of(self, key: Hashable) -> int:
        """Return the number of the row with a key; -1 without it."""
        return next((at for at, row in enumerate(self.rows) if self.key(row) == key), -1)

    def rowCount(self, parent: Index = NOWHERE) -> int:  # noqa: N802 (Qt's name)
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = NOWHERE) -> int:  # noqa: N802 (Qt's name)
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the row itself, or what its column gives for a role."""
        row = self.rows[index.row()]
        return row if role == ROW else self._shown(self.columns[index.column()], row, role)

    def headerData(  # noqa: N802 (Qt's name)
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Return what a heading shows. The arrow is part of its text: Qt's own would be above the text or cut it."""
        if orientation is Qt.Orientation.Vertical:
            return None
        column = self.columns[section]
        arrow = f" {DESCENDING if self.is_descending else ASCENDING}" if column is self.sorted_by else ""
        return {
            Qt.ItemDataRole.DisplayRole: f"{column.title}{arrow}",
            Qt.ItemDataRole.ToolTipRole: verbatim(column.about),
            Qt.ItemDataRole.TextAlignmentRole: _alignment(column),
            Qt.ItemDataRole.FontRole: column.heading_px and _font(pixels=scaled(column.heading_px)),
        }.get(Qt.ItemDataRole(role))

    def _shown(self, column: Column[Any], row: Any, role: int) -> object:  # noqa: ANN401 (a row of any table)
        match role:
            case Qt.ItemDataRole.DisplayRole:
                text = column.cell(row)
                shown: object = DASH if text is None else text
            case Qt.ItemDataRole.TextAlignmentRole:
                shown = _alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                shown = column.tip and verbatim(column.tip(row))
            case Qt.ItemDataRole.AccessibleTextRole:
                shown = column.spoken and column.spoken(row)
            case Qt.ItemDataRole.DecorationRole:
                shown = column.icon and column.icon(row)
            case Qt.ItemDataRole.ForegroundRole:
                shown = column.tone and QColor(getattr(current_theme(), column.tone(row)))
            case Qt.ItemDataRole.FontRole:
                shown = column.is_bold and _font(is_bold=column.is_bold(row))
            case _:
                shown = None
        return shown


class RowsTable(QTableView, Generic[Row]):
    """Shows rows; sorts them by a heading, if it is told by which at first; copies and saves them."""

    chosen_changed = Signal()
    """Another row is selected, or the selected row has changed."""
    row_opened = Signal(object)
    """A row was double-clicked, or one of the `open_keys` pressed on it."""
    table_asked = Signal(str, str, object)
    """It is to be copied as `markdown` or `csv`, or saved as a `file`; how the file's name begins; the `Table`."""

    def __init__(
        self, name: str, accessible: str, columns: Sequence[Column[Row]], *, key: Callable[[Row], Hashable] = hash,
        sorted_by: str = "", open_keys: Collection[Qt.Key] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self._model = RowsModel(key, self)
        self._columns: Sequence[Column[Row]] = ()
        self._unsorted: Sequence[Row] = ()
        self._open_keys = open_keys
        self.setObjectName(name)
        self.setAccessibleName(accessible)
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
        self.doubleClicked.connect(lambda index: self.row_opened.emit(index.data(ROW)))
        if sorted_by:
            self.horizontalHeader().setSectionsClickable(True)
            self.horizontalHeader().sectionClicked.connect(self.sort_by)
            self.sort_by(self.place(sorted_by))

    @property
    def rows(self) -> Sequence[Row]:
        """The shown rows in their order."""
        return self._model.rows

    def show_columns(self, columns: Sequence[Column[Row]]) -> None:
        """Show these columns of the same rows."""
        chosen = self.chosen_number()
        self._columns = columns
        self._model.show_columns([each for each in columns if each.title is not None])
        header, modes = self.horizontalHeader(), QHeaderView.ResizeMode
        for at, each in enumerate(self._model.columns):
            mode = modes.Stretch if each.width_px == STRETCH else modes.Interactive
            header.setSectionResizeMode(at, modes.ResizeToContents if each.width_px is None else mode)
            if each.width_px:
                header.resizeSection(at, each.width_px)
        self.selectRow(chosen)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows; the selected row stays selected."""
        chosen = self.chosen()
        self._unsorted = rows
        self._model.show_rows(self._ordered())
        if chosen is not None and self._model.number_of(self._model.key(chosen)) != self.chosen_number():
            self.clearSelection()  # if all rows were selected, Qt selects all rows that are in their place
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
        column = self._model.columns[at]
        again = column is self._model.sorted_by
        self._model.is_descending = not self._model.is_descending if again else column.is_descending
        self._model.sorted_by = column
        self._model.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self._model.columns) - 1)
        self.show_rows(self._unsorted)

    def place(self, name: str) -> int:
        """Return the number of the shown column with this name."""
        return [each.name for each in self._model.columns].index(name)

    def offer(self, menu: str, file_name: str, entries: Callable[[], Sequence[Entry]] = tuple) -> None:
        """Give the table a context menu with these entries, and below them those to copy and to save the table."""

        def ask(form: str) -> None:
            table = Table(self._columns, self.rows, unknown=DASH, capitals=False)
            self.table_asked.emit(form, file_name, table)

        give_menu(self, menu, lambda _: [*entries(), *copy_entries(ask), (tr("Save table…"), lambda: ask("file"))])

    def height_of_rows(self) -> int:
        """Return the height at which all rows can be seen."""
        return scaled(HEADING_PX) + self.row_px() * len(self.rows) + 4

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Open the selected row with one of its keys."""
        if event.key() in self._open_keys and self.chosen_number() >= 0:
            self.row_opened.emit(self.chosen())
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
        column = self._model.sorted_by
        if column is None:
            return list(self._unsorted)
        key: Callable[[Row], Any] = column.sort or column.value or column.cell
        known = [row for row in self._unsorted if key(row) is not None]
        unknown = [row for row in self._unsorted if key(row) is None]
        return [*sorted(known, key=key, reverse=self._model.is_descending), *unknown]


def empty_label(text: str = "") -> PlainLabel:
    """Return a wrapping label for an empty table."""
    label = PlainLabel(text, role="empty", wraps=True)
    label.setContentsMargins(8, 6, 8, 6)
    return label


def _alignment(column: Column[Any]) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignRight if column.is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def _font(*, is_bold: bool = False, pixels: int = 0) -> QFont:
    font = QFont()
    font.setBold(is_bold)
    if pixels:
        font.setPixelSize(pixels)
    return font
