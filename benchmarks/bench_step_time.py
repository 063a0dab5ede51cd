"""How often the verdict on slow steps is right: a sleep of 30 % of a step in each part, and none, many times.

    python -m benchmarks.bench_step_time [--only NAME ...] [--trials N] [--epochs N]

A run has many trials, one after the other: in each, one rank sleeps in one part of its steps. The verdict is made from
the steps that were measured in that trial alone. The run measures steps more often than usual, to have enough of them.

What measuring costs is the throughput of `digits_cnn` with it over that without, in turns.

Of one process there are no others to compare with: a sleep in a pass must make that pass the longest. Keras reads data
ahead: there the sleep is longer than the rest of a step, else it would hold nothing up.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.panel import Work
from benchmarks.report import Stolen, table, write_json
from benchmarks.turns import RANKS_TURN_S, TURN_S, compare
from core.catalog import frameworks, recipes
from core.cli.runs import follow
from core.config import validation
from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.diagnosis.step_time import LEAST, PARTS, diagnose
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.event_kinds import StepTime, read_all

PHASES = ("data", "forward", "backward", "optimizer")
CASES = {
    "pytorch.ddp": 2, "tensorflow.single": 1, "tensorflow.multi_worker_mirrored": 2,
    "keras.single": 1,
}
"""Devices of each."""
MARK = 0.995
STEPS = 20
"""Steps of a trial."""
HEAD = """\
import sys, time

PLAN, STEPS, HIDDEN = {plan}, {steps}, {hidden}
BASE = {{"data": 0.001, "forward": 0.03, "backward": 0.03, "optimizer": 0.03}}
EXTRA = 0.03
own = "_trainyard.worker.training."
if own + "step_times" in sys.modules:  # but for a process that only fetches data
    times, reporter = sys.modules[own + "step_times"], sys.modules[own + "metrics_reporter"]
    times.LEAST_S, times.KEPT, times.SHARE = 0.0, 1e9, 1e9
    reporter.REPORT_EVERY_S, reporter.REPORTS_SHARE = 0.02, 1.0
done = {{"data": 0, "forward": 0, "backward": 0, "optimizer": 0}}


def pause(phase, rank=0):
    done[phase] += 1
    trial = (done[phase] - 1) // STEPS
    who, where = PLAN[min(trial, len(PLAN) - 1)]
    time.sleep(BASE[phase] + EXTRA * ((who, where) == (rank, phase)))
"""
TORCH = HEAD + """
import torch
from torch import nn


def nap(phase):
    pause(phase, torch.distributed.get_rank())


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        nap("forward")
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        nap("backward")
        return gradient


class Model(nn.Sequential):
    def forward(self, x):
        return super().forward(Nap.apply(self[0](x)))


def model():
    return Model(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))


class Napping(torch.optim.SGD):
    def step(self, closure=None):
        nap("optimizer")
        super().step()


def optimizer(params, learning_rate=0.01):
    return Napping(params, learning_rate)


def train_data(items={items}):
    return torch.utils.data.TensorDataset(torch.randn(items, 64), torch.zeros(items, dtype=torch.long))


def collate(items):
    nap("data")
    return torch.utils.data.default_collate(items)
"""
KERAS = HEAD + '''
import json, os
import keras, numpy, tensorflow as tf


def rank():
    return json.loads(os.environ.get("TF_CONFIG", "{{}}")).get("task", {{}}).get("index", 0)


def nap(phase, x):
    def sleep(value):
        pause(phase, rank())
        return value
    done = tf.numpy_function(sleep, [x], x.dtype, stateful=True)
    return tf.ensure_shape(done, x.shape)


@tf.custom_gradient
def napping(x):
    return nap("forward", x), lambda gradient: nap("backward", gradient)


class Nap(keras.Layer):
    def call(self, x):
        return napping(x)

    def compute_output_shape(self, shape):
        return shape


def model():
    return keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(64), Nap(), keras.layers.Dense(10)])


class Napping(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        if variable.shape == (64, 64):
            gradient = nap("optimizer", gradient)
        super().update_step(gradient, variable, learning_rate)


def optimizer(learning_rate=0.01):
    return Napping(learning_rate)


def train_data(items={items}):
    if not HIDDEN:
        return [(numpy.zeros(64, numpy.float32) + item / items, 0) for item in range(items)]
    data = tf.data.Dataset.from_tensor_slices((tf.random.normal([items, 64]), tf.zeros([items], tf.int64)))
    return data.map(lambda x, y: (tf.ensure_shape(tf.numpy_function(read, [x], x.dtype), x.shape), y))


def read(item):
    """Read one item, many steps ahead of the training at first: fill the buffer for shuffling."""
    if done["forward"] and PLAN[min((done["forward"] - 1) // STEPS, len(PLAN) - 1)][1] == "data":
        time.sleep(5 * EXTRA / {batch})
    return item


if not HIDDEN:
    def collate(items):
        if len(items) == {batch}:  # else it is the one for the shapes
            pause("data", rank())
        inputs, targets = zip(*items)
        return numpy.stack(inputs), numpy.array(targets)
'''
BATCH = 8


WITHOUT = """
import sys

for name, each in sys.modules.items():
    if name.startswith("_trainyard.worker.") and name.endswith(".step_times"):
        each.LEAST_S = 1e9
        each.StepTimes.note = lambda self, part, computed: computed
"""


def trials_of(name: str, count: int) -> list[tuple[int, str]]:
    """Return so many trials of each part, and of none, in any order: the rank that sleeps, and the part."""
    chance = random.Random(name)
    plan = [(chance.randrange(CASES[name]), kind) for kind in (*PHASES, "none") for _ in range(count)]
    chance.shuffle(plan)
    return plan


def measure(name: str, plan: list[tuple[int, str]]) -> dict:
    """Train all trials of a case in one run, and count the right verdicts by phase. The first is not judged."""
    framework, _, strategy = name.partition(".")
    count, stolen = CASES[name], Stolen()
    steps = STEPS * (len(plan) + 1)
    pauses = framework == "keras" and any(phase == "data" for _, phase in plan)
    items = BATCH * steps + 10_000 * pauses  # a buffer for shuffling is filled first
    text = (TORCH if framework == "pytorch" else KERAS).format(
        plan=plan, steps=STEPS, items=items, batch=BATCH, hidden=int(framework == "keras"))
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder, "napping.py")
        recipe.write_text(text)
        choices = RecipeChoices(
            framework=framework, strategy=strategy, recipe=str(recipe),
            devices=tuple(each.id for each in cpu_devices()[:count]), checkpoints={"unit": "never"},
            training={"epochs": 1, "batch_size": BATCH, "learning_rate": 0.01},
        )
        run = Run.start(compose(choices, cpu_devices()), Path(folder, "runs"))
        follow(run, None)
        if run.facts.state is not RunState.FINISHED:
            raise SystemExit(f"{name}: {run.facts.error}\n{run.log_end()}")
        measured = read_all(StepTime, Run.attach(run.dir).catch_up())
    return {**_judge(plan, measured, several=count > 1), "stolen": stolen.share()}


def cost(name: str, epochs: int) -> dict:
    """Train with and without measuring, in turns."""
    framework, _, strategy = name.partition(".")
    stolen = Stolen()
    with tempfile.TemporaryDirectory() as folder:
        text = recipes.standalone(recipes.find("digits_cnn", framework))
        paths = [Path(folder, f"{each}.py") for each in ("with", "without")]
        for path, more in zip(paths, ("", WITHOUT), strict=True):
            path.write_text(text + more)
        works = [
            Work(recipe=str(path), framework=framework, strategy=strategy, epochs=epochs,
                 devices=tuple(each.id for each in cpu_devices()[:CASES[name]]))
            for path in paths
        ]
        found = compare(works[0], RANKS_TURN_S if CASES[name] > 1 else TURN_S, other=works[1])
    assert found.panel_loss == found.hand_loss, "measuring has changed the training"
    return {"ratio": found.ratio, "error": found.error, "stolen": stolen.share()}


def _judge(plan: list, measured: list[StepTime], *, several: bool) -> dict:
    steps: dict[int, dict[int, StepTime]] = {}
    for each in measured:
        steps.setdefault(each.step, {})[each.rank] = each
    ranks = max(map(len, steps.values()))
    right, judged, wrong = dict.fromkeys([*PHASES, "none"], 0), dict.fromkeys([*PHASES, "none"], 0), []
    for trial, (rank, phase) in enumerate(plan):
        # The first steps are left out: batches are read ahead.
        bounds = range(trial * STEPS + 6, (trial + 1) * STEPS + 1)
        window = [found for step, found in sorted(steps.items()) if step in bounds and len(found) == ranks]
        if not trial or len(window) < LEAST:
            continue
        judged[phase] += 1
        found = diagnose(window)
        first = found.findings[0] if found.findings else None
        if phase == "none":
            is_right = found.verdict in {"compute", "balanced", None}
        elif several:
            is_right = first is not None and (first.kind, first.rank, first.phase) == ("straggler", rank, phase)
        elif phase == "data":
            is_right = found.verdict == "input"
        else:
            is_right = first is not None and (first.kind, first.phase) == ("compute", phase)
        right[phase] += is_right
        if not is_right:
            wrong.append((rank, phase, found.sentence))
    left = [1 - sum(getattr(each, part) or 0.0 for part in PARTS) / each.seconds for each in measured]
    return {"right": right, "judged": judged, "left_over": statistics.median(left), "wrong": wrong[:10]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--trials", type=int, default=20, help="of each part; 0 for none")
    parser.add_argument("--epochs", type=int, default=200, help="of each side that measures the cost; 0 for none")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends what was started, as a Ctrl-C does
    every = [name for name in CASES if validation.is_installed(frameworks.framework(name.partition(".")[0]))]
    right, costs = {}, {}
    for name in chosen.only or every:
        if chosen.trials:
            right[name] = measure(name, trials_of(name, chosen.trials))
        if chosen.epochs:
            costs[name] = cost(name, chosen.epochs)
        print(f"{name}: {json.dumps([right.get(name), costs.get(name)])}", file=sys.stderr, flush=True)
    table(
        "Right verdicts of all, by the part in which a rank sleeps; none: no rank does",
        ["case", *PHASES, "none", "left over by the parts", "stolen"],
        [
            [name, *(f"{each['right'][kind]}/{each['judged'][kind]}" for kind in (*PHASES, "none")),
             f"{each['left_over']:.1%}", f"{each['stolen']:.1%}"]
            for name, each in right.items()
        ],
    )
    table(
        "Throughput with steps measured over that without", ["case", "ratio", "standard error", "mark", "stolen"],
        [[name, f"{each['ratio']:.4f}", f"{each['error']:.4f}", f"{MARK}", f"{each['stolen']:.1%}"]
         for name, each in costs.items()],
    )
    if chosen.only is None:
        print("written:", write_json("step_time", {"right": right, "costs": costs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
