"""Forms: groups of fields, editors of settings, a form made from the table of settings, and a sheet of such forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QFrame, QLineEdit, QPushButton, QScrollArea, QWidget

from core.language import tr, tr_noop
from core.schema.setting import Flag, Number, OneOf, Setting, Whole, settings_of
from core.schema.settings import CHECKPOINTS, COUNTED, STOP, Checkpoints, SettingValue, StopTimeouts, Training
from core.schema.spec import SCRIPT, RunSpec
from core.text import capital
from gui.base.text_size import scaled
from gui.base.theme import mark
from gui.widgets.buttons import compact_button
from gui.widgets.fields import MAX_NUMBER, ROW_PX, WholeBox, choice, field, form, label, line, select, whole_number
from gui.widgets.layouts import Watch, hbox, scroll_down, vbox
from gui.widgets.plain_text import PlainLabel, bold_label, named

LABEL_PX = 166
"""Width of labels: that of the longest one, so that the fields of groups below each other are aligned."""
CHANGED = "•"
"""Stands before the label of a changed field, so that the mark is more than a colour."""


class FieldGroup(QWidget):
    """Each editor edits one field of a spec, by name."""

    changed = Signal()

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._editors: dict[str, Editor] = {}
        self._labels: dict[str, PlainLabel] = {}
        self._titles: dict[str, str] = {}
        self.defaults: dict[str, SettingValue] = {}
        """The default values by name."""
        self._hidden: set[str] = set()
        """Fields that the choices made elsewhere do not have."""
        self._search = ""
        self.wanted = True
        """Whether the workload has these fields."""
        self._rows = form(self)
        self.heading = bold_label(heading)
        self._rows.addRow(self.heading)
        self.changed.connect(self.show_changes)

    # -- values ----------------------------------------------------------------------------------

    def values(self) -> dict[str, object]:
        """Return the visible fields by name, as entered: an invalid number stays a string."""
        return {name: value for name, value in self.remember().items() if name not in self._hidden}

    def remember(self) -> dict[str, Any]:
        """Return all fields, for the settings file."""
        return {name: editor.value() for name, editor in self._editors.items()}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        for name, editor in self._editors.items():
            if isinstance(kept.get(name), (bool, int, float, str)):
                editor.set_value(kept[name])

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of a spec, None included."""
        for name, editor in self._editors.items():
            if name in values:
                editor.set_value(values[name])

    # -- defaults --------------------------------------------------------------------------------

    def set_defaults(self, defaults: Mapping[str, SettingValue]) -> None:
        """Set the default values. Fields that had their old default take the new one."""
        for name, editor in self._editors.items():
            if name in defaults:
                follows = name not in self.defaults or not self._differs(name)
                self.defaults[name] = defaults[name]
                if follows:
                    editor.set_value(defaults[name])
        self.show_changes()

    def reset(self) -> None:
        """Give every field its default."""
        for name in self.defaults:
            self._editors[name].set_value(self.defaults[name])

    def overrides(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, for the settings file: the others follow theirs."""
        return {name: value for name, value in self.remember().items() if self._differs(name)}

    def changes(self) -> list[str]:
        """Return the fields that differ from their defaults, as they are shown: `Seed 3`."""
        return [
            f"{self._titles[name]} {_shown(editor)}".strip()
            for name, editor in self._editors.items()
            if name not in self._hidden and self._differs(name)
        ]

    def show_changes(self) -> None:
        """Mark the labels of the fields that differ from their defaults."""
        for name, text in self._labels.items():
            differs = self._differs(name)
            if differs is not (text.property("tone") == "accent"):
                text.setText(f"{CHANGED} {self._titles[name]}" if differs else self._titles[name])
                text.setAccessibleDescription(tr("Changed from the default") if differs else "")
                mark(text, tone="accent" if differs else "")

    def _differs(self, name: str) -> bool:
        if name not in self.defaults:
            return False  # it is about to get its default
        value, default = self._editors[name].value(), self.defaults[name]
        return not (value == default or str(value) == str(default))

    # -- rows ------------------------------------------------------------------------------------

    def show_group(self, *, wanted: bool) -> None:
        """Show the group if the workload has its fields, and if one of them matches the search."""
        self.wanted = wanted
        self.search(self._search)

    def search(self, text: str) -> bool:
        """Show only the fields whose title, group or explanation has this text; return whether there are any."""
        self._search = text
        words = text.casefold().split()
        found = [name for name in self._editors if name not in self._hidden and self._matches(name, words)]
        for name, editor in self._editors.items():
            if self._rows.isRowVisible(editor.widget) is not (name in found):
                self._rows.setRowVisible(editor.widget, name in found)
        self.setVisible(self.wanted and bool(found))
        return self.wanted and bool(found)

    def _matches(self, name: str, words: list[str]) -> bool:
        about = f"{self._titles[name]} {self.heading.text()} {name} {self._editors[name].widget.toolTip()}".casefold()
        return all(word in about for word in words)

    def _add(self, title: str, **editor: Editor) -> None:
        """Add a row of one field."""
        for name, each in editor.items():
            self._editors[name], self._titles[name] = each, title
            self._rows.addRow(label(title, each.widget, LABEL_PX), each.widget)
            self._labels[name] = self._rows.labelForField(each.widget)  # type: ignore[assignment]  # as `label` made it

    def _clear(self) -> None:
        """Remove all rows."""
        for editor in self._editors.values():
            self._rows.removeRow(editor.widget)
        self._editors, self._labels, self._titles, self.defaults = {}, {}, {}, {}

    def _show_row(self, name: str, *, shown: bool) -> None:
        """Show or hide the row of this field; `values` omits a hidden field."""
        if shown is (name in self._hidden):
            self._hidden ^= {name}
            self.search(self._search)


def _shown(editor: Editor) -> str:
    """Return the value of a field as the user sees it."""
    widget = editor.widget
    if isinstance(widget, QComboBox):
        return widget.currentText()
    if isinstance(widget, QCheckBox):
        return tr("on") if widget.isChecked() else tr("off")
    value = editor.value()
    return tr("empty") if value is None or value == "" else str(value)


MAX_CHARACTERS = 40
"""Maximum characters of a number; longer values are not restored."""
MAX_DIGITS = 18
NAMES = {
    "epochs": "epochsBox", "batch_size": "batchBox", "learning_rate": "rateEdit", "warmup_steps": "warmupBox",
    "weight_decay": "decayEdit", "gradient_clip": "clipEdit", "stop_on_nan": "nanBox", "loader_workers": "workersBox",
    "bucket_mb": "bucketEdit", "gradient_compression": "compressionBox", "activation_checkpointing": "activationBox",
    "unit": "checkpointUnitBox", "every": "checkpointEveryBox", "keep": "checkpointKeepBox",
    "best": "checkpointBestBox",
}
"""Object names of fields that are not made from their options."""
SEVERAL = tr_noop("Several numbers, such as 1, 2, 3, put a run for each into the queue")
WITHOUT_ARROWS = ("epochs", "batch_size", "warmup_steps", "every", "keep", "tolerance_mb")
"""Numbers that one types rather than counts up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """A field with functions to read and set its value. Setting an invalid value does nothing."""

    widget: QWidget
    value: Callable[[], SettingValue]
    set_value: Callable[[SettingValue], None]


def of_setting(row: Setting, changed: Callable[[], None], name: str = "") -> Editor:
    """Return the field of a setting. `name`: the object name, where it is not the usual one."""
    title, tip = tr(row.title), capital(tr(row.help))
    more = f"\n{tr(SEVERAL)}" if settings_of(Training).get(row.name) is row else ""
    is_line = not isinstance(row.kind, (Flag, OneOf)) and (row.none or isinstance(row.kind, Number))
    option = row.attribute or row.name
    first, *others = option.split("_")
    camel = first + "".join(each.capitalize() for each in others)
    name = name or NAMES.get(row.name) or f"{camel}{'Edit' if is_line else 'Box'}"
    if isinstance(row.kind, Flag):
        return check(name, title, tip, changed, text=" ")
    if isinstance(row.kind, OneOf):
        return one_of(name, title, tip, changed, [(row.words(each), each) for each in row.kind.titles])
    if isinstance(row.kind, Whole) and not is_line:
        arrows = row.name not in WITHOUT_ARROWS
        return integer(name, title, tip + more, changed, minimum=row.kind.minimum, arrows=arrows)
    empty = tr("{help}; empty: {default}", help=tip, default=row.default_words)
    return number(name, title, empty + more, changed, empty=row.default_words)


def check(name: str, title: str, tip: str, changed: Callable[[], None], *, text: str = "") -> Editor:
    """Return a check box; `text` is its label."""
    box = QCheckBox(text)
    field(box, name, title, tip)
    box.setMinimumHeight(scaled(ROW_PX))
    box.toggled.connect(lambda _: changed())
    return Editor(widget=box, value=box.isChecked, set_value=lambda value: box.setChecked(value is True))


def integer(
    name: str, title: str, tip: str, changed: Callable[[], None], *, minimum: int = -MAX_NUMBER, arrows: bool = True
) -> Editor:
    """Return a field for a whole number."""
    box = WholeBox()
    whole_number(name, title, tip, minimum=minimum, value=max(minimum, 0), arrows=arrows, box=box)
    box.valueChanged.connect(lambda _: changed())
    box.lineEdit().textChanged.connect(lambda _: changed())  # the others of several numbers

    def set_value(value: SettingValue) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and box.minimum() <= value <= box.maximum():
            box.setValue(value)
        elif isinstance(value, str):
            box.show_several(value)

    return Editor(widget=box, value=lambda: box.several or box.value(), set_value=set_value)


def one_of(name: str, title: str, tip: str, changed: Callable[[], None], items: Iterable[tuple[str, str]]) -> Editor:
    """Return a box to choose one of `items`: pairs of title and id."""
    box: QComboBox = choice(name, title, tip, items)
    box.currentIndexChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        select(box, str(value))

    return Editor(widget=box, value=box.currentData, set_value=set_value)


def text(
    name: str, title: str, tip: str, changed: Callable[[], None], *, empty: str = "", empty_is_none: bool = False
) -> Editor:
    """Return a field for a string; `empty`: what an empty field means, as a placeholder.

    It also serves decimal numbers that are checked later.
    """
    edit: QLineEdit = line(name, title, tip, empty or ("none" if empty_is_none else ""))
    edit.textChanged.connect(lambda _: changed())

    def value() -> SettingValue:
        return None if empty_is_none and not edit.text() else edit.text()

    return Editor(widget=edit, value=value, set_value=lambda value: edit.setText("" if value is None else str(value)))


def number(name: str, title: str, tip: str, changed: Callable[[], None], *, empty: str) -> Editor:
    """Return a field for an optional number; `empty`: what an empty field means, as a placeholder."""
    edit: QLineEdit = line(name, title, tip, empty)
    edit.textChanged.connect(lambda _: changed())

    def set_value(value: SettingValue) -> None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        shown = "" if value is None else str(value)
        if not isinstance(value, bool) and len(shown) <= MAX_CHARACTERS:
            edit.setText(shown)

    return Editor(widget=edit, value=lambda: typed_number(edit.text()), set_value=set_value)


def typed_number(typed: str) -> float | str | None:
    """Return the entered number; a decimal comma is accepted. Return other text unchanged, to be reported later."""
    typed = typed.strip()
    if not typed:
        return None
    if typed.isdecimal() and len(typed) <= MAX_DIGITS:
        return int(typed)
    try:
        return float(typed.replace(",", "."))
    except ValueError:
        return typed


class SettingsForm(FieldGroup):
    """The settings of one group of a dataclass. Hides those that a strategy lacks."""

    def __init__(self, owner: type, group: str) -> None:
        super().__init__(capital(tr(group)))
        self.group = group
        self._settings = {name: row for name, row in settings_of(owner).items() if row.group == group}
        for name, row in self._settings.items():
            self._add(tr(row.title), **{name: of_setting(row, self.changed.emit)})
        self.set_defaults({name: row.default for name, row in self._settings.items()})

    def chosen(self) -> dict[str, object]:
        """Return the values of the visible fields; an empty field means its default."""
        values = {name: self.defaults[name] if value is None else value for name, value in self.values().items()}
        return {name: value for name, value in values.items() if value is not None}

    def show_strategy(self, framework: str, strategy: str = "") -> None:
        """Show the settings that this framework and strategy have; `script` is the framework of a script."""
        for name, row in self._settings.items():
            self._show_row(name, shown=row.is_for(framework, strategy))


class CheckpointForm(SettingsForm):
    """Fields of `Checkpoints`. Hides the interval where nothing is counted."""

    def __init__(self) -> None:
        super().__init__(Checkpoints, CHECKPOINTS)
        self.changed.connect(self._on_unit_changed)
        self._on_unit_changed()

    def _on_unit_changed(self) -> None:
        self._show_row("every", shown=self._editors["unit"].value() in COUNTED)


class StopForm(SettingsForm):
    """Fields of `StopTimeouts`. They are empty by default, since a script has other defaults than a recipe."""

    def __init__(self) -> None:
        super().__init__(StopTimeouts, STOP)
        self.set_defaults(dict.fromkeys(self._settings))

    def fill_from(self, spec: RunSpec) -> None:
        """Fill in the timeouts of a run or a preset that are not the usual ones."""
        usual = asdict(StopTimeouts.usual(is_script=spec.framework == SCRIPT))
        timeouts = asdict(spec.stop_timeouts)
        self.fill({name: None if timeouts[name] == usual[name] else timeouts[name] for name in usual})


COLUMN = 44
"""Least width of a column, in letters: enough for fields beside their labels, which need half the height."""
GAP_PX = 24
TITLE_FROM = 70
"""Width of the sheet from which on there is room for its title, in letters."""
NONE = tr_noop("No setting has these words. The search looks at names, groups and explanations.")


class SettingsSheet(QFrame):
    """Holds the groups; they are the only editors of these settings. Escape closes the sheet."""

    opened = Signal()
    closed = Signal()

    def __init__(self, groups: Sequence[FieldGroup], parent: QWidget) -> None:
        """`parent`: the window. With each new parent, Qt would style everything in the sheet again."""
        super().__init__(parent)
        named(self, "settingsSheet", tr("All settings"), card=True)
        self._groups = tuple(groups)
        self._ground: QWidget | None = None
        self.search = named(QLineEdit(), "settingsSearch", tr("Search the settings"))
        self.search.setPlaceholderText(tr("Search the settings"))
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(lambda _: self.show_matching())
        every, close = tr("Give every setting of this sheet its default"), tr("Close the settings (Escape)")
        self.defaults = compact_button("resetSettings", tr("Reset to defaults"), every, does=self._reset)
        done = compact_button("closeSettings", tr("Done"), close, does=self.close_sheet)
        self._none = PlainLabel(tr(NONE), role="empty", wraps=True)
        self._lay_out(done)
        self.hide()

    def cover(self, ground: QWidget) -> None:
        """Cover this part of the parent whenever the sheet is open."""
        self._ground = ground
        Watch(self, ground, {QEvent.Type.Resize, QEvent.Type.Move}, self._follow)

    def toggle(self) -> None:
        """Open the sheet, or close it."""
        if self.isVisible():
            self.close_sheet()
        else:
            self._place()
            self.show()
            self.raise_()
            self.opened.emit()
            self.search.setFocus()
            self.search.selectAll()

    def close_sheet(self) -> None:
        """Close the sheet; `closed` reports it if the focus was inside, and has to go elsewhere."""
        focus = self.window().focusWidget()
        had_focus = focus is not None and self.isAncestorOf(focus)
        if self.isVisible():
            self.hide()
            if had_focus:
                self.closed.emit()

    def show_matching(self) -> None:
        """Show the settings that have the searched words."""
        found = [group.search(self.search.text()) for group in self._groups]
        self._none.setVisible(not any(found))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 (Qt's name)
        """Close at Escape; no other key reaches what is below."""
        if event.key() == Qt.Key.Key_Escape:
            self.close_sheet()

    def _follow(self) -> None:
        if self.isVisible():
            self._place()

    def _place(self) -> None:
        if self._ground is not None:
            corner = self._ground.mapTo(self._ground.window(), QPoint(0, 0))
            self._title.setVisible(self._ground.width() > TITLE_FROM * self.fontMetrics().averageCharWidth())
            self.setGeometry(corner.x(), corner.y(), self._ground.width(), self._ground.height())
            self.raise_()  # another layout of the window has put the docks and the plots over it

    def _reset(self) -> None:
        for group in self._groups:
            if group.wanted:
                group.reset()

    def _lay_out(self, done: QPushButton) -> None:
        self._title = PlainLabel(tr("All settings"), role="title")
        layout = vbox(self, gap=10, margins=(14, 10, 14, 10))
        hbox(layout, self._title, (self.search, 1), self.defaults, done, gap=10)
        scroll = QScrollArea()
        scroll_down(scroll)
        columns = Columns()
        scroll.setWidget(columns)
        layout.addWidget(self._none)
        layout.addWidget(scroll, 1)
        columns.place(self._groups)  # last: with each new parent Qt styles everything below again, too
        self._none.hide()


class Columns(QWidget):
    """Places parts in as many columns as there is room for, each part into the shortest column so far."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: tuple[QWidget, ...] = ()

    def place(self, parts: Sequence[QWidget]) -> None:
        """Take these parts."""
        self._parts = tuple(parts)
        for part in parts:
            part.setParent(self)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 (Qt's name)
        """Place the parts."""
        super().resizeEvent(event)
        self._arrange()

    def event(self, event: QEvent) -> bool:
        """Place the parts again when one has changed its size, or was shown or hidden."""
        if event.type() in {QEvent.Type.LayoutRequest, QEvent.Type.Show}:
            self._arrange()
        return super().event(event)

    def _arrange(self) -> None:
        shown = [part for part in self._parts if not part.isHidden()]
        least = COLUMN * self.fontMetrics().averageCharWidth()
        count = max(1, min((self.width() + GAP_PX) // (least + GAP_PX), len(shown)))
        width = min((self.width() - GAP_PX * (count - 1)) // count, 2 * least)
        ends = [0] * count
        for part in shown:
            column = ends.index(min(ends))
            height = part.sizeHint().height()
            part.setGeometry(column * (width + GAP_PX), ends[column], width, height)
            ends[column] += height + GAP_PX // 2
        self.setMinimumHeight(max(ends))
