"""Runs are found by words and conditions, and sorted."""

import math
from pathlib import Path
from typing import Any

import pytest

from core.history.marks import Marks, Note
from core.history.search import key_of, parse_search
from core.history.summary import RunSummary
from core.runs.facts import RunState

DAY_S = 86_400.0
NOON = 1_750_000_000.0


def summary(name: str, state: RunState = RunState.FINISHED, **known: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "started": NOON, "ended": NOON + 60, "error": None, "last_loss": None, "step": 10, "plan": None,
    }
    return RunSummary(dir=Path("/runs") / f"2025-{name}", name=name, state=state, **{**fields, **known})


RUNS = (
    summary("digits", settings={"learning_rate": 1e-3, "framework": "keras", "devices": "2 × CPU", "epochs": 3},
            best_validation=(5, 0.25), marks=Marks(tags=("baseline", "v2"), star=True)),
    summary("failing", RunState.FAILED, error="Worker 0: out of memory", started=NOON - 3 * DAY_S,
            settings={"learning_rate": 5e-4, "framework": "pytorch", "devices": "1 × H100 + 2 × RTX 4090",
                      "recipe": "/home/me/mine.py", "width": 256}),
    summary("script", RunState.RUNNING, ended=None, last_loss=0.5, mean_loss=0.75,
            settings={"--lr": "0.1", "framework": "script", "script": "/home/me/train.py"},
            marks=Marks(notes=(Note(time=NOON, text="Warm-up was too short"),))),
    summary("old", step=2, last_loss=math.nan, started=None, ended=None, marks=Marks(archived=True)),
    summary("plain", last_loss=0.1, mean_loss=0.1, settings={"learning_rate": None, "framework": "keras"}),
)


def found(text: str) -> str:
    return " ".join(run.name for run in parse_search(text).find(RUNS))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("learning_rate", "lr"), ("--lr", "lr"), ("seed", "seed"), ("--batch-size", "batch-size"), ("-w", "w"),
        ("--name", "setting.--name"), ("loss", "setting.loss"), ("--steps", "setting.--steps"), ("+a.b", "+a.b"),
    ],
)
def test_a_setting_has_a_key_that_finds_it_and_no_fact(name: str, key: str) -> None:
    assert key_of(name) == key
    runs = [summary(str(value), settings={name: value}) for value in (3, 1, 2)]
    assert [run.name for run in parse_search(f"sort:{key}").find(runs)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "digits failing script plain"),
        ("DIG", "digits"),
        ("2025-plain", "plain"),
        ("baseline", "digits"),
        ("warm-up", "script"),
        ('"too short"', "script"),
        ("dig fail", ""),
        ("state:failed", "failing"),
        ("state!=failed", "digits script plain"),
        ("lr<1e-3", "failing"),
        ("lr<=1e-3", "digits failing"),
        ("lr:0.001", "digits"),
        ("lr>0.01", "script"),
        ("learning_rate>=0", "digits failing"),
        ("sort:-lr", "script digits failing plain"),  # an argument of a script is a text
        ("sort:setting.width", "failing digits script plain"),
        ("framework:keras", "digits plain"),
        ("framework:Keras lr<1", "digits"),
        ("framework!=keras", "failing script"),
        ("tag:baseline", "digits"),
        ("tag:base", ""),
        ("tag!=baseline", "failing script plain"),
        ("star:yes", "digits"),
        ("star:no live:no", "failing plain"),
        ("live:yes", "script"),
        ("archived:yes", "old"),
        ("archived:any step<5", "old"),
        ("note:short", "script"),
        ('note:"was too"', "script"),
        ("error:memory", "failing"),
        ("recipe:mine", "failing"),
        ("script:train.py", "script"),
        ("width=256", "failing"),
        ("devices>=2", "digits failing"),
        ("devices=3", "failing"),
        ("device:h100", "failing"),
        ("loss<0.3", "digits plain"),
        ("val_loss<0.3", "digits"),
        ("started<2025-06-14", "failing"),
        ("started>2025-06-14", "digits script plain"),
        ("duration<=60", "digits plain"),
        ("sort:lr", "failing digits script plain"),
        ("sort:-loss", "script digits plain failing"),
        ("sort:name", "digits failing plain script"),
        ("sort:-name", "script plain failing digits"),
        ("archived:any sort:step", "old digits failing script plain"),
    ],
)
def test_search(text: str, names: str) -> None:
    assert found(text) == names


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lr<abc", "'lr<abc' compares with 'abc'. Give a number."),
        ("started>yesterday", "'started>yesterday' compares with 'yesterday'. Give a date such as 2026-01-31."),
        ("state:broken", "There is no state 'broken'. A run is created, "),
        ("star:maybe", "'star:maybe' is neither yes nor no. Give star:yes or star:no."),
        ("tag:", "'tag:' lacks a value. Write it behind, without a space."),
    ],
)
def test_a_condition_that_cannot_be_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + sentence.replace(".", r"\.").replace("?", r"\?")):
        parse_search(text)


def test_a_key_that_no_run_has_is_named_and_equal_values_keep_their_order_in_both_directions() -> None:
    assert parse_search("lr<1 widht:3 sort:height").unknown_keys(RUNS) == ["widht", "height"]
    assert parse_search("width:3 sort:epochs state:failed").unknown_keys(RUNS) == []
    runs = [summary(name, step=step) for name, step in (("a", 1), ("b", 2), ("c", 1), ("d", 2))]
    assert [run.name for run in parse_search("sort:step").find(runs)] == ["a", "c", "b", "d"]
    assert [run.name for run in parse_search("sort:-step").find(runs)] == ["b", "d", "a", "c"]
