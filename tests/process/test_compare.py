"""The command `compare` on runs that really trained, and its refusals."""

import csv
import json
from pathlib import Path

import pytest

from tests.support.commands import call
from tests.support.running import make_spec, train, write_recipe
from tests.support.written_runs import values, write_run

RECIPE = """\
def model():
    return "weights"

def train_data(items=8):
    return [index / items for index in range(items)]

def val_data():
    return [0.5, 0.25, 0.75]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two runs that differ in the seed, and one of a changed recipe with another learning rate."""
    root = tmp_path_factory.mktemp("compare")
    recipe = write_recipe(root, RECIPE)
    names = []
    for seed, rate in ((0, 0.1), (1, 0.1), (0, 0.5)):
        if rate == 0.5:
            write_recipe(root, RECIPE.replace("0.25", "0.125"))
        spec = make_spec(recipe, epochs=3, batch_size=4, seed=seed, learning_rate=rate)
        names.append(train(spec, root / "runs").run.id)
    return root / "runs", names


@pytest.mark.slow
def test_the_json_document_has_what_programs_read(runs: tuple[Path, list[str]], capsys) -> None:
    root, names = runs
    code, out, _ = call(capsys, "compare", "--runs", root, *names, "--baseline", names[2], "--why", "--json")
    document = json.loads(out)
    group, alone = document["rows"]
    assert code == 0
    assert (document["metric"], document["lower_is_better"], document["baseline"]) == ("val_loss", True, 1)
    assert (group["runs"], group["n"], group["seeds"]) == (names[:2], 2, [0, 1])
    assert (alone["best"], alone["best_step"], alone["last"]) == (0.125, 4, 0.75)
    assert (group["best"], group["spread"]["best"]) == (0.25, 0.0)
    assert (group["differs"], alone["differs"]) == ({"learning_rate": 0.1}, {"learning_rate": 0.5})
    assert group["difference"]["best"] == {"value": 0.125, "percent": 100.0, "better": False}
    assert document["same"]["batch_size"] == 4
    (why,) = document["why"]
    assert why["runs"] == [names[2], names[0]]
    changed = [line for line in why["text"] if line.startswith(("-  ", "+  "))]
    assert changed == ["-    return [0.5, 0.125, 0.75]", "+    return [0.5, 0.25, 0.75]"], "as each run was started"


def test_people_get_a_table(runs: tuple[Path, list[str]], capsys) -> None:
    root, names = runs
    code, out, err = call(capsys, "compare", "--runs", root, *names, "--target", "0.3")
    headings, group, alone, *sentences = out.splitlines()
    assert (code, err) == (0, "")
    assert headings.split()[:4] == ["RUN", "RUNS", "LEARNING_RATE", "LAST"]
    assert "TO TARGET" in headings
    assert group.split()[:3] == [names[0], "2", "0.1"]
    assert "0.25 ± 0" in group
    assert "0.125 (-50.0 %)" in alone
    assert f"{names[0]} stands for {names[0]}, {names[1]}" in "\n".join(sentences)
    assert "lower is better" in sentences[0]
    code, out, _ = call(capsys, "compare", "--runs", root, names[0], names[2], "--why")
    assert f"What differs between {names[0]} and {names[2]}:" in out
    assert "setting learning_rate  0.1  0.5" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("a",), "A comparison needs at least two runs. `trainyard runs` lists them."),
        (("a", "a"), "Run a is named twice. Name each run once."),
        (("a", "b", "--metric", "bleu"), "None of these runs measured bleu. They measured loss."),
        (("a", "b", "--baseline", "c"), "The baseline c is not one of the compared runs. Name it among them, too."),
        (("a", "b", "--target", "nan"), "--target nan is not a finite number. Give a value of the metric."),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(tmp_path: Path, capsys, arguments, sentence: str) -> None:
    for name in "abc":
        write_run(tmp_path, name, [values(1, 1, 2, loss=[2.0, 1.0])])
    code, out, err = call(capsys, "compare", "--runs", tmp_path, *arguments)
    assert (code, out, err) == (2, "", f"trainyard: {sentence}\n")


@pytest.mark.slow
def test_runs_are_marked_searched_and_sorted(runs: tuple[Path, list[str]], capsys) -> None:
    root, names = runs
    try:
        code, out, _ = call(capsys, "mark", "--runs", root, names[0], "--star", "--tag", "baseline", "--note", "good")
        assert (code, out.splitlines()[0]) == (0, "It has a star and the tag baseline.")
        assert "good" in call(capsys, "show", "--runs", root, names[0])[1]
        assert call(capsys, "mark", "--runs", root, names[2], "--archive", "--json")[0] == 0

        def listed(*search: str) -> list[str]:
            return [row["run"] for row in json.loads(call(capsys, "runs", "--runs", root, "--json", *search)[1])]

        assert sorted(listed()) == sorted(names[:2])  # they may have begun in one second
        assert listed("tag:baseline", "framework:pytorch") == [names[0]]
        assert listed("lr>0.2") == []
        assert listed("lr>0.2 archived:any") == [names[2]]
        assert listed("archived:any", "sort:-lr", "seed:0") == [names[2], names[0]]
        assert "* baseline" in call(capsys, "runs", "--runs", root)[1]
        assert "1 archived run is not listed" in call(capsys, "runs", "--runs", root)[2]
        code, out, err = call(capsys, "runs", "--runs", root, "state:failed")
        assert (code, out, err) == (0, "", "trainyard: The search fits none of the 3 runs.\n")
        code, out, err = call(capsys, "runs", "--runs", root, "widht:3")
        assert (code, out) == (2, "")
        assert err.startswith("trainyard: No run has widht. Search for words, for a setting such as lr")
    finally:
        call(capsys, "mark", "--runs", root, names[2], "--no-archive")


def test_the_csv_table_has_all_numbers_unrounded(runs: tuple[Path, list[str]], capsys, tmp_path: Path) -> None:
    root, names = runs
    path = tmp_path / "table.csv"
    words = ("compare", "--runs", root, *names, "--target", "0.3", "--csv", path)
    assert call(capsys, *words) == (0, "", "")
    group, alone = csv.DictReader(path.read_text().splitlines())
    document = json.loads(call(capsys, "compare", "--runs", root, *names, "--target", "0.3", "--json")[1])
    for written, row in zip((group, alone), document["rows"], strict=True):
        for name in ("last", "best", "best_step", "time_to_target_s", "samples_per_s", "training_s"):
            assert float(written[name]) == row[name]
    assert (group["runs"], group["count"], group["seed"]) == (" ".join(names[:2]), "2", "0 1")
    assert (group["is_baseline"], alone["is_baseline"]) == ("True", "False")
    assert (group["setting learning_rate"], alone["setting learning_rate"]) == ("0.1", "0.5")
    assert (float(group["best_deviation"]), alone["best_deviation"], group["best_percent"]) == (0.0, "", "")
    assert float(alone["best_percent"]) == -50.0
    code, _, err = call(capsys, *words)
    assert (code, "add --force to replace it" in err) == (2, True)
    assert call(capsys, *words, "--force")[0] == 0
    code, out, _ = call(capsys, *words[:-1], "-")
    assert (code, out) == (0, path.read_text())


def test_the_markdown_table_is_that_for_people(runs: tuple[Path, list[str]], capsys, tmp_path: Path) -> None:
    root, names = runs
    path = tmp_path / "table.md"
    assert call(capsys, "compare", "--runs", root, *names, "--markdown", path) == (0, "", "")
    headings, rule, group, alone, empty, *notes = path.read_text().splitlines()
    assert headings.startswith("| RUN | RUNS | LEARNING_RATE | LAST | BEST | BEST AT |")
    assert (rule.count("---"), empty) == (headings.count("|") - 1, "")
    assert f"| {names[0]} | 2 | 0.1 |" in group
    assert "| 0.125 (-50.0 %) |" in alone
    assert all(note.startswith("- ") for note in notes)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--csv", "-", "--markdown", "-"), "Standard output can take one document."),
        (("--csv", "-", "--json"), "Standard output can take one document."),
        (("--csv", "x", "--why"), "--csv writes a file, and --why prints."),
        (("--csv", "no/such/folder"), "no/such/folder cannot be written: there is no folder no/such."),
    ],
)
def test_tables_that_cannot_be_written_are_refused(runs, capsys, words, sentence) -> None:
    root, names = runs
    code, out, err = call(capsys, "compare", "--runs", root, *names, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_markdown_shows_a_name_as_it_is(tmp_path: Path, capsys) -> None:
    odd = "a|b *c* <img> `d` _e_ [f](g) \\"
    events = [values(1, 1.0, 2.0, loss=[1.0, 0.5])]
    write_run(tmp_path, "plain_name", events)
    write_run(tmp_path, odd, events, spec=make_spec("digits_mlp", learning_rate=0.5))
    code, out, _ = call(capsys, "compare", "--runs", tmp_path, "plain_name", tmp_path / odd, "--markdown", "-")
    assert code == 0
    assert "| plain_name |" in out
    assert r"| a\|b \*c\* \<img\> \`d\` \_e\_ \[f\](g) \\ |" in out
