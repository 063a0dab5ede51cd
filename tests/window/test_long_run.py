"""A long run is drawn at once, read in turns of the event loop, and not read again."""

import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QProgressBar
from pytestqt.qtbot import QtBot

from core.runs.facts import RunState
from core.schema.spec import write_spec
from core.series import long_runs
from gui.runs import reading as run_memory
from gui.runs import reading as run_opening
from gui.runs import session as run_session
from gui.runs.session import RunSession
from tests.support.long_run import write_long_run
from tests.support.running import script_spec
from tests.unit.test_event_slices import assert_same, read_whole


@pytest.fixture
def long_run(runs_root: Path) -> Path:
    """A finished run of 60 000 steps, with 9600 readings of devices: 2.8 MB of events."""
    return write_long_run(runs_root, steps=60_000, lines=1200, rounds=1200, hours=1.0)


@pytest.fixture
def session(qapp) -> RunSession:
    return RunSession()


def until_read(qtbot: QtBot, session: RunSession) -> None:
    qtbot.waitUntil(lambda: session.opening is None)


def test_long_run_is_a_sketch_until_it_is_read(session, long_run, qtbot):
    shares, sketches = [], []

    def note(share: float) -> None:
        shares.append(share)
        sketches.append((session.snapshot().loss, "val_loss" in shown.metrics, shown.metrics["loss"].count))

    session.read_on.connect(note)
    session.attach_to(long_run)
    assert session.opening is not None
    assert session.facts.state is RunState.FINISHED
    assert not session.live
    shown = session.run_series
    assert (dict(shown.metrics), shares) == ({}, []), "the state is shown first"
    until_read(qtbot, session)
    loss, is_validated, sketched = sketches[0]
    assert loss is None  # the best validation may be among those that are not read yet
    assert not is_validated
    assert 0 < sketched < 60_000
    assert session.run_series is shown  # so that what draws it goes on
    assert (shares[0], shares[-1], shares == sorted(shares)) == (0.0, 1.0, True)
    assert_same((session.run, shown), read_whole(long_run))
    assert session.snapshot().loss.is_validation


def test_reading_leaves_turns_to_other_work_but_not_for_ever(session, long_run, qtbot, monkeypatch):
    monkeypatch.setattr(run_opening, "PATIENCE_S", 1e9)
    worked_s = [0.0]
    monkeypatch.setattr(run_opening.time, "thread_time", lambda: worked_s[0])
    session.attach_to(long_run)
    turns = []

    def work() -> None:
        worked_s[0] += 2 * run_opening.OTHERS_S
        turns.append(session.run.bytes_read)

    timer = QTimer(session)
    timer.timeout.connect(work)
    timer.start()
    qtbot.waitUntil(lambda: len(turns) > 20)
    assert session.opening is not None
    assert turns[-1] == turns[2], "no turn has had both"
    monkeypatch.setattr(run_opening, "PATIENCE_S", 0.01)
    until_read(qtbot, session)
    timer.stop()
    assert_same((session.run, session.run_series), read_whole(long_run))


def test_slow_turns_read_a_run_whole_and_memory_of_runs_is_bounded(session, long_run, qtbot, monkeypatch):
    monkeypatch.setattr(run_opening, "TOLD_S", 0.0)  # each turn is longer than the time between two reports
    monkeypatch.setattr(run_memory, "MAX_BYTES", 1000)
    monkeypatch.setattr(long_runs, "FREE_SHARE", 1 << 60)  # the disk has no room for it, either
    session.attach_to(long_run)
    until_read(qtbot, session)
    assert_same((session.run, session.run_series), read_whole(long_run))
    session.show_none()
    session.attach_to(long_run)
    assert session.opening is not None


def test_long_run_that_another_window_has_read_is_whole_at_once_and_read_in_slices_once_it_has_grown_much(
    session, long_run, tmp_path, qtbot
):
    (tmp_path / "train.py").write_text("print('loss 1')\n")
    write_spec(long_run, script_spec("train.py", cwd=tmp_path, environment={"TOKEN": "hf_123"}))
    session.attach_to(long_run)
    until_read(qtbot, session)
    session.poll()  # keeps it
    qtbot.waitUntil(lambda: list(long_runs.cache_folder().glob("runs/*/*.run")) != [])
    (kept,) = long_runs.cache_folder().glob("runs/*/*.run")
    assert b"hf_123" in (long_run / "spec.json").read_bytes()
    assert b"hf_123" not in kept.read_bytes(), "no secret of the program is kept"
    other, third = RunSession(), RunSession()
    other.attach_to(long_run)
    assert other.opening is None
    assert_same((other.run, other.run_series), read_whole(long_run))
    assert other.timeline.entries == session.timeline.entries
    assert other.snapshot().loss == session.snapshot().loss
    events = long_run / "events" / "devices.jsonl"
    with events.open("ab") as file:
        file.write(events.read_bytes())
    third.attach_to(long_run)
    assert third.opening is not None
    until_read(qtbot, third)


def test_run_left_while_it_is_read_is_read_anew_and_then_not_again(session, long_run, tmp_path, qtbot):
    other = write_long_run(tmp_path, steps=100, lines=10, rounds=1, name="20260102-000000-short-0000")
    session.attach_to(long_run)
    session.attach_to(other)
    assert session.opening is None
    assert session.run_series.metrics["loss"].count == 100
    session.attach_to(long_run)
    assert session.opening is not None
    until_read(qtbot, session)
    assert session.run_series.metrics["loss"].count == 60_000
    kept = session.run_series
    session.show_none()
    assert (session.run, session.run_series) == (None, None)
    session.attach_to(long_run)
    assert session.opening is None
    assert session.run_series is kept


def test_run_whose_folder_vanishes_stays_shown_and_says_so(session, long_run, qtbot, monkeypatch):
    monkeypatch.setattr(run_session, "AT_ONCE_BYTES", 1 << 40)
    session.attach_to(long_run)
    with qtbot.waitSignal(session.changed):
        shutil.rmtree(long_run)
        session.poll()
    assert session.facts.notices == (
        f"The folder of this run was removed or renamed: {long_run}. The values that were read before are still shown.",
    )
    assert session.run_series.metrics["loss"].count == 60_000
    with qtbot.assertNotEmitted(session.changed):
        session.poll()


@pytest.mark.slow
def test_long_run_is_drawn_coarsely_and_then_whole(assemble, long_run, monkeypatch):
    panel = assemble("run")
    session = panel.window.services.session

    def halt(share: float) -> None:
        """Have all turns left to other work, for ever, once there is a sketch."""
        if share == 0.0:
            monkeypatch.setattr(run_opening, "OTHERS_S", -1.0)
            monkeypatch.setattr(run_opening, "PATIENCE_S", 1e9)

    session.read_on.connect(halt)
    panel.until(lambda: panel.runs.count() == 1, "the run in the list")
    panel.runs.itemClicked.emit(panel.runs.item(0))
    assert panel.state.text() == "Finished"
    panel.until(lambda: panel.window.findChild(QProgressBar, "readingBar") is not None, "the bar")
    bar = panel.window.findChild(QProgressBar, "readingBar")
    assert bar.isVisible()
    panel.until(lambda: panel.points("lossPlot") > 0, "a coarse curve")
    assert session.opening is not None
    monkeypatch.setattr(run_opening, "PATIENCE_S", 0.0)
    panel.until(lambda: not bar.isVisible(), "the whole run")
    assert session.run_series.metrics["loss"].count == 60_000
    panel.poll()
    assert panel.plot("lossPlot").curves()
