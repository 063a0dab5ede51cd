"""The commands `stop`, `pause` and `save`: make a request to a live run, and wait for the answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.cli.commands.common import EXIT_CODES, find
from core.cli.follow import POLL_S, StopMessages, hard_end
from core.cli.output import ending, say, say_json, say_run, warn
from core.errors import RunError
from core.language import tr, tr_noop
from core.queue import control as queue
from core.runs import stopped
from core.runs.facts.states import RunState, state_info
from core.runs.requests import unanswered
from core.schema.paths import CHECKPOINTS, CONTROL

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from core.runs.facts.run_facts import RunFacts
    from core.runs.run import Run
    from core.schema.event_kinds import Checkpoint

ANSWER_S = 2.0
"""Seconds to wait for a new checkpoint or a notice after a save request was taken; then the latest one counts."""

STOPPED_S = 0.5
"""Seconds that a process must be stopped before it is named."""


def add_force(parser: ArgumentParser) -> None:
    """Add the option of `stop`."""
    parser.add_argument(
        "--force",
        action="store_true",
        help=tr(
            "kill the workers at once; after training, do not wait for device memory; continue a stopped supervisor"
        ),
    )


def stop(options: Namespace) -> int:
    """Stop a run, and wait until it has stopped."""
    run = _live_run(options)
    if run.facts.state is RunState.QUEUED:
        queue.cancel(run.dir)
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
        raise ValueError(
            tr(
                "Run {id} cannot be paused: it is {label}.",
                id=run.id,
                label=tr(state_info(run.facts.state).label).lower(),
            )
        )
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
    path = run.dir / CHECKPOINTS / written.name
    if options.json:
        say_json({"run": run.id, "checkpoint": written.name, "step": written.step, "path": str(path)})
    else:
        say(str(path))
    return 0


UNANSWERED = {
    "pause": tr_noop(
        "Run {id} was not paused: Trainyard cannot pause a script. It continues; "
        "`trainyard stop {id}` ends it, with SIGINT first."
    ),
    "save": tr_noop(
        "Run {id} was not saved: Trainyard cannot save a script. It continues; "
        "`trainyard stop {id}` ends it, with SIGINT first."
    ),
}
INTERRUPTED = {
    "stop": tr_noop("Interrupted. The run still stops; `trainyard attach {id}` follows it."),
    "pause": tr_noop("Interrupted. The run still pauses; `trainyard attach {id}` follows it."),
    "save": tr_noop("Interrupted. The run still saves a checkpoint; `trainyard attach {id}` follows it."),
}
"""Sentences by request."""


def _check_answers(run: Run, request: str) -> None:
    if unanswered(run.spec(), request):
        raise ValueError(tr(UNANSWERED[request], id=run.id))


def _live_run(options: Namespace) -> Run:
    run = find(options)
    run.catch_up()
    if state_info(run.facts.state).over:
        raise ValueError(
            tr("Run {id} is over already: {label}.", id=run.id, label=tr(state_info(run.facts.state).label).lower())
        )
    return run


def _wait(run: Run, request: str, *, quiet: bool, force: bool = False, forced: bool = False) -> RunState:
    """Wait until the run is over, and print what it waits for unless `quiet`.

    `force`: force the end once possible. `forced`: this was requested already.

    Stopped processes, which may keep it waiting for ever, are named in any case.

    Raises `RunError` on Ctrl-C, or if the run cannot be paused.
    """
    messages, stopped_processes = StopMessages(run.facts, forced=force or forced), _StoppedProcesses()
    try:
        while not state_info(run.facts.state).over:
            run.poll()
            stopped_processes.show(run.facts)
            for sentence in () if quiet else messages.new(run.facts):
                warn(sentence)
            if force and state_info(run.facts.state).can_force:
                run.request("force")
                force = False
            if request == "pause" and run.facts.state is RunState.RUNNING and not _is_pending(run, request):
                run.poll()  # the reason is written before the request is taken back
                raise RunError(
                    tr(
                        "Run {id} could not be paused and continues. {last_notice}",
                        id=run.id,
                        last_notice=_last_notice(run),
                    ).strip()
                )
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
            raise RunError(
                tr(
                    "Run {id} was over before it could be saved: {label}.",
                    id=run.id,
                    label=tr(state_info(facts.state).label).lower(),
                )
            )
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
