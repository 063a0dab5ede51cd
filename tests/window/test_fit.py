"""“Will it fit?” below the form: what is shown meanwhile and afterwards, what ends it, and what it leaves."""

from pathlib import Path
from threading import Event

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QSpinBox

from core.devices.cpu import cpu_devices
from core.errors import RunError
from core.fit.answer import Answer
from core.fit.probe import Measured
from gui.features.setup import fit
from gui.widgets.dialogs import ConfirmDialog
from tests.support.recorded import recorded
from tests.support.running import write_recipe
from tests.support.waiting import PATIENCE_S, wait_until
from tests.window.test_over_the_plots import FULL, fail
from tests.window.test_start_status import click

GIB = 2**30
CPU = cpu_devices()[0]


def answer_of(spec, *, largest: bool) -> Answer:
    """Return that batch 96 fits, if it was measured."""
    points = [Measured(batch=batch, peaks={CPU.id: batch * GIB}, left={CPU.id: (100 - batch) * GIB}, items=None)
              for batch in (spec.training.batch_size, 80, *([96] if largest else []))]
    return Answer(devices=(CPU,), asked=points[0], points=tuple(points), largest=96, proved=largest, remedies={})


@pytest.fixture
def asked(monkeypatch) -> list[tuple]:
    """Answer at once, and return what was measured: the spec, and whether the largest batch was searched."""
    found: list[tuple] = []

    def answer(spec, survey, root, tell, *, largest, cancelled):
        found.append((spec, largest))
        return answer_of(spec, largest=largest)

    monkeypatch.setattr(fit, "measured_answer", answer)
    return found


def has(panel, *words: str) -> None:
    panel.until(lambda: all(each in panel.start_status.text() for each in words), " ".join(words))


def batch(panel) -> int:
    return panel.window.findChild(QSpinBox, "batchBox").value()


def press(panel) -> None:
    """Press “Will it fit?” once it is offered."""
    link = panel.start_status.findChild(QPushButton, "fitButton")
    panel.until(lambda: link.isVisibleTo(panel.start_status), "the link")
    panel.qtbot.mouseClick(link, Qt.MouseButton.LeftButton)


def test_answer_is_shown_leads_to_the_largest_batch_and_goes_with_what_it_is_about(form, asked) -> None:
    form.tick("cpu:0")
    press(form)
    has(form, "Fits at batch 64: 36.0 GB to spare on CPU 0. The largest batch is about 96")
    click(form, "Find the largest batch")
    has(form, "The largest batch is 96; a measurement has proved it.")
    assert [largest for _, largest in asked] == [False, True]
    click(form, "Batch 96")
    has(form, "Fits at batch 96: 4.0 GB to spare on CPU 0.")
    assert batch(form) == 96
    form.set_number("epochsBox", 3)
    form.until_ready()
    has(form, "Fits at batch 96")
    form.set_number("batchBox", 50)
    form.until(lambda: "Fits" not in form.start_status.text(), "no answer about another batch")
    form.set_number("batchBox", 64)
    has(form, "Fits at batch 64")
    form.tick("cpu:0", "cpu:1")
    form.until(lambda: "Fits" not in form.start_status.text(), "no answer about other devices")
    form.until_ready()
    assert len(asked) == 2


def test_measurement_says_what_it_does_and_is_cancelled(form, monkeypatch) -> None:
    ends, ended = Event(), Event()

    def measure(spec, survey, root, tell, *, largest, cancelled):
        tell("Measuring batch 64.")
        cancelled.wait(PATIENCE_S)
        ends.wait(PATIENCE_S)
        ended.set()
        raise RunError("The measurement was cancelled.")

    monkeypatch.setattr(fit, "measured_answer", measure)
    form.tick("cpu:0")
    link = form.start_status.findChild(QPushButton, "fitButton")
    press(form)
    form.until(lambda: not link.isVisibleTo(form.start_status), "one measurement at a time")
    form.window.controllers.start.check_again()
    has(form, "Measuring batch 64.")
    click(form, "Cancel")
    has(form, "Ending the measurement …")
    ends.set()
    form.until(lambda: link.isVisibleTo(form.start_status), "the link again")
    assert ended.is_set()
    has(form, "Ready: CPU 0 is free.\nThe measurement was cancelled.")


def test_failure_is_said_and_a_recipe_that_writes_is_asked_about_before(form, monkeypatch, tmp_path: Path) -> None:
    measured = []

    def measure(spec, *_, **__):
        measured.append(spec)
        raise RunError("It could not be measured.")

    monkeypatch.setattr(fit, "measured_answer", measure)
    source = "def model():\n    open('a', 'w')\n\ndef train_data():\n    return []\n"
    form.window.panels.setup.open_recipe(write_recipe(tmp_path, source))
    form.tick("cpu:0")
    form.until_ready()
    for button, count in (("noButton", 0), ("yesButton", 1)):
        press(form)
        form.until(lambda: form.window.findChild(ConfirmDialog) is not None, "the question")
        dialog = form.window.findChild(ConfirmDialog)
        assert any("writes files (line 2)." in each.text() for each in dialog.findChildren(QLabel))
        assert measured == []
        dialog.findChild(QPushButton, button).click()
        form.until(lambda: form.window.findChild(ConfirmDialog) is None, "no question")
        form.until(lambda count=count: len(measured) == count, "the measurement")
    has(form, "It could not be measured.")


def test_failure_card_finds_the_largest_batch_of_its_run(assemble, runs_root, asked) -> None:
    fail(recorded(runs_root), FULL, "RuntimeError: no memory\n")
    panel = assemble("run", "history", "start", "devices")
    panel.until(lambda: panel.runs.count() == 1)
    panel.runs.itemActivated.emit(panel.runs.item(0))
    card = panel.window.panels.failure
    panel.until(card.isVisible, "the card")
    buttons = {each.text(): each for each in card.findChildren(QPushButton, "failureChangeButton")}
    assert list(buttons) == ["batch 32", "bfloat16", "accumulation 2", "Find the largest batch"]
    following = [card.close_button]
    while following[-1] is not card.again_button:
        following.append(following[-1].nextInFocusChain())
    reached = [each for each in following if each.focusPolicy() & Qt.FocusPolicy.TabFocus and each.isVisible()]
    assert reached[1:] == [*buttons.values(), card.log_button, card.again_button]
    buttons["Find the largest batch"].click()
    panel.until(lambda: [(spec.training.batch_size, largest) for spec, largest in asked] == [(64, True)], "its spec")
    has(panel, "The largest batch is 96; a measurement has proved it.")
    buttons["accumulation 2"].click()
    panel.until(lambda: panel.spec() is not None and panel.spec().training.accumulation == 2, "the change")
    assert len(asked) == 1


@pytest.mark.slow
def test_window_closed_in_the_middle_leaves_no_process_and_no_folder(form, runs_root: Path, tmp_path: Path) -> None:
    source = "import time\n\ntime.sleep(1000)\n\ndef model():\n    pass\n\ndef train_data():\n    return []\n"
    form.window.panels.setup.open_recipe(write_recipe(tmp_path, source))
    form.tick("cpu:0")
    press(form)
    probes = runs_root / ".probes"
    form.until(lambda: any(probes.glob("*/*/events/worker-0.jsonl")), "a measurement")
    form.close()
    wait_until(lambda: not probes.exists(), "the end of the folder")

    def left() -> list[str]:
        lines = (each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"]))
        return [" ".join(line) for line in lines if any(str(probes) in word for word in line)]

    wait_until(lambda: not left(), "the end of its processes")
