"""Start real runs for tests and follow them to a state."""

from __future__ import annotations

import fcntl
import signal
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from core.config.choices import RecipeChoices, ScriptChoices, compose
from core.config.script_check import ScriptCheckRequest, check_script, fill_in
from core.devices.cpu import cpu_devices
from core.history.index import directories
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.series.run_series import RunSeries
from core.system import processes
from tests.support.waiting import wait_until

Key = TypeVar("Key")

CAME_UP = [RunState.STARTING, RunState.RUNNING]

LONG = textwrap.dedent("""\
    def model():
        pass

    def train_data(items=64):
        return [index / items for index in range(items)]
""")
"""A recipe for the fake worker with one short step per epoch. With a million epochs it runs until terminated."""
OWN_OPTIMIZER = textwrap.dedent("""\
    class Descent:
        def __init__(self, params, rate):
            self.param_groups = [{"params": list(params), "lr": rate}]

        def zero_grad(self):
            for each in self.param_groups[0]["params"]:
                each.grad = None

        def step(self):
            with torch.no_grad():
                for each in (each for each in self.param_groups[0]["params"] if each.grad is not None):
                    each.sub_(each.grad, alpha=self.param_groups[0]["lr"])

        def state_dict(self):
            return {"lr": self.param_groups[0]["lr"]}

        def load_state_dict(self, state):
            self.param_groups[0]["lr"] = state["lr"]

    def optimizer(params, learning_rate=0.001):
        return Descent(params, learning_rate)
""")
"""The optimizer of a recipe, as a class of its own: any of torch's would load torch's compiler, which doubles the time
of the start of a process."""
LONG_PYTORCH = (
    textwrap.dedent("""\
    import torch
    from torch import nn

    def model():
        return nn.Linear(4, 2)

    def train_data(items=64):
        torch.manual_seed(0)
        return torch.randn(items, 4), torch.randint(0, 2, (items,))

""")
    + OWN_OPTIMIZER
)
"""The same recipe for PyTorch."""
FOREVER = 1_000_000


def write_recipe(folder: Path, source: str, name: str = "recipe") -> str:
    """Write a recipe file and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return str(path)


def make_spec(
    recipe: str, *, devices: str = "cpu:0", framework: str = "pytorch", strategy: str | None = None,
    settings: dict[str, Any] | None = None, checkpoints: dict[str, Any] | None = None, stop_timeouts: Any = None,
    **training: Any,
) -> RunSpec:
    """Return a spec on CPU devices as the command line makes it."""
    choices = RecipeChoices(
        recipe=recipe, devices=tuple(devices.split(",")), framework=framework, strategy=strategy,
        settings=settings or {}, checkpoints=checkpoints or {}, training=training,
    )
    spec = compose(choices, cpu_devices())
    if stop_timeouts is None:
        return spec
    return replace(spec, stop_timeouts=stop_timeouts)


def script_spec(
    script: Path | str = "", *arguments: str, cwd: Path, devices: str = "cpu:0", launch: str | None = "one",
    **choices: Any,
) -> RunSpec:
    """Return a script's spec on CPU devices as the command line makes it, with the current Python."""
    chosen = ScriptChoices(
        script=str(script), arguments=arguments, working_dir=str(cwd), devices=tuple(devices.split(",")),
        launch=launch, python=choices.pop("python", sys.executable), **choices,
    )
    return fill_in(check_script(ScriptCheckRequest.of(chosen)), chosen, cpu_devices())


def source_spec(folder: Path, source: str, *arguments: str, **choices: Any) -> RunSpec:
    """Return the spec of a script with this source, which is written into the folder that it works in."""
    (folder / "train.py").write_text(source)
    return script_spec(folder / "train.py", *arguments, cwd=folder, **choices)


def at_step(number: int, act: str, returns: str = "weight") -> str:
    """Return the source of `LONG` with a loss that does something at one step. `act`: lines of Python."""
    return f"""{LONG}
def loss():
    calls = []
    def measure(weight, items):
        calls.append(1)
        if len(calls) == {number}:
{textwrap.indent(act, " " * 12)}
        return {returns}
    return measure
"""


class Followed:
    """A run that a test follows, with its metrics."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.run_series = RunSeries()

    @property
    def failure(self) -> str:
        """Why the run has failed, which it must have."""
        assert self.state is RunState.FAILED, self._so_far()
        return str(self.run.facts.error)

    def poll(self) -> Followed:
        self.run_series.fold(self.run.poll())
        return self

    @property
    def state(self) -> RunState:
        return self.run.facts.state

    @property
    def states(self) -> list[RunState]:
        """The states so far, in order."""
        return [state for _, state in self.run.facts.history]

    def until_trained(self, steps: int = 1) -> Followed:
        """Wait until this many steps are reported and the supervisor knows that the workers train."""
        self._wait_for(lambda: self.run.facts.step >= steps, f"step {steps}")
        return self.until(RunState.RUNNING)

    def until(self, state: RunState) -> Followed:
        """Wait for this state since the last start of the run, which may have been resumed."""
        self._wait_for(lambda: state in self._states_since_start(), str(state))
        return self

    def until_over(self) -> Followed:
        """Wait for the end of the run."""
        wait_until(lambda: state_info(self.poll().state).over, f"the run's end; {self._so_far()}")
        return self

    def stop(self) -> Followed:
        """Stop the run and wait for its end."""
        self.run.request("stop")
        return self.until_over()

    def pause(self) -> Followed:
        """Pause the run and wait until it has ended."""
        self.run.request("pause")
        return self.until_over()

    def kill_supervisor(self) -> Followed:
        """Kill the supervisor with SIGKILL, and wait until it is gone."""
        supervisor = self.run.facts.supervisor
        assert supervisor is not None
        processes.send(supervisor, signal.SIGKILL)
        wait_until(lambda: not processes.is_alive(supervisor), "the supervisor to be gone")
        return self

    def until_left(self) -> Followed:
        """Wait for the end of the run, and until its supervisor and its guard have left."""
        facts = self.until_over().run.facts
        owners = [process for process in (facts.supervisor, facts.guard) if process is not None]
        wait_until(lambda: not any(map(processes.is_alive, owners)), "supervisor and guard to leave")
        return self

    def _states_since_start(self) -> list[RunState]:
        states = self.states
        starts = [place for place, state in enumerate(states) if state is RunState.STARTING]
        return states[starts[-1] if starts else 0 :]

    def _wait_for(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until the state is reached or can no longer be reached."""
        wait_until(lambda: reached() or self.poll().state is RunState.FAILED, f"{what}; {self._so_far()}")
        assert reached(), f"{what} was not reached; {self._so_far()}"

    def losses(self) -> list[float]:
        return self.run_series.metrics["loss"].values.tolist()

    def _so_far(self) -> str:
        return f"so far {self.run.facts}; log: {self.run.log_end()}"


def curves(followed: Followed) -> dict[str, list[float]]:
    """Return the values of each metric of a run that has finished."""
    assert followed.state is RunState.FINISHED, f"{followed.run.facts.error}\n{followed.run.log_end()}"
    return {name: each.values.tolist() for name, each in followed.run_series.metrics.items()}


def attached(run_dir: Path) -> Run:
    """Return a run with what its files say so far."""
    run = Run.attach(run_dir)
    run.catch_up()
    return run


def folded(*events: Mapping[str, Any]) -> RunSeries:
    """Return the series of these events."""
    run_series = RunSeries()
    run_series.fold(events)
    return run_series


def start(spec: RunSpec, runs_root: Path) -> Followed:
    """Start a real run."""
    return Followed(Run.start(spec, runs_root))


def kill_tagged(run_id: str) -> None:
    """Kill every process with the tag of this run."""
    for process in processes.tagged(run_id):
        processes.send_tagged(process, run_id, signal.SIGKILL)


def train(spec: RunSpec, runs_root: Path) -> Followed:
    """Start a real run and wait for its end."""
    return start(spec, runs_root).until_over()


def train_both(one: RunSpec, other: RunSpec, runs_root: Path) -> tuple[Followed, Followed]:
    """Run two real runs at the same time to their ends, each on its own device and cores."""
    assert not set(one.devices) & set(other.devices), "the runs would wait for each other"
    first, second = start(one, runs_root), start(other, runs_root)
    return first.until_over(), second.until_over()


class Trained(dict[Key, Followed]):
    """Finished runs that several tests read and none changes. Each run is made at its first use.

    If tests run in several processes, the first one that needs a run makes it, and the others wait for it.
    """

    def __init__(self, make: Callable[[Key, Path], Followed], root: Path) -> None:
        """`make`: a finished run, in a folder of runs."""
        super().__init__()
        self._make, self._root = make, root

    def __missing__(self, key: Key) -> Followed:
        runs_root = self._root / str(key)
        runs_root.mkdir(parents=True, exist_ok=True)
        with (runs_root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = directories(runs_root)
            self[key] = Followed(Run.attach(made[0])).until_over() if made else self._make(key, runs_root)
        return self[key]
