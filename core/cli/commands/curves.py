"""The commands `reread` and `try`: how the curves of a script's run are read from what it printed and wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.cli.commands.common import find
from core.cli.output import say, say_json, say_table
from core.language import tr, tr_plural
from core.metrics import expression_trial
from core.runs import index

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.metrics.reread import Result, Times


def reread(options: Namespace) -> int:
    """Read the curves of a script's run anew from its log and files, and replace the recorded ones."""
    from core.metrics import reread as rereading  # loads numpy

    run_dir = index.find(options.runs, options.run)
    result = rereading.reread(run_dir)
    if options.json:
        say_json({
            "run": run_dir.name,
            "metrics": {
                name: {"before": before, "after": after} for name, before, after in _counts(result)
            },
            "kept": list(result.kept), "times": result.times.to_json(), "troubles": list(result.troubles),
        })  # fmt: skip
        return 0
    rows = [(name, str(before), str(after)) for name, before, after in _counts(result)]
    if not rows:
        say(tr("No measurement was found in its output or files, and none was recorded before."))
        return 0
    say_table([(tr("METRIC"), tr("BEFORE"), tr("AFTER")), *rows])
    for sentence in (*_about_times(result.times), *_about_kept(result), *result.troubles):
        say(sentence, lines=True)
    return 0


def _counts(result: Result) -> list[tuple[str, int, int]]:
    """Return name, values before and values after of each metric."""
    names = sorted({*result.before, *result.after})
    return [(name, result.before.get(name, 0), result.after.get(name, 0)) for name in names]


def _about_times(times: Times) -> list[str]:
    sentences = []
    if times.interpolated:
        sentences.append(
            tr_plural(
                "The time of {count} row of values is not recorded; it was placed between its neighbours.",
                "The times of {count} rows of values are not recorded; they were placed between their neighbours.",
                times.interpolated,
            )
        )
    if times.spread:
        sentences.append(
            tr_plural(
                "No time is recorded for {count} row of values; it was placed in the middle of the run.",
                "No time is recorded for {count} rows of values; they were spread evenly over the run.",
                times.spread,
            )
        )
    return sentences


def _about_kept(result: Result) -> list[str]:
    if not result.kept:
        return []
    names = ", ".join(result.kept)
    return [tr("Kept as recorded, since the file they come from cannot be read any more: {names}.", names=names)]


def add_expression(parser: ArgumentParser) -> None:
    """Add the argument of `try`."""
    parser.add_argument(
        "expression",
        metavar="REGEX",
        help=tr("a regular expression with a named group for each metric: (?P<loss>\\S+)"),
    )


def try_expression(options: Namespace) -> int:
    """Show what an expression for `run --expression` would read from the end of a run's log."""
    run = find(options)
    result = expression_trial.try_expression(options.expression, run.dir)
    if options.json:
        say_json({
            "run": run.id, "lines": result.lines, "matched": result.matched, "problem": result.problem,
            "readings": [{"step": each.step, "epoch": each.epoch, "values": each.values} for each in result.readings],
        })  # fmt: skip
    else:
        say(expression_trial.describe_result(result), lines=True)
    return 0
