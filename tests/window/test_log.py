"""The log view: reading a file as it grows, and following its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QTextCursor

from gui.base import theme as themes
from gui.base.theme import DARK, LIGHT
from gui.features.log.files import MAX_BYTES, MAX_LINES, PIECE_LINES, FileTail
from gui.features.log.terminal import CUT, MAX_LINE, Style, char_format
from gui.features.log.view import SLACK_LINES, LogView
from tests.window.driving import show_theme
from tests.window.logs import append, read_all

# -- following a file ----------------------------------------------------------------------------


def test_log_file_is_read_incrementally_and_after_truncation(tmp_path):
    path = tmp_path / "log.txt"
    tail = FileTail(path)
    assert tail.read() is None  # the file does not exist yet
    path.write_bytes("one\ntw\xc3".encode("latin-1"))
    assert tail.read().text == "one\ntw"
    with path.open("ab") as file:
        file.write(b"\xb6lf\nthree")
    piece = tail.read()
    assert (piece.text, piece.restarts) == ("ölf\nthree", False)
    assert tail.read() is None
    path.write_bytes(b"cut off")
    piece = tail.read()
    assert (piece.text, piece.restarts) == ("cut off", True)


def test_only_last_lines_of_huge_log_are_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 99 + b"\n" + b"line of text\n" * 400_000)
    tail = FileTail(path)
    first = tail.read()
    assert first.restarts
    assert first.text.startswith("line of text\n")
    pieces = [first.text, *(piece.text for piece in iter(tail.read, None))]
    assert "".join(pieces).count("\n") == MAX_LINES - 1
    assert max(piece.count("\n") for piece in pieces) <= PIECE_LINES


def test_fast_output_is_skipped_only_if_skipping_is_allowed(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"first\n")
    tail, complete = FileTail(path), FileTail(path)
    tail.read()
    complete.read()
    with path.open("ab") as file:
        file.write(b"y" * (MAX_BYTES + 1))
    assert complete.read(may_skip=False).restarts is False
    piece = tail.read()
    assert piece.restarts


# -- the view ------------------------------------------------------------------------------------


@pytest.fixture
def view(qtbot, qapp) -> LogView:
    themes.apply(qapp, DARK)
    log_view = LogView()
    qtbot.addWidget(log_view)
    log_view.resize(300, 100)
    log_view.show()
    return log_view


@pytest.fixture
def show(qtbot, tmp_path, view) -> Callable[[str], Path]:
    """Return a function that writes a log and shows it to its end; it returns its path."""

    def write_and_show(text: str) -> Path:
        path = tmp_path / "log.txt"
        append(path, text)
        view.show_file(path)
        read_all(qtbot, view)
        return path

    return write_and_show


def test_view_follows_only_when_scrolled_to_end(qtbot, view, show):
    path = show("".join(f"line {number}\n" for number in range(200)) + "10%")
    bar = view.verticalScrollBar()
    assert view.toPlainText().endswith("line 199\n10%")
    assert bar.value() == bar.maximum() > 0
    append(path, "\r20%")
    read_all(qtbot, view)
    assert view.toPlainText().endswith("line 199\n20%")
    bar.setValue(3)
    assert not view.follows
    append(path, "\nlast\n")
    read_all(qtbot, view)
    assert bar.value() == 3
    assert view.toPlainText().endswith("20%\nlast\n")
    bar.setValue(bar.maximum())
    assert view.follows
    append(path, "more\n" * 9)
    view.resize(300, 80)
    read_all(qtbot, view)
    assert view.follows
    assert bar.value() == bar.maximum()


def test_flood_of_output_keeps_text_at_scrolled_up_position(qtbot, view, show):
    path = show("first\n" + "text\n" * 100)
    view.verticalScrollBar().setValue(0)
    append(path, "flood\n" * 400_000)
    read_all(qtbot, view)
    assert view.firstVisibleBlock().text() == "first"
    assert view.blockCount() <= MAX_LINES + PIECE_LINES + 1
    view.set_follows(True)
    append(path, "the end")
    read_all(qtbot, view)
    assert view.has_earlier
    assert view.toPlainText().endswith("\nthe end")


def test_lines_that_are_read_stay_when_the_last_piece_is_large(qtbot, view, show):
    path = show("first\n" + "\n" * (MAX_LINES - 2))
    assert view.blockCount() == MAX_LINES
    view.verticalScrollBar().setValue(0)
    append(path, "\n" * PIECE_LINES)
    read_all(qtbot, view)
    assert view.blockCount() == MAX_LINES + PIECE_LINES
    assert view.firstVisibleBlock().text() == "first"
    view.set_follows(True)
    append(path, "the end")
    read_all(qtbot, view)
    assert view.blockCount() == MAX_LINES
    assert view.toPlainText().endswith("\nthe end")


def test_long_log_is_trimmed(qtbot, view, show):
    path = show("")
    for part in range(8):
        append(path, "".join(f"{part} {number}\n" for number in range(1000)))
        read_all(qtbot, view)
    assert MAX_LINES <= view.blockCount() <= MAX_LINES + SLACK_LINES + 1
    assert view.toPlainText().endswith("7 998\n7 999\n")
    assert "\n3 999\n4 0\n" in view.toPlainText()


def test_log_colours_change_with_theme(view, show):
    show("plain \x1b[1;31mred\x1b[0m\n\x1b[48;5;21mblue")

    def format_at(position: int):
        cursor = QTextCursor(view.document())
        cursor.setPosition(position + 1)
        return cursor.charFormat()

    assert not format_at(0).hasProperty(format_at(0).Property.ForegroundBrush)
    for theme in (DARK, LIGHT, DARK):
        show_theme(theme)
        red = format_at(6)
        assert red.foreground() == char_format(Style(foreground=1, bold=True)).foreground()
        assert red.fontWeight() == 700
        assert format_at(10).background().color() == QColor(0, 0, 255)


def test_view_shows_text_after_binary_data_and_endless_line(qtbot, tmp_path, view):
    path = tmp_path / "log.txt"
    path.write_bytes(random.Random(0).randbytes(300_000) + b"z" * 3_000_000)
    view.show_file(path)
    read_all(qtbot, view)
    append(path, "\nand on\n")
    read_all(qtbot, view)
    assert view.toPlainText().endswith("\nand on\n")
    assert max(len(line) for line in view.toPlainText().split("\n")) <= MAX_LINE + len(CUT) + len(str(path)) + 99


def test_what_tensorflow_says_about_itself_is_dimmed_and_its_errors_are_not(view, show):
    about_itself = [
        "2026-11-24 11:15:07.123456: W external/local_tsl/tsl/framework/cpu_allocator_impl.cc:83] Allocation of 1 GB",
        "2026-11-24 11:15:07.123456: E external/local_xla/xla/cuda_dnn.cc:467] Unable to register cuDNN factory: ...",
        "I0000 00:00:1732446907.123456   12345 gpu_device.cc:2022] Created device",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    ]
    real = ["2026-11-24 11:15:08.1: E tensorflow/core/allocator.cc:83] OOM when allocating", "2026-11-24 11:15: I won"]
    show("\n".join([*about_itself, *real]))
    dimmed = []
    for number in range(len(about_itself) + len(real)):
        cursor = QTextCursor(view.document().findBlockByNumber(number))
        cursor.movePosition(QTextCursor.MoveOperation.NextCharacter)
        if cursor.charFormat().foreground().color() == QColor(DARK.muted):
            dimmed.append(cursor.block().text())
    assert dimmed == about_itself
