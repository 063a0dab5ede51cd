"""The page of the log: search, earlier lines, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QPushButton

from gui.base import theme as themes
from gui.base.theme import DARK
from gui.features.log.files import MAX_LINES, FileSearch
from gui.window.run_panels import LOG_TAB, MEMORY_TAB, DetailTabs
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


def test_search_counts_and_steps_through_matches(qtbot, tmp_path, page):
    text = "".join(f"epoch {number} Loss {1 / number:.3f}\n" for number in range(1, 101))
    append(tmp_path / "log.txt", text + "the last line\n")
    page.show_run(tmp_path)
    read_all(qtbot, page.view)
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


def long_log(tmp_path) -> None:
    """12 000 lines, with a match in every 100th."""
    append(tmp_path / "log.txt", "".join(f"{n} {'MATCH' if n % 100 == 0 else ''}\n" for n in range(12_000)))


def button_of(page, name: str) -> QPushButton:
    return page.findChild(QPushButton, name)


def until_line(qtbot, page, text: str) -> None:
    def selected() -> bool:
        page.follow()
        return page.view.textCursor().block().text().strip() == text

    qtbot.waitUntil(selected)


def test_search_counts_and_reaches_the_whole_file(qtbot, tmp_path, page):
    long_log(tmp_path)
    page.show_run(tmp_path)
    read_all(qtbot, page.view)
    page.search.open_search()
    qtbot.keyClicks(page.search.field, "match")
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


def test_search_goes_round_the_whole_file(qtbot, tmp_path, page):
    append(tmp_path / "log.txt", "the only one\n" + "line\n" * 12_000)
    page.show_run(tmp_path)
    read_all(qtbot, page.view)
    page.search.open_search()
    qtbot.keyClicks(page.search.field, "only")
    qtbot.waitUntil(lambda: (page.follow(), page.search.count.text())[1] == "0 here, 1 in all")
    for backwards in (False, True):
        page._step(backwards=backwards)
        until_line(qtbot, page, "the only one")
        page.follow_box.setChecked(True)
        qtbot.waitUntil(lambda: (page.follow(), page.view.has_earlier)[1])


def test_earlier_and_later_lines_are_shown_part_by_part(qtbot, tmp_path, page, monkeypatch):
    long_log(tmp_path)
    assert not button_of(page, "earlierButton").isVisible()
    page.show_run(tmp_path)
    read_all(qtbot, page.view)
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


def test_trimmed_log_offers_its_earlier_lines(qtbot, tmp_path, page):
    path = tmp_path / "log.txt"
    path.touch()
    page.show_run(tmp_path)
    for part in range(8):
        append(path, "".join(f"{part} {number}\n" for number in range(1000)))
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


def test_typing_more_narrows_search_from_current_match(qtbot, tmp_path, page):
    append(tmp_path / "log.txt", "los\nloss\nlos\n")
    page.show_run(tmp_path)
    read_all(qtbot, page.view)
    page.search.open_search()
    qtbot.keyClicks(page.search.field, "los")
    assert page.search.count.text() == "3 of 3"
    qtbot.keyClicks(page.search.field, "s")
    assert page.search.count.text() == "1 of 1"
    assert page.view.textCursor().blockNumber() == 1


def test_follow_box_switches_following(qtbot, tmp_path, page):
    append(tmp_path / "log.txt", "text\n" * 300)
    page.show_run(tmp_path)
    read_all(qtbot, page.view)
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


def test_log_of_each_rank_can_be_selected(qtbot, tmp_path, page):
    append(tmp_path / "log.txt", "from rank 0\n")
    page.show_run(tmp_path)
    page.follow()
    read_all(qtbot, page.view)
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


def test_log_controls_are_visible_only_on_log_tab(qtbot):
    details = DetailTabs()
    qtbot.addWidget(details)
    qtbot.addWidget(details.controls)
    details.tabs.setCurrentIndex(MEMORY_TAB)
    assert details.log.controls.isHidden()
    details.tabs.setCurrentIndex(LOG_TAB)
    assert not details.log.controls.isHidden()
