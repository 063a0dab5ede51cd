"""The commands `runs`, `show`, `rename` and `try`: list runs, show or rename one, try an expression on its log."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import framework_title
from core.catalog.strategies import strategy_of
from core.cli.commands.common import find
from core.cli.output import (
    failure_words,
    log_of,
    lost_remedy,
    no_measurement,
    release_lines,
    say,
    say_json,
    say_rows,
    warn,
)
from core.language import tr, tr_noop, tr_plural, tr_stored
from core.runs import index, outputs, rename
from core.runs.model_parts import part_sentences
from core.runs.states import state_info
from core.runs.timeline import Timeline
from core.schema.spec import given_name
from core.series import report
from core.text import short
from core.units import BYTES_PER_MB, disk

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from core.runs.facts import RunFacts
    from core.runs.run import Run
    from core.runs.run_loss import RunLoss
    from core.schema.spec import RunSpec

SIGNS = {"warn": "!", "bad": "x"}
"""What marks an event that is not as it should be."""


def list_runs(options: Namespace) -> int:
    """List all runs, newest first."""
    summaries = index.RunIndex(options.runs).poll()
    rows: list[dict[str, object]] = [
        {
            "run": each.dir.name, "dir": str(each.dir), "name": each.name, "state": each.state.value,
            "started": each.started, "ended": each.ended, "step": each.step, "loss": each.last_loss,
            "error": each.error, "owner": each.owner, "mean_loss": each.mean_loss,
            "best_validation_loss": each.best_validation[1] if each.best_validation else None,
        }
        for each in summaries
    ]  # fmt: skip
    if not options.json:  # people compare runs by the loss; programs get all of them
        for row, each in zip(rows, summaries, strict=True):
            row["loss"] = _loss_text(each.loss)
            row["state"] = tr(state_info(each.state).label).lower()
    if not rows and not options.json:
        where = tr("There are no runs in {runs}", runs=options.runs)
        warn(
            tr("{where} yet.", where=where)
            if options.runs.exists()
            else tr("There is no folder {runs}, so there are no runs yet.", runs=options.runs)
        )
    columns: tuple[str, ...] = ("run", "state", "step", "loss")
    if any(given_name(Path(str(row["dir"]))) for row in rows):
        columns = (*columns, "name")
    return say_rows(options, rows, (*columns, "owner") if any(row["owner"] for row in rows) else columns)


def _loss_text(loss: RunLoss | None) -> str:
    """Return `val. 0.306` for the best validation loss; without a validation the smoothed last loss, `0.214`."""
    if loss is None:
        return short(None)
    return tr("val. {loss}", loss=short(loss.value)) if loss.is_validation else short(loss.value)


def add_events(parser: ArgumentParser) -> None:
    """Add the option of `show`."""
    parser.add_argument("--events", action="store_true", help=tr("show what happened in the run, one line a thing"))


def add_name(parser: ArgumentParser) -> None:
    """Add the argument of `rename`."""
    parser.add_argument("name", metavar="NAME", help=tr("the new name; the folder of the run keeps its own"))


def rename_run(options: Namespace) -> int:
    """Give a run of your own another name, which lists and the window show."""
    run = find(options)
    name = rename.rename(run.dir, options.name)
    if options.json:
        say_json({"run": run.id, "name": name})
    else:
        say(tr("{id} is now called {name}.", id=run.id, name=name))
    return 0


def show(options: Namespace) -> int:
    """Show a run: its state, metrics, checkpoints, device memory and errors."""
    run = find(options)
    if options.events:
        return _show_events(options, run)
    document = report.document(run)
    if options.json:
        say_json(document)
        return 0
    say(_heading(run))
    if run.owner:
        say(tr("  It belongs to {owner}.", owner=run.owner))
    say(f"  {_training(run.spec())}")
    for line in _measurement_lines(run, document):
        say(f"  {line}")
    for each in document["checkpoints"]:
        written = tr("{size:.1f} MB ({reason})", size=each["bytes"] / BYTES_PER_MB, reason=_reason(each["reason"]))
        say(tr("  checkpoint {name}: step {step}, {written}", name=each["name"], step=each["step"], written=written))
    for line in (*_output_lines(run.dir), *_part_lines(run.facts), *release_lines(run.facts)):
        say(f"  {line}")
    for sentence in _sentences(run):
        say(f"  {tr_stored(sentence)}".replace("\n", "\n    "), lines=True)
    return 0


def _reason(reason: object) -> str:
    """Return why a checkpoint was written, in the language in use."""
    return tr(REASONS.get(str(reason), short(reason)))


REASONS = {
    "asked": tr_noop("asked"), "auto": tr_noop("auto"), "end": tr_noop("end"), "epoch": tr_noop("epoch"),
    "error": tr_noop("error"),
    "minutes": tr_noop("minutes"), "pause": tr_noop("pause"), "steps": tr_noop("steps"),
}  # fmt: skip


def _heading(run: Run) -> str:
    label = tr(state_info(run.facts.state).label).lower()
    return tr_plural(
        "{id}: {label}, {count} step", "{id}: {label}, {count} steps", run.facts.step, id=run.id, label=label
    )


def _measurement_lines(run: Run, document: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each metric, or that none was found."""
    for name, values in document["metrics"].items():
        yield tr(
            "{name}: last {last}, smallest {smallest}, {count}", name=name, last=short(values["last"]),
            smallest=short(values["min"]), count=tr_plural("{count} value", "{count} values", values["count"]),
        )  # fmt: skip
    if not document["metrics"] and (sentences := no_measurement(run)):
        yield from sentences.split("\n")


def _sentences(run: Run) -> Iterator[str]:
    """Yield what a user should know: why the run failed, what is wrong with it, and what to do."""
    facts = run.facts
    words, log = (failure_words(run), log_of(run)) if facts.error else (None, None)
    momentary = (facts.stopped_processes, facts.stalled, *facts.slowed.values())
    yield from filter(None, (facts.error, words, *momentary, *facts.warnings, log, lost_remedy(run)))


def _show_events(options: Namespace, run: Run) -> int:
    """Print what happened in the run, or return it as one JSON document."""
    spec = run.spec()
    timeline = Timeline(spec, framework_title(spec.framework), max_entries=None)
    timeline.fold(run.catch_up())
    timeline.follow(run.facts)
    if options.json:
        entries = [{"time": each.time, "tone": each.tone, "text": each.text} for each in timeline.entries]
        say_json({"run": run.id, "state": run.facts.state.value, "events": entries})
        return 0
    for each in timeline.entries:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.time))
        say(f"{when}  {SIGNS.get(each.tone, ' ')} {' '.join(each.text.splitlines())}")
    return 0


def _output_lines(run_dir: Path) -> Iterator[str]:
    """Yield a line about the files that functions of the recipe have written, if there are any."""
    found = outputs.listed(run_dir)
    if not found.files:
        return
    count = tr_plural("{count} file", "{count} files", len(found.files))
    yield tr(
        "outputs: {count}, {size}, newest {newest}",
        count=count if found.is_complete else tr("more than {count}", count=count),
        size=disk(found.size_bytes),
        newest=found.files[0].name,
    )


def _part_lines(facts: RunFacts) -> list[str]:
    """Return what each device holds of the model, where a strategy divides it."""
    labels = {name: str(fields.get("label", name)) for name, fields in facts.devices.items()}
    found = part_sentences(facts.parts.values(), labels)
    return [tr("{label} holds {sentence}", label=label, sentence=sentence) for label, sentence in found]


def _training(spec: RunSpec) -> str:
    """Return what is trained, how, and on which devices."""
    devices = ", ".join(spec.devices)
    if spec.imported:
        return tr("imported from {path}", path=spec.imported)
    if spec.script is None:
        return tr(
            "{framework} {strategy} on {devices}, recipe {path}",
            framework=spec.framework,
            strategy=spec.strategy,
            devices=devices,
            path=spec.own_recipe.path,
        )
    command = shlex.join([spec.python, *spec.script.command])
    return tr(
        "script on {devices}, {launch}: {command} in {folder}",
        devices=devices,
        launch=tr(strategy_of(spec).title).lower(),
        command=command,
        folder=spec.working_dir,
    )
