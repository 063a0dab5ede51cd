"""The log: what a terminal shows, reading a file as it grows, the view that follows its end, the page with search."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QColor, QTextCursor
from PySide6.QtWidgets import QPushButton

from core.diagnosis.terminal import CUT, MAX_LINE, PLAIN, SCREEN, Style, Terminal, restyled
from gui.base import theme as themes
from gui.base.colours import contrast, legible
from gui.base.theme import DARK, LIGHT, THEMES, look
from gui.features.log.files import MAX_BYTES, MAX_LINES, PIECE_LINES, FileSearch, FileTail
from gui.features.log.page import LogPage
from gui.features.log.terminal import BASE, UNKNOWN, char_format, readable, rgb
from gui.features.log.view import SLACK_LINES, LogView
from gui.window.panels import LOG_TAB, DetailTabs
from tests.window.driving import show_theme


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def read_all(qtbot, view: LogView) -> None:
    """Let the view read the file to its end."""
    qtbot.waitUntil(lambda: not view.follow())


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


def test_only_last_lines_of_huge_or_fast_output_are_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 99 + b"\n" + b"line of text\n" * 400_000)
    tail = FileTail(path)
    first = tail.read()
    assert first.restarts
    assert first.text.startswith("line of text\n")
    pieces = [first.text, *(piece.text for piece in iter(tail.read, None))]
    assert "".join(pieces).count("\n") == MAX_LINES - 1
    assert max(piece.count("\n") for piece in pieces) <= PIECE_LINES
    path.write_bytes(b"first\n")
    tail, complete = FileTail(path), FileTail(path)
    tail.read()
    complete.read()
    with path.open("ab") as file:
        file.write(b"y" * (MAX_BYTES + 1))
    assert complete.read(may_skip=False).restarts is False
    assert tail.read().restarts


@pytest.mark.parametrize("end", ["", "\n"])
def test_bar_longer_than_what_is_read_at_once_is_shown_with_the_lines_before_it(qtbot, view, tmp_path, end):
    path = tmp_path / "log.txt"
    redraws = "".join(f"\r{step:7}/30000 {'#' * 60}" for step in range(30_001))
    assert len(redraws) > 2 * MAX_BYTES
    path.write_bytes(f"loading\n{redraws}{end}".encode())
    view.show_file(path)
    read_all(qtbot, view)
    assert view.toPlainText() == f"loading\n  30000/30000 {'#' * 60}{end}"
    assert not view.has_earlier


# -- the view ------------------------------------------------------------------------------------


@pytest.fixture
def view(hold, qapp) -> LogView:
    themes.apply(qapp, DARK)
    return hold(LogView(), 300, 100)


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


# -- the page -------------------------------------------------------------------------------------


@pytest.fixture
def details(qtbot, hold, qapp) -> DetailTabs:
    themes.apply(qapp, DARK)
    details = hold(DetailTabs())
    qtbot.addWidget(details.controls)
    details.resize(500, 200)
    details.tabs.setCurrentIndex(LOG_TAB)
    details.controls.show()
    with qtbot.waitActive(details):
        details.show()
        details.activateWindow()
    return details


@pytest.fixture
def page(details: DetailTabs) -> LogPage:
    return details.log


@pytest.fixture
def show_run(qtbot, tmp_path, page) -> Callable[..., None]:
    """Return a function that writes the log of a run and shows it to its end, and searches it, as for `sought`."""

    def write_and_show(text: str, sought: str = "") -> None:
        append(tmp_path / "log.txt", text)
        page.show_run(tmp_path)
        read_all(qtbot, page.view)
        if sought:
            page.search.open_search()
            qtbot.keyClicks(page.search.field, sought)

    return write_and_show


def test_search_counts_and_steps_through_matches(qtbot, tmp_path, page, show_run):
    text = "".join(f"epoch {number} Loss {1 / number:.3f}\n" for number in range(1, 101))
    show_run(text + "the last line\n")
    qtbot.keyClick(page.view, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    field = page.search.field
    qtbot.waitUntil(field.hasFocus)
    qtbot.keyClicks(field, "loss")
    assert page.search.count.text() == "100 of 100"
    assert not page.view.follows
    assert page.view.extraSelections()
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert page.search.count.text() == "1 of 100"
    assert page.view.textCursor().block().text() == "epoch 1 Loss 1.000"
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert page.search.count.text() == "100 of 100"
    append(tmp_path / "log.txt", "loss again\n")
    qtbot.waitUntil(lambda: (page.follow(), page.search.count.text())[1] == "100 of 101")
    field.selectAll()
    qtbot.keyClicks(field, "nowhere")
    assert page.search.count.text() == "no matches"
    assert not page.search.next.isEnabled()
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert page.search.isHidden()
    assert not page.view.extraSelections()


LONG_LOG = "".join(f"{n} {'MATCH' if n % 100 == 0 else ''}\n" for n in range(12_000))
"""With a match in every 100th line."""


def button_of(page, name: str) -> QPushButton:
    return page.findChild(QPushButton, name)


def until_line(qtbot, page, text: str) -> None:
    def selected() -> bool:
        page.follow()
        return page.view.textCursor().block().text().strip() == text

    qtbot.waitUntil(selected)


def test_search_counts_and_reaches_the_whole_file(qtbot, page, show_run):
    show_run(LONG_LOG, "match")
    here = page.view.toPlainText().count("MATCH")
    found = f"{here} of {here} here, 120 in all"
    qtbot.waitUntil(lambda: (page.follow(), page.search.count.text())[1] == found)
    first = 12_000 - 100 * here
    for _ in range(here - 1):
        page._step(backwards=True)
    until_line(qtbot, page, f"{first} MATCH")
    qtbot.keyClick(page.search.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    until_line(qtbot, page, f"{first - 100} MATCH")
    assert button_of(page, "laterButton").isVisible()
    assert not page.view.follows
    page._step(backwards=False)
    until_line(qtbot, page, f"{first} MATCH")
    page.follow_box.setChecked(True)
    qtbot.waitUntil(lambda: (page.follow(), page.view.toPlainText())[1].endswith("11999 \n"))
    assert not button_of(page, "laterButton").isVisible()


def test_search_goes_round_the_whole_file(qtbot, page, show_run):
    show_run("the only one\n" + "line\n" * 12_000, "only")
    qtbot.waitUntil(lambda: (page.follow(), page.search.count.text())[1] == "0 here, 1 in all")
    for backwards in (False, True):
        page._step(backwards=backwards)
        until_line(qtbot, page, "the only one")
        page.follow_box.setChecked(True)
        qtbot.waitUntil(lambda: (page.follow(), page.view.has_earlier)[1])


def test_earlier_and_later_lines_are_shown_part_by_part(qtbot, tmp_path, page, show_run, monkeypatch):
    assert not button_of(page, "earlierButton").isVisible()
    show_run(LONG_LOG)
    button = button_of(page, "earlierButton")
    parts = []
    while button_of(page, "earlierButton").isVisible():
        lines = page.view.toPlainText().split()
        parts.insert(0, (lines[0], page.view.part))
        button.click()
        qtbot.waitUntil(lambda: not page.view.arriving)
        read_all(qtbot, page.view)
    assert int(parts[1][0]) - int(parts[0][0]) == MAX_LINES
    assert page.view.toPlainText().startswith("0 MATCH\n1 \n")
    assert page.view.toPlainText().split()[-1] in {str(int(parts[0][0]) - 1), "MATCH"}
    button_of(page, "laterButton").click()
    qtbot.waitUntil(lambda: page.view.toPlainText().startswith(f"{parts[0][0]} "))
    opened = []
    monkeypatch.setattr("gui.features.log.page.QDesktopServices.openUrl", lambda url: opened.append(url.toLocalFile()))
    button_of(page, "openLogButton").click()
    assert opened == [str(tmp_path / "log.txt")]


def test_long_log_is_trimmed_and_offers_its_earlier_lines(qtbot, tmp_path, page, show_run):
    show_run("")
    for part in range(8):
        append(tmp_path / "log.txt", "".join(f"{part} {number}\n" for number in range(1000)))
        read_all(qtbot, page.view)
    assert MAX_LINES <= page.view.blockCount() <= MAX_LINES + SLACK_LINES + 1
    assert page.view.toPlainText().endswith("7 998\n7 999\n")
    assert "\n3 999\n4 0\n" in page.view.toPlainText()
    assert button_of(page, "earlierButton").isVisible()
    page.view.show_earlier()
    qtbot.waitUntil(lambda: page.view.toPlainText().startswith("0 0\n"))


def test_whole_file_is_searched_as_it_grows(qtbot, tmp_path):
    owner = QObject()
    path, search = tmp_path / "log.txt", FileSearch(owner)
    append(path, "one x\n" * 60_000)  # more than a chunk
    search.start(path, "ONE X")
    qtbot.waitUntil(lambda: not search.busy)
    assert (search.count, search.before(6), search.before(0), search.after(7), search.after(10**9)) == (
        60_000, 0, None, 12, None,
    )
    append(path, "one")
    search.go_on()
    qtbot.waitUntil(lambda: not search.busy)
    append(path, " x\n")
    search.go_on()
    qtbot.waitUntil(lambda: not search.busy)
    assert search.count == 60_001
    search.start(path, "")
    assert search.count == 0


def test_typing_more_narrows_search_from_current_match(qtbot, page, show_run):
    show_run("los\nloss\nlos\n", "los")
    assert page.search.count.text() == "3 of 3"
    qtbot.keyClicks(page.search.field, "s")
    assert page.search.count.text() == "1 of 1"
    assert page.view.textCursor().blockNumber() == 1


def test_follow_box_switches_following(qtbot, tmp_path, page, show_run):
    show_run("text\n" * 300)
    bar = page.view.verticalScrollBar()
    bar.setValue(0)
    assert not page.follow_box.isChecked()
    page.follow_box.click()
    assert bar.value() == bar.maximum()
    page.follow_box.click()
    append(tmp_path / "log.txt", "text\n" * 30)
    position = bar.value()
    read_all(qtbot, page.view)
    assert bar.value() == position


def test_log_of_each_rank_can_be_selected(qtbot, tmp_path, page, show_run):
    show_run("from rank 0\n")
    assert page.rank_box.isHidden()
    append(tmp_path / "log.1.txt", "from rank 1\n")
    append(tmp_path / "log.2.txt", "")
    page.follow()
    assert not page.rank_box.isHidden()
    assert [page.rank_box.itemText(row) for row in range(page.rank_box.count())] == ["rank 0", "rank 1", "rank 2"]
    assert page.view.toPlainText() == "from rank 0\n"
    page.rank_box.setCurrentIndex(1)
    read_all(qtbot, page.view)
    assert page.view.toPlainText() == "from rank 1\n"
    page.show_empty_words("The run printed no output.")
    page.rank_box.setCurrentIndex(2)
    assert page.view.placeholderText() == "The run printed no output."
    (tmp_path / "other").mkdir()
    page.show_run(tmp_path / "other")
    assert page.rank_box.isHidden()
    assert page.view.toPlainText() == ""


# -- what a terminal shows -------------------------------------------------------------------------


TQDM_NESTED = (
    "epochs:   0%|          | 0/2\n"
    "steps:   0%|          | 0/9\x1b[A"
    "\n\rsteps:  50%|#####     | 4/9\x1b[A"
    "\repochs:  50%|#####     | 1/2"
    "\n\rsteps: 100%|##########| 9/9\x1b[A\n\x1b[A\n"
)


def printed(*pieces: str) -> list[str]:
    """Return the lines that a terminal shows after these pieces."""
    terminal, shown = Terminal(), [""]
    for piece in pieces:
        change = terminal.feed(piece)
        del shown[len(shown) - change.replaced :]
        shown += [line.text for line in change.lines]
    return shown


# -- terminal lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (" 10%\r 20%\r 30%", [" 30%"]),
        ("done\r\nnext\r\n", ["done", "next", ""]),
        ("long line\rshort", ["shortline"]),
        ("long line\r\x1b[Kshort", ["short"]),
        ("1/9 [..]\b\b\b\b\b\b\b\b2/9 [#.]", ["2/9 [#.]"]),
        ("\x1b[31mred\x1b[0m and \x00plain\x07", ["red and plain"]),
        ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[?25l\x1b(B.", ["link."]),
        ("a\tb", ["a       b"]),
        ("kept\x1b[2K", [""]),
        ("\x1b[5Cfar", ["     far"]),
        (TQDM_NESTED, ["epochs:  50%|#####     | 1/2", "steps: 100%|##########| 9/9"]),
        ("one\ntwo\nthree\x1b[2A\rONE\x1b[J", ["ONE", "", ""]),
        ("a\u2028b", ["ab"]),
    ],
)
def test_control_sequences_change_lines_as_in_a_terminal(text, lines):
    assert printed(text) == lines
    assert printed(*text) == lines, "the same lines when fed one character at a time"


def test_changed_lines_are_returned_and_binary_data_become_ascii():
    terminal = Terminal()
    terminal.feed("one\ntwo\nthr")
    change = terminal.feed("ee\nfour")
    assert (change.replaced, [line.text for line in change.lines]) == (1, ["three", "four"])
    text = "".join(f"{number}\n" for number in range(2 * SCREEN))
    assert printed(text, "\x1b[99999Atop") == [f"{n}" if n != SCREEN + 1 else "top" for n in range(2 * SCREEN)] + [""]
    lines = printed(*["x" * 10_000] * 30)
    assert lines == ["x" * MAX_LINE + CUT]
    binary = random.Random(0).randbytes(9999).decode(errors="replace")
    assert not binary.replace(UNKNOWN, "").isascii()
    assert readable(binary).replace(UNKNOWN, "").isascii()
    for text in ("日本語\ufffd", "損失" * 20 + "\ufffd\ufffd\ufffd"):
        assert readable(text) == text


def test_escape_sequences_set_styles_also_of_what_is_overwritten():
    terminal = Terminal()
    text = "\x1b[1;31mA\x1b[22;4mB\x1b[0mC\x1b[38;5;208;48;2;1;2;3mD\x1b[39;49mE\x1b[91;103mF\x1b[mG"
    chunks = terminal.feed(text).lines[0].chunks
    assert chunks == [
        ("A", Style(foreground=1, bold=True)),
        ("B", Style(foreground=1, underlined=True)),
        ("C", PLAIN),
        ("D", Style(foreground=208, background=(1, 2, 3))),
        ("E", PLAIN),
        ("F", Style(foreground=9, background=11)),
        ("G", PLAIN),
    ]
    terminal = Terminal()
    assert terminal.feed("\x1b[32mgreen\x1b[0m\r12").lines[0].chunks == [("12", PLAIN), ("een", Style(foreground=2))]


@pytest.mark.parametrize("numbers", ["38", "38;5", "38;2;1;2", "9999", ";;;", "<=>?", "48;7;1"])
def test_unknown_style_codes_are_ignored(numbers):
    assert restyled(PLAIN, numbers) == PLAIN


# -- colours -------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_terminal_colour_has_enough_contrast(theme):
    look.theme = theme
    panel = QColor(theme.panel).getRgb()[:3]
    for number in range(256):
        ink = char_format(Style(foreground=number)).foreground().color().getRgb()[:3]
        assert contrast(ink, panel) >= theme.text_contrast, number
        on_ground = char_format(Style(background=number))
        ink, ground = on_ground.foreground().color().getRgb()[:3], on_ground.background().color().getRgb()[:3]
        best = max(contrast(pole, ground) for pole in ((0, 0, 0), (255, 255, 255)))  # a middle grey allows no 7 : 1
        assert contrast(ink, ground) >= min(theme.text_contrast, best), number


def test_legible_colours_are_unchanged():
    assert rgb(None) is None
    assert rgb(9) == BASE[9]
    assert rgb(16 + 36 * 5) == (255, 0, 0)
    assert rgb(255) == (238, 238, 238)
    assert legible((255, 255, 255), (0, 0, 0), 4.5) == (255, 255, 255)
    assert legible((10, 10, 10), (0, 0, 0), 4.5) != (10, 10, 10)
