"""Random kills of the processes of runs over two machines: right states, nothing left, no claim left, the same curve.

TRAINYARD_TEST_SEED sets the seed, which is printed. Each round starts a framework four times, cold: some twenty seconds
of processor time with PyTorch, forty with TensorFlow.
"""

import contextlib
import os
import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from core.hosts.parts import run_hosts
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.spec import RunSpec
from tests.support.queueing import is_free
from tests.support.running import FOREVER, LONG_PYTORCH, Followed, make_spec, start, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer, add_host
from tests.support.two_hosts import cuts, over_hosts, parts, processes_there, supervisors_there
from tests.support.waiting import PATIENCE_S, wait_until

ROUNDS = {"ddp": 24, "multi_worker_mirrored": 12, "parameter_server": 6}
GRACE_S = 10
STARTED_S = 8.0
"""Seconds within which a run that starts is hit."""
TRAINED_S = 1.0
"""Seconds within which a run that trains is hit."""
REFERENCE_STEPS = 5000
VICTIMS = ("supervisor", "worker", "ssh", "agent", "worker there", "supervisor there")
LINKS = {"agent", "ssh"}
"""What a run that trains survives."""
QUEUE = "TRAINYARD_QUEUE_DIR"
pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(3600)]


@dataclass
class Hits:
    """What was killed in one round, and in which states."""

    killed: list[str] = field(default_factory=list)
    was_training: bool = True
    """Whether the run was training at each of them."""
    may_wait: bool = True
    """Whether a run that was cut off waits as long as it takes for its connection to be made again."""

    def allowed(self) -> set[RunState]:
        """Return the states in which the run may end. A run that survives is stopped."""
        if "supervisor" in self.killed:
            # What was killed before it may have ended the run already.
            return {RunState.LOST} if self.killed[0] == "supervisor" else {RunState.LOST, RunState.FAILED}
        if set(self.killed) <= LINKS:
            survives = self.was_training and self.may_wait
            return {RunState.STOPPED} if survives else {RunState.STOPPED, RunState.FAILED}
        return {RunState.FAILED}


class Soak:
    """Rounds of starting a run, killing some of its processes, and resuming it."""

    def __init__(self, server: SshServer, spec: RunSpec, runs_root: Path, mark: str, seed: int) -> None:
        """`mark`: the variable that every process of the test has in its environment."""
        self._server, self._spec, self._runs_root, self._mark = server, spec, runs_root, mark.encode()
        self._tolerance = 1e-5 if spec.framework == "pytorch" else 1e-4
        self._chance = random.Random(seed)
        self.hits: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()

    def round(self, reference: list[float]) -> None:
        """Start a run, kill processes of it at random moments, and resume it."""
        victims = [self._chance.choice(VICTIMS) for _ in range(self._chance.choice([1, 1, 2]))]
        hits = Hits(may_wait=LINKS.issuperset(victims))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(run_hosts.GRACE_VARIABLE, str(PATIENCE_S if hits.may_wait else GRACE_S))
            run = start(self._spec, self._runs_root)
        if self._chance.random() < 0.5:
            run.until_trained(20)
            self._nap(TRAINED_S)
        else:
            self._nap(STARTED_S)
        for name in victims:
            self._hit(run, name, hits)
        print(f"killed {hits.killed} while {'training' if hits.was_training else 'starting'}: ", end="", flush=True)
        self._end(run, hits)
        print(f"{run.state.value}, parts {[each.value for each in self._ends_there()]}", flush=True)
        assert run.state in hits.allowed(), (hits, run.run.facts)
        self._check_tidy()
        self._check_parts(run, hits)
        self._resume(run, reference)

    def _nap(self, seconds: float) -> None:
        moment = time.monotonic() + self._chance.random() * seconds
        wait_until(lambda: time.monotonic() > moment, "the moment")

    def _hit(self, run: Followed, name: str, hits: Hits) -> None:
        """Kill one process at once, or as soon as it is there; nothing if the run ends before."""
        find = {
            "supervisor": lambda: self._here(run, "supervisor"),
            "worker": lambda: self._here(run, "worker"),
            "ssh": lambda: [each for each in self._children(run) if each.name() == "ssh"],
            "agent": self._server.agents,
            "worker there": lambda: [each for each in processes_there(self._server) if "boot.py" in _words(each)],
            "supervisor there": lambda: supervisors_there(self._server),
        }[name]
        found: list[psutil.Process] = []

        def is_there() -> bool:
            with contextlib.suppress(psutil.Error):  # one has ended
                found[:] = find()
            return bool(found) or state_info(run.poll().state).over

        wait_until(is_there, f"the {name} to hit")
        was_training = run.state is RunState.RUNNING
        for each in found[:1]:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
            hits.killed.append(name)
            hits.was_training &= was_training
            self.hits[name] += 1

    def _here(self, run: Followed, name: str) -> list[psutil.Process]:
        facts = run.poll().run.facts
        worker = facts.workers.get(0)
        found = facts.supervisor if name == "supervisor" else worker.process if worker is not None else None
        return [psutil.Process(found.pid)] if found is not None else []

    def _children(self, run: Followed) -> list[psutil.Process]:
        return [child for each in self._here(run, "supervisor") for child in each.children(recursive=True)]

    def _end(self, run: Followed, hits: Hits) -> None:
        """Wait for the end of a run, and stop one that survives."""
        if set(hits.killed) <= LINKS:
            wait_until(lambda: self._goes_on(run, hits), "the run to go on after the cut, or to end")
            run.run.request("stop")
        run.until_over()

    def _goes_on(self, run: Followed, hits: Hits) -> bool:
        over = state_info(run.poll().state).over
        return over or (run.state is RunState.RUNNING and (cuts(run) > 0 or not hits.killed or not hits.was_training))

    def _ends_there(self) -> list[RunState]:
        """Return the states of the parts on the host."""
        found = []
        for part in parts(self._server):
            there = Run(part)
            there.catch_up()
            found.append(there.facts.state)
        return found

    def _check_tidy(self) -> None:
        """Check that nothing of the run is left on either machine, and no claim of it."""
        wait_until(lambda: not self._alive(), "the processes of the run on both machines to end")
        assert is_free("cpu:0")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(QUEUE, str(line_there(self._server)))
            assert is_free("cpu:1")

    def _alive(self) -> list[str]:
        """Return the command lines of the processes of the test that are alive, here and on the host."""
        return [words for pid in psutil.pids() if (words := self._words_of_own(pid))]

    def _words_of_own(self, pid: int) -> str:
        """Return the command line of a process of the test; the empty string for another one, or if it has ended."""
        with contextlib.suppress(OSError, psutil.Error):
            if self._mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return _words(psutil.Process(pid))
        return ""

    def _check_parts(self, run: Followed, hits: Hits) -> None:
        """Check that parts are over, and that a lost head is named in them."""
        states = self._ends_there()
        assert all(state_info(state).over for state in states), states
        if run.state is not RunState.LOST:
            self.ends.update([run.state.value])
            return
        self.ends.update([f"lost, part {state.value}" for state in states] or ["lost, no part"])
        if hits.killed == ["supervisor"]:
            assert set(states) <= {RunState.HEAD_LOST}, states

    def _resume(self, run: Followed, reference: list[float]) -> None:
        """Resume a run, and compare its curve with that of one device."""
        resumed = Followed(Run.resume(run.run.dir)).until_trained(run.run.facts.step + 20)
        resumed.stop()
        assert resumed.state is RunState.STOPPED, resumed.run.facts
        assert parts(self._server) == []
        self._check_tidy()
        metric = resumed.run_series.metrics["loss"]
        assert metric.steps.tolist() == list(range(1, len(metric.steps) + 1))
        count = min(len(reference), len(metric.steps))
        assert resumed.losses()[:count] == pytest.approx(reference[:count], rel=self._tolerance, abs=1e-6)


def _words(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def line_there(server: SshServer) -> Path:
    """Return the folder of the claims on the host."""
    return server.folder / "line-there"


def recipe_of(strategy: str, tmp_path: Path) -> RunSpec:
    """Return a run of one device that goes on until it is stopped, for the framework of a strategy."""
    if strategy == "ddp":
        return make_spec(write_recipe(tmp_path, LONG_PYTORCH), epochs=FOREVER)
    return make_spec("digits_mlp", framework="tensorflow", epochs=FOREVER)


def curve_of_one_device(spec: RunSpec, runs_root: Path) -> list[float]:
    """Return the first losses of a run on one device, which is then stopped."""
    alone = start(replace(spec, checkpoints=replace(spec.checkpoints, unit="never")), runs_root)
    alone.until_trained(REFERENCE_STEPS)
    alone.run.request("stop")
    return alone.until_over().losses()


@pytest.mark.parametrize("strategy", list(ROUNDS))
def test_no_kill_over_two_machines_leaves_a_wrong_state(
    server: SshServer, runs_root: Path, tmp_path: Path, strategy: str
) -> None:
    seed = int(os.environ.get("TRAINYARD_TEST_SEED", "22"))
    line_there(server).mkdir(exist_ok=True)
    add_host("one", f"env {QUEUE}={line_there(server)} {TRAINYARD}")
    plain = recipe_of(strategy, tmp_path)
    saved = replace(plain, checkpoints=replace(plain.checkpoints, unit="steps", every=50))
    # Asynchronous training has another curve each time.
    reference = [] if strategy == "parameter_server" else curve_of_one_device(plain, runs_root)

    soak = Soak(server, over_hosts(saved, strategy), runs_root, f"TESTS_OF_TRAINYARD={tmp_path}", seed)
    print(f"seed {seed}")
    try:
        for _ in range(ROUNDS[strategy]):
            soak.round(reference)
    finally:
        print(f"hits: {dict(soak.hits)}\nends: {dict(soak.ends)}")
        for part in parts(server):
            shutil.rmtree(part)
