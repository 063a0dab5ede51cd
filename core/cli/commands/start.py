"""The commands that start or resume a run and follow it, and those that reuse what a run trained, and how.

`run`, `again`, `resume` and `attach`; `keep`, `setups` and `command`.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from core.catalog.strategies import strategy_of
from core.cli import run_options
from core.cli.output import (
    answer,
    confirm,
    is_interactive,
    no_measurement,
    outcome,
    say,
    say_rows,
    say_run,
    warn,
    warn_of_failure,
)
from core.cli.run_options import check_queue_options, choose_any, queue_request, time_limit_s
from core.cli.runs import EXIT_CODES, check_owner, find, follow, survey
from core.config import builds, moving, presets, validation
from core.config.choices import RecipeChoices, ScriptChoices, compose, resolve
from core.config.examination import doubts
from core.config.finding import Finding, Mark, ProblemKind, problems_of
from core.config.presets import Preset, shell_line
from core.config.script_check import ScriptCheckRequest, ScriptCheckResult, cautions_of, check_script, fill_in
from core.devices.device import Device, Survey, devices_here, split_name
from core.history import index
from core.history.device_use import devices_in_use, sharing_sentence
from core.language import Message, join_sentences, tr, tr_plural
from core.metrics.rules import file_beside
from core.queue import control
from core.queue.listing import claim_sentences, queue_view
from core.runs.owners import execution_warning, owner_of_file
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.series import report
from core.system.folders import writing
from core.system.logout import logout_warning
from core.table import Column
from core.text import join_names, replace_control_characters

MISSING = {ProblemKind.NO_DEVICE, ProblemKind.UNKNOWN_DEVICE}


def run(options: Namespace) -> int:
    """Train a recipe or a script on the chosen devices, and wait for the end unless --detach is given."""
    check_queue_options(options)
    found = survey(run_options.device_names(options))
    among = choose_any(options, found.devices)
    match choices := run_options.choices(options):
        case RecipeChoices():
            return _begin(options, compose(choices, found.devices), found, among)
        case str():
            path = presets.path_of(choices, presets.default_root())
            saved = presets.read(path)
            devices = tuple(resolve(run_options.device_names(options), found.devices)) or saved.devices
            spec = replace(saved, devices=devices, name=options.name or saved.name)
            check_owner(options, tr("The preset {path}", path=path), owner_of_file(path), spec)
            return _begin(options, spec, found, among)
        case ScriptChoices():
            check = check_script(ScriptCheckRequest.of(choices))
            spec = fill_in(check, choices, found.devices)
            if spec.script is not None and spec.script.rules and not choices.rules:
                path = file_beside(spec.script, spec.working_dir)
                warn(tr("The log is read with the rules in {path}. --rules none leaves them out.", path=path))
            if choices.launch is None and len(spec.devices) > 1:
                warn(tr("{title}, chosen from the source. {why} --launch chooses another.",
                        title=tr(strategy_of(spec).title), why=check.why))
            _warn_of(cautions_of(check, spec, found.devices))
            return _begin(options, spec, found, among, check)


def _begin(
    options: Namespace, spec: RunSpec, found: Survey, among: Sequence[Device], check: ScriptCheckResult | None = None
) -> int:
    """Start a run, or put it into the queue. `among`: see `choose_any`."""
    spec = replace(spec, time_limit_s=time_limit_s(options))
    if not options.queue:
        return _start(options, spec, found, check)
    if len(devices_here(spec.devices)) < len(spec.devices):
        raise ValueError(
            tr("The queue waits for devices of this machine only. Leave out --queue, or the other machines.")
        )
    _check_start(spec, found, check)
    wanted = {*spec.devices, *(each.id for each in among)}
    request = queue_request(options, among, [each for each in found.devices if each.id in wanted], options.runs)
    warn_of_doubt(spec, found.devices)
    with interrupts_blocked():
        queued = control.enqueue(spec, options.runs, request)
        if not control.until_waiting(queued):
            warn(tr("Run {id} does not wait for its devices yet: {why}", id=queued.id,
                    why=queued.log_end().strip()))
    view = queue_view(options.runs) if options.detach and not options.json else None
    if view is not None and view.apart:
        warn(view.apart)
    for each in view.runs if view is not None else ():
        if each.run_dir == queued.dir:  # it has not started
            warn(tr("Place {place} in your queue. {reason}", place=each.place, reason=each.reason))
    return _follow_unless_detached(options, queued)


def again(options: Namespace) -> int:
    """Start a new run with the settings of another, and wait for the end unless --detach is given."""
    earlier = Run.attach(index.find(options.runs, options.run))
    spec = replace(earlier.spec(), recorded=False, sweep="")
    check_owner(options, tr("Run {id}", id=earlier.id), earlier.owner, spec)
    return _start(options, _with_ports(options, spec), survey(spec.devices))


def resume(options: Namespace) -> int:
    """Resume a run that was paused, stopped, failed or lost, and wait for the end unless --detach is given."""
    run_dir = index.find(options.runs, options.run)
    earlier = Run.attach(run_dir)
    if earlier.owner is not None:
        check_owner(options, tr("Run {id}", id=earlier.id), earlier.owner, earlier.spec())
    if problems := validation.port_problems(_with_ports(options, earlier.spec())):
        raise ValueError(join_sentences(map(str, problems)))
    on = _moved(options, run_dir)
    with interrupts_blocked():
        resumed = Run.resume(run_dir, on=on, allow_open_ports=options.allow_open_ports is True)
    return _follow_unless_detached(options, resumed)


def add_move(parser: ArgumentParser) -> None:
    parser.add_argument("--devices", default="", metavar="ID,ID", help=tr("other devices to go on with"))
    parser.add_argument("--strategy", help=tr("another strategy of the framework to go on with"))


def _moved(options: Namespace, run_dir: Path) -> RunSpec | None:
    """Return the spec with the devices and the strategy to go on with; None if none are given."""
    names = run_options.device_names(options)
    if not names and options.strategy is None:
        return None
    run = Run.resumable(run_dir)
    found = survey(names or run.spec().devices)
    spec = moving.moved(run, resolve(names, found.devices), options.strategy)
    _check_start(spec, found, None)
    warn_of_sharing(options, spec, found)
    warn_of_doubt(spec, found.devices)
    if sentence := moving.caution(run.spec(), spec):
        warn(sentence)
    return spec


def attach(options: Namespace) -> int:
    """Follow a run to its end. Ctrl-C ends the following, not the run."""
    return _follow(options, find(options), stops=False)


def _with_ports(options: Namespace, spec: RunSpec) -> RunSpec:
    return replace(spec, allow_open_ports=True) if options.allow_open_ports else spec


def _start(options: Namespace, spec: RunSpec, found: Survey, check: ScriptCheckResult | None = None) -> int:
    _check_start(spec, found, check)
    warn_of_sharing(options, spec, found)
    warn_of_doubt(spec, found.devices)
    with interrupts_blocked():  # Ctrl-C must not hide a run that was started
        started = Run.start(spec, options.runs)
    return _follow_unless_detached(options, started)


def _check_start(spec: RunSpec, found: Survey, check: ScriptCheckResult | None) -> None:
    spec.check_startable()
    if problem := refusal(spec, found, check):
        raise ValueError(problem)


def _follow_unless_detached(options: Namespace, started: Run) -> int:
    if options.detach:
        if sentence := logout_warning():
            warn(sentence)
        say_run(options, started, started.id)
        return 0
    return _follow(options, started)


def _follow(options: Namespace, followed: Run, *, stops: bool = True) -> int:
    loss = follow(followed, None if options.json else sys.stderr, stops=stops)
    if not options.json:
        warn_of_failure(followed)
    missing = no_measurement(followed) if loss is None and not options.json else None
    if missing and not report.read_series(Run.attach(followed.dir)).metrics:
        warn(missing)
    say_run(options, followed, outcome(followed))
    return EXIT_CODES[followed.facts.state]


def warn_of_sharing(options: Namespace, spec: RunSpec, found: Survey) -> None:
    """Print what else uses the devices of a run that is about to start."""
    chosen = [device for device in found.devices if device.id in spec.devices]
    if sentence := sharing_sentence(chosen, devices_in_use(found, options.runs)):
        warn(sentence)
    for sentence in claim_sentences(chosen, options.runs):
        warn(sentence)


def warn_of_doubt(spec: RunSpec, devices: Sequence[Device]) -> None:
    """Print what may be wrong with a recipe that can be started. `devices`: all of this machine."""
    if spec.recipe is not None:
        _warn_of([*doubts(spec), *builds.judge(spec, devices)])


def _warn_of(findings: Sequence[Finding]) -> None:
    for each in findings:
        if each.mark is not Mark.READY:
            warn(str(each))


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def refusal(spec: RunSpec, found: Survey, check: ScriptCheckResult | None = None) -> str | None:
    """Return sentences on what keeps a spec from starting; None if it can start.

    `check`: of a script that was checked already. A missing device is reported alone, with the driver's message on it.
    """
    problems = validation.problems(spec, found.devices)
    if missing := [each.sentence for each in problems if each.kind in MISSING]:
        return join_sentences(dict.fromkeys([*missing, *_driver_messages(spec, found)]))
    sentences = [*validation.recipe_problems(spec), *map(str, problems)]
    if spec.recipe is not None:
        sentences += problems_of(builds.judge(spec, found.devices))
    if spec.script is not None:
        sentences += (check or check_script(ScriptCheckRequest.of_spec(spec))).problems
    return join_sentences(dict.fromkeys(sentences)) or None


def _driver_messages(spec: RunSpec, found: Survey) -> list[str]:
    """Return what the drivers report that may explain why devices of the spec, or all devices, are not listed."""
    if not spec.devices:
        return [tr(found.banner)] if found.banner and not found.devices else []
    unknown = [name for name in spec.devices if name not in {device.id for device in found.devices}]
    return [tr(message) for name in unknown for message in _messages_about(name, found)]


def _messages_about(name: str, found: Survey) -> list[Message]:
    if split_name(name) or (name.startswith("cpu:") and any(device.kind == "cpu" for device in found.devices)):
        return []
    said = Message.read(found.banner).sentences if found.banner else []
    kind, _, number = name.lower().partition(":")
    if kind != "gpu" or not number.isdecimal():  # such as a UUID, which may belong to any GPU that cannot be listed
        return said
    own = [each for each in said if each.named("index") == number]
    return own or [each for each in said if not each.named("index") and not each.named("address")]


def command(options: Namespace) -> int:
    """Print a shell command that starts the same training; for a script, without Trainyard."""
    run = find(options)
    run.spec().check_startable()
    if run.owner is not None:
        warn(tr("Run {name} belongs to {owner}. {execution_warning}", name=replace_control_characters(run.id),
                owner=run.owner, execution_warning=execution_warning(run.owner, run.spec())))
    run.catch_up()
    cores = {name: tuple(fields.get("cores") or ()) for name, fields in run.facts.devices.items()}
    line = shell_line(run.spec(), cores)
    if not options.json:
        say(line, lines=True)
    return answer(options, {"run": run.id, "command": line})


def add_preset_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=tr("name of the preset, or the path of its file"))
    parser.add_argument(
        "--secrets", choices=("names", "values"),
        help=tr("what to store of variables that look like secrets: their names, with the values taken from the "
        "environment at each start, or their values"),
    )


def keep(options: Namespace) -> int:
    """Save what a run trained, and how, as a preset; `trainyard run --setup NAME` starts it again."""
    run = find(options)
    path = presets.path_of(options.name, presets.default_root())
    replaced = path.exists()
    spec = run.spec()
    spec.check_startable()
    check_owner(options, tr("Run {id}", id=run.id), run.owner, spec)
    if (secrets := presets.secret_names(spec)) and not _stores_values(options, secrets, path):
        spec = presets.without_values(spec, secrets)
    with writing(path, tr("Choose another file.")):
        presets.save(spec, path)
    document = {"run": run.id, "setup": path.stem, "path": str(path), "replaced": replaced}
    return answer(options, document, f"{path} (replaced)" if replaced else str(path))


def _stores_values(options: Namespace, names: list[str], path: Path) -> bool:
    """Return whether to store the values of these variables. Raises `ValueError` if there is no terminal to ask on."""
    if options.secrets:
        return bool(options.secrets == "values")
    known = tr_plural("{names} looks like a secret", "{names} look like secrets", len(names), names=join_names(names))
    if options.json or not is_interactive():
        raise ValueError(tr(
            "Nothing was saved: {known}. Add --secrets names to take the value from the environment at each start, "
            "or --secrets values to store it.", known=known,
        ))
    return confirm(tr("{known}. Store the value in {path}? Without, it is taken from the environment at each start.",
                      known=known, path=path))


def list_presets(options: Namespace) -> int:
    """List the presets saved by name."""
    found = presets.read_all(presets.default_root())
    if not found and not options.json:
        warn(tr("There are no presets in {default_root} yet. `trainyard keep RUN NAME` saves one.",
                default_root=presets.default_root()))
    for each in found if not options.json else ():
        if each.problem:
            warn(each.problem)
    return say_rows(options, PRESET_COLUMNS, found)


def _training(spec: RunSpec) -> str:
    if spec.script is not None:
        return shlex.join([spec.script.name, *spec.script.arguments])
    return f"{spec.own_recipe.name}, {spec.framework} {spec.strategy}"


PRESET_COLUMNS: tuple[Column[Preset], ...] = (
    Column("name", lambda each: each.name),
    Column("path", lambda each: str(each.path), None),
    Column("what", lambda each: _training(each.spec) if each.spec else None),
    Column("problem", lambda each: each.problem or None, None),
)
