"""What commands write to files: plots as drawings and pictures, pages, tables; and what they refuse."""

import contextlib
import csv
import json
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from core.results import chart
from core.results.chart import FINE, INNER_WIDTH, Chart, Line
from tests.support.commands import call
from tests.support.recorded import recorded as written
from tests.support.running import make_spec
from tests.support.scaling_runs import recorded, trained
from tests.support.written_runs import values, write_run
from tests.unit.test_reports import Page, points, series

NAME = "{http://www.w3.org/2000/svg}"


def drawing(path: Path) -> ET.Element:
    return ET.fromstring(path.read_bytes())


def paths(root: ET.Element) -> list[ET.Element]:
    return list(root.iter(f"{NAME}path"))


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{NAME}text")]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two runs that differ in the learning rate; the second measured one metric more."""
    write_run(tmp_path, "a", [values(1, 1.0, 3.0, loss=[4.0, 2.0, 1.0])])
    more = [values(1, 1.0, 3.0, **{"loss": [3.0, 2.0, 1.0], "train/acc & more": [0.1, 0.2, 0.3]})]
    write_run(tmp_path, "b", more, spec=make_spec("digits_mlp", learning_rate=0.5))
    return tmp_path


def test_each_plot_is_a_drawing_with_a_line_for_each_run(two: Path, capsys) -> None:
    folder = two / "new" / "plots"
    folder.parent.mkdir()
    code, out, err = call(capsys, "export", two / "b", "--svg", folder, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["files"] == [str(folder / name) for name in ("loss.svg", "train-acc-more.svg")]
    (path,) = paths(drawing(folder / "loss.svg"))
    (corners,) = points(path.attrib["d"])
    assert [x for x, _ in corners] == [0, INNER_WIDTH * FINE // 2, INNER_WIDTH * FINE]
    heights = [y for _, y in corners]
    assert heights[1] - heights[0] == heights[2] - heights[1] > 0, "3, 2, 1"
    assert {"train/acc & more", "steps"} <= set(texts(drawing(folder / "train-acc-more.svg")))
    assert call(capsys, "compare", two / "a", two / "b", "--svg", two / "svg") == (0, "", "")
    loss = drawing(two / "svg" / "loss.svg")
    assert [each.attrib["class"] for each in paths(loss)] == ["c0", "c1"]
    assert {"a", "b"} <= set(texts(loss)), "the legend"
    assert len(paths(drawing(two / "svg" / "train-acc-more.svg"))) == 1


def test_plots_of_a_scaling_table(tmp_path: Path, capsys) -> None:
    recorded(tmp_path, [trained(tmp_path, "one", 1, 2.0), trained(tmp_path, "two", 2, 1.1)]).saved()
    words = ("scale", "--show", "table", "--runs", tmp_path, "--svg", tmp_path / "svg")
    assert call(capsys, *words)[:2] == (0, "")
    assert sorted(each.name for each in (tmp_path / "svg").iterdir()) == ["scaling-rate.svg", "scaling-speed-up.svg"]
    code, _, err = call(capsys, *words)
    assert (code, err.count("exists already")) == (2, 1)


def test_pictures_are_drawn_by_a_process_of_their_own(two: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(capsys, "export", two / "a", "--png", two / "png") == (0, "", "")
    data = (two / "png" / "loss.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (2 * 720, 2 * (28 + 280)), "twice the size of the drawing"
    monkeypatch.setattr(chart, "DRAWER", "gui.plots.no_such_module")
    code, out, err = call(capsys, "export", two / "a", "--png", two / "none")
    assert (code, out, (two / "none").exists()) == (2, "", False)
    assert err.startswith("trainyard: The plots could not be drawn as PNG: ")
    assert err.endswith("Write them as SVG instead.\n")


def test_names_of_files_are_different_and_harmless(tmp_path: Path) -> None:
    names = ["a/b", "a b", "A-B", "../..", "", "é", "x" * 300]
    charts = [
        Chart(name=name, title=name, along="steps", lines=[Line(label="x", colour=0, series=series(1.0, 2.0))])
        for name in names
    ]
    written = chart.write_charts(charts, tmp_path, "svg", force=False)
    assert [each.name for each in written] == [
        "a-b.svg", "a-b-2.svg", "A-B-3.svg", "plot.svg", "plot-2.svg", "é.svg", f"{'x' * 100}.svg",
    ]
    assert all(each.parent == tmp_path and each.is_file() for each in written)


def test_texts_of_a_run_stay_texts_in_a_drawing_and_a_long_legend_has_further_rows() -> None:
    def drawn(title: str, labels: list[str], along: str) -> ET.Element:
        lines = [Line(label=label, colour=at, series=series(1.0, 2.0)) for at, label in enumerate(labels)]
        data = chart.svg(Chart(name="x", title=title, lines=lines, along=along))
        assert data is not None
        return ET.fromstring(data)

    title = "</title><script>alert(1)</script>&\x00\x0b\ud800\ufffe"
    root = drawn(title, [f"{title} {at}" for at in range(2)], title)
    assert {each.tag.removeprefix(NAME) for each in root.iter()} == {
        "svg", "title", "style", "rect", "text", "g", "line", "path",
    }
    assert sum((each.text or "").startswith("</title><script>alert(1)</script>&") for each in root.iter()) == 5
    root = drawn("x", [f"a run with a long name {at}" for at in range(14)], "steps")
    assert len({each.attrib["y"] for each in root.iter(f"{NAME}text") if (each.text or "").startswith("a run")}) == 5
    assert max(float(each.attrib["x"]) for each in root.iter(f"{NAME}text")) < 720
    assert "c0 dashed" in {each.attrib["class"] for each in paths(root)}, "the thirteenth"


def test_a_page_on_runs_is_that_of_the_command_report(two: Path, capsys) -> None:
    assert call(capsys, "export", two / "a", "--html", two / "a.html") == (0, "", "")
    assert "Report on a" in Page((two / "a.html").read_text()).text
    code, out, _ = call(capsys, "export", two / "a", two / "b", "--html", two / "both.html", "--json")
    assert (code, json.loads(out)["bytes"]) == (0, (two / "both.html").stat().st_size)
    assert "Comparison of the runs" in (two / "both.html").read_text()


def test_the_table_of_runs_is_written_and_filtered(two: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("runs", "--runs", two, "lr>0.4")
    assert call(capsys, *words, "--csv", two / "runs.csv", "--markdown", two / "runs.md") == (0, "", "")
    with (two / "runs.csv").open() as file:
        assert [(row["run"], row["learning_rate"]) for row in csv.DictReader(file)] == [("b", "0.5")]
    assert (two / "runs.md").read_text().splitlines()[2].startswith("| b |")
    monkeypatch.chdir(two)
    (two / "-").touch()
    assert call(capsys, *words, "--csv", "-")[1] == (two / "runs.csv").read_text(), "not the file of that name"
    assert call(capsys, *words, "--csv", two / "runs.csv")[0] == 2, "nothing is replaced silently"


def test_seeds_are_rows_of_their_own_where_that_is_asked_for(tmp_path: Path, capsys) -> None:
    for seed in (1, 2):
        spec = make_spec("digits_mlp", seed=seed)
        write_run(tmp_path, f"seed-{seed}", [values(1, 1.0, 2.0, loss=[1.0, 0.5])], spec=spec)
    words = ("compare", tmp_path / "seed-1", tmp_path / "seed-2", "--json")
    assert [row["n"] for row in json.loads(call(capsys, *words)[1])["rows"]] == [2]
    assert [row["n"] for row in json.loads(call(capsys, *words, "--no-groups")[1])["rows"]] == [1, 1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("export", "a", "--svg", "a/spec.json"), "a/spec.json is not a folder. Name a folder for the plots."),
        (("export", "a", "--html", "no/a.html"), "no/a.html cannot be written: there is no folder no."),
        (("export", "a", "--html", "x", "--csv", "y"), "Both --csv and --html are given. Give one of them."),
        (("export", "/no/such/run", "--svg", "x"), "There is no run at /no/such/run. It may have been removed."),
        (("export", "a", "--svg", ""), "--svg names nothing. Name a file or a folder."),
        (("export", "a", "--html", "-"), "A page is written to a file, not to standard output."),
        (("compare", "a", "b", "--html", "x.html", "--why"), "--html writes a file, and --why prints."),
        (("export", "a"), "Say what to export: --csv FILE, --html FILE, --svg FOLDER, --png FOLDER, --tensorboard"),
        (("export", "empty", "--svg", "plots"), "No plot was written to plots: there is no finite value to draw."),
        (("compare", "a", "b", "--csv", "-", "--markdown", "-"), "Standard output can take one document."),
        (("compare", "a", "b", "--svg", "a/spec.json"), "a/spec.json is not a folder."),
        (("scale", "--show", "none", "--png", "a/spec.json"), "a/spec.json is not a folder."),
    ],
)
def test_wrong_use_is_one_sentence(two, capsys, monkeypatch, words, sentence) -> None:
    write_run(two, "empty")
    monkeypatch.chdir(two)
    code, out, err = call(capsys, *words, "--runs", two)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (two / "plots").exists()


@pytest.mark.parametrize("option", ["--svg", "--png", "--html", "--csv", "--tensorboard"])
def test_a_disk_that_fills_while_exporting_leaves_what_was_there(two, capsys, small_disk, option) -> None:
    target = small_disk / "out"
    mine = target if option in {"--html", "--csv"} else target / f"loss.{option[2:]}"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    before = sorted(small_disk.rglob("*"))
    code, out, err = call(capsys, "export", two / "a", option, target, "--force")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("trainyard: The disk is full: ")
    assert "Free some space" in err
    assert sorted(small_disk.rglob("*")) == before, "no part of a file is left"
    assert mine.read_text() == "mine"


def test_export_replaces_a_file_only_with_force_and_names_are_no_formulas(runs_root, tmp_path, capsys) -> None:
    run_dir, table = written(runs_root), tmp_path / "loss.csv"
    table.write_text("mine")
    words = ["export", run_dir.name, "--csv", table, "--runs", runs_root]
    assert call(capsys, *words) == (
        2, "", f"trainyard: {table} exists already. Name another file, or add --force to replace it.\n",
    )
    assert table.read_text() == "mine"
    with (run_dir / "events" / "worker-0.jsonl").open("a") as file:
        event = {"t": 1.75e9, "kind": "metrics", "since": 1.75e9, "first": 1, "values": {"=1+1\x1b[2J": [3.0]}}
        file.write(json.dumps(event) + "\n")
    assert call(capsys, *words, "--force")[0] == 0
    assert table.read_text().startswith("metric,step,time,value")
    assert "\n'=1+1?[2J,1," in call(capsys, "export", run_dir.name, "--csv", "-", "--runs", runs_root)[1]
