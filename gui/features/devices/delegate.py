"""The lines of the list of devices as Qt asks for them: their model, how they are painted, and how high they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from core.language import tr, tr_noop
from gui.base.formatting import memory
from gui.base.icons import paint_mark
from gui.base.painting import Index, draw_elided, outline, paint_row_background, small_font
from gui.base.text_size import scaled
from gui.base.theme import current_theme
from gui.features.devices import rows
from gui.features.devices.rows import CpuLine, DeviceLine, HostLine, Line, ModelLine, NoteLine, RetryLine
from gui.machine.device_rows import DeviceRow
from gui.widgets.plain_text import verbatim

LINE = Qt.ItemDataRole.UserRole
"""Item data: the `Line`."""
HEADING = Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren
ENABLED = HEADING | Qt.ItemFlag.ItemIsEnabled
CHECKABLE = ENABLED | Qt.ItemFlag.ItemIsUserCheckable  # made once: Qt asks at each painting


class DeviceModel(QAbstractListModel):
    """One row for each line. Says only of lines that look otherwise than before that they have changed."""

    def __init__(self, parent: QAbstractItemView) -> None:
        super().__init__(parent)
        self.lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> Sequence[int] | None:
        """Show these lines. Return the numbers of those that have changed; None if there are others than before."""
        before, self.lines = self.lines, lines
        changed = [at for at, (new, old) in enumerate(zip(lines, before, strict=False)) if new != old]
        if len(lines) != len(before) or any(rows.key(lines[at]) != rows.key(before[at]) for at in changed):
            self.beginResetModel()
            self.endResetModel()
            return None
        changed = [at for at in changed if rows.looks(lines[at]) != rows.looks(before[at])]
        for at in changed:
            self.dataChanged.emit(self.index(at), self.index(at))
        return changed

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802 (Qt's name and default)
        """Return the number of lines."""
        return 0 if parent.isValid() else len(self.lines)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:  # noqa: N802 (Qt's name)
        """Return the name of the only column, which is read out and not shown."""
        is_name = orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole
        return tr("Device") if is_name else super().headerData(section, orientation, role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Let the keys pass over the headings of models."""
        line = self.lines[index.row()]
        is_checkable = isinstance(line, DeviceLine) and line.can_be_ticked
        return CHECKABLE if is_checkable else HEADING if isinstance(line, ModelLine) else ENABLED

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the line, or what it says."""
        line = self.lines[index.row()]
        match role:
            case Qt.ItemDataRole.UserRole:
                return line
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return rows.spoken(line)
            case Qt.ItemDataRole.AccessibleDescriptionRole:
                return rows.effect(line)
            case Qt.ItemDataRole.ToolTipRole:
                return verbatim(rows.tip(line))
            case Qt.ItemDataRole.CheckStateRole if isinstance(line, DeviceLine):
                return Qt.CheckState.Checked if line.is_ticked else Qt.CheckState.Unchecked
        return None


LEFT_PX, RIGHT_PX, GAP_PX = 8, 8, 8
SQUARE_PX, BAR_PX = 8, 6
"""Side of the square and thickness of a bar, at a text scale of 1."""
ABOVE_PX, BELOW_PX = 3, 3
"""Room above and below the text of a row."""


class RowSizes:
    """Fonts and sizes in pixels of the parts of a line. They follow the font of the list."""

    def __init__(self, font: QFont) -> None:
        self.bold, self.small, self.small_bold = QFont(font), small_font(font), small_font(font)
        for bold in (self.bold, self.small_bold):
            bold.setBold(True)
        self.tick = QFontMetrics(font).height()
        self.line = self.tick + 3
        """Height of the first line of text of a device; `small_line`: that of the lines below it."""
        self.small_line = QFontMetrics(self.small).height() + 2
        self.heading = self.line + 5
        """Height of what is no device."""
        self.square = LEFT_PX + self.tick + GAP_PX + 2
        """Left end of the square in the colour of the device."""
        self.square_side, self.bar = scaled(SQUARE_PX), scaled(BAR_PX)
        self.label = self.square + self.square_side + GAP_PX
        """Left end of the label and of everything below it."""
        self.percent, self.temperature = self.width("100 %"), self.width("100 °C")

    def width(self, text: str, font: QFont | None = None) -> int:
        """Return the width of a text, in the small font if none is given."""
        return QFontMetrics(font or self.small).horizontalAdvance(text)

    def device(self, *, is_dense: bool) -> int:
        """Return the height of a device."""
        return ABOVE_PX + self.line + (1 if is_dense else 2) * self.small_line + BELOW_PX


HOST_ABOVE_PX, NOTE_BELOW_PX = 6, 6
"""Room above the line of a host, which separates it from the machine before, and below a note or a button."""
MIN_NAME_PX = 48
"""Width that the name of a host keeps at least."""
BUTTON_PX = 24
"""Height of a button, at a text scale of 1."""
TONES = {"good": ("good", "muted"), "muted": ("muted", "muted"), "warn": ("warn", "warn"), "bad": ("bad", "bad")}
"""By tone of a host, the colours of its mark and of its words."""

CHIP_PX = 6
"""Room left and right of the text of a chip."""
MIN_CHIP_PX = 34
"""Width below which a chip is left out: nothing of its text could be read."""
SHARED_MEMORY = tr_noop("shared memory")
"""What a GPU without memory of its own has in the place of its memory."""
TEXT_FLAGS = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap)


class DeviceDelegate(QStyledItemDelegate):
    """Paints each kind of line. A device has three lines of text, or two if it is dense."""

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._view = view
        self.sizes = RowSizes(view.font())
        self.shows_limits = True
        """Whether there is room for the limits beside the power."""
        self._power_px = 0
        """Width of the column of the power, the same in all rows."""
        self._memory_px = 0
        """Width of the column of the memory."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:  # noqa: ARG002, N802 (Qt's name)
        """Return the size of a line."""
        return QSize(240, self.height(index.data(LINE)))

    def height(self, line: Line) -> int:
        """Return the height of a line at the width of the list."""
        sizes = self.sizes
        match line:
            case DeviceLine():
                return sizes.device(is_dense=line.is_dense)
            case HostLine():
                return HOST_ABOVE_PX + sizes.heading + 2
            case NoteLine():
                room = QRect(0, 0, self._view.viewport().width() - sizes.square - GAP_PX, 10_000)
                text = QFontMetrics(sizes.small).boundingRect(room, TEXT_FLAGS, line.sentence)
                return text.height() + NOTE_BELOW_PX
            case RetryLine():
                return scaled(BUTTON_PX) + NOTE_BELOW_PX
        return sizes.heading

    def fit(self, devices: Sequence[DeviceRow], width: int) -> bool:
        """Choose the columns of power and memory for a list of this width. Return whether they are others than before.

        The limits of the power are shown if all devices have room for them beside their users.
        """
        before, sizes = (self._power_px, self.shows_limits, self._memory_px), self.sizes
        with_power = [row for row in devices if row.power]
        with_limit, alone = (
            max((sizes.width(_widest_power(row, limit=limit)) for row in with_power), default=0)
            for limit in (True, False)
        )
        self.shows_limits = max(map(self._needed_px, with_power), default=0) + with_limit <= width
        self._power_px = with_limit if self.shows_limits else alone
        self._memory_px = max((sizes.width(_widest_memory(row)) for row in devices), default=0)
        return before != (self._power_px, self.shows_limits, self._memory_px)

    def _needed_px(self, row: DeviceRow) -> int:
        """Return the width that a row needs to show all of its user, without its power."""
        sizes = self.sizes
        left = sizes.label + sizes.width(row.own_label, sizes.bold) + GAP_PX
        sign = sizes.small_line if row.in_trouble else 0
        return left + self._chip_width(row) + sign + sizes.temperature + GAP_PX + RIGHT_PX

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint one line."""
        line: Line = index.data(LINE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect: QRect = option.rect
        if isinstance(line, HostLine):
            painter.fillRect(
                QRect(0, rect.top() + HOST_ABOVE_PX // 2, rect.right(), 1), QColor(current_theme().panel_border)
            )
            rect = option.rect = rect.adjusted(0, HOST_ABOVE_PX, 0, 0)
        if not isinstance(line, ModelLine | RetryLine):
            paint_row_background(painter, option)
        match line:
            case DeviceLine():
                is_under_mouse = bool(option.state & QStyle.StateFlag.State_MouseOver)
                self._paint_device(painter, line, rect, is_under_mouse=is_under_mouse)
            case ModelLine():
                self._paint_model(painter, line, rect)
            case CpuLine():
                self._paint_cpus(painter, line, rect)
            case HostLine():
                self._paint_host(painter, line, rect)
            case NoteLine():
                painter.setFont(self.sizes.small)
                painter.setPen(QColor(current_theme().muted))
                painter.drawText(rect.adjusted(self.sizes.square, 0, -GAP_PX, 0), TEXT_FLAGS, line.sentence)
            case RetryLine():
                self._paint_button(painter, line, option)
        painter.restore()

    def _paint_model(self, painter: QPainter, line: ModelLine, rect: QRect) -> None:
        sizes, theme = self.sizes, current_theme()
        rest = rect.adjusted(LEFT_PX, 0, -RIGHT_PX, 0)
        for text, colour, font in (
            (line.name, theme.text, sizes.small_bold), (line.times, theme.muted, sizes.small),
        ):
            if text and rest.width() > 0:
                draw_elided(painter, rest, text, colour, font=font)
                rest = rest.adjusted(sizes.width(text, font) + GAP_PX, 0, 0, 0)
        if rest.width() > 0:
            painter.fillRect(QRect(rest.left(), rect.center().y() + 1, rest.width() - 1, 1), QColor(theme.panel_border))

    def _paint_cpus(self, painter: QPainter, line: CpuLine, rect: QRect) -> None:
        """Paint an arrow, the load at the left and the memory of the machine at the right."""
        sizes, theme, summary = self.sizes, current_theme(), line.summary
        _paint_arrow(painter, QPointF(LEFT_PX + sizes.tick / 2, rect.top() + rect.height() / 2), theme.muted,
                     down=not line.is_folded)
        rest = rect.adjusted(sizes.square, 0, -RIGHT_PX, 0)
        draw_elided(painter, rest, "CPU", theme.text, font=sizes.bold)
        rest = rest.adjusted(sizes.width("CPU", sizes.bold) + GAP_PX, 0, 0, 0)
        draw_elided(painter, rest, summary.devices, theme.muted, font=sizes.small)
        widest = replace(summary, utilisation_percent=100.0, host_used_bytes=summary.host_total_bytes)
        left = rest.width() - sizes.width(widest.devices) - GAP_PX  # by the widest, so that words do not come and go
        shown = summary.host_memory
        if sizes.width(widest.host_memory) > left:
            short = widest.host_memory.removeprefix("host ")
            shown = shown.removeprefix("host ") if sizes.width(short) <= left else summary.memory
        room = rest.adjusted(sizes.width(summary.devices) + GAP_PX - 1, 0, 0, 0)
        draw_elided(painter, room, shown, theme.muted, font=sizes.small, right=True)

    def _paint_host(self, painter: QPainter, line: HostLine, rect: QRect) -> None:
        """Paint an arrow, the name and, at the right, the state behind its mark, as much of it as fits."""
        sizes, theme, heading = self.sizes, current_theme(), line.heading
        _paint_arrow(
            painter, QPointF(LEFT_PX + sizes.tick / 2, rect.center().y() + 1), theme.text, down=not line.is_folded
        )
        inside = rect.adjusted(sizes.square, 0, -RIGHT_PX, 0)
        side = sizes.small_line - 5
        name = min(sizes.width(heading.name, sizes.bold), inside.width() - MIN_NAME_PX)
        room = inside.width() - max(name, MIN_NAME_PX) - side - 2 * GAP_PX
        texts = (heading.words, heading.state)
        if line.is_folded:
            folded = " · ".join(part for part in (heading.state, heading.devices) if part)
            texts = (folded, heading.devices or heading.state)
        text = next((each for each in texts if sizes.width(each) <= room), texts[-1])
        width = min(sizes.width(text), room)
        mark, words = (getattr(theme, each) for each in TONES[heading.tone])
        place = QRect(inside.right() - width, inside.top(), width + 1, inside.height())
        draw_elided(painter, place, text, words, font=sizes.small, right=True)
        box = QRectF(place.left() - side - 5, inside.center().y() - side / 2 + 0.5, side, side)
        paint_mark(painter, heading.mark, box, mark)
        named = inside.adjusted(0, 0, -(width + side + 5 + GAP_PX), 0)
        draw_elided(painter, named, heading.name, theme.text, font=sizes.bold)

    def _paint_button(self, painter: QPainter, line: RetryLine, option: QStyleOptionViewItem) -> None:
        sizes, theme, text = self.sizes, current_theme(), tr("Try again")
        over = line.is_enabled and option.state & QStyle.StateFlag.State_MouseOver
        has_focus = option.state & QStyle.StateFlag.State_HasFocus
        painter.setPen(QPen(QColor(theme.accent), 1) if has_focus else outline(theme.field_border))
        painter.setBrush(QColor(theme.button_hover if over else theme.button))
        rect: QRect = option.rect
        width = sizes.width(text, sizes.small_bold) + 18
        box = QRectF(rect.left() + sizes.square, rect.top(), width, scaled(BUTTON_PX))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setFont(sizes.small_bold)
        painter.setPen(QColor(theme.text if line.is_enabled else theme.disabled))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _paint_device(self, painter: QPainter, line: DeviceLine, rect: QRect, *, is_under_mouse: bool) -> None:
        row, obstacle = line.row, line.obstacle
        self._paint_tick(painter, line, rect, is_under_mouse=is_under_mouse)
        self._paint_title(painter, row, rect)
        if obstacle and not row.lost and (row.blocked or (row.is_mig and not row.user)):
            self._paint_reason(painter, line, rect)
        else:
            self._paint_readings(painter, line, rect)

    def _paint_tick(self, painter: QPainter, line: DeviceLine, rect: QRect, *, is_under_mouse: bool) -> None:
        sizes, theme = self.sizes, current_theme()
        side = sizes.tick
        box = QRectF(rect.left() + LEFT_PX, rect.top() + ABOVE_PX + (sizes.line - side) / 2, side, side)
        ticked, free = line.is_ticked, line.can_be_ticked
        border = theme.accent if ticked or (is_under_mouse and free) else theme.muted if free else theme.panel_border
        painter.setPen(QPen(QColor(border), 1))
        painter.setBrush(QColor(theme.accent if ticked else theme.field if free else theme.button))
        painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        if ticked:
            painter.setPen(_round_pen(theme.on_accent, 2))
            corner = box.topLeft()
            painter.drawPolyline(
                [corner + QPointF(x * side / 16, y * side / 16) for x, y in ((4.2, 8.2), (7, 11), (11.8, 5.2))]
            )

    def _paint_title(self, painter: QPainter, row: DeviceRow, rect: QRect) -> None:
        """Paint the first line: colour, label and user from the left; heat and power from the right."""
        sizes, theme = self.sizes, current_theme()
        top = rect.top() + ABOVE_PX
        off = bool(row.lost or row.blocked)
        side = sizes.square_side
        square = QRectF(rect.left() + sizes.square, top + (sizes.line - side) / 2, side, side)
        painter.fillRect(square, QColor(theme.disabled if off else row.colour))
        line = QRect(rect.left() + sizes.label, top, rect.width() - sizes.label - RIGHT_PX, sizes.line)
        draw_elided(painter, line, row.own_label, theme.muted if off else theme.text, font=sizes.bold)
        rest = line.adjusted(sizes.width(row.own_label, sizes.bold) + GAP_PX, 0, 0, 0)
        right = self._paint_right(painter, row, rest)
        self._paint_chip(painter, row, rest.adjusted(0, 0, -right, 0))

    def _paint_right(self, painter: QPainter, row: DeviceRow, line: QRect) -> int:
        """Paint what is at the right end of the first line. Return the width that it takes."""
        sizes, theme = self.sizes, current_theme()
        if row.lost:
            draw_elided(painter, line, row.status, theme.bad, font=sizes.small)
            return line.width()
        text, tone = tr("asleep") if row.asleep else "", theme.muted
        if row.stale_age_s is not None:
            text, tone = tr("{seconds} s old", seconds=row.stale_age_s), theme.warn
        if text:
            draw_elided(painter, line, text, tone, font=sizes.small, right=True)
            return sizes.width(text) + GAP_PX
        if row.is_cpu:
            chip = self._chip_width(row)
            draw_elided(painter, line.adjusted(chip, 0, 0, 0), row.name, theme.muted, font=sizes.small, right=True)
            return line.width() - chip
        return self._paint_heat(painter, row, line)

    def _paint_heat(self, painter: QPainter, row: DeviceRow, line: QRect) -> int:
        """Paint temperature and power in columns, and a sign before them if the device is in trouble."""
        sizes, theme = self.sizes, current_theme()
        power = row.power_of_limit if self.shows_limits else row.power
        taken = self._power_px + GAP_PX if power else 0
        tone = theme.bad if row.slowdowns and not row.hot else theme.muted
        draw_elided(painter, line, power, tone, font=sizes.small, right=True)
        heat = line.adjusted(0, 0, -taken, 0)
        font = sizes.small_bold if row.hot else sizes.small
        draw_elided(painter, heat, row.temperature, theme.bad if row.hot else theme.muted, font=font, right=True)
        taken += sizes.temperature + GAP_PX if row.temperature else 0
        if row.in_trouble:
            side = sizes.small_line - 4
            left = heat.right() - sizes.width(row.temperature, font) - side - 3
            _paint_sign(painter, QRectF(left, line.center().y() - side / 2 + 0.5, side, side), theme.bad, theme.panel)
            taken = max(taken, line.right() - left + GAP_PX)
        return taken

    def _chip(self, row: DeviceRow) -> tuple[str, str, str]:
        """Return what is on the device, in a word or a name, with the colours of text and ground."""
        theme = current_theme()
        if row.used_by:
            return row.used_by, theme.accent, theme.accent_soft
        if row.held_by:
            return row.held_by, theme.warn, theme.warn_soft
        if row.blocked:
            return tr("blocked"), theme.muted, theme.button
        if row.kept_for:
            return row.kept_for.rstrip(".。"), theme.muted, theme.button
        return (tr("free"), theme.good, "") if row.free and not row.is_cpu else ("", "", "")

    def _chip_width(self, row: DeviceRow) -> int:
        chip, _, _ = self._chip(row)
        return self.sizes.width(chip) + 2 * CHIP_PX + GAP_PX if chip else 0

    def _paint_chip(self, painter: QPainter, row: DeviceRow, room: QRect) -> None:
        chip, colour, ground = self._chip(row)
        if not chip or room.width() < MIN_CHIP_PX:
            return
        sizes = self.sizes
        inset = CHIP_PX if ground else 0
        text = room.adjusted(inset, 0, -inset, 0)
        if ground:
            width = min(sizes.width(chip) + 2 * CHIP_PX, room.width())
            height = sizes.small_line
            painter.setPen(outline(colour))
            painter.setBrush(QColor(ground))
            top = room.top() + (room.height() - height) / 2
            painter.drawRoundedRect(QRectF(room.left(), top, width, height), height / 2, height / 2)
        draw_elided(painter, text, chip, colour, font=sizes.small)

    def _paint_reason(self, painter: QPainter, line: DeviceLine, rect: QRect) -> None:
        """Paint why the device cannot be ticked, in place of the bars and in as many lines as fit."""
        sizes, reason = self.sizes, without_label(line.row.label, line.obstacle)
        painter.setFont(sizes.small)
        top = rect.top() + ABOVE_PX + sizes.line
        room = QRect(rect.left() + sizes.label, top, rect.width() - sizes.label - RIGHT_PX, rect.bottom() - top)
        painter.setPen(QColor(current_theme().muted))
        if line.is_dense:
            shown = painter.fontMetrics().elidedText(reason, Qt.TextElideMode.ElideRight, room.width())
        else:
            shown = _fit_text(painter, reason, room)
        painter.drawText(room, TEXT_FLAGS, shown)

    def _paint_readings(self, painter: QPainter, line: DeviceLine, rect: QRect) -> None:
        """Paint a bar and a text for utilisation and memory: beside each other if dense, else below each other."""
        sizes, row = self.sizes, line.row
        left, top = rect.left() + sizes.label, rect.top() + ABOVE_PX + sizes.line
        room = rect.right() - RIGHT_PX - left - self._memory_px - GAP_PX
        busy = QRect(left, top, room, sizes.small_line)
        used, busy_px = busy.translated(0, sizes.small_line), self._memory_px
        if line.is_dense:
            bars, busy_px = room - sizes.percent - 3 * GAP_PX, sizes.percent
            busy.setWidth(bars // 2)
            used = QRect(left + room - (bars - bars // 2), top, bars - bars // 2, sizes.small_line)
        busy_share = row.utilisation_percent / 100 if row.current and row.utilisation_percent is not None else None
        shared = row.shared_memory and row.current and row.memory_fraction is None
        for fraction, text, bar, text_px in (
            (busy_share, row.utilisation, busy, busy_px),
            (row.memory_fraction, tr(SHARED_MEMORY) if shared else row.memory, used, self._memory_px),
        ):
            self._paint_bar(painter, bar, fraction, current_theme().disabled if row.lost else row.colour)
            column = QRect(bar.right() + GAP_PX, bar.top(), text_px + 1, bar.height())
            draw_elided(painter, column, text, current_theme().muted, font=sizes.small, right=True)

    def _paint_bar(self, painter: QPainter, line: QRect, fraction: float | None, colour: str) -> None:
        thick = self.sizes.bar
        if line.width() < thick:
            return
        track = QRectF(line.left(), line.center().y() - thick / 2 + 1, line.width(), thick)
        painter.setPen(outline(current_theme().field_border))
        painter.setBrush(QColor(current_theme().field if current_theme().is_dark else current_theme().button))
        painter.drawRoundedRect(track, thick / 2, thick / 2)
        painter.setPen(Qt.PenStyle.NoPen)
        if fraction:
            track.setWidth(max(track.width() * min(fraction, 1.0), thick))
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(track, thick / 2, thick / 2)


def without_label(label: str, sentence: str) -> str:
    """Drop the label from a sentence shown beside it: `GPU 0 is hidden by ...` becomes `Hidden by ...`."""
    rest = sentence.removeprefix(f"{label} is ")
    return f"{rest[:1].upper()}{rest[1:]}"


def _widest_power(row: DeviceRow, *, limit: bool) -> str:
    """Return a text as wide as the power of this device gets, so that its column does not move."""
    limit_watts = row.power_limit_watts
    if not limit_watts:
        return "888 W"
    return tr("{power:.0f} of {limit:.0f} W", power=limit_watts, limit=limit_watts) if limit else f"{limit_watts:.0f} W"


def _widest_memory(row: DeviceRow) -> str:
    """Return a text as wide as the memory of this device gets."""
    total = row.memory_total_bytes
    return memory(total, total) if total is not None else tr(SHARED_MEMORY) if row.shared_memory else "888.8 GB"


def _paint_sign(painter: QPainter, box: QRectF, colour: str, ground: str) -> None:
    """Paint a triangle with an exclamation mark."""
    painter.setPen(_round_pen(colour, 1.5))
    painter.setBrush(QColor(colour))
    middle = box.center().x()
    painter.drawPolygon(QPolygonF([QPointF(middle, box.top() + 1), box.bottomRight(), box.bottomLeft()]))
    painter.setPen(_round_pen(ground, 1.5))
    painter.drawLine(QPointF(middle, box.top() + 0.4 * box.height()), QPointF(middle, box.top() + 0.65 * box.height()))
    painter.drawPoint(QPointF(middle, box.bottom() - 0.1 * box.height()))


def _paint_arrow(painter: QPainter, middle: QPointF, colour: str, *, down: bool) -> None:
    """Paint the arrow of a part that is unfolded (`down`) or folded."""
    painter.setPen(_round_pen(colour, 1.6))
    folded, unfolded = ((-2, -4), (2, 0), (-2, 4)), ((-4, -2), (0, 2), (4, -2))
    painter.drawPolyline([middle + QPointF(x, y) for x, y in (unfolded if down else folded)])


def _round_pen(colour: str, width: float) -> QPen:
    return QPen(QColor(colour), width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin)


def _fit_text(painter: QPainter, text: str, room: QRect) -> str:
    """Cut a wrapped text to the room, with an ellipsis."""
    words, cut = text.split(), ""
    while (
        words and painter.fontMetrics().boundingRect(room, TEXT_FLAGS, " ".join(words) + cut).height() > room.height()
    ):
        words.pop()
        cut = " …"
    return " ".join(words) + cut
