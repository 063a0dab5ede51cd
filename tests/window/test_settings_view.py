"""The tab Settings, and how everything that is made from settings follows from the row of its field."""

import shlex
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit, QScrollArea, QToolButton

from core.cli.options import Parser, add_settings
from core.cli.run_options import given
from core.config.presets import setting_words
from core.runs.facts import RunFacts
from core.schema.event_kinds import Software, Source
from core.schema.setting import Flag, OneOf, Whole, check_settings, setting, settings_of
from core.schema.settings import DEVICES, Checkpoints, ReleaseWatch, StopTimeouts, Training
from gui.features.run.settings import SettingsView, run_settings, setting_rows
from gui.widgets.forms import SettingsForm
from tests.support.recorded import recorded
from tests.support.running import make_spec, script_spec
from tests.support.settings_list import DOCUMENT, document, settings_list


@pytest.mark.slow
def test_tab_shows_settings_of_the_run_and_copies_them(assemble, runs_root):
    run_dir = recorded(runs_root, more=[
        {"kind": "software", "version": "3.12.9", "packages": {"torch": "2.13.0"}, "trainyard": "0.1.0"},
        {"kind": "source", "folder": "/r", "commit": "5b1f" * 10, "branch": "topic", "changed": True},
    ])
    panel = assemble("run", "start")
    view = panel.window.findChild(QScrollArea, "settingsView")
    panel.open_run()
    panel.until_state("Finished")
    panel.open_tab("Settings")
    assert view.isVisible()
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


def test_changed_values_come_first_with_their_defaults_and_secrets_are_hidden(tmp_path):
    spec = make_spec("digits_mlp", epochs=3, gradient_clip=0.5)
    first, *others = run_settings(spec, RunFacts(), {"cpu:0": "CPU 0"}, "/runs/a").groups
    assert first.title == "Changed from the defaults"
    assert [(row.label, row.value, row.usual) for row in first.rows] == [
        ("Epochs", "3", "10"), ("Gradient clipping", "0.5", "off"),
    ]
    rows = {row.label: row.value for group in others for row in group.rows}
    assert not {"Epochs", "Micro-batches"} & rows.keys()
    assert (rows["Global batch"], rows["Devices"], rows["Run folder"]) == ("64", "CPU 0", "/runs/a")
    shown = run_settings(make_spec("digits_mlp"), RunFacts(), {}, "/runs/a")
    assert "Git commit" not in shown.text
    assert "installed" not in shown.text
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


@pytest.mark.styled
def test_view_uses_the_room_that_it_has(qtbot, hold):
    spec = make_spec("digits_mlp", epochs=3)
    facts = RunFacts(software=Software(version="3", packages={"torch": "2"}),
                     source=Source(folder="/r", commit="", branch="", changed=False))
    view = hold(SettingsView())
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


# -- a setting is described once -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class WithOneMore(Training):
    """The settings of a training, and a new one."""

    spare_mb: int | None = setting(
        None, Whole(1), group=DEVICES, title="Spare memory in MB", none="all of it", only=("pytorch.ddp",),
        help="memory that stays free on each device",
    )

    def __post_init__(self) -> None:
        check_settings(self)


def test_one_row_makes_check_option_command_form_tab_and_document(hold):
    with pytest.raises(ValueError, match=r"“Spare memory in MB” is 0\. Give a whole number of at least 1\."):
        WithOneMore(spare_mb=0)
    parser = Parser()
    add_settings(parser, WithOneMore)
    help_text = " ".join(parser.format_help().split())
    assert "--spare-mb N memory that stays free on each device; for strategy ddp of PyTorch only" in help_text
    assert given(parser.parse_args(["--spare-mb", "7"]), WithOneMore) == {"spare_mb": 7}
    assert setting_words(WithOneMore(spare_mb=7), WithOneMore()) == ["--spare-mb", "7"]
    form = hold(SettingsForm(WithOneMore, DEVICES))
    field = form.findChild(QLineEdit, "spareMbEdit")
    assert (field.accessibleName(), field.placeholderText()) == ("Spare memory in MB", "all of it")
    form.show_strategy("pytorch", "fsdp")
    assert "spare_mb" not in form.chosen()
    form.show_strategy("pytorch", "ddp")
    field.setText("7")
    assert form.chosen()["spare_mb"] == 7
    rows = setting_rows(WithOneMore(spare_mb=7), WithOneMore())
    (row,) = [each for each in rows if each.label == "Spare memory in MB"]
    assert (row.value, row.usual) == ("7", "all of it")
    assert "`--spare-mb N` (strategy ddp of PyTorch; default: all of it)" in settings_list(WithOneMore)


@pytest.mark.parametrize("owner", [Training, Checkpoints, StopTimeouts, ReleaseWatch])
def test_every_field_has_a_row_and_every_value_survives_the_command_line(owner):
    rows = settings_of(owner)
    assert list(rows) == [item.name for item in fields(owner)]
    changed = {}
    for name, row in rows.items():
        if isinstance(row.kind, Flag):
            changed[name] = not row.default
        elif isinstance(row.kind, OneOf):
            changed[name] = [*row.kind.titles][-1]
        else:
            changed[name] = (row.default or 1) + 2
    parser = Parser()
    add_settings(parser, owner)
    words = setting_words(owner(**changed), owner())
    with_option = {name: value for name, value in asdict(owner(**changed)).items() if rows[name].flag}
    assert given(parser.parse_args(words), owner) == with_option


def test_document_has_the_settings_of_strategies():
    """Write it again with `python -m tests.support.settings_list`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()
