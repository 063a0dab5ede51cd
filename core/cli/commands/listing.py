"""The commands `runs`, `show`, `log`, `rename` and `mark`: list and search runs, show one, rename or mark it."""

from __future__ import annotations

import shlex
import time
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.catalog.frameworks import framework_title
from core.catalog.strategies import strategy_of
from core.cli.logs import RankLog, ranks_with_log
from core.cli.options import INTERRUPTED
from core.cli.output import (
    ONE_DOCUMENT,
    add_force,
    add_table_options,
    answer,
    check_files,
    ending,
    failure_words,
    given_files,
    log_of,
    loss_of,
    lost_remedy,
    no_measurement,
    release_lines,
    say,
    say_json,
    say_rows,
    show_passing,
    state_words,
    warn,
    write_tables,
)
from core.cli.runs import POLL_S, all_runs, find
from core.config.validation import rate_arithmetic
from core.diagnosis.timeline import Timeline
from core.history import marks
from core.history.differences import Differences
from core.history.marks import Marks
from core.history.search import parse_search, unknown_sentence
from core.history.summary import SWEEP, RunLoss, RunSummary
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.queue.listing import why_it_waits
from core.runs import outputs
from core.runs.facts import RunState, part_sentences, state_info
from core.runs.run import Run
from core.schema.paths import SUPERVISOR_EVENTS
from core.schema.spec import RunSpec
from core.series import report
from core.table import Column
from core.text import BYTES_PER_MB, disk, join_names, join_phrases, short

SIGNS = {"warn": "!", "bad": "x"}
"""What marks an event that is not as it should be."""


def add_search(parser: ArgumentParser) -> None:
    parser.add_argument(
        "search", metavar="FILTER", nargs="*",
        help=tr("words of names, tags and notes, and conditions: state:failed 'lr<1e-3' tag:baseline sort:-loss"),
    )
    add_table_options(parser.add_argument)
    add_force(parser.add_argument)


def list_runs(options: Namespace) -> int:
    """List runs, newest first: all that are not archived, or those that a search finds."""
    check_files(options)
    search = parse_search(" ".join(options.search))
    every = all_runs(options.runs)
    if every and (unknown := search.unknown_keys(every)):
        raise ValueError(unknown_sentence(unknown))
    summaries = search.find(every)
    write_tables(options, lambda: report.runs_table(summaries))
    if not options.json:
        _say_what_is_missing(options, every, summaries)
        if given_files(options):
            return 0
    return say_rows(options, run_columns(summaries, Differences(every)), summaries)


def run_columns(summaries: Sequence[RunSummary], differences: Differences) -> tuple[Column[RunSummary], ...]:
    """Return what is listed of each run. People compare runs by the loss; programs get all of them."""
    shows_name = any(each.renamed for each in summaries)
    return (
        Column("run", lambda each: each.dir.name),
        Column("dir", lambda each: str(each.dir), None),
        Column("state", lambda each: each.state.value, text=lambda each: state_words(each.state)),
        Column("started", lambda each: each.started, None),
        Column("ended", lambda each: each.ended, None),
        Column("step", lambda each: each.step),
        Column("loss", lambda each: each.loss and each.loss.value, text=lambda each: _loss_text(each.loss)),
        Column("kept_loss", lambda each: each.loss and each.loss.kept, None),
        Column("last_loss", lambda each: each.last_loss, None),
        Column("mean_loss", lambda each: each.mean_loss, None),
        Column("best_validation_loss", lambda each: each.best_validation and each.best_validation[1], None),
        Column("difference", differences.words, text=lambda each: differences.words(each) or None),
        Column(SWEEP, lambda each: each.settings.get(SWEEP), is_optional=True),
        Column("name", lambda each: each.name, "" if shows_name else None),
        Column(
            "marks",
            text=lambda each: " ".join([*(["*"] if each.marks.star else []), *each.marks.tags]) or None,
            is_optional=True,
        ),
        Column("star", lambda each: each.marks.star, None),
        Column("archived", lambda each: each.marks.archived, None),
        Column("tags", lambda each: list(each.marks.tags), None),
        Column("owner", lambda each: each.owner, is_optional=True),
        Column("error", lambda each: each.error, None),
    )


def _say_what_is_missing(options: Namespace, every: Sequence[RunSummary], found: Sequence[RunSummary]) -> None:
    """Say why no run is listed, or that archived ones are not."""
    if not every and options.runs.exists():
        warn(tr("{where} yet.", where=tr("There are no runs in {runs}", runs=options.runs)))
    elif not every:
        warn(tr("There is no folder {runs}, so there are no runs yet.", runs=options.runs))
    elif not found and options.search:
        warn(tr_plural("The search fits none of the {count} run.", "The search fits none of the {count} runs.",
                       len(every)))
    archived = 0 if options.search else sum(each.marks.archived for each in every)
    if archived:
        warn(tr_plural("{count} archived run is not listed; archived:yes lists it.",
                       "{count} archived runs are not listed; archived:yes lists them.", archived))


def _loss_text(loss: RunLoss | None) -> str:
    """Return `val. 0.306` for the best validation loss; without a validation the smoothed last loss, `0.214`."""
    text = short(loss and loss.value)
    return loss.with_kept(tr("val. {loss}", loss=text)) if loss and loss.is_validation else text


def add_events(parser: ArgumentParser) -> None:
    parser.add_argument("--events", action="store_true", help=tr("show what happened in the run, one line a thing"))


def add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=tr("the new name; the folder of the run keeps its own"))


def rename_run(options: Namespace) -> int:
    """Give a run of your own another name, which lists and the window show."""
    run = find(options)
    name = marks.rename(run.dir, options.name)
    return answer(options, {"run": run.id, "name": name}, tr("{id} is now called {name}.", id=run.id, name=name))


def add_marks(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--star", action=BooleanOptionalAction, help=tr("give it a star, or take it away"))
    add("--tag", metavar="TAG", action="append", default=[], help=tr("add a tag; may be repeated"))
    add("--untag", metavar="TAG", action="append", default=[], help=tr("remove a tag; may be repeated"))
    add("--note", metavar="TEXT", default="", help=tr("add a note; notes are only added"))
    add("--archive", action=BooleanOptionalAction, help=tr("leave it out of lists, or list it again"))


def mark_run(options: Namespace) -> int:
    """Give a run of your own a star, tags or a note, or archive it; without options, show what it has."""
    run = find(options)
    found = marks.change_marks(
        run.dir, star=options.star, archived=options.archive, add_tags=options.tag, remove_tags=options.untag,
        note=options.note,
    )
    lines = _mark_lines(found) or [tr("It has no marks.")]
    return answer(options, {"run": run.id, **marks.marks_fields(found)}, *lines)


def _mark_lines(found: Marks) -> list[str]:
    """Return a line for the star, tags and archive of a run, and one for each note."""
    tags = tr_plural("the tag {tags}", "the tags {tags}", len(found.tags), tags=", ".join(found.tags))
    has = ((tr("a star"), found.star), (tags, found.tags), (tr("a place in the archive"), found.archived))
    kinds = [words for words, is_there in has if is_there]
    lines = [tr("It has {marks}.", marks=join_names(kinds))] if kinds else []
    for note in found.notes:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(note.time))
        lines.append(tr("Note of {time}: {text}", time=when, text=" ".join(note.text.split())))
    return lines


def show(options: Namespace) -> int:
    """Show a run: its state, metrics, checkpoints, device memory and errors."""
    run = find(options)
    if options.events:
        return _show_events(options, run)
    document = report.document(run)
    if options.json:
        say_json(document)
        return 0
    say(tr_plural("{id}: {label}, {count} step", "{id}: {label}, {count} steps", run.facts.step, id=run.id,
                  label=state_words(run.facts.state)))
    if run.owner:
        say(tr("  It belongs to {owner}.", owner=run.owner))
    for line in _mark_lines(marks.read_marks(run.dir)):
        say(f"  {line}")
    say(f"  {_training(run.spec())}")
    if scaled := rate_arithmetic(run.spec().training):
        say(tr("  learning rate: {product}", product=scaled))
    loss = loss_of(run)
    for line in (*([loss.words()] if loss else []), *_measurement_lines(run, document)):
        say(f"  {line}")
    for each in document["checkpoints"]:
        reason = tr(REASONS.get(str(each["reason"]), short(each["reason"])))
        written = tr("{size:.1f} MB ({reason})", size=each["bytes"] / BYTES_PER_MB, reason=reason)
        say(tr("  checkpoint {name}: step {step}, {written}", name=each["name"], step=each["step"], written=written))
    labels = {name: str(fields.get("label") or name) for name, fields in run.facts.devices.items()}
    parts = part_sentences(run.facts.parts.values(), labels)
    held = [tr("{label} holds {sentence}", label=label, sentence=sentence) for label, sentence in parts]
    slow = document["why_slow"]
    steps = [tr("steps: {sentence}", sentence=slow["sentence"])] * (slow["seconds"] is not None)
    for line in (*_output_lines(run.dir), *held, *steps, *release_lines(run.facts)):
        say(f"  {line}")
    for sentence in _sentences(run):
        say(f"  {tr(sentence)}".replace("\n", "\n    "), lines=True)
    return 0


def why_slow(options: Namespace) -> int:
    """Say where the time of the steps of a run goes, and why they are slow."""
    run = find(options)
    found = report.document(run)["why_slow"]
    parts = [tr("{part} {ms:.3g} ms", part=tr(part), ms=1000 * seconds)
             for part, seconds in {"step": found["seconds"], **found["parts"]}.items() if seconds is not None]
    return answer(options, {"run": run.id, **found}, found["sentence"], *filter(None, [join_phrases(parts)]))


REASONS = {
    "asked": tr_noop("asked"), "auto": tr_noop("auto"), "end": tr_noop("end"), "epoch": tr_noop("epoch"),
    "error": tr_noop("error"), "minutes": tr_noop("minutes"), "pause": tr_noop("pause"), "steps": tr_noop("steps"),
}


def _measurement_lines(run: Run, document: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each metric, or that none was found."""
    for name, values in document["metrics"].items():
        yield tr(
            "{name}: last {last}, smallest {smallest}, {count}", name=name, last=short(values["last"]),
            smallest=short(values["min"]), count=tr_plural("{count} value", "{count} values", values["count"]),
        )
    if not document["metrics"] and (sentences := no_measurement(run)):
        yield from sentences.split("\n")


def _sentences(run: Run) -> Iterator[str]:
    """Yield what a user should know: why the run failed, what is wrong with it, and what to do."""
    facts = run.facts
    if facts.state is RunState.QUEUED and run.owner is None:
        yield why_it_waits(run.dir)
    words, log = (failure_words(run), log_of(run)) if facts.error else (None, None)
    momentary = (facts.stopped_processes, facts.stalled, *facts.slowed.values())
    yield from dict.fromkeys(filter(None, (facts.error, words, *momentary, *facts.warnings, log, lost_remedy(run))))


def _show_events(options: Namespace, run: Run) -> int:
    """Print what happened in the run, or return it as one JSON document."""
    spec = run.spec()
    timeline = Timeline(spec, framework_title(spec.framework), max_entries=None)
    for events in run.every_slice():
        timeline.fold(events)
    timeline.follow(run.facts)
    if options.json:
        entries = [{"time": each.time, "tone": each.tone, "text": each.text} for each in timeline.entries]
        say_json({"run": run.id, "state": run.facts.state.value, "events": entries})
        return 0
    for each in timeline.entries:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.time))
        say(f"{when}  {SIGNS.get(each.tone, ' ')} {' '.join(each.text.splitlines())}")
    return 0


def add_log(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help=tr("go on until the run is over; Ctrl-C does not stop the run"))
    add("--rank", type=int, metavar="N", help=tr("only what this rank has printed"))
    add("--tail", type=int, metavar="N", help=tr("begin with the last N lines of each log"))


def log(options: Namespace) -> int:
    """Print what a run has printed, of progress bars the last state; with -f, until the run is over."""
    if (options.tail or 0) < 0:
        raise ValueError(tr("--tail is {tail}. Give a whole number of at least 0.", tail=options.tail))
    if options.json and options.follow:
        raise ValueError(tr(ONE_DOCUMENT, option="--follow"))
    run = Run(find(options).dir, only=(SUPERVISOR_EVENTS,))  # all events of a long run take seconds
    run.catch_up()
    ranks, may_come = ranks_with_log(run.dir), options.follow and not state_info(run.facts.state).over
    if options.rank is not None and options.rank not in ranks and not may_come:
        raise ValueError(tr("Run {id} has no log of rank {rank}. It has those of: {ranks}.", id=run.id,
                            rank=options.rank, ranks=", ".join(map(str, ranks))))
    if options.json:
        logs = {rank: RankLog(run.dir, rank) for rank in ranks if options.rank in {None, rank}}
        found = {rank: deque(each.new_lines(is_last=True), options.tail) for rank, each in logs.items()}
        say_json({"run": run.id, "logs": [{"rank": rank, "lines": [*lines]} for rank, lines in found.items()]})
        return 0
    if run.facts.state is RunState.QUEUED:
        warn(join_sentences([f"{ending(run)}.", why_it_waits(run.dir) if run.owner is None else ""]))
    try:
        if not _print_log(options, run):
            warn(join_sentences([f"{ending(run)}.", tr("It printed nothing.")]))
    except KeyboardInterrupt:
        show_passing("")
        return INTERRUPTED
    return 0


def _print_log(options: Namespace, run: Run) -> bool:
    """Print the log, with `--follow` until the run is over; return whether there is any."""
    logs: dict[int, RankLog] = {}
    tail, passing, is_last = options.tail, "", False
    while not is_last:
        is_last = not options.follow or state_info(run.facts.state).over  # before reading
        for rank in ranks_with_log(run.dir) if options.rank is None else [options.rank]:
            if rank not in logs:
                logs[rank] = RankLog(run.dir, rank, only_end=tail is not None)
            name = f"[{tr('rank {rank}', rank=rank)}] " if rank and options.rank is None else ""
            lines = logs[rank].new_lines(is_last=is_last)
            for line in lines if tail is None else deque(lines, tail):
                passing = passing and show_passing("", passing)
                say(name + line)
        if not is_last:
            unfinished = next(filter(None, (each.unfinished for each in logs.values())), "")
            passing, tail = show_passing(unfinished, passing), None
            time.sleep(POLL_S)
            run.poll()
    return any(each.offset for each in logs.values())


def _output_lines(run_dir: Path) -> Iterator[str]:
    """Yield a line about the files that functions of the recipe have written, if there are any."""
    found = outputs.listed(run_dir)
    if not found.files:
        return
    count = tr_plural("{count} file", "{count} files", len(found.files))
    yield tr("outputs: {count}, {size}, newest {newest}",
             count=count if found.is_complete else tr("more than {count}", count=count), size=disk(found.size_bytes),
             newest=found.files[0].name)


def _training(spec: RunSpec) -> str:
    """Return what is trained, how, and on which devices."""
    devices = ", ".join(spec.devices)
    if spec.imported:
        return tr("imported from {path}", path=spec.imported)
    if spec.script is None:
        return tr("{framework} {strategy} on {devices}, recipe {path}", framework=spec.framework,
                  strategy=spec.strategy, devices=devices, path=spec.own_recipe.path)
    return tr(
        "script on {devices}, {launch}: {command} in {folder}",
        devices=devices, launch=tr(strategy_of(spec).title).lower(),
        command=shlex.join([spec.python, *spec.script.command]), folder=spec.working_dir,
    )
