"""The row of several runs in the list: ticked, unfolded and acted on as all of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent

from gui.features.runlist import view
from gui.features.runlist.view import RunList
from gui.runs.actions import RunActions
from gui.runs.rows import RunRow

ALL = ["/runs/a", "/runs/b", "/runs/c"]


def row(name: str, title: str, *runs: str) -> RunRow:
    path = f"/runs/{name}"
    return RunRow(dir=Path(path), title=title, outcome="", tone="good", mark="tick", tip="", runs=runs or (path,))


FOLDED = [row("x.sweep", "▸ mine, sweep of 3", *ALL), row("d", "other")]
OPEN = [row("x.sweep", "▾ mine, sweep of 3", *ALL), *(row(each, f"↳ lr {each}") for each in "abc"), row("d", "other")]


class Rows:
    """A list that unfolds and folds as it asks for."""

    def __init__(self, view: RunList, done: list[tuple[str, list[str]]]) -> None:
        self.view, self.done, self.chosen = view, done, list[str]()
        self.is_open = False
        view.turned.connect(self._turn)
        view.chosen.connect(self.chosen.append)
        view.show_rows(FOLDED)

    def _turn(self, path: str) -> None:
        assert path == "/runs/x.sweep"
        self.is_open = not self.is_open
        self.view.show_rows(OPEN if self.is_open else FOLDED)

    def place(self, number: int) -> QPoint:
        return self.view.visualItemRect(self.view.item(number)).center()

    def menu_of(self, number: int, *, waits: bool = False) -> list[str]:
        """Open the menu of a row with the mouse, and return its entries by name."""
        self.view.several_menu.queued = (lambda: ["/runs/b"]) if waits else tuple
        reason, place = QContextMenuEvent.Reason.Mouse, self.place(number)
        self.view.contextMenuEvent(QContextMenuEvent(reason, place, place))
        assert self.view.several_menu.isVisible()
        assert not self.view.run_menu.isVisible()
        self.view.several_menu.close()
        return [each.objectName().removesuffix("SeveralAction") for each in self.view.several_menu.findChildren(QAction)
                if each.objectName()]


@pytest.fixture
def rows(hold) -> Rows:
    actions, done = RunActions(), list[tuple[str, list[str]]]()
    for name in ("compare", "remove", "hold", "unqueue"):
        actions.provide(**{name: lambda runs, name=name: done.append((name, list(runs)))})
    return Rows(hold(RunList(actions), 400, 400), done)


def test_the_keys_unfold_and_fold_and_what_is_ticked_stays_ticked(rows: Rows, qtbot) -> None:
    view = rows.view
    view.setFocus()
    view.setCurrentRow(0)
    assert view.ticked == ALL
    assert view.listed >= {*ALL, "/runs/d"}
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert not rows.is_open, "it is folded already"
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert rows.is_open
    assert (view.ticked, view.item(0).isSelected(), view.currentRow()) == (ALL, False, 0)
    view.tick(["/runs/a", "/runs/c"])
    assert view.ticked == ["/runs/a", "/runs/c"], "one of them is left out"
    view.tick([*ALL, "/runs/d"])
    qtbot.keyClick(view, Qt.Key.Key_Left)
    assert (rows.is_open, view.ticked) == (False, [*ALL, "/runs/d"])
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert rows.done == [("compare", [*ALL, "/runs/d"])]
    assert rows.chosen == [], "it is no run that could be shown"


def test_its_runs_are_ticked_in_its_place_also_where_nothing_is_below_it(rows: Rows) -> None:
    view = rows.view
    head, *others = FOLDED
    view.show_rows([*others, head])
    view.setCurrentRow(1)
    view.show_rows([*others, *OPEN[:-1]])
    assert [view.item(number).isSelected() for number in range(5)] == [False, False, True, True, True]


def test_in_a_narrow_list_the_number_is_left_of_a_result_so_that_runs_are_told_apart(hold, monkeypatch) -> None:
    drawn = list[str]()
    monkeypatch.setattr(view, "draw_elided", lambda painter, line, text, *_, **__: drawn.append(text))
    ended = "stopped, 8 of 2000"
    differs = {"words": "dropout 0.5 · lr 0.03"}
    found = [replace(row("a", "mine"), result="val. loss 0.0993", **differs),
             replace(row("b", "mine"), result=ended, **differs), replace(row("c", "mine"), result="0.5", **differs)]
    for width, first in ((600, "val. loss 0.0993"), (110, "0.0993")):
        runs = hold(RunList(RunActions()), width, 300)
        runs.show_rows(found)
        drawn.clear()
        runs.grab()
        assert [each for each in drawn if each in {"val. loss 0.0993", "0.0993", ended, "0.5"}] == [first, ended, "0.5"]


def test_a_click_unfolds_and_the_menu_of_the_row_acts_on_all(rows: Rows, qtbot) -> None:
    view = rows.view
    assert "hold" not in rows.menu_of(0), "none of them waits"
    assert {"hold", "unqueue", "compare", "remove"} <= set(rows.menu_of(0, waits=True))
    for name in ("hold", "compare", "remove"):
        view.several_menu.findChild(QAction, f"{name}SeveralAction").trigger()
    assert rows.done == [(name, ALL) for name in ("hold", "compare", "remove")]
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=rows.place(0))
    assert (rows.is_open, view.ticked, rows.chosen) == (True, ALL, [])
    view.clearSelection()
    assert "compare" in rows.menu_of(0), "also unfolded, and whatever is ticked"
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=rows.place(2))
    assert (rows.chosen, view.ticked) == (["/runs/b"], ["/runs/b"]), "below it, each is a run of its own"
    view.moved.connect(lambda *moved: rows.done.append(moved))
    view.setCurrentRow(4)
    view.drop_chosen(view.visualItemRect(view.item(0)).topLeft() + QPoint(20, 1))
    assert rows.done[-1] == ("/runs/d", ALL), "before the first of them"
