"""Try a regular expression on a log before using it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli import __main__
from core.metrics.text.expression import describe_result, try_expression
from tests.support.running import Followed, script_spec, train

PRINTS = """\
print("hello " + 40 * "a" + "!")
for step in range(1, 6):
    print(f"it {step} | L={1 / step:.3f}")
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    folder = tmp_path_factory.mktemp("printed")
    (folder / "prints.py").write_text(PRINTS)
    return train(script_spec("prints.py", cwd=folder), folder / "runs")


def trial_words(expression: str, run: Followed) -> str:
    return describe_result(try_expression(expression, run.run.dir))


def test_trial_describes_the_matches(printed: Followed) -> None:
    assert trial_words(r"it (?P<step>\d+) \| L=(?P<loss>\S+)", printed) == (
        "The expression matches 5 of the last 6 lines of this log. The last match reads loss 0.2 at step 5."
    )
    assert trial_words(r"M=(?P<loss>\S+)", printed) == "The expression matches none of the last 6 lines of this log."
    assert trial_words(r"(?P<loss>hello)", printed).startswith(
        "The expression matches, but its groups hold no numbers."
    )


@pytest.mark.slow
def test_trial_reports_a_slow_expression(printed: Followed) -> None:
    text = describe_result(try_expression(r"(?P<loss>(?:a+)+)$", printed.run.dir))
    assert text.startswith("The expression needs more than 1 s for the line 'hello aaaa")


def test_try_command_prints_json_and_errors(printed: Followed, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["--runs", str(printed.run.dir.parent), "try", printed.run.id]
    assert __main__.main([*runs, r"it (?P<step>\d+) \| L=(?P<loss>\S+)", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["lines"], document["matched"], document["problem"]) == (6, 5, None)
    assert document["readings"][1] == {"step": 2, "epoch": None, "values": {"loss": 0.5}}

    assert __main__.main([*runs, "(?P<loss>"]) == 2
    assert "The expression is not a valid regular expression" in capsys.readouterr().err


def test_run_with_an_expression_reads_its_metrics_with_it(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(PRINTS)
    spec = script_spec("prints.py", cwd=tmp_path, expression=r"it (?P<step>\d+) \| L=(?P<loss>\S+)")
    ended = train(spec, tmp_path / "runs")
    assert ended.run_series.metrics["loss"].steps.tolist() == [1, 2, 3, 4, 5]
    assert ended.losses() == [1.0, 0.5, 0.333, 0.25, 0.2]
