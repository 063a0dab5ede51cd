"""Three processes stop, force, pause, resume, remove and repeat the same run at once: one winner each, nothing left."""

import json
import os
import random
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import RunError
from core.history import removal
from core.runs.facts import RunState, state_info
from core.runs.lock import held
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.system import processes
from tests.support.running import FOREVER, LONG, Followed, attached, make_spec, start, write_recipe
from tests.support.waiting import wait_until

REQUESTS = ("stop", "pause", "force")
ACTIONS = (*REQUESTS, "resume", "remove", "again")
RACERS = 3


@dataclass(frozen=True)
class Result:
    """What one process achieved."""

    action: str
    won: bool
    words: str
    """Why not; the folder of the new run for `again`."""


def act(action: str, run_dir: Path) -> str:
    """Do what a command does. Return the folder of a new run. Raises `RunError` or `ValueError` with a sentence."""
    if action == "resume":
        Run.resume(run_dir)
    elif action == "remove":
        if problem := removal.remove(run_dir).problem:
            raise RunError(problem)
    elif action == "again":
        return str(Run.start(Run.attach(run_dir).spec(), run_dir.parent).dir)
    else:
        run = attached(run_dir)
        if state_info(run.facts.state).over:
            raise ValueError(f"Run {run.id} is over already: {run.facts.state.value}.")
        run.request("stop" if action == "force" else action)
        starts = run.facts.starts
        while action == "force" and run.facts.starts == starts and not state_info(run.facts.state).over:
            run.poll()  # as `stop --force` does; once the run was resumed, the request is no longer there
            if state_info(run.facts.state).can_force:
                run.request("force")
                break
    return ""


def race(actions: list[str], run_dir: Path) -> list[Result]:
    """Let one process per action act at the same moment. Fails if one ends without a sentence."""
    ready, go = os.pipe()
    racers = []
    for action in actions:
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                os.close(go)
                os.read(ready, 1)  # until the parent closes its end
                try:
                    answer = Result(action, won=True, words=act(action, run_dir))
                except (RunError, ValueError) as error:
                    answer = Result(action, won=False, words=str(error))
                os.write(writing, json.dumps([answer.action, answer.won, answer.words]).encode())
            except Exception:  # noqa: BLE001 (the outer border of this process)
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writing)
        racers.append(reading)
    os.close(ready)
    os.close(go)
    results = []
    for action, reading in zip(actions, racers, strict=True):
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        assert answer, f"{action} ended without an answer; its traceback is above"
        results.append(Result(*json.loads(answer)))
    for _ in actions:
        os.wait()
    assert all(each.won or each.words.endswith((".", "--end", "stop " + run_dir.name)) for each in results), results
    return results


class Races:
    """Races on one run after the other; a run that is removed is followed by a new one."""

    def __init__(self, spec: RunSpec, runs_root: Path, seed: int) -> None:
        self._spec, self._root, self._chance = spec, runs_root, random.Random(seed)
        self._followed: Followed | None = None
        self.wins: dict[str, int] = dict.fromkeys(ACTIONS, 0)

    def round(self) -> None:
        """Race once, and judge the result."""
        followed = self._followed = self._followed or start(self._spec, self._root).until_trained(1)
        was_over, starts = state_info(followed.poll().state).over, followed.run.facts.starts
        actions = self._chance.choices(ACTIONS, weights=(4, 4, 2, 4, 3, 1), k=RACERS)
        if self._chance.random() < 0.5:
            actions = actions[:1] * RACERS
        results = race(actions, followed.run.dir)
        won = [each.action for each in results if each.won]
        for action in won:
            self.wins[action] += 1
        for each in results:
            if each.action == "again" and each.won:
                self._end_copy(Run.attach(self._root / each.words))
        told = f"{'over' if was_over else 'live'}: {results}"
        if was_over and set(actions) <= {"resume", "remove", "again"}:
            assert won.count("resume") + won.count("remove") == (set(actions) != {"again"}), told
        assert won.count("remove") <= 1, told
        if "remove" in won:
            assert not followed.run.dir.exists(), told
            assert processes.tagged(followed.run.id) == [], told
            self._followed = None
        else:
            self._judge(followed, starts, won, was_over=was_over, told=told)

    def _judge(self, followed: Followed, starts: int, won: list[str], *, was_over: bool, told: str) -> None:
        followed.poll()
        assert followed.run.facts.starts == starts + won.count("resume"), told
        if "resume" in won:  # a request that came at the same moment may hold for the new part, or for the one before
            allowed = {RunState.RUNNING, RunState.STOPPED, RunState.PAUSED}
        elif was_over:
            allowed = {followed.state}
        else:
            named = {RunState.STOPPED: {"stop", "force"} & {*won}, RunState.PAUSED: "pause" in won}
            allowed = {state for state, is_named in named.items() if is_named} or {RunState.RUNNING}
        wait_until(lambda: followed.poll().state in allowed, f"{allowed}; {told}; {followed.run.facts}")
        facts = followed.run.facts
        assert facts.error is None, (told, facts)
        assert not [each for each in facts.notices if "could not be" in each], (told, facts)
        if state_info(facts.state).over:
            with held(followed.run.dir):
                assert processes.tagged(followed.run.id) == [], told

    def _end_copy(self, run: Run) -> None:
        copy = Followed(run)
        run.request("stop")
        assert copy.until_over().state is RunState.STOPPED
        assert copy.states.count(RunState.STARTING) == 1

    def close(self) -> None:
        """Stop the last run, and check its curve."""
        followed = self._followed
        if followed is not None and not state_info(followed.poll().state).over:
            assert followed.stop().state is RunState.STOPPED
            steps = followed.run_series.metrics["loss"].steps.tolist()
            assert steps == list(range(1, len(steps) + 1))


@pytest.mark.e2e
@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(20, marks=pytest.mark.timeout(1200)),
        pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
)
def test_three_processes_that_act_at_once_have_one_winner(runs_root: Path, tmp_path: Path, rounds: int) -> None:
    spec = make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER, checkpoints={"unit": "never"})
    seed = int(os.environ.get("TRAINYARD_TEST_SEED", "7"))
    races = Races(spec, runs_root, seed)
    print(f"seed {seed}")
    number = 0
    while number < rounds or not all(races.wins.values()):  # which one wins when is a matter of chance
        print(f"round {number}")
        races.round()
        number += 1
    races.close()
    print(f"wins: {races.wins}")
