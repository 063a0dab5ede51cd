"""Commands that start, follow and steer runs."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from typing import TYPE_CHECKING

from core.catalog.strategies import strategy_of
from core.cli import parse_choices
from core.cli.commands.choosing import refusal
from core.cli.commands.common import find, survey
from core.cli.commands.occupancy import in_a_sentence, occupancies
from core.cli.follow import POLL_S, Stopping, follow, hard_end
from core.cli.output import ending, log_of, outcome, say, say_json, say_run, warn
from core.config.build_spec import compose, compose_preset
from core.config.choices import PresetChoice, RecipeChoices, ScriptChoices
from core.config.script_check import ScriptCheckRequest, check_script, fill_in
from core.errors import RunError
from core.runs import index
from core.runs.requests import unanswered
from core.runs.run import Run
from core.runs.states import RunState, state_info
from core.schema.paths import CHECKPOINTS, CONTROL

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from core.config.script_check import ScriptCheckResult
    from core.devices.device import Survey
    from core.runs.facts import Checkpoint
    from core.schema.spec import RunSpec

EXIT_CODES = {
    RunState.FINISHED: 0, RunState.FAILED: 1, RunState.STOPPED: 3, RunState.PAUSED: 3, RunState.LOST: 4,
}  # fmt: skip
ANSWER_S = 2.0
"""A request that was taken back without a word was answered by what there is already."""


def run(given: Namespace) -> int:
    """Start a run; wait for its end unless detached."""
    found = survey()
    match choices := parse_choices.choices(given):
        case RecipeChoices():
            return _start(given, compose(choices, found.devices), found)
        case PresetChoice():
            return _start(given, compose_preset(choices, found.devices), found)
        case ScriptChoices():
            check = check_script(ScriptCheckRequest.of(choices))
            spec = fill_in(check, choices, found.devices)
            if choices.launch is None and len(spec.devices) > 1:
                warn(f"{strategy_of(spec).title}, since --launch does not say otherwise. {check.why}")
            return _start(given, spec, found, check)


def _start(given: Namespace, spec: RunSpec, found: Survey, check: ScriptCheckResult | None = None) -> int:
    if problem := refusal(spec, found, check):
        raise ValueError(problem)
    ticked = [device for device in found.devices if device.id in spec.devices]
    if beside := in_a_sentence(ticked, occupancies(found, given.runs)):
        warn(beside)  # and go on: whoever types a command means it
    with _uninterrupted():  # a run that was started is always told
        started = Run.start(spec, given.runs)
    return _go_on(given, started)


def resume(given: Namespace) -> int:
    """Go on with a run that was paused or stopped, that failed or was lost; wait for its end unless detached."""
    run_dir = index.find(given.runs, given.run)
    with _uninterrupted():
        resumed = Run.resume(run_dir)
    return _go_on(given, resumed)


def attach(given: Namespace) -> int:
    """Follow a run to its end; Ctrl-C leaves it alone."""
    return _follow(given, find(given), stops=False)


def stop(given: Namespace) -> int:
    """Ask a run to stop, and wait until it has."""
    asked = _live(given)
    forced = given.force and state_info(asked.facts.state).can_force
    asked.request("force" if forced else "stop")
    state = _wait(asked, "stop", quiet=given.json, force=given.force and not forced)
    if not given.json and (told := hard_end(asked.facts)):
        warn(told)
    say_run(given, asked, ending(asked))
    return 0 if state is RunState.STOPPED else EXIT_CODES[state]


def pause(given: Namespace) -> int:
    """Ask a run to save itself and end, and wait until it has; `resume` goes on with it."""
    asked = _live(given)
    _check_answers(asked, "pause")
    if not state_info(asked.facts.state).can_pause and asked.facts.state is not RunState.CREATED:
        raise ValueError(f"Run {asked.id} cannot be paused: it is {state_info(asked.facts.state).label.lower()}.")
    asked.request("pause")
    state = _wait(asked, "pause", quiet=given.json)
    say_run(given, asked, ending(asked))
    return 0 if state is RunState.PAUSED else EXIT_CODES[state]


def save(given: Namespace) -> int:
    """Ask a run for a checkpoint now, and wait until it is written."""
    asked = _live(given)
    _check_answers(asked, "save")
    asked.request("save")
    try:
        written = _answer(asked, asked.facts.checkpoint)
    except KeyboardInterrupt:
        raise RunError(f"Run {asked.id} has been asked to save and will; nobody waits for it now.") from None
    path = asked.dir / CHECKPOINTS / written.name
    if given.json:
        say_json({"run": asked.id, "checkpoint": written.name, "step": written.step, "path": str(path)})
    else:
        say(str(path))
    return 0


def again(given: Namespace) -> int:
    """Start a run anew as it was asked for, from its beginning; wait for its end unless detached."""
    spec = Run.attach(index.find(given.runs, given.run)).spec()
    return _start(given, spec, survey())


# -- what they share -----------------------------------------------------------------------------


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is over."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _go_on(given: Namespace, started: Run) -> int:
    if given.detach:
        say_run(given, started, started.id)
        return 0
    return _follow(given, started)


def _follow(given: Namespace, followed: Run, *, stops: bool = True) -> int:
    loss = follow(followed, None if given.json else sys.stderr, stops=stops)
    if followed.facts.error and not given.json:
        warn(" ".join(sentence for sentence in (followed.facts.error, log_of(followed)) if sentence))
    say_run(given, followed, outcome(followed, loss))
    return EXIT_CODES[followed.facts.state]


def _check_answers(asked: Run, what: str) -> None:
    if why := unanswered(asked.spec(), what):
        raise ValueError(f"Run {asked.id} goes on. {why}")


def _live(given: Namespace) -> Run:
    found = find(given)
    found.catch_up()
    if state_info(found.facts.state).over:
        raise ValueError(f"Run {found.id} is over already: {state_info(found.facts.state).label.lower()}.")
    return found


def _wait(asked: Run, what: str, *, quiet: bool, force: bool = False) -> RunState:
    """Until the run is over; what is waited for is told, unless `quiet`. With `force` it is, as soon as it can be.

    Raises `RunError` when Ctrl-C comes first, or a pause cannot be had.
    """
    stopping = Stopping(asked.facts)
    try:
        while not state_info(asked.facts.state).over:
            asked.poll()
            for sentence in () if quiet else stopping.news(asked.facts):
                warn(sentence)
            if force and state_info(asked.facts.state).can_force:
                asked.request("force")
                force = False
            if what == "pause" and asked.facts.state is RunState.RUNNING and not _is_asked(asked, what):
                asked.poll()  # once more: why it was taken back is written before it is
                raise RunError(f"Run {asked.id} could not be paused and goes on. {_last_notice(asked)}".strip())
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise RunError(f"Run {asked.id} has been asked to {what} and will; nobody waits for it now.") from None
    return asked.facts.state


def _answer(asked: Run, before: Checkpoint | None) -> Checkpoint:
    """The checkpoint that answers a request. Raises `RunError` when none does."""
    notices = len(asked.facts.notices)
    answered_at: float | None = None
    while True:
        asked.poll()
        facts = asked.facts
        answered = not _is_asked(asked, "save")
        if answered and facts.checkpoint is not None and facts.checkpoint != before:
            return facts.checkpoint
        if state_info(facts.state).over:
            raise RunError(
                f"Run {asked.id} was over before it could be saved: {state_info(facts.state).label.lower()}."
            )
        if answered and len(facts.notices) > notices:
            raise RunError(f"Run {asked.id} could not be saved. {_last_notice(asked)}")
        answered_at = (answered_at or time.monotonic()) if answered else None
        if answered_at is not None and time.monotonic() - answered_at > ANSWER_S:
            if facts.checkpoint is None:
                raise RunError(f"Run {asked.id} could not be saved. The end of its log may say why.")
            return facts.checkpoint
        time.sleep(POLL_S)


def _is_asked(asked: Run, what: str) -> bool:
    return (asked.dir / CONTROL / what).exists()


def _last_notice(asked: Run) -> str:
    return asked.facts.notices[-1] if asked.facts.notices else ""
