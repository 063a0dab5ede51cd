"""The button for stopping: what it says in each state is what it does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from core.runs.facts import RunFacts
from core.runs.run import Run
from core.runs.states import RunState
from gui.panels.runs.run_buttons import RunButtons
from gui.services.run_session import RunSession
from gui.style.theme import DARK
from gui.viewmodels.run.run_header import SECOND_THOUGHT_S, Forcing, run_header


@pytest.fixture
def buttons(qtbot):
    made = RunButtons(DARK)
    qtbot.addWidget(made)
    return made


NOW = 1_800_000_000.0


@pytest.fixture
def looked_at(tmp_path, monkeypatch):
    """The head of a run that has been in a state for so long."""
    monkeypatch.setattr(
        "gui.viewmodels.run.run_header.time", SimpleNamespace(time=lambda: NOW, monotonic=lambda: 100.0)
    )

    def look(state, *, since_s):
        session = RunSession()
        session.run = Run(tmp_path)
        session.run.facts = RunFacts(state=state, history=((NOW - since_s, state),))
        return run_header(session.snapshot())

    return look


@pytest.mark.parametrize(
    ("stopping", "text", "tip"),
    [
        (Forcing.WORKERS, "Force", "Kill the processes of this run now (Ctrl+.)"),
        (Forcing.WAITING, "Skip the check", "Stop waiting for the memory of the devices: training has ended (Ctrl+.)"),
    ],
)
def test_what_is_forced_is_said_and_asked_for(qtbot, buttons, stopping, text, tip):
    buttons.show_stop(can_stop=False, can_force=True, stopping=stopping)
    assert (buttons.stop.text(), buttons.stop.toolTip()) == (text, tip)
    with qtbot.waitSignal(buttons.force_asked), qtbot.assertNotEmitted(buttons.stop_asked):
        buttons.stop.click()


def test_what_can_be_stopped_is_stopped(qtbot, buttons):
    buttons.show_stop(can_stop=True, can_force=False, stopping=None)
    assert buttons.stop.text() == "Stop"
    with qtbot.waitSignal(buttons.stop_asked), qtbot.assertNotEmitted(buttons.force_asked):
        buttons.stop.click()


def test_while_the_memory_is_watched_one_need_not_wait(looked_at):
    shown = looked_at(RunState.RELEASING, since_s=10)
    assert (shown.stopping, shown.can_force, shown.can_stop) == (Forcing.WAITING, True, False)


def test_the_second_half_of_a_double_click_ends_no_watch(looked_at):
    """Pressed as "Force" or "Stop" in the moment in which training ended."""
    shown = looked_at(RunState.RELEASING, since_s=SECOND_THOUGHT_S / 4)
    assert (shown.stopping, shown.can_force, shown.can_stop) == (None, False, False)
    set_back = looked_at(RunState.RELEASING, since_s=-3600)
    assert set_back.can_force


@pytest.mark.parametrize(
    ("state", "stopping"), [(RunState.STOPPING, Forcing.WORKERS), (RunState.RUNNING, None), (RunState.FINISHED, None)]
)
def test_in_other_states_the_workers_are_forced_or_nobody(looked_at, state, stopping):
    shown = looked_at(state, since_s=10)
    assert (shown.stopping, shown.can_force) == (stopping, stopping is not None)
