"""The table of what can be done with runs: each action is declared whole, and some controller does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby

from gui.runs.actions import ACTIONS, NO_RUN, RunActions
from tests.window.driving import Driver


def test_each_action_is_explained_and_has_its_own_name_and_key() -> None:
    assert [name for name, count in Counter(row.name for row in ACTIONS).items() if count > 1] == []
    keys = [row.key for row in ACTIONS if row.key]
    assert len(keys) == len(set(keys))
    for row in ACTIONS:
        assert bool(row.text) == bool(row.tip), row.name
        assert row.text or row.of_several, row.name
        assert row.text or not (row.key or row.of_queued or row.of_tables), row.name
    sections = [section for section, _ in groupby(row.section for row in ACTIONS)]
    assert len(sections) == len(set(sections)), "a section is in one piece"


def test_a_controller_does_each_action(drive: Callable[[], Driver]) -> None:
    every, of_tables = {(row.name, False) for row in ACTIONS}, {(row.name, True) for row in ACTIONS if row.of_tables}
    assert {*drive().window.panels.actions._handlers} == every | of_tables


def test_an_action_is_done_with_the_runs_that_are_left() -> None:
    """Runs that were ticked may not be listed any more."""
    actions, done = RunActions(), []
    actions.provide(compare=done.append)
    actions.do("compare", [])
    actions.do("compare", ["a", "b"])
    assert done == [[], ["a", "b"]]


def test_without_a_run_nothing_can_be_done_and_nobody_is_asked() -> None:
    actions, asked = RunActions(), []
    actions.judge(lambda run_dir, _: asked.append(run_dir))
    states = actions.states("")
    assert {state.why_not for state in states.values()} == {NO_RUN}
    assert asked == []
    assert {name for name, state in states.items() if not state.shown} == {row.name for row in ACTIONS if row.of_queued}
    assert {state.why_not for state in actions.states("a").values()} == {""}
    assert asked == ["a"]
