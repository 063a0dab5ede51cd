"""What lies over the plots: the card about a failed run, the guidance for a first run, and messages."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QPoint, QRect, Qt
from PySide6.QtWidgets import QDockWidget, QFrame, QLabel, QPushButton, QWidget

from gui.features.run.events import FailureCard, FailureView
from gui.features.setup.reuse import FIRST_STEPS
from gui.plots.area import MIN_HEIGHT_PX
from gui.runs.progress import Place, Situation, empty_words
from gui.widgets.dialogs import FileDialog
from gui.widgets.messages import MessageStack, MessageStrip
from gui.window.layout import MIN_RUNS_PX, MIN_SIDE_PX, RUNS_SHARE, SIDE_SHARE
from tests.support.recorded import recorded

pytestmark = pytest.mark.styled

FULL = "Worker 0 on cpu:0: RuntimeError: can't allocate memory: you tried to allocate 9 bytes."
VIEW = FailureView(
    title="The program ended with exit code 3", sentence="It printed nothing.", place=None, lines=(), changes=(),
    can_run_again=True, rank=0, sought="",
)


def fail(run_dir: Path, error: str, log: str = "") -> None:
    """Make a recorded run one that failed."""
    path = run_dir / "events" / "supervisor.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1] |= {"state": "failed", "error": error}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run_dir / "log.txt").write_text(log)


@pytest.mark.slow
def test_card_offers_half_the_batch_and_takes_no_room(drive, runs_root):
    run_dir = recorded(runs_root)
    fail(run_dir, FULL, "one\ntwo\nRuntimeError: can't allocate memory\n")
    panel = drive()
    window = panel.window
    panel.until(lambda: panel.runs.count() == 1)
    panel.runs.itemActivated.emit(panel.runs.item(0))
    panel.until_state("Failed")
    card = window.findChild(QFrame, "failureCard")
    panel.until(lambda: card.isVisible() and card.height() > 100, "the card")
    plots = window.panels.plots  # the line of sums above them goes with the machine's page
    panel.until(lambda: plots.geometry() == window.panels.scroll.page.rect(), "the plots to keep all the room")
    assert window.centralWidget().geometry().contains(card.geometry().center())
    quoted = card.lines[0].parentWidget()
    for size in ((900, 600), (1480, 1000)):  # the docks are rearranged, and the card stays in front
        window.resize(*size)
        panel.until(lambda: card.isAncestorOf(window.childAt(card.geometry().center()) or window), "the card in front")
        second = window.panels.plots.widget(1)
        panel.until(
            lambda second=second: card.geometry().bottom() < second.mapTo(window, QPoint(0, 0)).y(),
            "the card over the first plot only",
        )
        # Lines are left out where there is no room for them.
        panel.until(lambda size=size: quoted.isVisible() is (size == (1480, 1000)), f"the lines at {size}")
    assert window.findChild(QLabel, "failureTitle").text() == "The machine ran out of memory at step 50"
    assert card.accessibleName() == "The machine ran out of memory at step 50"
    smaller = window.findChild(QPushButton, "failureChangeButton")
    assert smaller.text() == "batch 32"
    panel.qtbot.mouseClick(smaller, Qt.MouseButton.LeftButton)
    panel.until(lambda: (spec := panel.spec()) is not None and spec.training.batch_size == 32, "the smaller batch")
    assert panel.runs.count() == 1  # it fills the form, and starts nothing
    panel.qtbot.mouseClick(window.findChild(QPushButton, "failureAgainButton"), Qt.MouseButton.LeftButton)
    panel.until(lambda: panel.runs.count() == 2, "another run")
    panel.until(lambda: not card.isVisible(), "no card about a run that goes on")


def test_closed_card_stays_closed_until_another_run_is_looked_at(qtbot, hold):
    card = hold(FailureCard())
    card.show_failure(VIEW)
    assert card.isVisible()
    assert not card.log_button.isVisible()  # there is nothing to look for
    assert card.findChildren(QPushButton, "failureChangeButton") == []
    qtbot.mouseClick(card.close_button, Qt.MouseButton.LeftButton)
    card.show_failure(VIEW)
    assert not card.isVisible()
    card.show_failure(None)
    card.show_failure(VIEW)
    assert card.isVisible()


def test_empty_parts_speak_of_the_state_of_the_run(assemble, runs_root):
    run_dir = recorded(runs_root)
    for name in ("worker-0", "devices"):
        (run_dir / "events" / f"{name}.jsonl").write_text("")
    fail(run_dir, "It could not be started.")
    path = run_dir / "events" / "supervisor.jsonl"
    kept = [line for line in path.read_text().splitlines() if '"running"' not in line and '"releasing"' not in line]
    path.write_text("\n".join(kept) + "\n")
    panel = assemble("run", "history")

    def words() -> tuple[str, ...]:
        return panel.plot("lossPlot").empty.text(), panel.log.placeholderText()

    assert not panel.plot("lossPlot").isVisible(), "without a run"
    panel.runs.itemActivated.emit(panel.runs.item(0))
    panel.until_state("Failed")
    early = ("The run ended before its first step.", "The run ended without any output.")
    panel.until(lambda: words() == early, "the words of a run that failed early")


def test_first_step_that_cannot_train_on_a_gpu_says_why_there_and_offers_the_cpu(nvml, assemble) -> None:
    nvml.write(gpus=2, cuda_error=999)
    panel = assemble("run", "start", "devices")
    panel.until(lambda: len(panel.devices) > 2, "GPUs and CPU devices")
    steps = panel.window.panels.first_steps
    example, sentence = steps.buttons["firstExampleButton"], steps.sentences["firstExampleButton"]
    before = sentence.text()
    panel.qtbot.mouseClick(example, Qt.MouseButton.LeftButton)
    panel.until(lambda: example.text() == "Train on the CPU", "the offer")
    assert panel.run is None
    assert sentence.text() == panel.start_status.text() != before
    panel.chosen.tick_only(())  # the reason changes with the devices, and the offer
    panel.until(lambda: sentence.text().startswith("No device is ticked."), "that reason")
    assert example.text() == "Train digits_cnn"
    panel.qtbot.mouseClick(example, Qt.MouseButton.LeftButton)
    panel.until(lambda: example.text() == "Train on the CPU", "the offer")
    panel.qtbot.mouseClick(example, Qt.MouseButton.LeftButton)
    panel.until_state("Finished")
    assert panel.run.spec().devices == ("cpu:0",)
    panel.until(lambda: (example.text(), sentence.text()) == ("Train digits_cnn", before), "the step as it was")


# -- the guidance for a first run ------------------------------------------------------------------


@pytest.mark.slow
def test_first_run_is_one_click_away(drive, qtbot) -> None:
    panel = drive()
    steps = panel.window.findChild(QWidget, "firstSteps")
    tick, example, script = (panel.window.findChild(QPushButton, name) for name in FIRST_STEPS)
    panel.until(steps.isVisible, "the guidance")
    assert panel.window.findChild(QLabel, "firstStepsHeading").text() == empty_words(Place.LOSS, Situation.FIRST)
    assert not panel.plot("lossPlot").isVisible(), "the guidance stands in its place"
    for size in ((900, 600), (1480, 900)):
        panel.window.resize(*size)
        panel.until(
            lambda: all(button.visibleRegion().boundingRect() == button.rect() for button in (tick, example, script)),
            "the whole guidance in sight",
        )
    qtbot.mouseClick(tick, Qt.MouseButton.LeftButton)
    assert panel.chosen.ticked
    panel.chosen.tick_only(())
    qtbot.mouseClick(script, Qt.MouseButton.LeftButton)
    panel.window.findChild(FileDialog, "openDialog").reject()
    example.setFocus()
    qtbot.mouseClick(example, Qt.MouseButton.LeftButton)
    panel.until(lambda: panel.runs.count() == 1, "the run")
    panel.until(lambda: panel.window.focusWidget() is panel.runs, "the focus on it: the button is gone")
    panel.until_state("Finished")
    assert panel.recipe.currentText() == "digits_cnn"
    assert len(panel.chosen.ticked) == 1, "nothing was ticked: it took one free device"
    assert not steps.isVisible()
    panel.window.controllers.run.show_machine()
    panel.until(lambda: not panel.plot("lossPlot").isVisible(), "the machine")
    assert not steps.isVisible(), "there are runs"
    scroll = panel.window.panels.scroll
    panel.window.panels.actions.do("remove", [str(panel.window.services.run_list.summaries[0].dir)])
    panel.answer("yesButton")
    panel.until(lambda: steps.isVisible() and len(panel.plot("utilisationPlot").strips.percent), "the guidance again")
    panel.until_polled()
    panel.window.panels.message.details.click()
    panel.until(lambda: not steps.isVisible() and panel.window.panels.message.text.startswith("Restored"), "the run")
    panel.window.panels.message.dismiss()
    panel.until(lambda: scroll.height() <= max(scroll.page.sizeHint().height(), MIN_HEIGHT_PX), "no gap in its place")


# -- messages --------------------------------------------------------------------------------------


@pytest.fixture
def stack(hold):
    """A stack of three closed strips; `stack.strips` are they."""
    strips = [MessageStrip(name) for name in ("one", "two", "three")]
    made = MessageStack(strips)
    made.strips = strips
    made.resize(600, 60)
    return hold(made)


def seen(stack) -> list[str]:
    return [strip.text for strip in stack.strips if strip.isVisible()]


def place(stack) -> str:
    (strip,) = (strip for strip in stack.strips if strip.isVisible())
    button = strip.findChild(QPushButton, "nextMessageButton")
    return button.text() if button.isVisible() else ""


def test_messages_are_shown_one_at_a_time_with_their_count(stack, qtbot) -> None:
    one, two, three = stack.strips
    assert not stack.isVisible()
    one.show_message("first")
    assert (seen(stack), place(stack)) == (["first"], "")
    two.show_message("second")
    three.show_message("third", "bad")
    assert seen(stack) == ["third"]
    assert place(stack).startswith("1 of 3")
    qtbot.mouseClick(three.findChild(QPushButton, "nextMessageButton"), Qt.MouseButton.LeftButton)
    assert seen(stack) == ["second"]
    assert place(stack).startswith("2 of 3")
    two.show_message("second, changed", is_new=False)
    assert seen(stack) == ["second, changed"]
    one.show_message("first, changed", is_new=False)
    assert seen(stack) == ["second, changed"], "an update does not come to the front"
    three.show_message("")
    assert place(stack).startswith("1 of 2")


def test_escape_dismisses_the_shown_message(stack, qtbot) -> None:
    one, two, _ = stack.strips
    with qtbot.waitActive(stack):
        one.show_message("first")
        two.show_message("second")
        stack.activateWindow()
    two.setFocus()
    qtbot.keyClick(stack.focusWidget(), Qt.Key.Key_Escape)
    assert seen(stack) == ["first"]
    assert one.isAncestorOf(stack.focusWidget())
    qtbot.keyClick(stack.focusWidget(), Qt.Key.Key_Escape)
    assert not stack.isVisible()
    one.show_message("first, changed", is_new=False)
    assert not stack.isVisible(), "a dismissed message stays hidden"
    one.show_message("another")
    assert seen(stack) == ["another"]


def test_message_lies_below_the_plots_and_moves_nothing_else(drive) -> None:
    panel = drive()
    panel.resize(1300, 850)
    devices, runs = (panel.window.findChild(QDockWidget, name) for name in ("devicesDock", "runsDock"))
    shares = (max(round(SIDE_SHARE * 1300), MIN_SIDE_PX), max(round(RUNS_SHARE * 1300), MIN_RUNS_PX))
    panel.until(lambda: (devices.width(), runs.width()) == shares, "the docks to take their shares")
    panels = panel.window.panels
    ground = panel.window.centralWidget()
    parts = [panels.header, ground, *panel.window.findChildren(QDockWidget)]
    before = [part.geometry() for part in parts]
    panels.message.show_message("Something happened. " * 8, "bad")
    seen = ground.viewport()

    def place_of(part: QWidget) -> QRect:
        return QRect(part.mapTo(panel.window, QPoint(0, 0)), part.size())

    panel.until(
        lambda: panels.message.isVisible() and not place_of(seen).intersects(place_of(panels.messages)),
        "a message that covers no plot",
    )
    QCoreApplication.sendPostedEvents()  # what else is to be laid out
    assert [part.geometry() for part in parts] == before
    assert place_of(ground).contains(place_of(panels.messages))
    assert not place_of(seen).intersects(place_of(panels.messages)), "it still covers no plot"
    assert panels.plots.height() <= seen.height(), "the plots share the rest"
    panels.message.dismiss()
    panel.until(lambda: seen.height() == ground.height(), "all room for the plots")
