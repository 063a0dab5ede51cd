"""Memory that was not released: one sentence for all devices, and the page Memory with commands that can be copied."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from core.language import join_sentences, stored, tr
from core.memory_watch.verdict import LISTED, remedies, without_remedies
from core.runs.facts import RunFacts
from core.schema.event_kinds import ProcessInfo, Release, Verdict
from gui.runs.verdicts import sentences
from tests.support.recorded import GB, finding, recorded


def with_remedies(sentence: str) -> str:
    return join_sentences([sentence, tr(LISTED, device="0000:01:00.0")])


DEVICES = {f"GPU-{name}": {"label": f"GPU {number}", "pci_bus_id": f"0000:0{number}:00.0"}
           for number, name in enumerate("ab")}


def release(device: str, verdict: Verdict = Verdict.UNEXPLAINED, after: int = 9 * GB, holders=()) -> Release:
    return Release(
        device_id=device, verdict=verdict, before_bytes=GB, peak_bytes=20 * GB, after_bytes=after, seconds=60.0,
        sentence=with_remedies(f"{device} uses 8.0 GB more than before the run."), holders=tuple(holders),
    )


def test_unexplained_memory_of_several_devices_is_one_sentence():
    facts = RunFacts(devices=DEVICES, releases={each: release(each) for each in DEVICES})
    assert sentences(facts) == (
        ["GPU 0 and GPU 1 use more memory than before the run (8.0 GB each), and no program was found that holds it."],
        "bad",
    )
    facts = RunFacts(devices=DEVICES, releases={"GPU-a": release("GPU-a")})
    assert sentences(facts)[0] == ["GPU-a uses 8.0 GB more than before the run."]


def test_steps_name_the_devices_and_the_processes():
    commands = [each.command for each in remedies([release(each) for each in DEVICES], DEVICES)]
    assert commands[0] == "sudo fuser -v /dev/nvidia*"
    assert commands[1:3] == [f"sudo nvidia-smi --gpu-reset -i 0000:0{number}:00.0" for number in (0, 1)]
    assert commands[-1] == "sudo systemctl reboot"
    held = [ProcessInfo(pid=7), ProcessInfo(pid=8)]
    assert [each.command for each in remedies([release("GPU-a", Verdict.HELD_BY_RUN, holders=held)], DEVICES)] == [
        "kill -9 7 8"
    ]
    (step,) = remedies([release("GPU-a", Verdict.HELD_BY_OTHERS, holders=held)], DEVICES)
    assert step.command == "ps -o pid,user,etime,args -p '7 8'"
    assert remedies([release("GPU-a", Verdict.RELEASED)], DEVICES) == []
    assert without_remedies("No remedies here.") == "No remedies here."


def test_button_of_the_strip_opens_the_commands(assemble, runs_root):
    sentence = with_remedies("GPU 9 uses 8.0 GB more than before the run, and no program was found that holds it.")
    recorded(runs_root, findings=[finding(verdict="unexplained", after_bytes=9 * GB, sentence=stored(sentence))])
    panel = assemble("run", "memory")
    panel.open_run()
    panel.until_state("Finished")
    panel.until(lambda: panel.message().endswith("no program was found that holds it."), "the sentence")
    window = panel.window
    strip = window.panels.run_message
    (button,) = (each for each in strip.findChildren(QPushButton) if each.text() == "What to do")
    panel.qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    steps = window.findChild(QWidget, "remedyList")
    panel.until(lambda: steps.isVisible() and window.findChild(QPushButton, "remedyCopy0") is not None, "the steps")
    panel.qtbot.mouseClick(window.findChild(QPushButton, "remedyCopy0"), Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "sudo fuser -v /dev/nvidia*"
    texts = [label.text() for label in window.findChild(QWidget, "releaseFindings").findChildren(QLabel)]
    assert not any("gentlest" in text for text in texts)
