"""The page of the log: search, earlier lines, ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QPushButton

from gui.base import theme as themes
from gui.base.theme import DARK
from gui.features.log.files import MAX_LINES, FileSearch
from gui.window.details import LOG_TAB, DetailTabs
from tests.window.logs import append, read_all

if TYPE_CHECKING:
    from gui.features.log.page import LogPage


@pytest.fixture
def page(qtbot, qapp) -> LogPage:
    themes.apply(qapp, DARK)
    details = DetailTabs()
    qtbot.addWidget(details)
    qtbot.addWidget(details.controls)
    details.resize(500, 200)
    details.tabs.setCurrentIndex(LOG_TAB)
    details.controls.show()
    with qtbot.waitActive(details):
        details.show()
        details.activateWindow()
    return details.log


@pytest.fixture
def show(qtbot, tmp_path, page) -> Callable[..., None]:
    """Return a function that writes the log of a run and shows it to its end, and searches it, as for `sought`."""

    def write_and_show(text: str, sought: str = "") -> None:
        append(tmp_path / "log.txt", text)
        page.show_run(tmp_path)
        read_all(qtbot, page.view)
        if sought:
            page.search.open_search()
            qtbot.keyClicks(page.search.field, sought)

    return write_and_show


def test_search_counts_and_steps_through_matches(qtbot, tmp_path, page, show):
    text = "".join(f"epoch {number} Loss {1 / number:.3f}\n" for number in range(1, 101))
    show(text + "the last line\n")
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


def test_search_counts_and_reaches_the_whole_file(qtbot, page, show):
    show(LONG_LOG, "match")
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


def test_search_goes_round_the_whole_file(qtbot, page, show):
    show("the only one\n" + "line\n" * 12_000, "only")
    qtbot.waitUntil(lambda: (page.follow(), page.search.count.text())[1] == "0 here, 1 in all")
    for backwards in (False, True):
        page._step(backwards=backwards)
        until_line(qtbot, page, "the only one")
        page.follow_box.setChecked(True)
        qtbot.waitUntil(lambda: (page.follow(), page.view.has_earlier)[1])


def test_earlier_and_later_lines_are_shown_part_by_part(qtbot, tmp_path, page, show, monkeypatch):
    assert not button_of(page, "earlierButton").isVisible()
    show(LONG_LOG)
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


def test_trimmed_log_offers_its_earlier_lines(qtbot, tmp_path, page, show):
    show("")
    for part in range(8):
        append(tmp_path / "log.txt", "".join(f"{part} {number}\n" for number in range(1000)))
        read_all(qtbot, page.view)
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


def test_typing_more_narrows_search_from_current_match(qtbot, page, show):
    show("los\nloss\nlos\n", "los")
    assert page.search.count.text() == "3 of 3"
    qtbot.keyClicks(page.search.field, "s")
    assert page.search.count.text() == "1 of 1"
    assert page.view.textCursor().blockNumber() == 1


def test_follow_box_switches_following(qtbot, tmp_path, page, show):
    show("text\n" * 300)
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


def test_log_of_each_rank_can_be_selected(qtbot, tmp_path, page, show):
    show("from rank 0\n")
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
