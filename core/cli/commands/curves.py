"""The commands `import`, `reread` and `try`: curves of other programs, and of the output of scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.cli.output import answer, say, say_json, say_table, warn
from core.cli.runs import find
from core.history import index
from core.language import tr, tr_plural
from core.metrics.rules import EPOCH, NO_METRIC, STEP
from core.metrics.text import expression
from core.table import aligned

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.metrics.reread import Result


ROLES = ("metric", STEP, EPOCH, NO_METRIC)


def reread(options: Namespace) -> int:
    """Read the curves of a script's run again from its log and files, and replace the recorded ones."""
    from core.metrics import reread as rereading  # loads numpy

    run_dir = index.find(options.runs, options.run)
    result = rereading.reread(run_dir)
    names = sorted({*result.before, *result.after})
    counts = {name: {"before": result.before.get(name, 0), "after": result.after.get(name, 0)} for name in names}
    if options.json:
        say_json({
            "run": run_dir.name, "metrics": counts, "kept": list(result.kept), "times": asdict(result.times),
            "troubles": list(result.troubles),
        })
        return 0
    if not names:
        say(tr("No measurement was found in its output or files, and none was recorded before."))
        return 0
    rows = [(name, *map(str, values.values())) for name, values in counts.items()]
    say_table([(tr("METRIC"), tr("BEFORE"), tr("AFTER")), *rows])
    for sentence in (*_notes_on(result), *result.troubles):
        say(sentence, lines=True)
    return 0


def _notes_on(result: Result) -> Iterator[str]:
    """Yield what should be known of the times of the values, and of the curves that were kept."""
    if result.times.interpolated:
        yield tr_plural(
            "The time of {count} row of values is not recorded; it was placed between its neighbours.",
            "The times of {count} rows of values are not recorded; they were placed between their neighbours.",
            result.times.interpolated,
        )
    if result.times.spread:
        yield tr_plural("No time is recorded for {count} row of values; it was placed in the middle of the run.",
                        "No time is recorded for {count} rows of values; they were spread evenly over the run.",
                        result.times.spread)
    if result.kept:
        names = ", ".join(result.kept)
        yield tr("Kept as recorded, since the file they come from cannot be read any more: {names}.", names=names)


def add_expression(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "expression", metavar="REGEX", nargs="?", default="",
        help=tr("a regular expression with a named group for each metric: (?P<loss>\\S+)"),
    )
    add(
        "--point", nargs=2, metavar=("LINE", "NUMBER"),
        help=tr("a line of the log and a number in it: show the rule that reads it, and the curve that it gives"),
    )
    add("--name", metavar="NAME", help=tr("the name of the metric; default: the words before the number"))
    add("--as", dest="role", choices=ROLES, default="metric",
        help=tr("what the number is: {roles}", roles=", ".join(ROLES)))
    add(
        "--rules", metavar="FILE", default="",
        help=tr("the file in which --keep keeps the rule; default: SCRIPT.rules.json beside the script"),
    )
    add("--keep", action="store_true", help=tr("keep the rule, and read the curves of this run again with it"))


def try_expression(options: Namespace) -> int:
    """Show what an expression would read from the end of a run's log, or what a number in the log would give."""
    if options.point:
        if options.expression:
            raise ValueError(tr("Give an expression or --point, not both."))
        return _point(options)
    if not options.expression:
        raise ValueError(tr("Give a regular expression, or --point LINE NUMBER."))
    run = find(options)
    result = expression.try_expression(options.expression, run.dir)
    if options.json:
        say_json({
            "run": run.id, "lines": result.lines, "matched": result.matched, "problem": result.problem,
            "readings": [{"step": each.step, "epoch": each.epoch, "values": each.values} for each in result.readings],
        })
    else:
        say(expression.describe_result(result), lines=True)
    return 0


def _point(options: Namespace) -> int:
    """Show the rule for a number that the user points at, and the curve that it gives; keep it if that was asked."""
    from core.metrics import teaching  # loads numpy

    run = find(options)
    line, number = options.point
    teacher = teaching.Teacher(run.dir)
    position = teaching.find_number(line, number)
    role = options.role
    if role == "metric":
        role = teaching.metric(options.name or teacher.propose_name(line, position))
    lesson = teacher.teach(line, position, role)
    kept = teacher.keep(lesson, options.rules) if options.keep else None
    if options.json:
        say_json({
            "run": run.id, "rule": str(lesson.rule), "rules": [str(rule) for rule in lesson.rules],
            "matched": lesson.matched,
            "curves": {name: list(map(list, points)) for name, points in lesson.curves.items()},
            "problems": list(lesson.problems), "kept": str(kept.path) if kept else None,
            "reread": kept is not None and kept.reread is not None,
        })
        return 0
    say(tr("Rule: {rule}", rule=str(lesson.rule)), lines=True)
    for sentence in (*teaching.describe(lesson), *lesson.problems):
        say(sentence, lines=True)
    if kept is None:
        say(tr("Nothing was kept. --keep keeps the rule, and reads the curves of this run again."))
        return 0
    say(teaching.describe_kept(kept), lines=True)
    return 0


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+",
        help=tr("a folder with TensorBoard event files or tables, or one such file (.csv, .tsv, .jsonl)"),
    )


def import_paths(options: Namespace) -> int:
    """Import curves of other programs as runs to compare: TensorBoard event files, CSV tables, JSON lines."""
    from core.metrics import import_curves  # loads numpy

    rows: list[dict[str, Any]] = []
    for path in options.paths:
        found = import_curves.find_runs(Path(path))
        is_alone = len(found) == 1 and not found[0].beside
        while found:
            each = found.pop(0)
            try:
                made = import_curves.import_run(each, options.runs)
            except ValueError as error:
                if is_alone:
                    raise
                warn(str(error))
                found[:0] = each.beside
                continue
            for sentence in (*(other.left_out for other in each.beside), *made.notices):
                warn(sentence)
            rows.append({"run": made.run_dir.name, "source": str(made.source), "metrics": made.values})
    if not rows:
        raise ValueError(tr("Nothing was imported."))
    headings = [tr("RUN"), tr("METRICS"), tr("VALUES"), tr("SOURCE")]
    lines = [[each["run"], str(len(each["metrics"])), str(sum(each["metrics"].values())), each["source"]]
             for each in rows]
    return answer(options, rows, *aligned([headings, *lines]))
