"""The rows below the form: each link does what it says, keys reach it, and many rows scroll."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QPushButton, QSpinBox, QWidget

from core.config import builds
from core.config.builds import Finding
from core.config.finding import Cure, Mark, batch_cure, python_cure
from core.queue.decision import HOLDING
from core.queue.folder import own_line
from gui.features.setup.status import StartStatus
from gui.machine.script import TypedScript
from gui.machine.start_check import StartCheck
from tests.nvml.standin import uuid

GB = 2**30
ROW = Finding(sentence="A batch of 129 cannot be split evenly over 2 devices.", remedy="Choose 128.",
              cures=(batch_cure(128), batch_cure(130)))


def links(panel) -> dict[str, QPushButton]:
    found = panel.start_status.findChildren(QPushButton)
    shown = (each for each in found if each.isVisibleTo(panel.start_status) and each.objectName() != "fitButton")
    return {each.text(): each for each in shown}


def click(panel, words: str) -> None:
    """Wait for a link, and click it."""
    panel.until(lambda: words in links(panel), f"the link {words}")
    panel.qtbot.mouseClick(links(panel)[words], Qt.MouseButton.LeftButton)


def test_links_set_the_batch_and_the_python(form, tmp_path, monkeypatch) -> None:
    form.tick("cpu:0", "cpu:1")
    form.choose(form.strategy, "ddp")
    for words, batch in (("Batch 62", 62), ("Batch 64", 64)):
        form.set_number("batchBox", 63)
        click(form, words)
        assert form.window.findChild(QSpinBox, "batchBox").value() == batch
        form.until_ready()
        assert links(form) == {}
    python = str(tmp_path / "cats-env" / "bin" / "python")
    monkeypatch.setattr(builds, "other_python", lambda *_: (python, "2.9.0"))
    (tmp_path / "bare" / "bin").mkdir(parents=True)
    (tmp_path / "bare" / "bin" / "python").symlink_to("/bin/false")
    form.set_text("recipePythonEdit", str(tmp_path / "bare" / "bin" / "python"))
    click(form, "Use Python cats-env")
    assert form.window.findChild(QLineEdit, "recipePythonEdit").text() == python
    assert links(form).get("Use Python cats-env") is None or links(form)["Use Python cats-env"].toolTip() == python
    setup = form.window.panels.setup
    before = setup.choices()
    for does, values in (("epochs", ("99",)), ("batch_size", ()), ("batch_size", ("many",)), ("", ("x",))):
        setup.status.cured.emit(Cure(does=does, words="Do it", values=values))
    assert setup.choices() == before, "what no cure of ours does"
    setup.open_script(tmp_path / "train.py")
    setup.status.cured.emit(python_cure(python))
    choices = setup.choices()
    assert isinstance(choices, TypedScript)
    assert choices.python == python


def test_links_tick_devices_and_add_to_the_queue(assemble, nvml, monkeypatch) -> None:
    monkeypatch.setattr(builds, "judge_build", lambda *_: None)
    big = {"name": "NVIDIA H100 80GB HBM3", "memory_total": 80 * GB}
    nvml.write(gpus=4, gpu0=big, gpu1=big, gpu2=big)
    panel = assemble("start", "queue", "devices")
    panel.until(lambda: len(panel.devices) == 6, "4 GPUs and 2 CPU devices")
    panel.tick(*map(uuid, range(4)))
    panel.until_status("Unlike: GPU 3 (RTX 4090, 24 GB) beside H100 80GB HBM3: the slowest and smallest decides.")
    assert panel.start_button.isEnabled(), "a warning is no refusal"
    click(panel, "Tick GPU 0 to 2 alone")
    assert panel.chosen.ticked == tuple(map(uuid, range(3)))
    nvml.write(gpus=4, gpu0=big, gpu1=big, gpu2=big, cuda_error=999)
    monkeypatch.setattr("core.config.examination.GOOD_S", 0.0)
    panel.window.services.machine._gpus._answers.clear()
    panel.tick(uuid(1), uuid(2))
    click(panel, "Train on the CPU")
    assert panel.chosen.ticked == ("cpu:0", "cpu:1")
    panel.until_ready()
    line = own_line().line
    fields = {"state": HOLDING, "name": "theirs", "devices": ["cpu:0", "cpu:1"], "since": 1.0}
    ticket = line.put("20260101-000000-theirs", fields)
    queued = []
    monkeypatch.setattr(panel.window.services.machine, "enqueue", lambda spec, labels: queued.append(spec))
    click(panel, "Add to queue")
    panel.until(lambda: [spec.devices for spec in queued] == [("cpu:0", "cpu:1")], "the run in the queue")
    line.remove("20260101-000000-theirs", ticket)


def test_keys_reach_links_which_are_named_and_the_space_bar_presses_nothing_else_afterwards(hold, qtbot) -> None:
    window, done = hold(QWidget(), 300, 300), []
    status = StartStatus()
    status.setParent(window)
    status.resize(300, 200)
    after = QPushButton("Start", window)
    after.clicked.connect(lambda: done.append("after"))
    status.cured.connect(lambda cure: done.append(cure.values))
    status.show_check(StartCheck(findings=(ROW,)))
    status.show()
    after.show()
    _, first, second = status.findChildren(QPushButton)
    assert [each.accessibleName() or each.text() for each in (first, second)] == ["Batch 128", "Batch 130"]
    first.setFocus()
    qtbot.keyClick(first, Qt.Key.Key_Tab)
    assert window.focusWidget() is second
    qtbot.keyClick(second, Qt.Key.Key_Space)
    assert done == [("130",)]
    status.show_check(StartCheck(findings=(ROW,)))
    assert window.focusWidget() is second, "what says the same stays"
    status.show_check(StartCheck(findings=(Finding(sentence="Ready.", mark=Mark.READY),)))
    qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Space)
    assert done == [("130",)]
    status.show_check(StartCheck(findings=(ROW,)))
    link = status.findChildren(QPushButton)[-1]
    qtbot.waitUntil(link.isVisible)
    link.setFocus()
    after.setFocus()
    status.show_check(StartCheck())
    assert window.focusWidget() is after, "what is elsewhere is not taken away"


@pytest.mark.parametrize(("mark", "sign", "tone"), [
    (Mark.READY, "✓", "good"), (Mark.WARNING, "!", "warn"), (Mark.PROBLEM, "✕", "warn"),
])
def test_row_has_a_sign_and_says_the_remedy_where_there_is_no_link(hold, mark, sign, tone) -> None:
    status = hold(StartStatus(), 300, 200)
    status.show_check(StartCheck(findings=(replace(ROW, mark=mark), replace(ROW, mark=mark, cures=()))))
    _, one, first, other, second = status.findChildren(QLabel)
    assert (one.text(), one.property("tone"), first.property("tone")) == (sign, tone, tone)
    assert (first.text(), second.text()) == (ROW.sentence, str(ROW))
    assert (other.property("tone"), second.property("tone")) == (tone, "")


def test_many_rows_scroll_and_a_link_that_is_out_of_sight_comes_into_it(hold, qtbot) -> None:
    window = hold(QWidget(), 260, 100)
    status = StartStatus()
    status.setParent(window)
    rows = tuple(replace(ROW, sentence=f"{ROW.sentence} {at}") for at in range(12))
    status.show_check(StartCheck(findings=rows))
    status.resize(260, 100)
    status.show()
    assert status.minimumSizeHint().height() < status.sizeHint().height()
    last = status.findChildren(QPushButton)[-1]
    before = status.findChildren(QPushButton)[-2]
    before.setFocus()
    qtbot.keyClick(before, Qt.Key.Key_Tab)
    assert window.focusWidget() is last
    qtbot.waitUntil(lambda: last.visibleRegion().boundingRect() == last.rect())
