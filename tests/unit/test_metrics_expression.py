"""The user's regular expression: tested before use, and never able to block the reader."""

from __future__ import annotations

import pytest

from core.metrics.text.expression import Matcher, compile_expression, try_on
from core.metrics.text.log import LogReader

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


def test_expression_replaces_the_built_in_parsers() -> None:
    reader = LogReader(compile_expression(EXPRESSION))
    readings = [*reader.take(b"loss: 3.0\n" + LOG[:30]), *reader.take(LOG[30:]), *reader.end()]
    assert [(reading.step, reading.values["loss"]) for reading in readings] == [(1, 0.5), (2, 0.1)]
    assert reader.problem is None


def test_steps_restarting_each_epoch_are_counted_on() -> None:
    reader = LogReader(compile_expression(r"E(?P<epoch>\d+)/\d+ \[(?P<step>\d+)/(?P<total>\d+)\] L=(?P<loss>\S+)"))
    log = "".join(f"E{epoch}/3 [{step}/100] L=0.5\n" for epoch in range(3) for step in (0, 25, 50, 75))
    readings = [*reader.take(log.encode()), *reader.end()]
    assert [reading.step for reading in readings] == [0, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250, 275]


def test_expression_without_matches_is_reported_at_the_end() -> None:
    reader = LogReader(compile_expression(r"nope (?P<loss>\d+)"))
    assert reader.take(b"step 1 loss 0.5\nstep 2 loss 0.4\n") == []
    assert reader.problem is None
    reader.end()
    assert str(reader.problem).startswith("The expression found nothing in the 2 printed lines")


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
