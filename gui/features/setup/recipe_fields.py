"""The fields of a recipe: the recipe, the run, the training, its own arguments, and the list of strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PySide6.QtCore import QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from core.catalog import frameworks, recipes, strategies
from core.catalog.recipes import RecipeFile, Setting
from core.catalog.strategies import Strategy
from core.config import validation
from core.config.finding import ProblemKind
from core.devices.device import Device
from core.language import tr, tr_noop
from core.schema.setting import settings_of
from core.schema.settings import EARLY_STOPPING, TRAINING, SettingValue, Training
from gui.base.formatting import setting_title
from gui.base.painting import Index, outline, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.widgets import forms
from gui.widgets.dialogs import FileDialog, python_files
from gui.widgets.fields import MAX_NUMBER, ChoiceBox, browse_button, choice, field, select, side_by_side
from gui.widgets.forms import MAX_CHARACTERS, Editor, FieldGroup, SettingsForm, of_setting, typed_number
from gui.widgets.layouts import hbox, vbox
from gui.widgets.plain_text import verbatim

DEFAULT = "digits_cnn"
"""Selected at first: its data are included and it trains in seconds."""


class RecipePicker(QWidget):
    """A box with the built-in recipes and the opened files, and a button that opens another file."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.box = choice("recipeBox", tr("Workload"), tr("What to train: a built-in workload or your own recipe file"))
        self.box.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        tip = tr("Open a Python file with model() and train_data(), or drop one here")
        open_button = browse_button("openRecipeButton", tr("Open a recipe file"), tip, self._browse)
        self._framework = ""
        self.box.currentIndexChanged.connect(lambda _: self.changed.emit())
        hbox(self, (self.box, 1), open_button, gap=7)
        self.setFocusProxy(self.box)

    @property
    def reference(self) -> str:
        """The name of a built-in recipe or the path of a file."""
        return str(self.box.currentData() or "")

    def show_framework(self, framework: str, reference: str) -> None:
        """Offer the built-in workloads of a framework and the opened files; select `reference` if it is offered."""
        if framework == self._framework:
            return
        self._framework = framework
        before, files = self.reference, self.files()
        self.box.blockSignals(True)
        self.box.clear()
        for name, summary in recipes.built_in_summaries(framework).items():
            self._add(name, name, tr("Built in: {summary}", summary=tr(summary)))
        for path in files:
            self._add(Path(path).name, path, path)
        select(self.box, DEFAULT)
        self.choose(reference)
        self.box.blockSignals(False)
        if self.reference != before:
            self.changed.emit()

    def open_file(self, path: Path) -> None:
        """Select a file. It is checked later, together with all other choices."""
        reference = str(path.absolute())
        if not select(self.box, reference):
            self._add(path.name, reference, reference)
            select(self.box, reference)

    def choose(self, reference: str) -> None:
        """Select by name or path; ignore one that no longer exists."""
        if not select(self.box, reference) and recipes.is_file(Path(reference)):
            self.open_file(Path(reference))

    def files(self) -> list[str]:
        """Return the opened files."""
        every = (str(self.box.itemData(row)) for row in range(self.box.count()))
        return [reference for reference in every if "/" in reference]

    def _add(self, title: str, reference: str, tip: str) -> None:
        self.box.addItem(title, reference)
        self.box.setItemData(self.box.count() - 1, verbatim(tip), Qt.ItemDataRole.ToolTipRole)

    def _browse(self) -> None:
        begin = str(Path(self.reference).parent) if "/" in self.reference else ""
        choose = lambda path: self.open_file(Path(path))  # noqa: E731
        FileDialog(self, tr("Open a recipe"), choose, begin=begin, names=python_files()).open()


class RunForm(FieldGroup):
    """Fields of `RunSpec`; an empty field means the default."""

    def __init__(self) -> None:
        super().__init__(tr("Run"))
        self._filled: dict[str, str] = {}
        """Values copied from another run; they are dropped when the workload changes."""
        folder, changed = tr("Working folder"), self.changed.emit
        in_list, relative = tr("Name of the run in the list of runs"), tr("Folder in which relative paths start")
        python = tr("A Python executable or an environment folder with the framework; it does not need Trainyard")
        of_run = forms.text("runNameEdit", tr("Name of the run"), in_list, changed, empty=tr("same as workload"))
        in_folder = forms.text("recipeDirEdit", folder, relative, changed, empty=tr("current folder"))
        trains = forms.text("recipePythonEdit", tr("Python that trains"), python, changed, empty=tr("automatic"))
        self._add(tr("Name"), name=of_run)
        self._add(folder, working_dir=in_folder)
        self._add("Python", python=trains)
        self.set_defaults(dict.fromkeys(self._editors, ""))

    def chosen(self) -> dict[str, str | None]:
        """Return the values by field name; None for an empty field."""
        return {name: str(editor.value()).strip() or None for name, editor in self._editors.items()}

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of another run."""
        super().fill(values)
        self._filled = {name: text for name, text in self.chosen().items() if text}

    def forget_filled(self) -> None:
        """Clear the values copied from another run; values typed by the user stay."""
        for name, text in self.chosen().items():
            if text and text == self._filled.get(name):
                self._editors[name].set_value("")
        self._filled = {}

    def remember(self) -> dict[str, Any]:
        """See `FieldGroup`; also returns which values were copied."""
        return {**super().remember(), "filled": self._filled}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See `FieldGroup`."""
        super().restore(kept)
        filled = kept.get("filled")
        self._filled = {str(name): str(text) for name, text in filled.items()} if isinstance(filled, dict) else {}


class TrainingForm(QWidget):
    """Epochs, batch size and learning rate; `groups` has the other settings and is laid out elsewhere."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        rows, changed = settings_of(Training), self.changed.emit
        self._numbers: dict[str, Editor] = {name: of_setting(rows[name], changed) for name in ("epochs", "batch_size")}
        for name, editor in self._numbers.items():
            editor.set_value(rows[name].default)
        rate = of_setting(rows["learning_rate"], changed).widget
        assert isinstance(rate, QLineEdit)
        self._rate = rate
        self._recipe_rate = ""
        groups = dict.fromkeys(row.group for row in rows.values() if row.group != TRAINING)
        self.groups = tuple(SettingsForm(Training, group) for group in groups)
        self.early = next(group for group in self.groups if group.group == EARLY_STOPPING)
        """Scripts have this group, too, and all strategies have all of it."""
        self._lay_out()
        for group in self.groups:
            group.changed.connect(self.changed)

    def values(self) -> dict[str, object]:
        """Return the fields of `Training` as entered: a learning rate that is no number stays a string."""
        others = {name: value for group in self.groups for name, value in group.values().items()}
        return {**self._typed_numbers(), "learning_rate": typed_number(self._rate.text()), **others}

    def offer_rate(self, rate: float | None) -> None:
        """Fill in the recipe's learning rate, unless the user entered another. None: the recipe does not state it."""
        text = "" if rate is None else f"{rate:g}"
        unchanged = self._rate.text().strip() in {"", self._recipe_rate}
        self._recipe_rate = text
        self._rate.setPlaceholderText(text or tr("recipe"))
        if unchanged:
            self._rate.setText(text)

    def show_strategy(self, framework: str, strategy: str) -> None:
        """Show the settings that this framework and strategy have."""
        for group in self.groups:
            if group is not self.early:
                group.show_strategy(framework, strategy)
        compiler = frameworks.framework(framework).compiler
        for box in (each for group in self.groups for each in group.findChildren(QCheckBox, "compileBox")):
            box.setText(compiler)
            box.setAccessibleName(tr("Compile ({compiler})", compiler=compiler))

    def remember(self) -> dict[str, Any]:
        """Return what the user set, for the settings file."""
        rate = self._rate.text().strip()
        others = {name: value for group in self.groups for name, value in group.remember().items()}
        return {**self._typed_numbers(), "learning_rate": None if rate == self._recipe_rate else rate, **others}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `remember` returned; invalid values are ignored."""
        for name, editor in self._numbers.items():
            editor.set_value(values.get(name))
        if isinstance(values.get("learning_rate"), str):
            self._rate.setText(values["learning_rate"][:MAX_CHARACTERS])
        for group in self.groups:
            group.restore(values)

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of a spec, None included."""
        for name, editor in self._numbers.items():
            editor.set_value(values[name])
        rate = values["learning_rate"]
        is_usual = rate == typed_number(self._recipe_rate)
        self._rate.setText("" if rate is None else self._recipe_rate if is_usual else str(rate))
        for group in self.groups:
            group.fill(values)

    def _typed_numbers(self) -> dict[str, object]:
        return {name: editor.value() for name, editor in self._numbers.items()}

    def _lay_out(self) -> None:
        boxes = [editor.widget for editor in self._numbers.values()]
        vbox(self, side_by_side(*boxes, self._rate))
        self._rate.setStyleSheet("QLineEdit { padding: 5px 6px; }")
        self.setFocusProxy(boxes[0])


HEADING = tr_noop("Workload")
PLAIN = (bool, int, float, str, type(None))
"""Types of settings that the settings file has."""


class RecipeForm(FieldGroup):
    """One row per setting. Keeps the values of each recipe and restores them with it."""

    def __init__(self) -> None:
        super().__init__(tr(HEADING))
        self._settings: tuple[Setting, ...] = ()
        self._recipe = ""
        self._kept: dict[str, dict[str, SettingValue]] = {}
        self.hide()

    def show_recipe(self, reference: str, recipe: RecipeFile | None) -> None:
        """Show the settings of this recipe; None if it cannot be read. Does nothing if the settings are the same."""
        settings = recipe.settings if recipe else ()
        if (reference, settings) == (self._recipe, self._settings):
            return
        self._keep()
        self._recipe, self._settings = reference, settings
        self._clear()
        kept = self._kept.get(reference, {})
        name = recipe.name if recipe else ""
        for setting in settings:
            self._add(setting_title(setting.name), **{setting.name: _editor(setting, name, self.changed.emit)})
        self.set_defaults({setting.name: setting.default for setting in settings})
        for each, editor in self._editors.items():
            if each in kept:
                editor.set_value(kept[each])
        self.heading.setText(f"{tr(HEADING)} {name}".strip())
        self.show_changes()
        self.search(self._search)

    def remember_all(self) -> dict[str, dict[str, SettingValue]]:
        """Return the changed settings by recipe, for the settings file."""
        self._keep()
        return self._kept

    def restore_all(self, kept: Mapping[str, object]) -> None:
        """Take what `remember_all` returned; `show_recipe` shows it."""
        plain = {
            recipe: {str(name): value for name, value in values.items() if isinstance(value, PLAIN)}
            for recipe, values in kept.items()
            if isinstance(values, dict)
        }
        if plain != self.remember_all():  # otherwise the rows are as they should be, and stay
            self._recipe, self._settings = "", ()
            self._clear()
            self._kept = plain

    def _keep(self) -> None:
        """Keep only values that differ from the defaults: an edited recipe may have better defaults."""
        changed = {name: value for name, value in self.remember().items() if self._differs(name)}
        self._kept.pop(self._recipe, None)
        if changed:
            self._kept[self._recipe] = changed

    def _differs(self, name: str) -> bool:
        """Return whether a value is another one than the default: here an empty text is a value."""
        if name not in self.defaults:
            return False  # it is about to get its default
        value, default = self._editors[name].value(), self.defaults[name]
        return not (value == default or (isinstance(value, str) and value == str(default)))


def _editor(setting: Setting, recipe: str, changed: Callable[[], None]) -> Editor:
    """Return a field of the type of the default, which it shows. It calls `changed` at each change."""
    default = setting.default
    tip = tr("Setting {name} of {recipe}, default {default!r}", name=setting.name, recipe=recipe, default=default)
    name, title = f"setting-{setting.name}", setting_title(setting.name)
    if isinstance(default, bool):
        field = forms.check(name, title, tip, changed)
    elif isinstance(default, int) and abs(default) <= MAX_NUMBER:
        field = forms.integer(name, title, tip, changed)
    else:
        empty = tr("default") if default == "" else ""
        field = forms.text(name, title, tip, changed, empty=empty, empty_is_none=default is None)
    field.set_value(default)
    return field


class StrategyRow(NamedTuple):
    """One strategy, ready to be shown."""

    strategy: str
    title: str
    summary: str
    obstacle: str = ""
    """Why it cannot be used; the empty string if it can."""


def strategy_rows(framework: str, devices: Sequence[Device]) -> list[StrategyRow]:
    """Return all strategies of a framework, those that can use these devices first."""
    found = strategies.strategies_of(framework)
    rows = [StrategyRow(each.name, tr(each.title), tr(each.summary), _obstacle(each, devices)) for each in found]
    return sorted(rows, key=lambda row: bool(row.obstacle))


def _obstacle(strategy: Strategy, devices: Sequence[Device]) -> str:
    """Return why a strategy cannot use these devices, below its title; the empty string if it can."""
    if reason := strategy.unavailable():
        return reason
    match validation.misfit(strategy, devices):
        case ProblemKind.OTHER_KIND:
            return tr("Runs on {names} only.", names=validation.device_kinds(strategy))
        case ProblemKind.TOO_FEW:
            return tr("Needs {count} devices or more.", count=strategy.min_devices)
        case ProblemKind.TOO_MANY:
            return tr("Trains on one device.")
        case _:
            return ""


SECOND_LINE = Qt.ItemDataRole.UserRole + 1
"""Item data: the text below the title; None for a separator."""
WIDTH_PX = 412
LEFT_PX, ABOVE_PX, GAP_PX = 10, 6, 1
TEXT_PX = WIDTH_PX - 2 * LEFT_PX - 12
"""Width of the text, less than the list by its frame."""
RULE_PX = 9
"""Height of a separator."""


class StrategyDelegate(QStyledItemDelegate):
    """Wraps the text below the title instead of cutting it: the whole reason must be readable."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._heights: dict[tuple[str, str, int], int] = {}
        """The height of a row in pixels, by font, text and width of the text."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: N802 (Qt's name)
        """Return the height of the text."""
        text = index.data(SECOND_LINE)
        if text is None:
            return QSize(scaled(WIDTH_PX), RULE_PX)
        # Qt asks for all rows whenever one is added, and wrapping a text takes its time.
        asked = option.font.key(), str(text), scaled(TEXT_PX)
        if asked not in self._heights:
            room, wraps = QRect(0, 0, asked[2], 10_000), Qt.TextFlag.TextWordWrap
            below = QFontMetrics(small_font(option.font)).boundingRect(room, wraps, asked[1])
            self._heights[asked] = 2 * ABOVE_PX + QFontMetrics(option.font).height() + GAP_PX + below.height()
        return QSize(scaled(WIDTH_PX), self._heights[asked])

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one strategy or a separator."""
        rect, text = QRect(option.rect), index.data(SECOND_LINE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if text is None:
            rule = QRect(rect.left() + LEFT_PX, rect.center().y(), rect.width() - 2 * LEFT_PX, 1)
            painter.fillRect(rule, QColor(current_theme().field_border))
        else:
            self._paint_row(painter, option, index, rect.adjusted(LEFT_PX, ABOVE_PX, -LEFT_PX, -ABOVE_PX))
        painter.restore()

    def _paint_row(self, painter: QPainter, option: QStyleOptionViewItem, index: Index, inside: QRect) -> None:
        usable = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        if usable and option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(outline(current_theme().accent))
            painter.setBrush(QColor(current_theme().accent_soft))
            painter.drawRoundedRect(QRectF(option.rect).adjusted(1, 1, -1, -1), 5, 5)
        height = QFontMetrics(option.font).height()
        painter.setFont(option.font)
        painter.setPen(QColor(current_theme().text if usable else current_theme().muted))
        painter.drawText(QRect(inside.left(), inside.top(), inside.width(), height), 0, str(index.data()))
        painter.setFont(small_font(option.font))
        painter.setPen(QColor(current_theme().muted))
        below = QRect(inside.left(), inside.top() + height + GAP_PX, scaled(TEXT_PX), inside.height())
        painter.drawText(below, Qt.TextFlag.TextWordWrap, str(index.data(SECOND_LINE)))


TIP = tr_noop("How to spread the training over the devices")


class StrategyBox(ChoiceBox):
    """The data of an item is the id of the strategy. A chosen strategy stays chosen if it becomes unusable."""

    chosen = Signal()
    """The user has made a choice, possibly the same one."""

    def __init__(self, name: str = "strategyBox", accessible: str = "", tip: str = "") -> None:
        super().__init__()
        self._tip = tip = tip or tr(TIP)
        field(self, name, accessible or tr("Strategy"), tip)
        self._rows: list[StrategyRow] = []
        self._delegate = StrategyDelegate(self)
        self.setItemDelegate(self._delegate)
        self.view().setTextElideMode(Qt.TextElideMode.ElideNone)
        self.currentIndexChanged.connect(lambda _: self._update_tooltip())
        self.currentIndexChanged.connect(lambda _: self.chosen.emit())
        self.activated.connect(lambda _: self.chosen.emit())

    def show_rows(self, rows: Sequence[StrategyRow]) -> None:
        """Offer these rows, usable ones first; a chosen row stays chosen if it is among them."""
        if rows == self._rows:
            return
        before, self._rows = self.currentData(), list(rows)
        self.blockSignals(True)
        self.clear()
        for number, row in enumerate(rows):
            if number and row.obstacle and not rows[number - 1].obstacle:
                self.insertSeparator(number)
            self._add(row)
        select(self, before)
        self.blockSignals(False)
        self._update_tooltip()

    def show_strategy(self, strategy: str) -> bool:
        """Select this row without emitting `chosen`; return False if there is none."""
        self.blockSignals(True)
        found = select(self, strategy)
        self.blockSignals(False)
        self._update_tooltip()
        self.update()
        return found

    def _add(self, row: StrategyRow) -> None:
        self.addItem(row.title, row.strategy)
        index = self.count() - 1
        self.setItemData(index, row.obstacle or row.summary, SECOND_LINE)
        self.setItemData(index, verbatim(row.obstacle or row.summary), Qt.ItemDataRole.ToolTipRole)
        spoken = f"{row.title}: {row.summary}"
        if row.obstacle:
            spoken = tr("{title}, not available: {obstacle}", title=row.title, obstacle=row.obstacle)
        self.setItemData(index, spoken, Qt.ItemDataRole.AccessibleTextRole)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.item(index).setEnabled(not row.obstacle)

    def _update_tooltip(self) -> None:
        """Describe the chosen row in the tooltip, because the box may cut its title."""
        row = next((row for row in self._rows if row.strategy == self.currentData()), None)
        self.setToolTip(verbatim(f"{row.title}: {row.obstacle or row.summary}" if row else self._tip))
