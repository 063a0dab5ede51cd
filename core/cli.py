"""The command line: the same core without a window.

Exit codes: 0 finished, 1 failed, 2 wrong use (one sentence on stderr), 3 stopped, 4 lost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from core import catalog, recipes, report, runs
from core.compose import Choices, compose
from core.devices.sampler import Sampler
from core.errors import RunError
from core.follow import follow
from core.run import Run
from core.state import RunState, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from core.devices.device import Survey

SURVEY_TIMEOUT_S = 15.0
EXIT_CODES = {RunState.FINISHED: 0, RunState.FAILED: 1, RunState.STOPPED: 3, RunState.LOST: 4}
WRONG_USE = 2
INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except (ValueError, RunError) as error:
        print(f"trainyard: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print("trainyard: interrupted. Runs are not affected.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`trainyard runs | head`): nothing more to say, to nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"trainyard: {error.filename or 'the output'} cannot be used: {error.strerror}.", file=sys.stderr)
        return WRONG_USE


# -- the commands --------------------------------------------------------------------------------


def window(options: argparse.Namespace) -> int:
    """Open the panel."""
    from gui.app import main as open_window

    return open_window(options.runs)


def devices(options: argparse.Namespace) -> int:
    """What can be trained on."""
    survey = _survey()
    samples = {sample.device_id: sample for sample in survey.samples}
    rows = []
    for device in survey.devices:
        sample = samples.get(device.id)
        rows.append({
            "id": device.id, "kind": device.kind, "label": device.label, "name": device.name,
            "memory_total_bytes": device.memory_total_bytes, "pci_bus_id": device.pci_bus_id,
            "cores": list(device.cores),
            "utilisation_percent": sample.utilisation_percent if sample else None,
            "memory_used_bytes": sample.memory_used_bytes if sample else None,
            "lost": sample.lost if sample else None,
        })  # fmt: skip
    if survey.banner:
        print(f"trainyard: {survey.banner}", file=sys.stderr)
    return _answer(options, rows, ("id", "label", "name", "lost"))


def show_catalog(options: argparse.Namespace) -> int:
    """Every framework and strategy there is."""
    rows = [
        {
            "framework": cell.framework, "strategy": cell.strategy, "title": cell.title, "summary": cell.summary,
            "missing": None if catalog.is_installed(catalog.framework(cell.framework)) else "not installed",
        }
        for cell in catalog.CELLS
    ]  # fmt: skip
    return _answer(options, rows, ("framework", "strategy", "missing", "summary"))


def show_recipes(options: argparse.Namespace) -> int:
    """The workloads that ship."""
    rows = [
        {
            "name": recipe.name, "framework": framework.id, "path": str(recipe.path), "summary": recipe.summary,
            "settings": {setting.name: setting.default for setting in recipe.settings},
            "learning_rate": recipe.learning_rate,
        }
        for framework in catalog.FRAMEWORKS
        for recipe in recipes.built_in(framework.id)
    ]  # fmt: skip
    return _answer(options, rows, ("name", "framework", "summary"))


def run(options: argparse.Namespace) -> int:
    """Start a run; wait for its end unless detached."""
    training = {
        name: getattr(options, name)
        for name in ("epochs", "batch_size", "learning_rate", "seed", "accumulation", "precision", "loader_workers")
        if getattr(options, name) is not None
    }
    choices = Choices(
        recipe=options.recipe,
        devices=tuple(name.strip() for name in options.devices.split(",") if name.strip()),
        framework=options.framework,
        strategy=options.strategy,
        name=options.name,
        settings=dict(_setting(text) for text in options.set),
        training=training,
    )
    survey = _survey()
    spec = compose(choices, survey.devices)
    problems = catalog.problems(spec, survey.devices)
    if problems:
        raise ValueError(" ".join([*problems, *([survey.banner] if survey.banner else [])]))
    with _uninterrupted():  # a run that was started is always told
        started = Run.start(spec, options.runs)
    if options.detach:
        return _print_run(options, started, started.id)
    return _follow(options, started)


def attach(options: argparse.Namespace) -> int:
    """Follow a run to its end; Ctrl-C leaves it alone."""
    return _follow(options, _find(options), stops=False)


def show(options: argparse.Namespace) -> int:
    """What a run came to."""
    found = _find(options)
    book = report.read_all(found)
    document = report.document(found, book)
    if options.json:
        print(json.dumps(document, indent=2, allow_nan=False))
        return 0
    spec = found.spec()
    print(f"{found.id}: {row(found.facts.state).label.lower()}, {found.facts.step} steps")
    print(f"  {spec.framework} {spec.strategy} on {', '.join(spec.devices)}, recipe {spec.recipe.path}")
    for name, values in document["metrics"].items():
        print(f"  {name}: last {_short(values['last'])}, least {_short(values['min'])}, {values['count']} values")
    for sentence in (found.facts.error, *found.facts.notices):
        if sentence:
            print(f"  {sentence}")
    return 0


def list_runs(options: argparse.Namespace) -> int:
    """All runs, newest first."""
    summaries = runs.Index(options.runs).poll()
    rows = [
        {
            "run": each.dir.name, "dir": str(each.dir), "name": each.name, "state": each.state.value,
            "started": each.started, "ended": each.ended, "step": each.step, "loss": each.last_loss,
            "error": each.error,
        }
        for each in summaries
    ]  # fmt: skip
    return _answer(options, rows, ("run", "state", "loss"))


def stop(options: argparse.Namespace) -> int:
    """Ask a run to stop, and wait until it has."""
    found = _find(options)
    found.catch_up()
    if row(found.facts.state).over:
        raise ValueError(f"Run {found.id} is over already: {row(found.facts.state).label.lower()}.")
    found.request("stop")
    try:
        follow(found, None, stops=False)
    except KeyboardInterrupt:
        raise RunError(f"Run {found.id} has been asked to stop and will; nobody waits for it now.") from None
    _print_run(options, found, f"{found.id}: {row(found.facts.state).label.lower()}")
    return 0 if found.facts.state is RunState.STOPPED else EXIT_CODES[found.facts.state]


def export(options: argparse.Namespace) -> int:
    """Write a run's measurements to a file."""
    found = _find(options)
    book = report.read_all(found)
    if options.csv == "-":
        report.write_csv(book, sys.stdout)
        return 0
    try:
        with Path(options.csv).open("w", encoding="utf-8", newline="") as file:
            report.write_csv(book, file)
    except OSError as error:
        raise ValueError(f"{options.csv} cannot be written: {error.strerror}.") from error
    if options.json:
        rows = sum(len(series) for series in book.metrics.values())
        print(json.dumps({"run": found.id, "csv": options.csv, "rows": rows}, indent=2))
    return 0


# -- what they share -----------------------------------------------------------------------------


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is over."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _survey() -> Survey:
    with Sampler() as sampler:
        return sampler.survey(SURVEY_TIMEOUT_S)


def _find(options: argparse.Namespace) -> Run:
    found = Run.attach(runs.find(options.runs, options.run))
    found.spec()  # a spec of a newer version is told now, in a sentence
    return found


def _follow(options: argparse.Namespace, followed: Run, *, stops: bool = True) -> int:
    follow(followed, None if options.json else sys.stderr, stops=stops)
    state = followed.facts.state
    error = followed.facts.error
    if error and not options.json:
        print(f"trainyard: {error}", file=sys.stderr)
    _print_run(options, followed, f"{followed.id}: {row(state).label.lower()}")
    return EXIT_CODES[state]


def _print_run(options: argparse.Namespace, shown: Run, line: str) -> int:
    if options.json:
        again = Run.attach(shown.dir)
        print(json.dumps(report.document(again, report.read_all(again)), indent=2, allow_nan=False))
    else:
        print(line)
    return 0


def _answer(options: argparse.Namespace, rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> int:
    """Facts as one JSON document, or these of their fields as columns for people."""
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    lines = [[_short(each[column]) for column in columns] for each in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))] if lines else []
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if value is not None else "-"


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set {text!r} is not of the form name=value.")
    return name, value


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"trainyard: {message}. See {self.prog} --help.\n")


def _parser() -> argparse.ArgumentParser:
    common = _Parser(add_help=False)
    # Suppressed here, so that the option may stand before or after the command: the default is set below.
    common.add_argument(
        "--runs",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="DIR",
        help=f"where runs are kept ({runs.default_root()})",
    )
    facts = _Parser(add_help=False, parents=[common])
    facts.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser = _Parser(prog="trainyard", description="Train on the devices you tick. Without a command: the window.",
                     parents=[common])  # fmt: skip
    parser.set_defaults(command=window, runs=runs.default_root())
    commands = parser.add_subparsers(metavar="COMMAND")

    def add(
        name: str, command: Callable[[argparse.Namespace], int], *, of_run: bool = False
    ) -> argparse.ArgumentParser:
        summary = (command.__doc__ or "").strip()
        made = commands.add_parser(name, help=summary, description=summary, parents=[facts])
        made.set_defaults(command=command)
        if of_run:
            made.add_argument("run", metavar="RUN", help="its name, the beginning of it, or its folder")
        return made

    add("devices", devices)
    add("catalog", show_catalog)
    add("recipes", show_recipes)
    _add_run_options(add("run", run))
    add("runs", list_runs)
    add("show", show, of_run=True)
    add("attach", attach, of_run=True)
    add("stop", stop, of_run=True)
    add("export", export, of_run=True).add_argument("--csv", required=True, metavar="FILE", help="- for stdout")
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="a built-in name or a Python file")
    add("--framework", default="pytorch", help="pytorch")
    add("--strategy", help="single (one device) or ddp; default: what fits the number of devices")
    add("--devices", default="", metavar="ID,ID", help="as `trainyard devices` lists them; gpu:0 for GPU 0")
    add("--epochs", type=int)
    add("--batch-size", type=int, metavar="N", help="the global batch, over all devices")
    add("--learning-rate", type=float, metavar="X", help="default: the recipe's")
    add("--seed", type=int)
    add("--accumulation", type=int, metavar="N", help="gradient accumulation steps")
    add("--precision", help="float32 or bfloat16")
    add("--loader-workers", type=int, metavar="N", help="data-loader processes per rank")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the recipe; may be repeated")
    add("--name", help="what to call the run; default: the recipe's name")
    add("--detach", action="store_true", help="return at once; the run goes on")


if __name__ == "__main__":
    sys.exit(main())
