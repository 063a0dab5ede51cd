"""The tab Settings: what differs from the defaults first, software, folders, and a command that repeats the run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QScrollArea, QToolButton

from core.runs.facts import RunFacts
from core.schema.event_kinds import Software, Source
from gui.features.run.settings import SettingsView, run_settings
from tests.support.recorded import recorded
from tests.support.running import make_spec, script_spec


@pytest.mark.slow
def test_tab_shows_settings_of_the_run_and_copies_them(assemble, runs_root):
    run_dir = recorded(runs_root, more=[
        {"kind": "software", "version": "3.12.9", "packages": {"torch": "2.13.0"}, "trainyard": "0.1.0"},
        {"kind": "source", "folder": "/r", "commit": "5b1f" * 10, "branch": "topic", "changed": True},
    ])
    panel = assemble("run", "start")
    view = panel.window.findChild(QScrollArea, "settingsView")
    panel.open_tab("Settings")
    assert view.isVisible()
    assert view.findChild(QLabel).text() == "The settings of a run appear here. Select one in the list."
    panel.open_run()
    panel.until_state("Finished")
    texts = [label.text() for label in view.findChildren(QLabel)]
    assert {"2.13.0", "5b1f5b1f5b1f, branch topic, with uncommitted changes", str(run_dir)} <= set(texts)
    assert "3.12.9" in texts
    copy = panel.window.findChild(QToolButton, "settingsCopyButton")
    assert copy.isVisible()
    everything, command = copy.menu().actions()
    everything.trigger()
    assert "torch: 2.13.0" in QGuiApplication.clipboard().text()
    command.trigger()
    assert "trainyard run " in QGuiApplication.clipboard().text()
    panel.open_tab("Log")
    assert not copy.isVisible()


def test_changed_values_come_first_with_their_defaults():
    spec = make_spec("digits_mlp", epochs=3, gradient_clip=0.5)
    first, *others = run_settings(spec, RunFacts(), {"cpu:0": "CPU 0"}, "/runs/a").groups
    assert first.title == "Changed from the defaults"
    assert [(row.label, row.value, row.usual) for row in first.rows] == [
        ("Epochs", "3", "10"), ("Gradient clipping", "0.5", "off"),
    ]
    rows = {row.label: row.value for group in others for row in group.rows}
    assert not {"Epochs", "Micro-batches"} & rows.keys()
    assert (rows["Global batch"], rows["Devices"], rows["Run folder"]) == ("64", "CPU 0", "/runs/a")


def test_secrets_of_a_script_stay_hidden(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    spec = script_spec(tmp_path / "train.py", cwd=tmp_path)
    assert spec.script is not None
    variables = {"API_KEY": "sesame", "LEVEL": "7", "PROXY": "http://me:sesame@host/"}
    spec = replace(spec, script=replace(spec.script, environment=variables, inherited=("TOKEN",)))
    shown = run_settings(spec, RunFacts(), {}, "/runs/a")
    assert "sesame" not in shown.text
    assert "LEVEL: 7" in shown.text
    words = shlex.split(shown.command.partition(" && ")[2])
    assert [word for before, word in pairwise(words) if before == "--env"] == [
        "LEVEL=7", "TOKEN", "API_KEY", "PROXY",
    ]


def test_run_without_records_says_only_what_is_known():
    shown = run_settings(make_spec("digits_mlp"), RunFacts(), {}, "/runs/a")
    assert "Git commit" not in shown.text
    assert "installed" not in shown.text


@pytest.mark.styled
def test_view_uses_the_room_that_it_has(qtbot):
    spec = make_spec("digits_mlp", epochs=3)
    facts = RunFacts(software=Software(version="3", packages={"torch": "2"}),
                     source=Source(folder="/r", commit="", branch="", changed=False))
    view = SettingsView()
    qtbot.addWidget(view)
    view.show_settings(run_settings(spec, facts, {}, "/runs/a"), "")
    view.show()
    lefts = []
    for width in (1600, 420):
        view.resize(width, 300)
        labels = {label.text(): label for label in view.findChildren(QLabel)}
        qtbot.waitUntil(lambda labels=labels: labels["Epochs"].isVisible())
        lefts.append(labels["Training"].mapTo(view, labels["Training"].rect().topLeft()).x())
        assert view.widget().width() <= view.viewport().width()
    assert lefts[0] > lefts[1]
