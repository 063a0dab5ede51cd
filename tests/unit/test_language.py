"""Sentences are shown in the chosen language, those of this process and those that runs hold."""

from __future__ import annotations

import io

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from core import language
from core.language import from_environment, tr, tr_plural, tr_stored

PO = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=1; plural=0;\n"

msgid "English"
msgstr "简体中文"

msgid "Training is running."
msgstr "训练正在进行。"

msgid "Run {name} is {state}."
msgstr "{state}：运行 {name}。"

msgid "finished"
msgstr "完成"

msgid "The loss is {loss:.2g} at step {step}. Training goes on."
msgstr "第 {step} 步的损失为 {loss:.2g}。训练继续。"

msgid "{count} device"
msgid_plural "{count} devices"
msgstr[0] "{count} 台设备"

msgid "{{braces}} of {name}"
msgstr "{name} 的 {{braces}}"
"""


@pytest.fixture
def in_test_language(tmp_path, monkeypatch):
    """Speak a language with a few sentences, and English again afterwards."""
    folder = tmp_path / "zh_CN" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalogue = read_po(io.BytesIO(PO.encode()), locale="zh_CN")
    with (folder / "trainyard.mo").open("wb") as file:
        write_mo(file, catalogue)
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    language.use("zh_CN")
    yield
    language.use("en")


def test_english_needs_no_catalogue():
    assert language.current() == "en"
    assert tr("Run {name} is {state}.", name="a", state="over") == "Run a is over."
    assert tr("{braces} without values") == "{braces} without values"
    assert [tr_plural("{count} device", "{count} devices", count) for count in (0, 1, 2)] == [
        "0 devices", "1 device", "2 devices",
    ]  # fmt: skip
    assert tr_stored("Training is running.") == "Training is running."


@pytest.mark.usefixtures("in_test_language")
def test_sentences_of_this_process_are_translated():
    assert tr("Training is running.") == "训练正在进行。"
    assert tr("Run {name} is {state}.", name="a", state=tr("finished")) == "完成：运行 a。"
    assert tr("The loss is {loss:.2g} at step {step}. Training goes on.", loss=0.123, step=4) == (
        "第 4 步的损失为 0.12。训练继续。"
    )
    assert tr_plural("{count} device", "{count} devices", 1) == "1 台设备"
    assert tr("In no catalogue.") == "In no catalogue."
    assert tr("") == "", "gettext would return the catalogue's own header"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("Training is running.", "训练正在进行。"),
        ("Run 20261101-a is finished.", "完成：运行 20261101-a。"),
        ("The loss is 0.12 at step 4. Training goes on.", "第 4 步的损失为 0.12。训练继续。"),
        (
            "Run a is finished. Something else happened. Training is running.",
            "完成：运行 a。 Something else happened. 训练正在进行。",
        ),
        ("3 devices", "3 台设备"),
        ("{braces} of a run", "a run 的 {braces}"),
        ("Run {name} is (.*).", "(.*)：运行 {name}。"),
        ("", ""),
    ],
)
@pytest.mark.usefixtures("in_test_language")
def test_sentences_of_a_run_are_recognised_and_translated(stored, shown):
    """They were written in English, with their values filled in."""
    assert tr_stored(stored) == shown


@pytest.mark.usefixtures("in_test_language")
def test_language_is_changed_back():
    assert tr_stored("Training is running.") != "Training is running."
    language.use("en")
    assert tr_stored("Training is running.") == tr("Training is running.") == "Training is running."


@pytest.mark.usefixtures("in_test_language")
def test_language_that_does_not_exist_is_refused_and_the_present_one_stays():
    assert language.available() == {"en": "English", "zh_CN": "简体中文"}
    with pytest.raises(ValueError, match=r"There is no translation into 'xx'. Choose one of: en, zh_CN."):
        language.use("xx")
    assert language.current() == "zh_CN"


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh_CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_SG"}, "zh_CN"),
        ({"LANG": "zh_TW.UTF-8"}, "en"),  # written in another script
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "de:zh_CN:en"}, "zh_CN"),
        ({"LANGUAGE": "../../etc"}, "en"),
    ],
)
@pytest.mark.usefixtures("in_test_language")
def test_language_is_chosen_as_gettext_does(environment, code):
    assert from_environment(environment) == code
