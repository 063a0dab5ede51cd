"""Data that look like HTML are shown as they are, no file that they name is opened, and texts are cut to fit."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAction, QHelpEvent, QTextDocument, QTextDocumentFragment
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLabel, QTableView, QToolTip, QWidget

from gui.base.painting import elided
from gui.base.theme import DARK
from gui.plots.items.hover import HoverRow, readout_forms
from gui.widgets.elided_label import ElidedLabel, ReadoutLabel
from gui.widgets.plain_text import (
    MAX_CHARACTERS,
    ColouredLabel,
    PlainLabel,
    Span,
    breakable,
    menu_text,
    title_text,
    verbatim,
    without_mnemonic,
)
from tests.support.recorded import GB, finding, recorded
from tests.support.tables import cell
from tests.window.launching import WAITS

LOOK_S = 0.02


class WatchedFifo:
    """A FIFO that nothing writes to: opening it for reading blocks until this object lets the reader go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.image = f'<img src="{path.name}">'
        """Without a slash, which a run's name cannot have."""
        self.opened = False
        os.mkfifo(path)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        is_over = False
        while not is_over:  # one more look at the end, for what was opened just before
            is_over = self._end.wait(LOOK_S)
            with contextlib.suppress(OSError):  # ENXIO: nothing has it open
                os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
                self.opened = True

    def close(self) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture
def fifo(tmp_path, monkeypatch) -> Iterator[WatchedFifo]:
    monkeypatch.chdir(tmp_path)
    watched = WatchedFifo(tmp_path / "f")
    yield watched
    QToolTip.hideText()
    watched.close()


def hover(widget: QWidget, at: QPoint) -> str:
    """Ask for the tooltip at a position as the mouse would; return its text as a user reads it."""
    QToolTip.hideText()
    QApplication.sendEvent(widget, QHelpEvent(QEvent.Type.ToolTip, at, widget.mapToGlobal(at)))
    return read(QToolTip.text()) if QToolTip.isVisible() else ""


def read(text: str) -> str:
    if not GuiQt.mightBeRichText(text):
        return text
    document = QTextDocument()
    document.setHtml(text)
    return document.toPlainText().replace("\xa0", " ")


def hover_all(window: QWidget) -> set[str]:
    """Hover over every widget, every cell and every heading. Return the tooltips."""
    found = set()
    for widget in [window, *window.findChildren(QWidget)]:
        found.add(hover(widget, widget.rect().center()))
        if isinstance(widget, QAbstractItemView):
            columns = widget.model().columnCount() if isinstance(widget, QTableView) else 1
            for row, column in product(range(widget.model().rowCount()), range(columns)):
                cell = widget.visualRect(widget.model().index(row, column))
                found.add(hover(widget.viewport(), cell.center()))
    return found - {""}


def shown_in(window: QWidget) -> str:
    """Return the texts of all labels."""
    labels = window.findChildren(QLabel)
    is_plain = Qt.TextFormat.PlainText
    return "\n".join(each.text() if each.textFormat() is is_plain else read(each.text()) for each in labels)


@pytest.mark.parametrize(
    "text",
    [
        "python train.py", "<b>bold</b> a  b", '<img src="/dev/zero">', "\n <i>x", "&lt;b&gt;", "a < b > c", "<!-- ",
        "<?xml version='1'?><b>", "<!doctype html>", "<a href='x'>y</a>\n\n\nthird", "<table><tr><td>",
    ],
)
def test_tooltip_shows_the_text_as_it_is(hold, text):
    label = hold(PlainLabel(text))
    label.setToolTip(verbatim(text))
    assert hover(label, QPoint(1, 1)).strip("\n") == text.strip("\n")
    assert label.text() == text
    QToolTip.hideText()


def test_labels_menus_and_titles_show_the_text_as_it_is_and_cut_it(hold):
    label = hold(ColouredLabel())
    label.show_groups([(Span('<img src="x">  &amp;', '#fff"><img src="y'), Span("<b>"))])
    assert read(label.text()) == '<img src="x">  &amp;<b>'
    assert "<img" not in label.text()
    window = hold(QWidget())
    window.setWindowTitle(title_text("a[*]b"))
    window.show()
    assert window.windowHandle().title() == "a[*]b"
    assert QAction(menu_text("R&D")).iconText() == "R&D"
    assert len(verbatim("x" * 3_000_000)) == MAX_CHARACTERS
    assert verbatim("x" * 3_000_000).endswith("x…")
    label = hold(ElidedLabel("20260101-000001-digits"))
    width = label.fontMetrics().horizontalAdvance("20260101-0000…")
    shown = elided(label.fontMetrics(), label.text(), width)
    assert label.text().startswith(shown.removesuffix("…"))
    assert len(shown) > 8


@pytest.mark.slow
def test_names_from_elsewhere_are_neither_interpreted_nor_opened(drive, runs_root, nvml, launch, fifo):
    """Two seconds: a window on a run and a process of which every name is an image."""
    image = fifo.image
    process = launch(command=["python3", "-c", WAITS, image])
    nvml.write(gpus=1, gpu0={"name": image, "memory_used": 12 * GB, "compute": f"{process.pid}:{GB}"})
    run_dir = recorded(
        runs_root,
        last="",
        findings=(finding(image, sentence=image, verdict="unexplained"),),
        more=(
            {"kind": "notice", "text": image},
            {"kind": "metrics", "first": 1, "values": {image: [1.0]}},
            {"kind": "state", "state": "failed", "error": image, "traceback": image},
        ),
    )
    spec = run_dir / "spec.json"
    spec.write_text(spec.read_text().replace("digits_mlp", json.dumps(image)[1:-1]))
    panel = drive()
    panel.open_run()
    panel.until(lambda: image in shown_in(panel.window), "the name in the header")
    table = panel.window.panels.details.processes.table
    panel.open_tab("Processes")
    panel.until(lambda: table.rows, "the process")
    assert image in cell(table, 0, table.place("command"))
    for tab in ("Processes", "Memory", "Settings", "Error", "Log"):
        panel.open_tab(tab)
        tips = hover_all(panel.window)
        assert any(image in tip for tip in tips), tab
    for plot in panel.window.panels.plots.plots.values():
        plot.redraw()
        plot.hover.point(0.5)
    panel.until_polled()  # the event loop goes on
    fifo.close()
    assert not fifo.opened
    labels = [each for each in panel.window.findChildren(QLabel) if each.objectName() != "qtooltip_label"]  # Qt's own
    assert [each for each in labels if each.textFormat() is Qt.TextFormat.AutoText] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("&File", "File"),
        ("Ne&xt part", "Next part"),
        ("文件(&F)", "文件"),
        ("打开配方(&R)…", "打开配方…"),
        ("a & b", "a & b"),
    ],
)
def test_mnemonic_is_left_out(text, shown):
    assert without_mnemonic(text) == shown


# -- labels that shorten their texts ---------------------------------------------------------------


TEXT = "· Script, one process per device on 2 devices"


def test_a_name_of_200_letters_is_broken_and_makes_no_window_wider(hold):
    texts = (f"GPU 0 is used by {'a_name_' * 28}.", "a_name_" * 6)
    label, short = (PlainLabel(breakable(text), wraps=True) for text in texts)
    hold(label, 330, 200)
    assert label.minimumSizeHint().width() <= short.minimumSizeHint().width() < 330
    assert label.heightForWidth(330) > 3 * label.fontMetrics().height()


@pytest.mark.parametrize(("letters", "shown"), [(3, False), (20, True)])
def test_label_without_room_is_blank_instead_of_ellipsis(hold, letters, shown):
    label, blank = hold(ElidedLabel(TEXT)), hold(ElidedLabel(""))
    for each in (label, blank):
        each.resize(label.fontMetrics().averageCharWidth() * letters, 20)
    assert (label.grab().toImage() != blank.grab().toImage()) is shown
    assert label.toolTip() == TEXT


def test_readout_leaves_out_labels_then_values(hold):
    rows = [
        HoverRow(label="train mean", value="0.3915", colour=DARK.train),
        HoverRow(label="best validation", value="0.4098", colour=DARK.validation),
    ]
    label = hold(ReadoutLabel())
    label.show_forms(readout_forms(rows))
    label.show()
    assert 130 < label.minimumWidth() < 170, "its neighbours leave room for both values"
    label.setMinimumWidth(0)
    seen = []
    for letters in range(60, 0, -1):
        label.resize(label.fontMetrics().averageCharWidth() * letters, 20)
        text = QTextDocumentFragment.fromHtml(label.text()).toPlainText()
        if text not in seen:
            seen.append(text)
    squeezed = [" ".join(each.replace("\u25a0", "").split()) for each in seen]
    assert squeezed == ["train mean 0.3915 best validation 0.4098", "0.3915 0.4098", "0.3915", "0.3915"]
    assert [each.count("\u25a0") for each in seen] == [2, 2, 1, 0]
    assert "train mean" in label.toolTip()
    label.resize(600, 20)
    assert label.toolTip() == ""
