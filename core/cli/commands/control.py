"""The commands for runs that train: `stop`, `pause`, `save`, `set`, `trace`, `doctor`; `queue`, for runs that wait."""

from __future__ import annotations

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from core.cli.commands.start import refusal
from core.cli.output import answer, ending, say, say_json, say_rows, say_run, state_words, warn
from core.cli.run_options import interval, pair
from core.cli.runs import EXIT_CODES, POLL_S, StopMessages, check_owner, find, hard_end, survey
from core.diagnosis.evidence import examined
from core.diagnosis.timeline import change_words
from core.errors import RunError
from core.history import index
from core.history.differences import differences_below
from core.language import tr, tr_noop, tr_plural
from core.queue import control, folder
from core.queue.folder import own_line
from core.queue.listing import STATE_WORDS, OtherRun, QueuedRun, clock, queue_view
from core.runs import stopped
from core.runs.facts import RunFacts, RunState, state_info
from core.runs.requests import unanswered
from core.runs.run import Run
from core.schema.event_kinds import Checkpoint, Trace, read_all
from core.schema.events import Event
from core.schema.paths import CHECKPOINTS, CONTROL, DOCTOR, OUTPUTS, SET, TAKEN, TRACE
from core.schema.spec import CHANGEABLE, changeable, changed_in_epoch, setting_changes
from core.system.processes import user_name
from core.table import Column
from core.text import join_names, short

ANSWER_S = 2.0
"""Seconds to wait for a new checkpoint or a notice after a save request was taken; then the latest one counts."""

STOPPED_S = 0.5
"""Seconds that a process must be stopped before it is named."""


def add_force(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true",
        help=tr("kill the workers, once they were examined (6 s at most); after training, do not wait for device "
                "memory; continue a stopped supervisor"),
    )


def stop(options: Namespace) -> int:
    """Stop a run, and wait until it has stopped."""
    run = _live_run(options)
    if run.facts.state is RunState.QUEUED:
        control.cancel(run.dir)
    if options.force and (done := stopped.continue_supervisor(run.dir, run.facts)):
        warn(done)
    forced = options.force and state_info(run.facts.state).can_force
    run.request("force" if forced else "stop")
    state = _wait(run, "stop", quiet=options.json, force=options.force and not forced, forced=forced)
    if not options.json and (sentence := hard_end(run.facts)):
        warn(sentence)
    say_run(options, run, ending(run))
    return 0 if state is RunState.STOPPED else EXIT_CODES[state]


def pause(options: Namespace) -> int:
    """Save a checkpoint and end a run, and wait until it has ended; `resume` continues it."""
    run = _live_run(options)
    _check_answers(run, "pause")
    if not state_info(run.facts.state).can_pause and run.facts.state is not RunState.CREATED:
        raise ValueError(tr("Run {id} cannot be paused: it is {label}.", id=run.id, label=state_words(run.facts.state)))
    run.request("pause")
    state = _wait(run, "pause", quiet=options.json)
    say_run(options, run, ending(run))
    return 0 if state is RunState.PAUSED else EXIT_CODES[state]


def save(options: Namespace) -> int:
    """Save a checkpoint of a run now, and wait until it is written."""
    run = _live_run(options)
    _check_answers(run, "save")
    if run.facts.state is RunState.QUEUED:
        raise ValueError(tr("Run {id} cannot be saved: it has not started.", id=run.id))
    run.request("save")
    try:
        written = _saved_checkpoint(run, run.facts.checkpoint)
    except KeyboardInterrupt:
        raise _interrupted(run, "save") from None
    path = str(run.dir / CHECKPOINTS / written.name)
    return answer(options, {"run": run.id, "checkpoint": written.name, "step": written.step, "path": path}, path)


def add_changes(parser: ArgumentParser) -> None:
    parser.add_argument(
        "changes", nargs="*", metavar="NAME=VALUE",
        help=tr("epochs=20, learning_rate=1e-4 or checkpoint_every='500 steps'; several are possible"),
    )
    parser.add_argument("--finish", action="store_true", help=tr("finish after the current epoch, with its results"))


def change(options: Namespace) -> int:
    """Change settings of a run while it trains, for all later steps."""
    asked, run = _asked(options), _training_run(options, SET)
    plan, step = run.facts.plan, run.facts.step
    changed_in_epoch(run.spec(), asked, 1 if plan is None else plan.epoch_of(step))  # refuses what is known already
    known, notices = len(setting_changes(run.dir)), len(run.facts.notices)
    run.request(SET, json.dumps(asked))
    _await(run, SET, lambda _: not _is_pending(run, SET) and not _is_pending(run, SET + TAKEN))
    run.poll()  # it was recorded before the request was removed
    found = setting_changes(run.dir)[known:]
    if not found and len(run.facts.notices) > notices:
        raise RunError(_last_notice(run))
    rows = [{"name": each.name, "from": each.old, "to": each.new, "step": each.step} for each in found]
    said = [tr("{change}, after step {step}", change=change_words(each), step=each.step) for each in found]
    return answer(options, {"run": run.id, "changes": rows}, *said or [tr("It has these settings already.")])


def _asked(options: Namespace) -> dict[str, object]:
    """Return what is asked for, as `changed_in_epoch` takes it. Raises `ValueError`."""
    if options.finish is bool(options.changes):
        raise ValueError(tr("Give what to change, such as epochs=20, or --finish, but not both."))
    asked: dict[str, object] = {"finish": True} if options.finish else {}
    for name, value in (pair("set", text) for text in options.changes):
        if name == "checkpoint_every":
            asked |= {f"checkpoints.{part}": given for part, given in interval(value).items()}
        elif name in CHANGEABLE:
            try:
                asked[name] = changeable(name).kind.read(value)
            except ValueError:
                asked[name] = value  # whose check says what to give
        else:
            raise ValueError(tr("{name} cannot change while a run trains. Give epochs, learning_rate or "
                                "checkpoint_every.", name=name))
    return asked


def add_traced(parser: ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=20, metavar="N", help=tr("steps to trace; default: 20"))
    parser.add_argument("--ranks", default="0", metavar="LIST", help=tr("ranks to trace, such as 0,1; default: 0"))


def trace(options: Namespace) -> int:
    """Record what a run does in its next steps, in a file for Perfetto (ui.perfetto.dev)."""
    run = _training_run(options, TRACE)
    ranks = {int(each) if each.strip().isdecimal() else each for each in options.ranks.split(",")}
    here = {rank for rank, worker in run.facts.workers.items() if not worker.host}
    if options.steps < 1 or not ranks <= here:
        raise ValueError(tr("Run {id} has the ranks {ranks} on this machine. Give some of them, and at least 1 step.",
                            id=run.id, ranks=join_names(map(str, sorted(here)))))
    traces: list[Trace] = []

    def all_wrote(events: list[Event]) -> bool:
        traces.extend(read_all(Trace, events))
        return {each.rank for each in traces} >= ranks

    run.request(TRACE, json.dumps({"steps": options.steps, "ranks": sorted(map(int, ranks))}))
    _await(run, TRACE, all_wrote)
    if why := [tr(each.why) for each in traces if each.why]:
        raise RunError(" ".join(why))
    paths = [str(run.dir / OUTPUTS / each.file) for each in traces]
    return answer(options, {"run": run.id, "traces": paths}, *paths)


def _training_run(options: Namespace, request: str) -> Run:
    """Return a run that trains and can answer this request. Raises `ValueError`."""
    run = _live_run(options)
    _check_answers(run, request)
    if not state_info(run.facts.state).can_save:
        raise ValueError(tr("Only a run that trains can be asked. This one is {state}.",
                            state=state_words(run.facts.state)))
    return run


def _await(run: Run, request: str, is_done: Callable[[list[Event]], bool]) -> None:
    """Wait for the answer of a run that trains. `is_done`: called with new events. Raises `RunError` if none comes."""
    try:
        while not is_done(run.poll()):
            if state_info(run.facts.state).over:
                raise RunError(tr("Run {id} was over before it could answer: {label}.", id=run.id,
                                  label=state_words(run.facts.state)))
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise _interrupted(run, request) from None


def add_stacks(parser: ArgumentParser) -> None:
    parser.add_argument("--stacks", action="store_true", help=tr("print the whole Python stack of each worker, too"))
    parser.add_argument("--first-nan", action="store_true",
        help=tr("find the layer that made the loss of a run that has ended NaN: train again from the last checkpoint"))


def doctor(options: Namespace) -> int:
    """Say where each worker of a run is, and which holds the others up; of one that is over, what was found before."""
    from core.doctor.examination import examine  # loads what no other command needs

    run = find(options)
    if options.first_nan:
        return _first_nan(options, run)
    run.catch_up()
    if state_info(run.facts.state).over and (found := examined(run.facts)):
        folder = str(run.dir / DOCTOR) if any((run.dir / DOCTOR).glob("*.json")) else None
        kept = [tr("The last examinations, with all stacks, are in {folder}.", folder=folder)] if folder else []
        return answer(options, {"run": run.id, "sentence": found[-1], "folder": folder}, *map(tr, found), *kept)
    diagnosis, snapshots = examine(run)
    if options.json:
        say_json({"run": run.id, **diagnosis.document(snapshots)})
        return 0
    say(diagnosis.sentence)
    for what, why in diagnosis.looked.items():
        if why:
            warn(tr("Could not look at {what}: {why}.", what=tr(what), why=why))
    for each in snapshots if options.stacks else ():
        say(tr("Worker {rank} (process {pid}):", rank=each.rank, pid=each.pid))
        for frame in reversed(each.stack):
            say(f'  File "{frame.file}", line {frame.line}, in {frame.function}')
    return 0


def _first_nan(options: Namespace, run: Run) -> int:
    from core.fit.probe import probes  # loads what few other commands need
    from core.fit.replay import find_first_nan, spec_of_replay

    check_owner(options, tr("Run {id}", id=run.id), run.owner, run.spec())
    spec, step = spec_of_replay(run)
    if problem := refusal(spec, survey(spec.devices)):
        raise ValueError(problem)
    warn(tr("The run is trained again from its last checkpoint before step {step}, else from the beginning. Each step "
            "takes several times as long. Files that its recipe writes are written again.", step=step))
    with probes(options.runs) as folder:
        try:
            found = find_first_nan(run, spec, step, folder)
        except RunError as error:
            warn(str(error))
            return 1
    document = {"run": run.id, "found": found.found, "step": found.step, "checkpoint": found.checkpoint,
                "sentence": found.sentence}
    answer(options, document, *found.sentences)
    return int(not found.found)


INTERRUPTED = {
    "stop": tr_noop("Interrupted. The run still stops; `trainyard attach {id}` follows it."),
    "pause": tr_noop("Interrupted. The run still pauses; `trainyard attach {id}` follows it."),
    **dict.fromkeys((SET, TRACE), tr_noop("Interrupted. The run still does it; `trainyard show {id} --events` tells.")),
    "save": tr_noop("Interrupted. The run still saves a checkpoint; `trainyard attach {id}` follows it."),
}


def _check_answers(run: Run, request: str) -> None:
    if why := unanswered(run.spec(), request):
        raise ValueError(tr("Run {id} goes on. {why}", id=run.id, why=why))


def _live_run(options: Namespace) -> Run:
    run = find(options)
    run.catch_up()
    if state_info(run.facts.state).over:
        raise ValueError(tr("Run {id} is over already: {label}.", id=run.id, label=state_words(run.facts.state)))
    return run


def _wait(run: Run, request: str, *, quiet: bool, force: bool = False, forced: bool = False) -> RunState:
    """Wait until the run is over, and print what it waits for unless `quiet`.

    `force`: force the end once possible. `forced`: this was requested already. Stopped processes, which may keep it
    waiting for ever, are named in any case. Raises `RunError` on Ctrl-C, or if the run cannot be paused.
    """
    messages, stopped_processes = StopMessages(run.facts, forced=force or forced), _StoppedProcesses()
    try:
        while not state_info(run.facts.state).over:
            run.poll()
            if request == "stop" and run.facts.state is RunState.QUEUED:
                control.end_unattended(run.dir)  # its process may have ended after it was asked
            stopped_processes.show(run.facts)
            for sentence in () if quiet else messages.new(run.facts):
                warn(sentence)
            if force and state_info(run.facts.state).can_force:
                run.request("force")
                force = False
            if request == "pause" and run.facts.state is RunState.RUNNING and not _is_pending(run, request):
                run.poll()  # the reason is written before the request is taken back
                why = tr("Run {id} could not be paused and continues. {last_notice}", id=run.id,
                         last_notice=_last_notice(run))
                raise RunError(why.strip())
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise _interrupted(run, request) from None
    return run.facts.state


class _StoppedProcesses:
    """Prints which processes are stopped, each set of them once, and only if they stay stopped for `STOPPED_S`."""

    def __init__(self) -> None:
        self._shown, self._since = "", time.monotonic()

    def show(self, facts: RunFacts) -> None:
        """Print the sentences on stopped processes when it is time."""
        text = facts.stopped_processes or ""
        if not text:
            self._since = time.monotonic()
        elif text != self._shown and time.monotonic() - self._since > STOPPED_S:
            self._shown = text
            warn(tr(text))


def _interrupted(run: Run, request: str) -> RunError:
    return RunError(tr(INTERRUPTED[request], id=run.id))


def _saved_checkpoint(run: Run, before: Checkpoint | None) -> Checkpoint:
    """Wait for the checkpoint that was asked for. Raises `RunError` if the run cannot save one."""
    notices, stopped_processes = len(run.facts.notices), _StoppedProcesses()
    answered_at: float | None = None
    while True:
        run.poll()
        stopped_processes.show(run.facts)
        facts = run.facts
        answered = not _is_pending(run, "save")
        if answered and facts.checkpoint is not None and facts.checkpoint != before:
            return facts.checkpoint
        if state_info(facts.state).over:
            why = tr("Run {id} was over before it could be saved: {label}.", id=run.id, label=state_words(facts.state))
            raise RunError(why)
        if answered and len(facts.notices) > notices:
            raise RunError(tr("Run {id} could not be saved. {last_notice}", id=run.id, last_notice=_last_notice(run)))
        answered_at = (answered_at or time.monotonic()) if answered else None
        if answered_at is not None and time.monotonic() - answered_at > ANSWER_S:
            if facts.checkpoint is None:
                raise RunError(tr("Run {id} could not be saved. The end of its log may show why.", id=run.id))
            return facts.checkpoint
        time.sleep(POLL_S)


def _is_pending(run: Run, request: str) -> bool:
    return (run.dir / CONTROL / request).exists()


def _last_notice(run: Run) -> str:
    return tr(run.facts.notices[-1]) if run.facts.notices else ""


ACTIONS = ("move", "hold", "release", "start", "revive")


def add_queue_actions(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "action", nargs="?", metavar="ACTION", choices=ACTIONS,
        help=tr("move RUN PLACE, hold [RUN], release [RUN], start RUN, or revive; without one, the queue is listed"),
    )
    add(
        "run", nargs="?", metavar="RUN", help=tr("a queued run; without one, hold and release are for your whole queue")
    )
    add("--all", action="store_true", help=tr("list also the queued runs of other users"))
    add("place", nargs="?", type=int, metavar="PLACE", help=tr("for move: the new place among your runs, from 1"))
    add("--recorded", action="store_true", help=tr("for release: train the recipe or script as it was queued"))
    add("--current", action="store_true", help=tr("for release: train the recipe or script as it is now"))


def queue(options: Namespace) -> int:
    """List the queued runs with their places and reasons, or change the queue."""
    _check(options)
    if options.action is None:
        return _list(options)
    if options.action == "revive":
        names = [run_dir.name for run_dir in control.revive(options.runs)]
        revived = tr_plural("{runs} waits again.", "{runs} wait again.", len(names), runs=join_names(names))
        return answer(options, names, revived if names else tr("No run had to be taken up again."))
    done = _change_all(options) if options.run is None else _change(options, index.find(options.runs, options.run))
    if options.json:
        return say_rows(options, queue_columns(differences_below(options.runs)), queue_view(options.runs).runs)
    say(done)
    return 0


def _check(options: Namespace) -> None:
    if options.action == "move" and options.place is None:
        raise ValueError(tr("The place is missing. Give it: trainyard queue move RUN PLACE"))
    if options.action != "move" and options.place is not None:
        raise ValueError(tr("Only `queue move` takes a place. Leave {place} out.", place=options.place))
    if options.action == "revive" and options.run is not None:
        raise ValueError(tr("`queue revive` takes up all runs of the folder. Leave {run} out.", run=options.run))
    if options.all and options.action is not None:
        raise ValueError(tr("--all is for the list of queued runs. Leave it out."))
    if (options.recorded or options.current) and (options.action != "release" or options.run is None):
        raise ValueError(tr("--recorded and --current are for `queue release RUN`. Leave them out."))
    if options.recorded and options.current:
        raise ValueError(tr("Both --recorded and --current are given. A run trains one of them: leave one out."))


def _list(options: Namespace) -> int:
    view = queue_view(options.runs)
    for sentence in (*view.troubles, *([view.held] if view.held else [])):
        warn(sentence)
    others = view.others if options.all else ()
    if not view.runs and not others and not options.json:
        warn(tr("No run is queued in {runs}.", runs=options.runs))
    runs: list[Queued] = [*view.runs, *others]
    if options.all and not options.json:
        runs.sort(key=lambda each: (each.line_place is None, each.line_place or 0))
    return say_rows(options, queue_columns(differences_below(options.runs), is_everyones=options.all), runs)


Queued = QueuedRun | OtherRun


def _of(
    own: Callable[[QueuedRun], object], other: Callable[[OtherRun], object] = lambda _: None
) -> Callable[[Queued], object]:
    return lambda run: own(run) if isinstance(run, QueuedRun) else other(run)


def queue_columns(differences: Mapping[str, str], *, is_everyones: bool = False) -> tuple[Column[Queued], ...]:
    """Return what is listed of each run. `differences`: by folder; `is_everyones`: with queued runs of other users."""
    me, now = user_name(os.getuid()), time.time()
    place = "line_place" if is_everyones else "place"
    return (
        Column("place", _of(lambda run: run.place), text=lambda run: short(getattr(run, place))),
        Column("user", _of(lambda _: me, lambda run: run.user), "" if is_everyones else None),
        Column("run", _of(lambda run: run.run_dir.name, lambda run: run.run)),
        Column("difference", _of(lambda run: differences.get(run.run_dir.name))),
        Column("sweep", _of(lambda run: run.request.sweep or None), is_optional=True),
        Column("state", lambda run: run.state, text=lambda run: tr(STATE_WORDS[run.state])),
        Column("needs", lambda run: run.needs),
        Column("expected_start", lambda run: run.expected_start, "start",
               lambda run: None if run.expected_start is None else clock(run.expected_start, now)),
        Column("reason", lambda run: run.reason),
        Column("dir", _of(lambda run: str(run.run_dir)), None),
        Column("priority", _of(lambda run: run.request.priority), None),
        Column("waits", _of(lambda run: run.waits, lambda _: True), None),
        Column("line_place", lambda run: run.line_place, None),
    )


def _change(options: Namespace, run_dir: Path) -> str:
    """Change the place of a run in the queue, and return what was done, in a sentence."""
    if options.action == "hold":
        control.hold(run_dir)
        return tr("Run {run} is held.", run=run_dir.name)
    if options.action == "start":
        control.start_now(run_dir)
        return tr("Run {run} starts now, also beside other runs on its devices.", run=run_dir.name)
    if options.action == "release":
        control.let_go(run_dir, "recorded" if options.recorded else "current" if options.current else None)
        return tr("Run {run} is no longer held.", run=run_dir.name)
    priority = control.move(run_dir, options.place, list(queue_view(options.runs).runs))
    return tr("Run {run} is at place {place} now, with priority {priority}.", run=run_dir.name, place=options.place,
              priority=priority)


def _change_all(options: Namespace) -> str:
    """Change the whole queue of this user, and return what was done, in a sentence."""
    if options.action == "move":
        raise ValueError(tr("The run is missing. Give it: trainyard queue move RUN PLACE"))
    if options.action == "start":
        raise ValueError(tr("The run is missing. Give it: trainyard queue start RUN"))
    line = own_line().line
    try:
        if options.action == "hold":
            folder.hold(line)
            return tr("Your queue is held: none of your queued runs starts.")
        return tr("Your queue is no longer held.") if folder.let_go(line) else tr("Your queue was not held.")
    except OSError as error:
        raise RunError(tr("{folder} could not be written: {why}.", folder=line.own, why=error.strerror)) from error
