"""Reports: the file as an HTML parser sees it, its curves and numbers, its size, and what it does not let through."""

import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.results.chart import FINE, INNER_HEIGHT, INNER_WIDTH, Line, Scale, chart
from core.results.page import VOID, element
from core.schema.settings import Script
from core.schema.spec import RunSpec
from core.series.series import Series
from tests.support.commands import call
from tests.support.long_run import write_long_run
from tests.support.running import make_spec
from tests.support.scaling_runs import recorded, trained
from tests.support.written_runs import BEGAN, values, write_run

PATH_TAGS = {"path", "line", "text", "g", "svg", "title", "desc"}
KNOWN_TAGS = PATH_TAGS | {
    "html", "head", "meta", "style", "body", "main", "header", "section", "h1", "h2", "p", "div", "table", "caption",
    "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "ul", "li", "span", "strong", "details", "summary",
}
"""Elements of a report: none of them loads or executes anything."""


class Page(HTMLParser):
    """A report as a browser takes it apart; fails for an element that is not closed, or not known."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN_TAGS, tag
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


def made(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: object) -> Page:
    path = tmp_path / "report.html"
    assert call(capsys, "report", *arguments, "--output", path, "--force") == (0, "", "")
    return Page(path.read_text())


def points(path: str) -> list[list[tuple[int, int]]]:
    """Return the corners of each part of a path, in its own units."""
    parts: list[list[tuple[int, int]]] = []
    for command, numbers in re.findall(r"([Mlh])([^Mlh]*)", path):
        found = [int(each) for each in re.findall(r"-?\d+", numbers)]
        if command == "M":
            parts.append([(found[0], found[1])])
        elif command == "l":
            (x, y), (dx, dy) = parts[-1][-1], found
            parts[-1].append((x + dx, y + dy))
    return parts


def series(*numbers: float) -> Series:
    made_series = Series()
    steps = np.arange(1.0, len(numbers) + 1)
    made_series.append(steps, BEGAN + steps, np.array(numbers))
    return made_series


def test_a_report_on_one_run_has_everything(tmp_path: Path, capsys) -> None:
    software = {
        "t": BEGAN, "kind": "software", "version": "3.12.3", "packages": {"torch": "2.9.0"}, "trainyard": "0.1.0",
    }
    device = {"t": BEGAN, "kind": "device", "id": "cpu:0", "device_kind": "cpu", "label": "CPU 0", "name": "A chip",
              "memory_total_bytes": 2**34}
    release = {"t": BEGAN + 9000.5, "kind": "release", "device": "cpu:0", "verdict": "released", "before_bytes": 0,
               "peak_bytes": 2**30, "after_bytes": 0, "seconds": 0.5, "sentence": "All is back.",
               "holders": []}
    samples = [{"t": BEGAN + at, "kind": "sample", "device": "cpu:0", "utilisation_percent": 50.0,
                "memory_used_bytes": 2**30} for at in range(3)]
    events = [values(1, 1.0, 4.0, loss=[1.0, 0.5, 0.25, 0.125]), values(4, 4.0, 4.0, val_loss=[0.75])]
    run = write_run(tmp_path, "one", events, more=[software, device, release], devices=samples)
    page = made(capsys, tmp_path, run)
    assert ["State", "Finished"] in page.rows
    assert ["one", "loss", "4", "1", "0.125", "0.125", "1"] in page.rows
    assert ["batch_size", str(make_spec("digits_mlp").training.batch_size)] in page.rows
    assert ["Python", "3.12.3"] in page.rows
    assert "torch 2.9.0" in page.text
    assert ["Devices", "CPU 0 (A chip, 16.0 GB)"] in page.rows
    assert ["one", "CPU 0", "released", "0 MB", "1.0 GB", "0 MB", "0.5 s", "All is back."] in page.rows
    assert any(row[1:] == ["Finished."] for row in page.rows), "the events"
    titles = re.findall(r"loss|Utilisation of the devices in %|Memory of the devices in GB", page.text)
    assert {"loss", "Utilisation of the devices in %", "Memory of the devices in GB"} <= set(titles)
    assert "loss: 4 values, steps 1 to 4; first 1, last 0.125, smallest 0.125, largest 1." in page.text
    loss, validation, *_ = page.all("path")
    (drawn,) = points(loss["d"])
    assert [x for x, _ in drawn] == [round(INNER_WIDTH * FINE * at / 3) for at in range(4)]
    heights = np.diff([y for _, y in drawn])
    assert np.allclose(heights / heights[-1], [4, 2, 1], atol=0.02), "1.0, 0.5, 0.25, 0.125"
    assert len(points(validation["d"])[0]) == 1, "a dot"


def test_a_report_needs_no_network_and_is_accessible(tmp_path: Path, capsys) -> None:
    events = [values(1, 1.0, 2.0, loss=[1.0, 0.5], reward=[1.0, 2.0])]
    runs = [write_run(tmp_path, name, events, spec=make_spec("digits_mlp", epochs=number))
            for number, name in enumerate(("a", "b"), start=1)]
    page = made(capsys, tmp_path, *runs)
    text = (tmp_path / "report.html").read_text()
    names = {name for _, attributes in page.tags for name in attributes}
    assert not names & {"src", "href", "xlink:href", "srcset", "action", "data", "style"}
    assert not [name for name in names if name.startswith("on")]
    assert "url(" not in text
    assert "//" not in text.replace("<!doctype html>", "")
    (policy,) = [each["content"] for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "@media (prefers-color-scheme:dark)" in text
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    pictures = page.all("svg")
    assert len(pictures) == 2
    for each in pictures:
        assert each["role"] == "img"
        assert set(each["aria-labelledby"].split()) <= set(identifiers)
    assert page.all("html")[0]["lang"] == "en"
    assert page.all("th")
    assert {each["scope"] for each in page.all("th")} == {"col", "row"}
    assert len(page.all("caption")) == len(page.all("table"))


def test_several_runs_are_compared(tmp_path: Path, capsys) -> None:
    root = tmp_path
    for number, name in enumerate(("a", "b", "c")):
        events = [values(1, 1.0, 3.0, val_loss=[1.0, 0.5, 0.4 / (number + 1)])]
        write_run(root, name, events, spec=make_spec("digits_mlp", learning_rate=0.1 * (number + 1)))
    page = made(capsys, tmp_path, "--runs", root, "a", "b", "c", "--baseline", "b")
    (headings,) = [row for row in page.rows if row[:2] == ["RUN", "LEARNING_RATE"]]
    (baseline,) = [row for row in page.rows if row[:2] == ["b", "0.2"]]
    (first,) = [row for row in page.rows if row[:2] == ["a", "0.1"]]
    assert (baseline[headings.index("BEST")], first[headings.index("BEST")]) == ("0.2", "0.4 (+100.0 %)")
    assert ["learning_rate", "0.1", "0.2", "0.3"] in [[*map(str.strip, row)] for row in page.rows]
    assert [each["class"] for each in page.all("path")] == ["c0", "c1", "c2"], "a colour for each run"
    assert len(page.all("li")) == 3


def test_seeds_are_a_mean_with_a_band_that_ends_where_fewer_go_on(tmp_path: Path, capsys) -> None:
    losses = {"a": [4.0, 3.0, 2.0, 1.0], "b": [2.0, 1.0, 2.0]}
    runs = [write_run(tmp_path, name, [values(1, 1.0, 3.0, loss=found)], spec=make_spec("digits_mlp", seed=seed))
            for seed, (name, found) in enumerate(losses.items())]
    runs.append(write_run(tmp_path, "c", [values(1, 1.0, 3.0, loss=[4.0, 0.0])],
                          spec=make_spec("digits_mlp", learning_rate=0.7)))
    page = made(capsys, tmp_path, *runs)
    assert [each["class"] for each in page.all("path")] == ["band b0", "c0", "c0", "c1"]
    band, mean, alone, single = (points(each["d"].removesuffix("z")) for each in page.all("path"))

    def height(value: float) -> int:
        return round((4.2 - value) / 4.2 * INNER_HEIGHT * FINE)

    across = [round(INNER_WIDTH * FINE * at / 3) for at in range(4)]
    assert mean == [[(x, height(y)) for x, y in zip(across, (3.0, 2.0, 2.0), strict=False)]]
    assert sorted(band[0]) == sorted(
        (x, height(y)) for x, ends in zip(across, ((4.0, 2.0), (3.0, 1.0), (2.0, 2.0)), strict=False) for y in set(ends)
    )
    assert alone == [[(across[2], height(2.0)), (across[3], height(1.0))]]
    assert [x for x, _ in single[0]] == across[:2]
    assert "a, mean of 2 runs: steps 1 to 4; last values 1, 2, smallest 1, largest 4." in page.text
    page = made(capsys, tmp_path, *runs, "--no-groups")
    assert [each["class"] for each in page.all("path")] == ["c0", "c1", "c2"]


def test_many_metrics_and_events_are_cut_and_counted(tmp_path: Path, capsys) -> None:
    metrics = {f"m{number:03d}": [1.0, 2.0] for number in range(60)}
    notices = [{"t": BEGAN + 1, "kind": "notice", "text": f"Notice {number}."} for number in range(600)]
    for name in ("a", "b"):
        write_run(tmp_path, name, [values(1, 1.0, 2.0, **metrics)], more=notices)
    page = made(capsys, tmp_path, "--runs", tmp_path, "a", "b")
    assert len(page.all("svg")) == 40
    assert "20 more metrics have no chart; the table of all metrics has them." in page.text
    assert re.search(r"1\d\d earlier events are left out\.", page.text)
    write_run(tmp_path, "c", [values(1, 1.0, 2.0, reward=[1.0, 0.5])])
    write_run(tmp_path, "d")
    write_run(tmp_path, "e", [values(1, 1.0, 2.0, loss=[1.0, 0.5])])
    page = made(capsys, tmp_path, "--runs", tmp_path, "c", "d", "e")
    assert "These runs have no metric in common" in page.text
    assert len(page.all("svg")) == 2


NASTY = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>'</title></svg></style>&amp;"


def test_texts_of_a_run_stay_texts(tmp_path: Path, capsys) -> None:
    script = Script(
        path=f"/tmp/{NASTY}.py", arguments=("--lr", NASTY), environment={"API_TOKEN": "hunter2", "X": NASTY}
    )
    spec = RunSpec(
        name=NASTY, framework="script", strategy=NASTY, script=script, devices=(NASTY,), python=NASTY,
        working_dir=NASTY,
    )
    release = {"t": BEGAN + 9000.5, "kind": "release", "device": NASTY, "verdict": "held by others",
               "before_bytes": 1, "peak_bytes": 1, "after_bytes": 1, "seconds": 0.5, "sentence": NASTY,
               "holders": []}
    more = [
        {"t": BEGAN, "kind": "notice", "text": NASTY}, release,
        {"t": BEGAN, "kind": "software", "version": NASTY, "packages": {NASTY: NASTY}, "trainyard": NASTY},
        {"t": BEGAN + 9002, "kind": "state", "state": "failed", "error": f"{NASTY}\x1b[2J"},
    ]
    runs = [
        write_run(tmp_path, f"run-{number}<b>", [values(1, 1.0, 2.0, **{NASTY: [1.0, number]})], spec=spec, more=more)
        for number in range(2)
    ]
    for named in (runs[:1], runs):
        page = made(capsys, tmp_path, *named)  # fails for an element that is not known
        assert page.text.count(NASTY) > 5
        assert "hunter2" not in (tmp_path / "report.html").read_text()
        assert "\x1b" not in page.text


@pytest.mark.parametrize("count", [1, 20])
def test_size_is_bounded_by_pixels(tmp_path: Path, capsys, count: int) -> None:
    first = write_long_run(tmp_path, steps=20_000, lines=400, rounds=1000 if count == 1 else 20)
    names = [first.name, *(f"20260101-000000-long-{number:04d}" for number in range(1, count))]
    for name in names[1:]:
        shutil.copytree(first, tmp_path / name)
    page = made(capsys, tmp_path, "--runs", tmp_path, *names)
    corners = [sum(map(len, points(each["d"]))) for each in page.all("path")]
    assert INNER_WIDTH < max(corners) <= 2 * INNER_WIDTH + 2, "of 20 000 steps"
    assert (tmp_path / "report.html").stat().st_size < 600_000, "2 MB is the limit"


@pytest.mark.parametrize(
    ("numbers", "parts"),
    [
        ([1.0, math.nan, 2.0, 3.0], 2),
        ([math.inf, 1.0, -math.inf, 1.0], 2),
        ([-1.7e308, 1.7e308], 1),
        ([5e-324, 5e-324], 1),
        ([1e-300, 1e300], 1),
        ([0.0, 0.0], 1),
        ([-1e16, -1e16 + 2], 1),
    ],
)
def test_odd_values_are_gaps_or_lie_inside_the_drawing(numbers: list[float], parts: int) -> None:
    page = Page(chart("x", [Line(label="a", colour=0, series=series(*numbers))], 600, name="n", along="step"))
    (path,) = page.all("path")
    found = points(path["d"])
    assert len(found) == parts
    for x, y in (point for part in found for point in part):
        assert 0 <= x <= INNER_WIDTH * FINE
        assert 0 <= y <= INNER_HEIGHT * FINE


def test_a_metric_without_a_finite_value_has_no_chart_and_large_ratios_a_logarithmic_scale() -> None:
    def drawn(*numbers: float) -> str:
        return chart("loss", [Line(label="a", colour=0, series=series(*numbers))], 600, name="n", along="step")

    assert drawn(math.nan) == drawn() == ""
    page = Page(drawn(1000.0, 10.0, 0.1))
    assert "loss (logarithmic scale)" in page.text
    (corners,) = points(page.all("path")[0]["d"])
    assert [y for _, y in corners] == [0, INNER_HEIGHT * FINE // 2, INNER_HEIGHT * FINE]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.0, 1e6), (-3.0, 7.0), (0.1, 0.1001), (-1e308, 1e308)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    ticks = Scale(low=low, high=high).ticks()
    assert 2 <= len(ticks) <= 12
    assert all(low - abs(low) * 1e-9 <= each <= high + abs(high) * 1e-9 for each in ticks)


def test_attributes_are_escaped() -> None:
    assert element("p", "<", class_='"') == '<p class="&quot;">&lt;</p>'


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a", "a"), "Run a is named twice. Name each run once."),
        (("a", "--metric", "loss"),
         "--metric, --baseline, --target, --no-groups, --minimize and --maximize are for a comparison."),
        (("a", "b", "--metric", "nope"), "None of these runs measured nope."),
        (("a", "no-such-run"), "There is no run 'no-such-run' in"),
        (("a",), "exists already. Name another file, or add --force to replace it."),
    ],
)
def test_wrong_use_is_one_sentence_and_replaces_nothing(tmp_path, capsys, words, sentence) -> None:
    for name in ("a", "b"):
        write_run(tmp_path, name, [values(1, 1.0, 2.0, loss=[1.0, 0.5])])
    path = tmp_path / "mine"
    path.write_text("mine")
    options = ("--runs", tmp_path, "--output", path, *["--force"] * (len(words) > 1))
    code, out, err = call(capsys, "report", *words, *options)
    assert (code, out, err.count("\n"), path.read_text()) == (2, "", 1, "mine")
    assert sentence in err
    if words == ("a",):
        code, out, _ = call(capsys, "report", "a", "--runs", tmp_path, "--output", path, "--force", "--json")
        document: dict[str, Any] = json.loads(out)
        assert (code, document["bytes"], document["runs"]) == (0, path.stat().st_size, ["a"])


def test_a_scaling_table_is_a_page_with_its_plots_and_its_runs(tmp_path: Path, capsys) -> None:
    path = tmp_path / "table.html"
    words = ("scale", "--show", "table", "--runs", tmp_path, "--html", path)
    recorded(tmp_path).saved()
    assert call(capsys, *words)[0] == 0
    assert "not trained" in Page(path.read_text()).text, "also without any result"
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert "exists already. Name another file, or add --force" in err
    path.unlink()
    runs = [trained(tmp_path, "one", 1, 2.0), trained(tmp_path, "two", 2, 1.1)]
    recorded(tmp_path, runs).saved()
    assert call(capsys, *words)[:2] == (0, "")
    page = Page(path.read_text())
    assert ["2", "ddp", "64", "29.1", "1.82", "91 %", "0.00", "same", "finished"] in page.rows
    assert "which is little to measure" in page.text
    titles = ("Speed-up over one device", "Samples per second", "loss", "Settings that differ", "Software and devices")
    assert all(title in page.text for title in titles)
    measured, ideal = (points(each["d"]) for each in page.all("path")[:2])
    assert [len(each[0]) for each in (measured, ideal)] == [2, 2]
    assert measured[0][0] == ideal[0][0], "one device is its own reference"
    assert measured[0][1][1] > ideal[0][1][1], "and two are slower than without any loss"
    assert "1 device" not in page.all("svg")[0].get("aria-labelledby", "")


def test_a_comparison_is_written_as_the_report_on_its_runs(tmp_path: Path, capsys) -> None:
    for name, rate in (("a", 0.1), ("b", 0.2)):
        write_run(tmp_path, name, [values(1, 1.0, 2.0, loss=[1.0, rate])])
    path = tmp_path / "compared.html"
    words = ("compare", "a", "b", "--baseline", "b", "--runs", tmp_path)
    assert call(capsys, *words, "--html", path) == (0, "", "")
    page = made(capsys, tmp_path, "a", "b", "--baseline", "b", "--runs", tmp_path)
    assert Page(path.read_text()).rows == page.rows
    assert call(capsys, *words, "--html", path)[0] == 2, "nothing is replaced silently"
