"""Rules: their text, what they claim beside the dialects, bad ones, files of them, and teaching by pointing."""

import json
import math
from pathlib import Path

import pytest

from core.cli import __main__
from core.errors import RunError
from core.metrics.rules import parse_rule, read_rules, write_rules
from core.metrics.teaching import find_number, propose_name, teach, with_rule
from core.metrics.text.log import LogReader
from core.runs.run import Run
from core.schema.event_log import Log
from core.schema.spec import read_spec
from tests.support.running import folded, script_spec, train

ROUNDS = "".join(f"round {n} of 9 ~~ the deficit is {9 / n:8.3f} ({n * 7} ms)\n" for n in range(1, 10))
"""No dialect reads it."""


def readings(log: str, *rules: str) -> tuple[list[tuple[int | None, dict[str, float]]], list[str]]:
    """Return step and values of each reading, and the sentences about the rules."""
    reader = LogReader(rules=[parse_rule(rule) for rule in rules])
    found = reader.take(log.encode()) + reader.end()
    return [(each.step, dict(each.values)) for each in found if each.values], reader.about_rules


def test_a_rule_reads_what_no_dialect_reads() -> None:
    assert readings(ROUNDS) == ([], [])
    found, problems = readings(ROUNDS, "round {step} of {} ~~ the deficit is {metric cost} ({} ms)")
    assert found == [(n, {"cost": round(9 / n, 3)}) for n in range(1, 10)]
    assert problems == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cost 1,234.5", 1234.5), ("cost -3e-4", -3e-4), ("cost    nan", math.nan), ("cost -inf", -math.inf),
        ("cost .5", 0.5), ("cost 1,2", None), ("costs 1", None), ("cost 1 2", None), ("the cost 1", None),
    ],
)
def test_numbers_that_a_rule_matches(line: str, expected: float | None) -> None:
    found = parse_rule("cost {metric cost}").claims(line)
    value = found[0].value if found else None
    assert value == expected or (value is not None and math.isnan(value))


def test_rules_win_over_dialects_and_leave_them_the_rest_of_the_line() -> None:
    line = "step 5: loss 0.5, accuracy 0.75, weird 3.5\n"
    assert readings(line)[0] == [(5, {"loss": 0.5, "accuracy": 0.75})]
    assert readings(line, "... weird {metric weird}")[0] == [
        (5, {"loss": 0.5, "accuracy": 0.75}),
        (5, {"weird": 3.5}),
    ]
    assert readings(line, "... accuracy {no metric}, ...")[0] == [(5, {"loss": 0.5})]
    assert readings(line, "... accuracy {step}, ...")[0] == [(5, {"loss": 0.5})], "0.75 is no step"
    assert readings("loss 0.5 for item 30\n", "loss {metric wrong} ...")[0] == [(None, {"wrong": 0.5})]
    bar = "".join(f"\r 10%|# | {n}/9 [00:01<00:02, x {n // 2}.5, loss=0.{n}]" for n in (1, 1, 2)) + "\n"
    assert readings(bar, "... x {metric x}, ...")[0] == [(1, {"loss": 0.1, "x": 0.5}), (2, {"loss": 0.2, "x": 1.5})]


def test_lines_are_found_wherever_the_bytes_are_cut() -> None:
    """Only lines with a word of a rule, or of a metric, are looked at."""
    log = f"x\r\n{ROUNDS}loss: 0.5\nno 5\n\rp 1 the deficit is 2\rp 2 the deficit is 3\nthe deficit is 4 x"
    texts = ("round {step} of {} ~~ the deficit is {metric cost} ({} ms)", "p {step} the deficit is {metric d}")
    whole = LogReader(rules=[parse_rule(text) for text in texts])
    expected = whole.take(log.encode()) + whole.end()
    assert [dict(each.values) for each in expected[-3:]] == [{"loss": 0.5}, {"d": 2.0}, {"d": 3.0}]
    for size in (1, 7, 100):
        reader = LogReader(rules=[parse_rule(text) for text in texts])
        found = [each for at in range(0, len(log), size) for each in reader.take(log.encode()[at : at + size])]
        assert found + reader.end() == expected


def test_a_step_on_its_own_line_holds_for_the_lines_after_it() -> None:
    log = "".join(f"now at {n}\nit costs {n / 2}\nloss: {n / 4}\n" for n in (10, 20))
    found, _ = readings(log, "now at {step}", "it costs {metric cost}")
    assert found == [(10, {"cost": 5.0}), (10, {"loss": 2.5}), (20, {"cost": 10.0}), (20, {"loss": 5.0})]
    found, _ = readings("now at 10\nit costs 1\nit costs 2\n", "now at {step}", "it costs {metric cost}")
    assert found == [(10, {"cost": 1.0}), (None, {"cost": 2.0})], "the second value is not of that step"


def test_rows_of_a_table_belong_to_its_header() -> None:
    rows = "1 2 3\n  it   goal   cost\n---\n1 0.5  7\n2 0.25 8\n"
    assert readings(rows, "it goal cost\n{step} {metric goal} {}")[0] == [(1, {"goal": 0.5}), (2, {"goal": 0.25})]


def test_sentences_on_rules_that_match_nothing_or_claim_one_number() -> None:
    one, other = "cost {metric a}", "... cost {metric b} ..."
    found, problems = readings("cost 1\ncost 2\n", one, other, "price {metric c}")
    assert [values for _, values in found] == [{"a": 1.0}, {"a": 2.0}], "the first one is used"
    assert problems == [
        (
            "Two rules claim the number 1 of the line 'cost 1': 'cost {metric a}' and '... cost {metric b} ...'. "
            "The first is used."
        ),
        "The rule 'price {metric c}' matches no line of the log.",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("... {metric x}", "would match every line with a number. Keep a word of the line in it."),
        ("{} a", "says nothing. Mark a number in it, as {metric loss} or {step}."),
        ("a {loss}", "has a number of the kind {loss}. Write {metric NAME}, {step}, {epoch}, {no metric} or {}."),
        ("a {metric loss", "has a single brace. Double the braces of the line."),
        ("a {metric x}{} b", "has numbers without a text between them."),
    ],
)
def test_bad_rules_are_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^The rule ") as raised:
        parse_rule(text)
    assert str(raised.value).endswith(sentence)


def test_a_rule_is_written_as_it_is_read_and_no_line_is_slow() -> None:
    for text in ("a {metric x y} {{b}} {}: {step}", "... c {no metric} ...", "it goal\n{step} {metric goal}"):
        assert str(parse_rule(text)) == text
    assert parse_rule("{{'cost': {metric cost}}}").claims("{'cost': 2.5}")[0].value == 2.5
    assert parse_rule("a " + "{} " * 40 + "b {metric x}").claims("a " + "1 " * 2000) is None
    assert parse_rule("... a {} a {} a {metric x} z ...").claims("a 1 " * 1000) is None


def test_pointing_makes_the_rule_that_fits_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("start 17\n" + ROUNDS)
    line = ROUNDS.splitlines()[3]
    assert propose_name(line, find_number(line, "2.250")) == "deficit"
    lesson = teach(line, find_number(line, "2.250"), "metric deficit", log)
    assert str(lesson.rule) == "round {} of {} ~~ the deficit is    {metric deficit} ({} ms)"
    assert (lesson.matched, len(lesson.curves["deficit"]), lesson.curves["deficit"][-1]) == (9, 9, (9, 1.0))
    lesson = teach(line, find_number(line, "4"), "step", log, lesson.rules)
    assert [str(rule) for rule in lesson.rules] == ["round {step} of {} ~~ the deficit is    {metric deficit} ({} ms)"]
    lesson = teach(line, find_number(line, "28"), "step", log, lesson.rules)
    assert [str(rule) for rule in lesson.rules] == ["round {} of {} ~~ the deficit is    {metric deficit} ({step} ms)"]
    assert with_rule(lesson.rules, lesson.rules[0]) == lesson.rules


@pytest.mark.parametrize(
    ("log", "line", "number", "rule"),
    [
        ("it1 c 5\nit2 c 6\n", "it1 c 5", "5", "it{} c {metric m}"),
        ("a1 c 5\na2 c 6\na1 c 7\na2 c 8\n", "a1 c 5", "5", "a1 c {metric m}"),
        ("the c 5 y 1\n- the c 6 y\n* the c 7 y!\n", "- the c 6 y", "6", "... the c {metric m} y ..."),
        ("goal cost\n1 5\n2 6\n", "2 6", "6", "goal cost\n{} {metric m}"),
        ("5\n6\n", "6", "6", "{metric m}"),
        ("[1] c=5 d\n[2] c=6 d (best)\n[3] c=7 d\n[4] c=8 d !\n", "[2] c=6 d (best)", "6", "[{}] c={metric m} d ..."),
        ("train c 5\nval c 6\ntest c 7\n" * 3, "val c 6", "6", "val c {metric m}"),
    ],
)
def test_shapes_that_are_made(tmp_path: Path, log: str, line: str, number: str, rule: str) -> None:
    (tmp_path / "log.txt").write_text(log)
    lesson = teach(line, find_number(line, number), "metric m", tmp_path / "log.txt")
    assert str(lesson.rule) == rule
    assert dict(lesson.curves["m"])


def test_files_of_rules(tmp_path: Path) -> None:
    path = tmp_path / "train.rules.json"
    write_rules(path, ["a {metric ä}"])
    assert path.read_text() == '{\n  "version": 1,\n  "rules": [\n    "a {metric ä}"\n  ]\n}\n'
    assert read_rules(path) == ("a {metric ä}",)
    for content in ("[]", "{", '{"rules": [1]}', '{"rules": ["x"]}', '{"version": 9, "rules": []}'):
        path.write_text(content)
        with pytest.raises(ValueError, match=str(path)):
            read_rules(path)
    with pytest.raises(RunError, match="could not be written"):
        write_rules(tmp_path / "missing" / "rules.json", [])


def test_teaching_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without any curve is taught, read again, and the next run of the script uses the rule by itself."""
    (tmp_path / "rounds.py").write_text(f"print({ROUNDS!r}, end='')\n")
    run_dir = train(script_spec("rounds.py", cwd=tmp_path), tmp_path / "runs").run.dir
    line = ROUNDS.splitlines()[0]
    assert __main__.main(["try", str(run_dir), "--point", line, "9.000"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Rule: round {} of {} ~~ the deficit is    {metric deficit} ({} ms)",
        "It matches 9 lines of the log.",
        "deficit would have 9 values: from 9 at step 1 to 1 at step 9.",
        "Nothing was kept. --keep keeps the rule, and reads the curves of this run again.",
    ]
    assert __main__.main(["try", str(run_dir), "--point", line, "9.000", "--name", "cost", "--keep", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["matched"], document["reread"]) == (9, True)
    assert document["curves"]["cost"][1] == [2, 4.5]
    assert document["kept"] == str(tmp_path / "rounds.rules.json")
    run_series = folded(*Log(run_dir).read())
    assert run_series.metrics["cost"].values.tolist() == [round(9 / n, 3) for n in range(1, 10)]
    assert read_spec(run_dir).script.rules == tuple(document["rules"]), "`again` uses them, too"
    assert Run.attach(run_dir).spec().script.rules

    assert __main__.main(["try", str(run_dir), "--point", "1 and 1", "1", "--as", "step"]) == 2
    assert "The line '1 and 1' has the number 1 2 times. Write 1#1 for the first." in capsys.readouterr().err
    assert script_spec("rounds.py", cwd=tmp_path).script.rules == tuple(document["rules"])
    assert script_spec("rounds.py", cwd=tmp_path, rules="none").script.rules == ()
    with pytest.raises(ValueError, match=r"missing\.json cannot be read"):
        script_spec("rounds.py", cwd=tmp_path, rules="missing.json")
    with pytest.raises(ValueError, match="cannot be used together"):
        script_spec("rounds.py", cwd=tmp_path, rules="rounds.rules.json", expression="(?P<loss>x)")
    again = train(script_spec("rounds.py", cwd=tmp_path), tmp_path / "runs")
    assert again.run_series.metrics["cost"].count == 9
