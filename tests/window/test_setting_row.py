"""A setting is described once: everything that is made from settings follows from the row of its field."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import pytest
from PySide6.QtWidgets import QLineEdit

from core.cli.options import Parser, add_settings
from core.cli.run_options import given
from core.config.presets import setting_words
from core.schema.setting import Flag, OneOf, Whole, check_settings, setting, settings_of
from core.schema.settings import DEVICES, Checkpoints, ReleaseWatch, StopTimeouts, Training
from gui.features.run.settings import setting_rows
from gui.widgets.forms import SettingsForm
from tests.support.settings_list import DOCUMENT, document, settings_list


@dataclass(frozen=True, kw_only=True)
class WithOneMore(Training):
    """The settings of a training, and a new one."""

    spare_mb: int | None = setting(
        None, Whole(1), group=DEVICES, title="Spare memory in MB", none="all of it", only=("pytorch.ddp",),
        help="memory that stays free on each device",
    )

    def __post_init__(self) -> None:
        check_settings(self)


def test_one_row_makes_check_option_command_form_tab_and_document(qtbot):
    with pytest.raises(ValueError, match=r"“Spare memory in MB” is 0\. Give a whole number of at least 1\."):
        WithOneMore(spare_mb=0)
    parser = Parser()
    add_settings(parser, WithOneMore)
    help_text = " ".join(parser.format_help().split())
    assert "--spare-mb N memory that stays free on each device; for strategy ddp of PyTorch only" in help_text
    assert given(parser.parse_args(["--spare-mb", "7"]), WithOneMore) == {"spare_mb": 7}
    assert setting_words(WithOneMore(spare_mb=7), WithOneMore()) == ["--spare-mb", "7"]
    form = SettingsForm(WithOneMore, DEVICES)
    qtbot.addWidget(form)
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
