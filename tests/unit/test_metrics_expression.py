"""The user's regular expression: tested before use, and never able to block the reader."""

import json

import pytest

from core.cli import __main__
from core.metrics.text.expression import Matcher, compile_expression, describe_result, try_expression, try_on
from core.metrics.text.log import LogReader
from tests.support.running import Followed, script_spec, train

LOG = b"round 1 of 9: cost 0.5\nnothing here\nround 2 of 9: cost 1e-1\n"
EXPRESSION = r"round (?P<step>\d+) of (?P<total>\d+): cost (?P<loss>\S+)"
CATASTROPHIC = [r"(?P<loss>(a+)+)b", r"(?P<loss>(a|aa)+)b", r"(?P<loss>(.*)*)b"]


def test_expression_is_tested_on_part_of_the_log() -> None:
    tried = try_on(EXPRESSION, LOG)
    assert (tried.lines, tried.matched, tried.problem) == (3, 2, None)
    assert [(each.step, each.values, each.done, each.total, each.unit) for each in tried.readings] == [
        (1, {"loss": 0.5}, 1, 9, "steps"), (2, {"loss": 0.1}, 2, 9, "steps"),
    ]
    tried = try_on(r"(?P<loss>cost)", LOG)
    assert (tried.matched, tried.readings, tried.problem) == (
        2, (), "The expression matches, but its groups hold no numbers. Put the brackets around the number alone."
    )


NO_METRIC = r"Name at least one metric, for example (?P<loss>[\d.]+)."
BROKEN = "missing ), unterminated subpattern at character 6. Correct it."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (r"cost (?P<loss>\S+", f"The expression is not a valid regular expression: {BROKEN}"),
        (r"cost (\S+)", f"The expression has no named group, so it names no metric. {NO_METRIC}"),
        (r"(?P<step>\d+)", f"The expression names only counters (step) and no metric. {NO_METRIC}"),
    ],
)
def test_invalid_expression_is_refused_with_the_remedy(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is compared
        compile_expression(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("text", CATASTROPHIC)
def test_catastrophic_backtracking_is_reported_by_the_trial(text: str) -> None:
    line = "a" * 60
    tried = try_on(text, f"aab\n{line}\n".encode(), seconds=0.2)
    assert tried.problem == (
        f"The expression needs more than 0.2 s for the line '{line}', so it is not used. "
        "The cause is mostly a repetition within a repetition, such as (.*)* or (a+)+: write it without."
    )


def test_expression_replaces_the_built_in_parsers_and_says_that_it_found_nothing() -> None:
    reader = LogReader(compile_expression(EXPRESSION))
    readings = [*reader.take(b"loss: 3.0\n" + LOG[:30]), *reader.take(LOG[30:]), *reader.end()]
    assert [(reading.step, reading.values["loss"]) for reading in readings] == [(1, 0.5), (2, 0.1)]
    assert reader.problem is None
    reader = LogReader(compile_expression(r"nope (?P<loss>\d+)"))
    assert reader.take(b"step 1 loss 0.5\nstep 2 loss 0.4\n") == []
    assert reader.problem is None
    reader.end()
    assert str(reader.problem).startswith("The expression found nothing in the 2 printed lines")


def test_steps_restarting_each_epoch_are_counted_on() -> None:
    reader = LogReader(compile_expression(r"E(?P<epoch>\d+)/\d+ \[(?P<step>\d+)/(?P<total>\d+)\] L=(?P<loss>\S+)"))
    log = "".join(f"E{epoch}/3 [{step}/100] L=0.5\n" for epoch in range(3) for step in (0, 25, 50, 75))
    readings = [*reader.take(log.encode()), *reader.end()]
    assert [reading.step for reading in readings] == [0, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275]


@pytest.mark.slow
def test_built_in_parsers_take_over_after_a_slow_expression() -> None:
    reader = LogReader(compile_expression(r"(a+)+$(?P<loss>.)"))
    slow = b"".join(b"step %d loss 0.5 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n" % step for step in range(4))
    assert reader.take(slow) == []
    assert "is not used" in str(reader.problem)
    assert [reading.step for reading in reader.take(b"step 5 loss 0.4\n")] == [5]
    reader.end()


def test_slow_lines_are_skipped_until_there_are_too_many() -> None:
    matcher = Matcher(compile_expression(r"^(?P<loss>1)$|(a+)+b"), seconds=0.1)
    try:
        slow = "a" * 60
        found = [groups and groups["loss"] for groups in matcher.match(["1", slow, "1", "x", slow, "1"])]
        assert found == ["1", None, "1", None, None, "1"]
        assert matcher.problem is None
        assert list(matcher.match([slow, "1", "1"])) == [None]
        assert matcher.problem is not None
        assert list(matcher.match(["1"])) == []
    finally:
        matcher.close()


PRINTS = """\
print("hello " + 40 * "a" + "!")
for step in range(1, 6):
    print(f"it {step} | L={1 / step:.3f}")
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    folder = tmp_path_factory.mktemp("printed")
    (folder / "prints.py").write_text(PRINTS)
    spec = script_spec("prints.py", cwd=folder, expression=r"it (?P<step>\d+) \| L=(?P<loss>\S+)")
    return train(spec, folder / "runs")


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


def test_try_command_prints_json_and_errors(printed: Followed, capsys: pytest.CaptureFixture[str]) -> None:
    runs = ["--runs", str(printed.run.dir.parent), "try", printed.run.id]
    assert __main__.main([*runs, r"it (?P<step>\d+) \| L=(?P<loss>\S+)", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["lines"], document["matched"], document["problem"]) == (6, 5, None)
    assert document["readings"][1] == {"step": 2, "epoch": None, "values": {"loss": 0.5}}

    assert __main__.main([*runs, "(?P<loss>"]) == 2
    assert "The expression is not a valid regular expression" in capsys.readouterr().err


def test_run_with_an_expression_reads_its_metrics_with_it(printed: Followed) -> None:
    assert printed.run_series.metrics["loss"].steps.tolist() == [1, 2, 3, 4, 5]
    assert printed.losses() == [1.0, 0.5, 0.333, 0.25, 0.2]
