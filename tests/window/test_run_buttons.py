"""The header of a run: its buttons do what their texts say, its texts fit, and its mark tells the state."""

import re
import shutil
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QLabel, QPushButton

from core.runs.facts import STATES, RunFacts, RunState
from core.runs.run import Run
from core.schema.paths import CONTROL
from gui.base import theme as themes
from gui.base.icons import paint_mark
from gui.base.theme import DARK
from gui.features.run.head import RunButtons
from gui.features.runlist.view import RunList
from gui.runs.actions import RunActions
from gui.runs.rows import RunRow
from gui.runs.session import RunSession
from gui.runs.words import SECOND_THOUGHT_S, STATE_MARKS, Forcing, PauseButtonState, RunHeader, run_header
from gui.widgets.elided_label import ElidedLabel
from gui.window.panels import HeaderPanel
from tests.window.test_missed import write_live

pytestmark = pytest.mark.styled


@pytest.fixture
def buttons(hold):
    return hold(RunButtons())


NARROW_PX, WIDE_PX = 1080, 1460
"""The header of a window of 1100 pixels, and of 1480."""
NOW = 1_800_000_000.0


@pytest.fixture
def header_in_state(tmp_path, monkeypatch):
    """Return a function that builds the header of a run `since_s` seconds after it entered a state."""
    monkeypatch.setattr("gui.runs.words.time", SimpleNamespace(time=lambda: NOW, monotonic=lambda: 100.0))

    def build(state, *, since_s):
        session = RunSession()
        session.run = Run(tmp_path)
        session.run.facts = RunFacts(state=state, history=((NOW - since_s, state),))
        return run_header(session.snapshot())

    return build


def test_buttons_name_what_they_do_and_keep_the_focus_while_disabled(qtbot, buttons):
    for stopping, text, tip in (
        (Forcing.WORKERS, "Force", "Kill the processes of this run, once they were examined (Ctrl+.)"),
        (Forcing.WAITING, "Skip the check",
         "Stop waiting for the memory of the devices: training has ended (Ctrl+.)"),
    ):
        buttons.show_stop(can_stop=False, can_force=True, stopping=stopping)
        assert (buttons.stop.text(), buttons.stop.toolTip()) == (text, tip)
        with qtbot.waitSignal(buttons.force_asked), qtbot.assertNotEmitted(buttons.stop_asked):
            buttons.stop.click()
    buttons.show_stop(can_stop=True, can_force=False, stopping=None)
    assert buttons.stop.text() == "Stop"
    with qtbot.waitSignal(buttons.stop_asked), qtbot.assertNotEmitted(buttons.force_asked):
        buttons.stop.click()
    assert buttons.start.property("role") == "primary"
    buttons.allow_start("", is_proposed=False)
    assert (buttons.start.property("role"), buttons.start.isEnabled()) == ("", True)
    buttons.allow_start("")
    assert buttons.start.property("role") == "primary"
    with qtbot.waitActive(buttons):
        buttons.show()
        buttons.activateWindow()
    buttons.pause.show_state(PAUSABLE)
    buttons.pause.setFocus()
    with qtbot.waitSignal(buttons.pause_asked):
        qtbot.keyClick(buttons.pause, Qt.Key.Key_Space)
    buttons.pause.show_state(replace(PAUSABLE, text="Pausing…", enabled=False))
    assert buttons.focusWidget() is buttons.pause
    with qtbot.assertNotEmitted(buttons.stop_asked), qtbot.assertNotEmitted(buttons.pause_asked):
        qtbot.keyClick(buttons.focusWidget(), Qt.Key.Key_Space)
    qtbot.keyClick(buttons.focusWidget(), Qt.Key.Key_Tab)
    assert buttons.focusWidget() is buttons.stop, "Tab goes on from there"


@pytest.mark.parametrize(
    ("answer", "requested"), [("noButton", []), ("yesButton", ["stop"]), ("otherButton", ["pause"])]
)
def test_stop_of_a_run_that_was_not_saved_for_long_asks(assemble, runs_root, answer, requested):
    run_dir = write_live(runs_root, "20260101-000001-live")  # it has trained for an hour
    (run_dir / CONTROL).mkdir()
    panel = assemble("run")
    panel.stop()
    assert re.match(r"Stop digits_mlp without saving\?\nThe last (59 min|1 h) ", panel.asked().text)
    assert not [*(run_dir / CONTROL).iterdir()]
    panel.answer(answer)
    panel.until(lambda: panel.question() is None, "the end of the question")
    assert [each.name for each in (run_dir / CONTROL).iterdir()] == requested
    shutil.rmtree(run_dir / CONTROL)  # the end of this test does not wait for a run without it


@pytest.mark.parametrize(
    ("state", "since_s", "stopping"),
    [
        (RunState.STOPPING, 10, Forcing.WORKERS), (RunState.RUNNING, 10, None), (RunState.FINISHED, 10, None),
        (RunState.RELEASING, 10, Forcing.WAITING), (RunState.RELEASING, -3600, Forcing.WAITING),  # a clock set back
        # The second click on "Force" or "Stop" arrives just after training ended: it skips no memory check.
        (RunState.RELEASING, SECOND_THOUGHT_S / 4, None),
    ],
)
def test_only_a_stopping_run_and_a_memory_check_can_be_forced(header_in_state, state, since_s, stopping):
    shown = header_in_state(state, since_s=since_s)
    assert (shown.stopping, shown.can_force) == (stopping, stopping is not None)
    assert shown.can_stop is (state is RunState.RUNNING)


def test_description_is_whole_where_there_is_room(hold, qtbot, qapp):
    """The style sheet enlarges the font after the text was set."""
    header = hold(HeaderPanel(RunActions()))  # no event is processed before its text is set, as after a fixture
    header.show_header(run_header(None))
    header.resize(WIDE_PX, header.sizeHint().height())
    themes.apply(qapp, DARK)
    with qtbot.waitExposed(header):
        header.show()
    header.grab()
    description = header.findChild(ElidedLabel, "descriptionLabel")
    assert description.text() == "Tick devices, choose what to train, and press Start"
    assert description.width() >= description.sizeHint().width()
    assert description.toolTip() == "", "nothing is cut"


def test_end_of_the_shown_run_is_reported_and_in_the_heading(header):
    headings, ends = [], []
    header.heading_changed.connect(headings.append)
    header.run_ended.connect(lambda: ends.append(len(headings)))
    for name, shape in (("a", "tick"), ("b", "clock"), ("b", "ring"), ("b", "cross"), ("b", "cross"), ("", "")):
        header.show_header(RunHeader(name=name, mark=shape))
    assert headings == ["✓ a", "b", "b", "✕ b", ""]
    assert ends == [4], "not of a run that has ended before it is looked at"


def test_loss_that_is_no_number_is_in_the_heading_and_so_is_the_end_of_its_run(header):
    headings, ends = [], []
    header.heading_changed.connect(headings.append)
    header.run_ended.connect(lambda: ends.append(len(headings)))
    for label, shape in (("Running", "ring"), ("Running", "alert"), ("Running", "alert"), ("Finished", "alert")):
        header.show_header(RunHeader(name="a", label=label, mark=shape))
    assert headings == ["a", "⚠ a", "⚠ a"]
    assert ends == [2, 3], "once when it became NaN, once at the end"


def test_description_gives_way_to_the_numbers_and_the_verdict(header, qtbot, qapp):
    themes.apply(qapp, DARK)
    header.resize(WIDE_PX, header.sizeHint().height())
    with qtbot.waitExposed(header):
        header.show()
    header.show_header(
        RunHeader(
            label="Stopped", name="digits_mlp", what="PyTorch, data parallel (DDP) on 2 devices",
            epoch="epoch 84 of 600", fraction=0.14, detail="val. loss 0.0815 · took 0:29",
            released="memory released in under 0.1 s", released_tone="good",
        )
    )
    important = (header.progress.epoch, header.progress.detail, header.findChild(QLabel, "releasedLabel"))
    qtbot.waitUntil(lambda: header.progress.bar.width() == header.progress.bar.minimumWidth())
    assert [part.text() for part in important if part.width() < part.sizeHint().width()] == []


def test_header_fits_a_narrow_window(header, qtbot, qapp):
    """A long verdict on the memory gives way, so that no button is cut at 1100 pixels."""
    themes.apply(qapp, DARK)
    header.show_header(
        RunHeader(
            label="Finished", name="a_very_long_name_of_a_workload", what="PyTorch, data parallel (DDP) on 8 devices",
            owner="mallory", epoch="epoch 100 of 100", fraction=1.0, detail="took 12:03",
            released="memory not released, cause unknown", released_tone="bad",
        )
    )
    assert header.minimumSizeHint().width() <= NARROW_PX
    header.resize(NARROW_PX, header.sizeHint().height())
    with qtbot.waitExposed(header):
        header.show()
    header.grab()
    released = header.findChild(QLabel, "releasedLabel")
    assert released.toolTip() == "memory not released, cause unknown"
    assert header.findChild(QLabel, "detailLabel").toolTip() == "", "a short text is not cut"
    for part in (*header.findChildren(QPushButton), released):
        right = part.mapTo(header, part.rect().topRight()).x()
        assert right < NARROW_PX
        assert part.width() >= part.minimumSizeHint().width()


PAUSABLE = PauseButtonState(text="Pause", tip="Pause this run", enabled=True)


# -- marks of states -------------------------------------------------------------------------------


SIDE_PX = 24
"""Twice the size in the list."""


def painted(mark: str) -> QImage:
    image = QImage(SIDE_PX, SIDE_PX, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.black)
    painter = QPainter(image)
    paint_mark(painter, mark, QRectF(0, 0, SIDE_PX, SIDE_PX), "#ffffff")
    painter.end()
    return image


def difference(one: QImage, other: QImage) -> int:
    """Return the number of pixels that differ clearly."""
    places = [(x, y) for x in range(one.width()) for y in range(one.height())]
    pairs = ((one.pixelColor(*at).getRgb(), other.pixelColor(*at).getRgb()) for at in places)
    return sum(max(abs(a - b) for a, b in zip(mine, yours, strict=True)) > 96 for mine, yours in pairs)


def test_states_of_one_colour_have_other_marks_in_list_and_header(header, hold, tmp_path) -> None:
    ended = [STATE_MARKS[row.state] for row in STATES if row.over]
    assert len(set(ended)) == len(ended)
    assert STATE_MARKS[RunState.RUNNING] not in ended
    for one, other in combinations(sorted(set(STATE_MARKS.values())), 2):
        assert difference(painted(one), painted(other)) > 40, (one, other)
    runs = hold(RunList(RunActions()), 900, 80)
    hold(header, 900, 80)
    pictures = {}
    for mark in ("tick", "cross", "ring"):
        runs.show_rows([RunRow(dir=tmp_path, title="a", outcome="b", tone="good", mark=mark, tip="")])
        header.show_header(RunHeader(label="State", tone="good", mark=mark))
        pictures[mark] = [runs.viewport().grab().toImage(), header._state.grab().toImage()]
    for one, other in combinations(pictures.values(), 2):
        assert all(difference(a, b) > 8 for a, b in zip(one, other, strict=True))
