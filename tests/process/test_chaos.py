"""SIGKILL and SIGSTOP at random moments for every process of a run: right states, right curves, nothing left.

The seed is printed when a run ends in a wrong way; TRAINYARD_TEST_SEED sets it.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from core.cli.runs import EXIT_CODES
from core.history import removal
from core.runs import stopped
from core.runs.facts import RunState, state_info
from core.runs.lock import held
from core.runs.run import Run
from core.schema.settings import StopTimeouts
from core.schema.spec import RunSpec
from core.system import processes, procfs
from core.system.own_processes import SUPERVISOR
from core.system.processes import ProcessId
from core.system.terminate import terminate
from tests.support.running import FOREVER, LONG, Followed, make_spec, script_spec, start, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
SOON = StopTimeouts(ask_s=0.5, interrupt_s=0.5, terminate_s=0.5)
SAVES = {"unit": "steps", "every": 100, "keep": 2}
SCRIPT = """\
import time
step = 0
while True:
    step += 1
    print(f"step {step} loss {1 / step:.6f}", flush=True)
    time.sleep(0.002)
"""
MOMENT_S = 0.3
"""Seconds within which a process is hit."""


@dataclass
class Blows:
    """What was done to one part of a run, and what may come of it."""

    told: list[str] = field(default_factory=list)
    killed: set[str] = field(default_factory=set)
    asked: set[RunState] = field(default_factory=set)
    """The states that requests lead to."""
    before_end: set[str] = field(default_factory=set)
    """What was killed while the run trained and no request was made, so that it cannot have ended otherwise."""

    helpers: list[ProcessId] = field(default_factory=list)
    """Helpers that were hit, and may be stopped."""

    def allowed(self) -> set[RunState]:
        """Return the states in which the run may end; a stop is requested at the end of all."""
        if "supervisor" in self.before_end:
            return {RunState.LOST}
        if "worker" in self.before_end:
            return {RunState.FAILED} | ({RunState.LOST} if "supervisor" in self.killed else set())
        states = self.asked | {RunState.STOPPED}
        states |= {RunState.LOST} if {"supervisor", "launched process"} & self.killed else set()
        return states | ({RunState.FAILED} if {"worker", "helper of a start"} & self.killed else set())


class Chaos:
    """Runs of all kinds whose processes are hit. One window and one command look on."""

    def __init__(
        self, runs_root: Path, specs: Mapping[str, RunSpec], seed: int, expected: Callable[[RunSpec, int], list[float]],
        tolerance: float = 1e-5,
    ) -> None:
        """`specs`: endless runs by kind. `expected`: the first losses of an undisturbed run, as far as known."""
        self._root, self._specs, self._chance = runs_root, specs, random.Random(seed)
        self._expected, self._tolerance = expected, tolerance
        self.hits: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self._resumable: list[Path] = []
        self._window: subprocess.Popen[bytes] | None = None
        self._command: subprocess.Popen[bytes] | None = None

    def episode(self) -> None:
        """Let one run live, hit its processes once to three times, end it, and judge what is left."""
        followed, kind = self._begin()
        blows = Blows([kind])
        self._look_on(followed)
        if self._chance.random() < 0.8:
            with contextlib.suppress(AssertionError):
                followed.until_trained(followed.run.facts.step + 1)
        for _ in range(self._chance.randint(1, 3)):
            self._request(followed, kind, blows)
            self._nap()
            self._hit(followed, blows)
        self._end(followed, blows)
        self._judge(followed, kind, blows)

    def close(self) -> None:
        """End window and command."""
        for process in (self._window, self._command):
            if process is not None:
                process.kill()
                process.communicate()

    # -- the life of a run ---------------------------------------------------------------------------

    def _begin(self) -> tuple[Followed, str]:
        """Start a run, or resume one that ended before."""
        if self._resumable and self._chance.random() < 0.4:
            followed = Followed(Run.resume(self._resumable.pop()))
            # Until the new supervisor has named itself, the run has the state in which it ended before.
            wait_until(lambda: not state_info(followed.poll().state).over, "the resumed run to begin")
            return followed, "resumed"
        kind = self._chance.choice(list(self._specs))
        return start(self._specs[kind], self._root), kind

    def _look_on(self, followed: Followed) -> None:
        """Have a window, and now and then a command that follows this run."""
        if self._window is None:
            self._window = subprocess.Popen(
                [sys.executable, "-m", "tests.support.watching", str(self._root)], cwd=ROOT,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            )
        if self._command is None and self._chance.random() < 0.4:
            self._command = subprocess.Popen(
                [sys.executable, "-m", "core.cli", "attach", str(followed.run.dir)], cwd=ROOT,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )

    def _nap(self) -> None:
        moment = time.monotonic() + self._chance.random() * MOMENT_S
        wait_until(lambda: time.monotonic() > moment, "the moment")

    def _request(self, followed: Followed, kind: str, blows: Blows) -> None:
        """Now and then, pause or stop the run while it is hit."""
        if self._chance.random() < 0.25 and not state_info(followed.poll().state).over:
            name = "stop" if followed.run.spec().script is not None else self._chance.choice(["stop", "pause"])
            followed.run.request(name)
            blows.told.append(name)
            blows.asked.add(RunState.PAUSED if name == "pause" else RunState.STOPPED)

    def _hit(self, followed: Followed, blows: Blows) -> None:
        found = {name: group for name, group in self._victims(followed).items() if group}
        if not found:
            return
        # The window starts slowly, so it is hit less often.
        name = self._chance.choices(list(found), [1 if each == "window" else 4 for each in found])[0]
        number = self._chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        victims = found[name] if self._chance.random() < 0.3 else [self._chance.choice(found[name])]
        trained = followed.poll().state is RunState.RUNNING and not blows.asked
        hit = [each for each in victims if processes.send(each, number)]
        if number is signal.SIGSTOP:
            wait_until(lambda: all(map(_has_stopped, hit)), "the signal to be delivered")
        blows.told.append(f"{number.name} {name} {[each.pid for each in hit]} while {followed.state.value}")
        self.hits[f"{number.name} {name}"] += 1
        if number is signal.SIGKILL and hit:
            if trained and not blows.before_end & {"supervisor", "worker"}:
                blows.before_end.add(name)
            blows.killed.add(name)
        if name == "helper" and hit:
            blows.helpers += hit
            # Without the process that reads measurements, a script is not started.
            blows.killed |= set() if trained else {"helper of a start"}
        if number is signal.SIGSTOP and self._chance.random() < 0.6:
            self._nap()
            for each in hit:
                processes.send(each, signal.SIGCONT)
            blows.told.append("SIGCONT")

    def _victims(self, followed: Followed) -> dict[str, list[ProcessId]]:
        facts = followed.poll().run.facts
        workers = [each.process for each in facts.workers.values()]
        helpers = []
        if facts.supervisor is not None:
            with contextlib.suppress(psutil.Error):
                children = psutil.Process(facts.supervisor.pid).children()
                helpers = [identity for each in children if (identity := processes.identify(each.pid))]
        watching = {"window": self._window, "command": self._command}
        return {
            "supervisor": _alive(facts.supervisor),
            "guard": _alive(facts.guard),
            "launched process": _alive(followed.run._coming_up) if facts.guard is None else [],
            "worker": [each for worker in workers for each in _alive(worker)],
            "helper": [each for each in helpers if each not in workers],
            **{name: _alive(processes.identify(each.pid)) if each else [] for name, each in watching.items()},
        }

    def _end(self, followed: Followed, blows: Blows) -> None:
        """Stop the run if it lives, as `trainyard stop --force` does for one with stopped processes."""
        for process in (self._window, self._command):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
        launched = followed.run._coming_up
        if launched is not None and followed.run.facts.supervisor is None:
            processes.send(launched, signal.SIGCONT)  # no event names it yet
        for helper in blows.helpers:
            processes.send(helper, signal.SIGCONT)

        def is_over() -> bool:
            if state_info(followed.poll().state).over:
                return True
            if words := stopped.continue_supervisor(followed.run.dir, followed.run.facts):
                blows.told.append(words)
                blows.killed |= {"supervisor"} if "was killed" in words else set()
            followed.run.request("force" if state_info(followed.state).can_force else "stop")
            return False

        wait_until(is_over, f"the end of the run; {blows.told}")
        stopped.continue_supervisor(followed.run.dir, followed.run.facts)  # a guard that was stopped after the end
        blows.told.append("stop")

    # -- the judgement -------------------------------------------------------------------------------

    def _judge(self, followed: Followed, kind: str, blows: Blows) -> None:
        run, told = followed.run, blows.told
        self.ends[f"{kind}: {followed.state.value}"] += 1
        print(run.id, *told, followed.state.value, sep=", ")
        assert followed.state in blows.allowed(), (told, blows.allowed(), run.facts, run.log_end())
        assert not any("could not be read" in text for text in run.facts.notices), (told, run.facts.notices)
        self._judge_leftovers(followed, blows)
        self._judge_curve(followed, told)
        if self._command is not None and "command" in blows.killed:
            self._command.kill()
            self._command.wait()
            self._command = None
        if self._command is not None:
            code = self._command.wait(PATIENCE_S)
            expected = {EXIT_CODES[followed.state]}
            if any(each.startswith("SIGSTOP launched process") for each in told):
                expected.add(EXIT_CODES[RunState.LOST])  # as a run counts whose first process does not go on
            assert code in expected, (told, code, followed.state)
            self._command = None
        if self._window is not None and "window" in blows.killed:
            self._window.communicate()
            self._window = None
        assert self._window is None or self._window.poll() is None, told
        if state_info(followed.state).can_resume and run.spec().script is None and followed.states:
            self._resumable.append(run.dir)

    def _judge_leftovers(self, followed: Followed, blows: Blows) -> None:
        """All processes end by themselves, unless both supervisor and guard were killed: then sweep finds them."""
        run, told = followed.run, blows.told
        if followed.state is RunState.LOST and {"guard", "launched process"} & blows.killed:
            own = [each for each in removal.find_orphans([self._root]) if each.run_id == run.id]
            assert not terminate(lambda: own, grace_s=0.5, patience_s=PATIENCE_S).left, told
            for process in _of_folder(run.dir):  # a helper that was stopped: nothing else knows it
                processes.send(process, signal.SIGCONT)
        wait_until(lambda: not processes.tagged(run.id), f"the end of all processes; {told}")
        wait_until(lambda: not _of_folder(run.dir), f"the end of supervisor, guard and helpers; {told}")
        with held(run.dir):
            pass

    def _judge_curve(self, followed: Followed, told: list[str]) -> None:
        """Every step once, in order, with its loss."""
        run = Followed(Run.attach(followed.run.dir)).until_over()
        series = run.run_series.metrics.get("loss")
        if series is None or not series.count:
            return
        steps, losses = series.steps.tolist(), series.values.tolist()
        assert steps == list(range(1, len(steps) + 1)), (told, steps[:5], steps[-5:])
        expected = self._expected(run.run.spec(), len(steps))
        wrong = [
            (step, loss, right)
            for step, loss, right in zip(steps, losses, expected, strict=False)
            if abs(loss - right) > self._tolerance
        ]
        assert not wrong, (told, wrong[:3])


def losses_of_fake_worker(spec: RunSpec, count: int) -> list[float]:
    """Return the losses of an undisturbed run; see `State` in `tests.support.fake_worker`."""
    if spec.script is not None:
        return [1 / step for step in range(1, count + 1)]
    chance, weight, losses = random.Random(spec.training.seed), 0.9, []
    for _ in range(count):
        weight *= 1 - min(spec.training.learning_rate or 0.01, 0.05)
        losses.append(weight + 0.001 * chance.random())
    return losses


def _alive(process: ProcessId | None) -> list[ProcessId]:
    return [process] if process is not None and processes.is_alive(process) else []


def _has_stopped(process: ProcessId) -> bool:
    stat = procfs.stat(process.pid)
    return not processes.is_alive(process) or (stat is not None and stat.state in procfs.STOPPED)


def _of_folder(run_dir: Path) -> list[ProcessId]:
    """Return the supervisor, the guard and the forked helpers of a run, by their command line."""
    found = [pid for pid in procfs.pids() if {SUPERVISOR, str(run_dir)} <= {*procfs.words(pid)}]
    return [process for pid in found if (process := processes.identify(pid))]


def play(chaos: Chaos, seed: int, hits: int) -> None:
    """Let episodes follow each other until so many processes were hit."""
    print(f"seed {seed}")
    try:
        while chaos.hits.total() < hits:
            chaos.episode()
    finally:
        print(f"hits: {dict(chaos.hits)}\nends: {dict(chaos.ends)}")
        chaos.close()


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("hits", [12, pytest.param(300, marks=pytest.mark.soak)])
def test_no_kill_or_stop_of_any_process_leaves_a_wrong_state(runs_root: Path, tmp_path: Path, hits: int) -> None:
    seed = int(os.environ.get("TRAINYARD_TEST_SEED", "11"))
    runs_root.mkdir()
    recipe, script = write_recipe(tmp_path / "actors", LONG), tmp_path / "actors" / "prints.py"
    script.write_text(SCRIPT)
    specs = {
        "one device": make_spec(recipe, epochs=FOREVER, stop_timeouts=SOON, checkpoints=SAVES),
        "two devices": make_spec(
            recipe, epochs=FOREVER, stop_timeouts=SOON, checkpoints=SAVES, devices="cpu:0,cpu:1"
        ),
        "script": replace(script_spec(script, cwd=script.parent), stop_timeouts=SOON),
    }
    play(Chaos(runs_root, specs, seed, losses_of_fake_worker), seed, hits)
