"""Print answers to stdout and messages to stderr; write tables, reports and plots to files.

The only module of the command line that prints or asks.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.diagnosis.causes import LOG_BYTES
from core.diagnosis.failures import failure_of
from core.diagnosis.program_output import TRACEBACK, as_printed
from core.history.summary import RunLoss, SummaryReader
from core.language import join_sentences, tr, tr_noop
from core.runs.directory import printed_logs
from core.runs.facts import RunFacts, RunState, state_info, worst
from core.runs.fold import ENDED_BY
from core.runs.run import Run, folders_mark
from core.schema.event_kinds import Verdict, shortened
from core.series import report
from core.series.report import check_free, export_bytes
from core.table import Column, Row, Table, aligned, cut_to_columns, wrap
from core.text import first_names, join_phrases, replace_control_characters, size

if TYPE_CHECKING:
    from core.results.chart import Chart

    Add = Callable[..., object]


ONE_DOCUMENT = tr_noop("--json prints one document, and cannot go on. Leave out --json or {option}.")
MAX_PROCESSES = 20
"""Processes that were ended, of which `show` prints a line each."""


def say(text: str, *, lines: bool = False) -> None:
    """Print a line of the answer to stdout; only with `lines` may it be several, else a name could pose as a line."""
    print(replace_control_characters(text, keep="\n\t" if lines else "\t"))


def show_passing(text: str, shown: str | None = None) -> str:
    """Show a text on the terminal that the next one replaces, and return it as shown; without a terminal, nothing.

    `shown`: what is shown, if that is known.
    """
    if not sys.stdout.isatty():
        sys.stdout.flush()
        return ""
    text = _cut(text)
    if text != shown:  # of a line that wraps, only the last row could be replaced
        print(f"\r\033[K{text}", end="", flush=True)
    return text


def _cut(text: str) -> str:
    """Return a text that fits in a line of the terminal."""
    return cut_to_columns(replace_control_characters(text), shutil.get_terminal_size().columns - 1)


def show_screen(tables: Iterable[Table[Any]], notes: Iterable[str]) -> None:
    """Show tables below each other: on a terminal as many rows as have room, in the place of the screen before.

    The first screen moves what is there out of sight. Nothing has to be restored.
    """
    is_terminal, (width, height) = sys.stdout.isatty(), shutil.get_terminal_size()
    parts = [aligned(table.cells()) for table in tables if table.rows]
    head = [time.strftime("%Y-%m-%d %H:%M:%S"), *(line for note in notes for line in wrap(note, width - 1))]
    limits = [len(part) for part in parts]
    while is_terminal and sum(limits) + len(parts) + len(head) > height and max(limits, default=0) > 2:
        limits[limits.index(max(limits))] -= 1
    for part, limit in zip(parts, limits, strict=True):
        head += ["", *(part if limit == len(part) else first_names(part, limit - 1))]
    if is_terminal:
        print("\033[H" + "\033[K\n".join(map(_cut, head[:height])), end="\033[J", flush=True)
        return
    for line in [*head, ""]:
        say(line)
    sys.stdout.flush()


def warn(text: str) -> None:
    """Print a message to stderr."""
    print("trainyard:", replace_control_characters(text, keep="\n\t"), file=sys.stderr)


def is_interactive() -> bool:
    """Return whether `confirm` can ask: input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on the terminal; no answer is a no."""
    try:
        return input(replace_control_characters(f"{question} [y/N] ", keep="\n")).strip().lower() in {"y", "yes"}
    except EOFError:
        say("")
        return False


def confirm_removal(options: Namespace, question: str) -> bool:
    """Ask before something is removed, unless `--yes` is given. Raises `ValueError` without a terminal to ask on."""
    if options.yes:
        return True
    if options.json or not is_interactive():
        raise ValueError(
            tr("Nothing was removed: there is no terminal to confirm on. Add --yes to remove without asking.")
        )
    return confirm(question)


def say_json(document: object) -> None:
    """Print the one JSON document of a command with `--json`."""
    say(json.dumps(_finite(document), indent=2, allow_nan=False), lines=True)


def _finite(document: object) -> object:
    """Replace numbers that JSON does not have by the texts `nan`, `inf` and `-inf`."""
    if isinstance(document, float) and not math.isfinite(document):
        return str(document)
    if isinstance(document, dict):
        return {name: _finite(value) for name, value in document.items()}
    return [_finite(value) for value in document] if isinstance(document, (list, tuple)) else document


def answer(options: Namespace, document: object, *lines: str) -> int:
    """Print these lines, or with `--json` the document. Returns the exit code 0."""
    if options.json:
        say_json(document)
    else:
        for line in lines:
            say(line)
    return 0


def say_run(options: Namespace, run: Run, line: str) -> None:
    """Print this line; with `--json`, the document that `show --json` prints for the run."""
    if options.json:
        say_json(report.document(Run.attach(run.dir)))
    else:
        say(line)


def say_rows(options: Namespace, columns: Sequence[Column[Row]], rows: Sequence[Row]) -> int:
    """Print a table with headings, or with `--json` what programs read of each row. Returns the exit code 0."""
    table = Table(columns, rows)
    if options.json:
        say_json(table.documents())
    elif rows:
        say_table(table.cells())
    return 0


def say_table(lines: Sequence[Sequence[str]], indent: str = "") -> None:
    """Print lines of cells in aligned columns."""
    for line in aligned(lines):
        say(indent + line)


def state_words(state: RunState) -> str:
    """Return a state in words for the middle of a sentence."""
    return tr(state_info(state).label).lower()


def ending(run: Run) -> str:
    """Return a run's name and state."""
    return tr("{run}: {state}", run=run.id, state=state_words(run.facts.state))


def loss_of(run: Run) -> RunLoss | None:
    """Return the loss of a run as lists have it."""
    return SummaryReader(run.dir).summary(folders_mark(run.dir), None).loss


def outcome(run: Run) -> str:
    """Return a run's name and state, its loss, and the verdict on its devices' memory."""
    parts = [ending(run)]
    if (loss := loss_of(run)) is not None:
        parts.append(loss.words())
    if release := worst(run.facts.releases.values()):
        parts.append(tr("memory {verdict}", verdict=tr(release.verdict.value)))
    return join_phrases(parts)


def failure_words(run: Run) -> str | None:
    """Return where in the user's code a run failed, and what helps if its error does not say so; None if unknown."""
    failure = failure_of(run.facts, run.spec(), log_end=run.log_end(LOG_BYTES)) if run.facts.error else None
    if failure is None:
        return None
    helps = [failure.sentence] if failure.is_explained else []
    place = [] if failure.place is None else [tr("It was raised in {place}.", place=failure.place)]
    return join_sentences([*helps, *place]) or None


def log_of(run: Run) -> str | None:
    """Return where the log of a failed run is, in a sentence; None if nothing was printed."""
    logs = ", ".join(str(path) for path in printed_logs(run.dir))
    if logs and run.facts.traceback:
        return tr("The traceback and all output of the run are in {logs}.", logs=logs)
    return tr("All output of the run is in {logs}.", logs=logs) if logs else None


def lost_remedy(run: Run) -> str | None:
    """Return what to do about a lost run, in a sentence; None for any other."""
    if run.facts.state is not RunState.LOST:
        return None
    if run.spec().script is None:
        return tr("Resume it: trainyard resume {id}", id=replace_control_characters(run.id))
    return tr("Start it again: trainyard again {id}", id=replace_control_characters(run.id))


def warn_of_failure(followed: Run) -> None:
    """Print why a run has failed or was lost, and what helps; nothing for any other."""
    if not followed.facts.error:
        return
    # The error of a lost run ends with lines of its log. They are indented, so that none poses as another line.
    error = tr(followed.facts.error).replace("\n", "\n    ")
    sentences = (error, failure_words(followed), log_of(followed), lost_remedy(followed))
    if followed.facts.state is RunState.LOST:
        warn("\n".join(sentence for sentence in sentences if sentence))
    else:
        warn(join_sentences(sentences))


def no_measurement(run: Run) -> str | None:
    """Return sentences on a script without any measurement; None for a recipe, and unless the run has trained.

    They quote its last line, and lines with numbers that were not understood.
    """
    if run.spec().script is None or run.facts.state not in {RunState.FINISHED, RunState.STOPPED}:
        return None
    log_end = run.log_end(LOG_BYTES)
    last, lines = replace_control_characters(last_line(log_end)), unread_lines(log_end)
    sentences = [tr("No measurement was found in its output or files; see docs/scripts.md, or use --expression.")]
    if not last:
        sentences.append(tr("It printed nothing."))
    elif not lines:
        sentences.append(tr("Its last line: {line}", line=last))
    else:
        quoted = [f"    {replace_control_characters(each.text)}" for each in lines]
        pointed = " ".join(shlex.quote(replace_control_characters(each)) for each in (lines[0].text, lines[0].number))
        sentences += [
            tr("Its last line: {line}", line=last),
            "\n".join([tr("These lines have numbers that were not understood:"), *quoted]),
            tr("Say which of them to plot: trainyard try {id} --point {pointed}", id=run.id, pointed=pointed),
        ]
    return "\n".join(sentences)


def release_lines(facts: RunFacts) -> list[str]:
    """Return the lines about the end: the memory of each device, and each process that was terminated."""
    lines = []
    for name, found in facts.releases.items():
        amounts = (found.before_bytes, found.peak_bytes, found.after_bytes)
        lines.append(
            tr(
                "memory of {label}: {verdict}, {steps} (before -> peak -> after), {after}",
                label=facts.devices.get(name, {}).get("label") or name, verdict=tr(found.verdict.value),
                steps=" -> ".join(size(each) if each is not None else "-" for each in amounts),
                after=tr("{seconds:.1f} s after the end", seconds=found.seconds),
            )
        )
        if found.verdict is not Verdict.RELEASED:
            lines.append(f"  {tr(found.sentence)}")
    for each in facts.ended_processes[:MAX_PROCESSES]:
        line = tr("ended by the {by}: {process} ({signal}) {command}", by=tr(ENDED_BY.get(each.by, each.by)),
                  process=f"pid {each.pid} {each.name or ''}".rstrip(), signal=each.signal,
                  command=shortened(each.command or "", 80))
        lines.append(line.rstrip())
    more = len(facts.ended_processes) - MAX_PROCESSES
    if more > 0:
        lines.append(tr("{more} more processes were ended; --json lists all of them.", more=more))
    return lines


TABLES, PLOTS = ("csv", "markdown"), ("svg", "png")
FILES = (*TABLES, "html", *PLOTS)
"""The options of which each names a file, or for plots a folder. A command may lack some of them."""


def add_table_options(add: Add) -> None:
    """Add the options that write a table to a file. `add`: the `add_argument` of a parser or a group."""
    add("--csv", metavar="FILE", help=tr("write the table with all numbers to this file; - for stdout"))
    add("--markdown", metavar="FILE", help=tr("write the table as Markdown to this file; - for stdout"))


def add_plot_options(add: Add) -> None:
    add("--svg", metavar="FOLDER", help=tr("write each plot as a drawing to a file in this folder (.svg)"))
    add("--png", metavar="FOLDER", help=tr("write each plot as a picture to a file in this folder (.png)"))


def add_force(add: Add) -> None:
    """Add the option that lets files be replaced."""
    add("--force", action="store_true", help=tr("replace files that exist"))


def given_files(options: Namespace) -> list[str]:
    """Return the names of the options that name a file."""
    return [name for name in FILES if getattr(options, name, None) is not None]


def check_files(options: Namespace) -> None:
    """Raise `ValueError` with a sentence if a file cannot be written as it was asked for."""
    given = {name: str(getattr(options, name)) for name in given_files(options)}
    streams = [name for name in TABLES if given.get(name) == "-"]
    if len(streams) + (options.json and bool(streams)) > 1:
        raise ValueError(tr("Standard output can take one document. Name a file in the place of a -."))
    for name, text in given.items():
        path = Path(text)
        if not text:
            raise ValueError(tr("--{name} names nothing. Name a file or a folder.", name=name))
        if name in TABLES and text == "-":
            continue
        if name not in PLOTS:
            check_file(path, force=options.force)
        elif path.exists() and not path.is_dir():
            raise ValueError(tr("{path} is not a folder. Name a folder for the plots.", path=path))


def check_file(path: Path, *, force: bool) -> None:
    """Raise `ValueError` with a sentence if there is such a file, unless `force`, or no folder for it.

    Hours of training, or minutes of reading, may be over before that is noticed.
    """
    if str(path) == "-":
        raise ValueError(tr("A page is written to a file, not to standard output. Name a file in the place of the -."))
    check_free(path, force=force)
    if not path.parent.is_dir():
        raise ValueError(
            tr("{path} cannot be written: there is no folder {folder}. Name another file.",
               path=path, folder=path.parent)
        )


def write_tables(options: Namespace, table: Callable[[], Table[Any]]) -> None:
    """Write the table to the files that were asked for."""
    for path, form in ((options.csv, Table.csv), (options.markdown, Table.markdown)):
        if path is None:
            continue
        text = form(table())
        if path == "-":
            say(text.removesuffix("\n"), lines=True)
        else:
            export_bytes(text.encode(), Path(path))


def write_page(options: Namespace, page: Callable[[], bytes]) -> int | None:
    """Write the page that --html asks for, and return its bytes; None if none was asked for."""
    if options.html is None:
        return None
    data = page()
    export_bytes(data, Path(options.html))
    return len(data)


def write_plots(options: Namespace, charts: Callable[[], Iterable[Chart]]) -> list[Path]:
    """Write the plots that --svg and --png ask for; return the files. Raises as `write_charts`."""
    forms = [form for form in PLOTS if getattr(options, form) is not None]
    if not forms:
        return []
    from core.results.chart import write_charts  # loads numpy

    every = list(charts())
    return [
        path for form in forms for path in write_charts(every, Path(getattr(options, form)), form, force=options.force)
    ]


SHOWN = 3
"""Lines to show, each of another shape."""
MAX_LINE = 120
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|\d+(?:e[-+]?\d+)?)(?![\w.])", re.IGNORECASE)
NUMBER_NAMED = re.compile(r"[A-Za-z]\W{0,8}[-+]?\d")
"""A number after a word."""
DATED = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|0x[0-9a-f]+", re.IGNORECASE
)
"""Dates, times, UUIDs and addresses: their numbers measure nothing."""
FRAMES = re.compile(rf"{re.escape(TRACEBACK)}\n(?: .*\n)*.*")
OF_PYTHON = re.compile(r".*Warning: |(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt)\b")
"""Lines that Python prints of a warning or an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLine:
    """The last line of one shape."""

    text: str
    number: str
    """The last number in it, preferably one with a decimal point."""
    times: int
    """How many lines of this shape there are, one after another with other numbers."""


def unread_lines(log_end: str) -> list[UnreadLine]:
    """Return a few lines with a number after a word: first those that came again and again with other numbers.

    Of these, numbers with a decimal point come first. No line is of a traceback.
    """
    found: dict[str, UnreadLine] = {}
    for line in FRAMES.sub("", as_printed(log_end)).splitlines():
        text = line.strip()
        undated = DATED.sub("", text)
        numbers = NUMBER.findall(undated)
        if not numbers or not NUMBER_NAMED.search(undated) or len(text) > MAX_LINE or OF_PYTHON.match(text):
            continue
        shape = NUMBER.sub("0", undated)
        before = found.pop(shape, None)
        times = before.times + (before.text != text) if before else 1
        found[shape] = UnreadLine(
            text=text, number=([each for each in numbers if "." in each] or numbers)[-1], times=times
        )
    ranked = sorted(found.values(), key=lambda each: (each.times > 1, "." in each.number), reverse=True)
    return ranked[:SHOWN]


def last_line(log_end: str) -> str:
    """Return the last line of output that is not empty; the empty string if there is none."""
    lines = [line.strip() for line in as_printed(log_end).splitlines() if line.strip()]
    return lines[-1][:MAX_LINE] if lines else ""
