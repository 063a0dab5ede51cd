"""Sentences are shown in the chosen language, those of this process and those that runs hold."""

import json
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from core import language
from core.cli.output import release_lines, say_table
from core.errors import RunError
from core.language import Message, from_environment, join_sentences, stored, tr, tr_plural
from core.runs.facts import RunFacts
from core.runs.fold import fold
from core.schema.event_kinds import Notice, Release, Verdict, read
from core.schema.events import Tail, Writer
from gui.base.formatting import DAY_S, day, duration, moment, number
from tests.unit.test_chinese import read_back

SENTENCES: dict[str | tuple[str, str], str] = {
    "English": "简体中文",
    "Training is running.": "训练正在进行。",
    "Run {name} is {state}.": "{state}：运行 {name}。",
    "finished": "完成",
    "The loss is {loss:.2g} at step {step}. Training goes on.": "第 {step} 步的损失为 {loss:.2g}。训练继续。",
    ("{count} device", "{count} devices"): "{count} 台设备",
    "{first} and {final}": "{first}和{final}",
    "held by this run": "被本次运行占用",
    "{label} is still held by this run: {names}.": "本次运行仍占用 {label}：{names}。",
    "Nov": "11月",
    "November": "11月",
    "{day} {month} {time}": "{month}{day}日 {time}",
    "{day} {month} {year}": "{year}年{month}{day}日",
    "{days} d {hours} h": "{days} 天 {hours} 小时",
    "{{braces}} of {name}": "{name} 的 {{braces}}",
}
LOSS = "The loss is {loss:.2g} at step {step}. Training goes on."


@pytest.fixture
def in_test_language(tmp_path, monkeypatch):
    """Speak a language with a few sentences, and English again afterwards."""
    folder = tmp_path / "zh_CN" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    catalogue = Catalog(locale="zh_CN")
    for english, chinese in SENTENCES.items():
        catalogue.add(english, chinese if isinstance(english, str) else (chinese,))
    with (folder / "trainyard.mo").open("wb") as file:
        write_mo(file, catalogue)
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    language.use("zh_CN")
    yield
    language.use("en")


def test_sentences_of_this_process_are_translated_and_english_needs_no_catalogue(in_test_language):
    assert tr("Training is running.") == "训练正在进行。"
    assert tr("Run {name} is {state}.", name="a", state=tr("finished")) == "完成：运行 a。"
    assert tr(LOSS, loss=0.123, step=4) == "第 4 步的损失为 0.12。训练继续。"
    assert tr_plural("{count} device", "{count} devices", 1) == "1 台设备"
    assert tr("In no catalogue.") == "In no catalogue."
    assert tr("") == "", "gettext would return the catalogue's own header"
    language.use("en")
    assert language.current() == "en"
    assert tr("Run {name} is {state}.", name="a", state="over") == "Run a is over."
    assert tr("{braces} without values") == "{braces} without values"
    devices = [tr_plural("{count} device", "{count} devices", count) for count in (0, 1, 2)]
    assert devices == ["0 devices", "1 device", "2 devices"]


@pytest.mark.parametrize(
    ("make", "english", "shown"),
    [
        (lambda: tr("Training is running."), "Training is running.", "训练正在进行。"),
        (lambda: tr("Run {name} is {state}.", name="a", state=tr("finished")), "Run a is finished.", "完成：运行 a。"),
        (lambda: tr("Run {name} is {state}.", name="finished", state="{braces}"), "Run finished is {braces}.",
         "{braces}：运行 finished。"),
        (lambda: tr(LOSS, loss=0.123, step=4), "The loss is 0.12 at step 4. Training goes on.",
         "第 4 步的损失为 0.12。训练继续。"),
        (lambda: tr_plural("{count} device", "{count} devices", 3), "3 devices", "3 台设备"),
        (lambda: join_sentences([tr("Training is running."), None, "No space left.", tr("Training is running.")]),
         "Training is running. No space left. Training is running.", "训练正在进行。No space left. 训练正在进行。"),
        (lambda: tr("{label} is still held by this run: {names}.", names="pid 7",
                    label=tr("{first} and {final}", first="GPU 0", final="GPU 1")),
         "GPU 0 and GPU 1 is still held by this run: pid 7.", "本次运行仍占用 GPU 0和GPU 1：pid 7。"),
        (lambda: str(RunError(tr("{{braces}} of {name}", name=Path("/a")))), "{braces} of /a", "/a 的 {braces}"),
        (lambda: tr("In no catalogue: {error}", error=tr("Training is running.")),
         "In no catalogue: Training is running.", "In no catalogue: Training is running."),
        (lambda: "Training is running.", "Training is running.", "Training is running."),  # of a program
        (lambda: "", "", ""),
    ],
)
@pytest.mark.usefixtures("in_test_language")
def test_message_that_is_stored_is_shown_in_the_language_of_its_reader(make, english, shown):
    message = read_back(make)
    assert (message, tr(message), tr(tr(message))) == (english, shown, shown)
    assert pickle.loads(pickle.dumps(message)).to_json() == message.to_json()
    assert Message.read(json.loads(json.dumps(stored(tr(message))))) == english, "what is stored is English"
    made_here = make()
    assert (tr(made_here) if isinstance(made_here, Message) else made_here) == shown
    language.use("en")
    assert tr(message) == english


@pytest.mark.parametrize(
    "data",
    [
        {"text": "T", "say": "{name.__class__} {name!r:>999999999}", "with": {"name": "a"}},
        {"text": "T", "say": "Run {name} is {state}.", "with": {"name": "a"}},
        {"text": "T", "say": "Run {name} is {state}.", "with": [1]},
        {"text": "T", "say": LOSS, "with": {"loss": "a", "step": 1}},
        {"text": "T", "say": LOSS, "with": {"loss": 10**400, "step": 1}},
        {"text": "T", "say": "{count} device", "many": "{count} devices", "with": {"count": "a"}},
        {"text": "T", "say": 3, "with": {}},
        {"text": "T", "join": 3},
    ],
)
@pytest.mark.usefixtures("in_test_language")
def test_message_that_another_user_has_planted_is_shown_as_its_text(data):
    assert tr(Message.read(data)) == "T"


def test_what_is_no_message_is_refused_and_a_small_one_cannot_become_a_large_text(in_test_language):
    for data in (3, None, [], {}, {"text": 3}, {"say": None}):
        with pytest.raises(ValueError):  # noqa: PT011 (the codec names the field)
            Message.read(data)

    def nested(deep: object, levels: int) -> object:
        for _ in range(levels):
            deep = {"text": "deep", "say": "Run {name} is {state}.", "with": {"name": deep, "state": deep}}
        return deep

    assert Message.read(nested("a", 200)) == "deep"
    assert len(tr(Message.read(nested("a" * 1000, 12)))) < 10**5


def test_text_of_a_message_is_stored_as_it_was_made():
    """Also where its values have a format that their texts would not have."""
    made = tr("{error!r} at {rate:g}", error=KeyError("step"), rate=np.float32(0.1))
    assert made.to_json()["text"] == made == "KeyError('step') at 0.1"
    assert tr_plural("{count} process", "{count} processes", np.int64(1)) == "1 process"


def test_event_has_the_sentence_in_english_and_its_values(in_test_language, tmp_path):
    writer = Writer(tmp_path / "a.jsonl")
    writer.write(Notice(text=tr("Run {name} is {state}.", name="a", state=tr("finished"))))
    writer.close()
    (event,) = Tail(tmp_path / "a.jsonl").read()
    assert event["text"]["text"] == "Run a is finished."
    assert tr(fold(RunFacts(), [event]).notices[0]) == "完成：运行 a。"


@pytest.mark.usefixtures("in_test_language")
def test_command_line_translates_what_a_run_stored():
    sentence = read_back(lambda: tr("{label} is still held by this run: {names}.", label="GPU 0", names="pid 7 a"))
    release = Release(
        device_id="gpu:0", verdict=Verdict.HELD_BY_RUN, before_bytes=None, peak_bytes=None, after_bytes=None,
        seconds=1.0, sentence=sentence,
    )
    first, second = release_lines(RunFacts(releases={"gpu:0": release}))
    assert "被本次运行占用" in first
    assert second == "  本次运行仍占用 GPU 0：pid 7 a。"
    assert release.fields()["verdict"] == "held by this run", "events and `--json` are English"
    assert read(release.event()) == release


def test_columns_are_aligned_whatever_the_script(capsys):
    say_table([["训练", "b"], ["train", "b"]])
    assert capsys.readouterr().out == "训练   b\ntrain  b\n"


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


def test_dates_are_written_as_the_language_has_them_and_numbers_alike_in_every_language(in_test_language):
    then = time.mktime((2026, 11, 19, 18, 3, 0, 0, 0, -1))
    for code, soon, later, date in (
        ("en", "19 Nov 18:03", "19 Nov 2026", "19 November 2026"),
        ("zh_CN", "11月19日 18:03", "2026年11月19日", "2026年11月19日"),
    ):
        language.use(code)
        assert (moment(then, then), moment(then, then + 2 * DAY_S)) == ("18:03", soon)
        assert (moment(then, then + 400 * DAY_S), day(then)) == (later, date)
        assert (number(12_340.5, 0.1), number(0.25, 0.01)) == ("12\u2009340.5", "0.25")
    assert duration(51 * 3600) == "2 天 3 小时"
