"""Training throughput of every strategy under the panel over a script of the same strategy, written by hand.

    python -m benchmarks.bench_throughput [--only NAME ...] [--epochs N] [--turn SECONDS]

The scripts (`by_hand/`) report nothing and write no checkpoints. Both sides are alive, on the same pinned cores, and
run in turns, with the same data, order, weights, batches and validations. That both end at about the same loss
shows that both have done the same work.
"""

from __future__ import annotations

import argparse
import math
import signal
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.panel import Work
from benchmarks.report import Stolen, table, write_json
from benchmarks.turns import RANKS_TURN_S, TURN_S, compare
from core.catalog import frameworks
from core.catalog.strategies import STRATEGIES, Strategy
from core.config import validation
from core.devices.cpu import cpu_devices

if TYPE_CHECKING:
    from core.devices.device import Device

MARK = 0.97
MARKS = {"pytorch.single": 0.98, "pytorch.ddp": 0.98}
PAIRS = {"pytorch.single": 6}
APART = 0.10
"""Maximum relative difference of the two losses. A side that leaves out work or does other work is far beyond it."""
APART_OTHER_ORDER = 0.50
"""The same where the script sees the items in another order, or the strategy is asynchronous."""
EPOCHS = {
    "pytorch.single": 250,
    "pytorch.ddp": 500,
    "pytorch.fsdp": 400,
    "pytorch.pipeline": 300,
    "pytorch.placement": 600,
    "tensorflow.single": 600,
    "tensorflow.mirrored": 400,
    "tensorflow.central_storage": 400,
    "tensorflow.multi_worker_mirrored": 400,
    "tensorflow.parameter_server": 200,
    "tensorflow.towers": 400,
    "tensorflow.placement": 480,
    "keras.single": 300,
    "keras.mirrored": 80,
    "keras.placement": 320,
}
"""Of `digits_cnn`: half a minute of training on a side, or two on a slow machine; of `PAIRS`, a part of it each."""


@dataclass(frozen=True)
class Case:
    """One comparison."""

    name: str
    work: Work
    mark: float
    apart: float = APART
    turn_s: float = TURN_S
    pairs: int = 1
    """How many times both sides are started. Where its memory lies alone makes a process faster or slower by one or two
    percent for as long as it lives, which the blocks of one pair do not show."""


def cases() -> list[Case]:
    """Every cell that trains on two CPU devices, default checkpoints, steps of a recipe's own, a model of no work."""
    every = [_case(row) for row in STRATEGIES if _is_available(row)]
    single = every[0]
    checkpoints = replace(single, name="auto_checkpoints", work=replace(single.work, checkpoints={}), mark=MARK)
    linear = Path(__file__).with_name("linear.py")
    tiny = Work(recipe=str(linear), devices=("cpu:0",), epochs=100, batch_size=32)
    own_step = str(Path(__file__).with_name("own_step.py"))
    tensorflow = next(case for case in every if case.name == "tensorflow.single")
    own_step_tensorflow = str(Path(__file__).with_name("own_step_tensorflow.py"))
    steps = [
        replace(single, name="own_step.single", work=replace(single.work, recipe=own_step)),
        Case("own_step.ddp", replace(every[1].work, recipe=own_step), 0.98, turn_s=RANKS_TURN_S),
        Case("own_step.tensorflow", replace(tensorflow.work, recipe=own_step_tensorflow), 0.98),
    ]
    return [*every, checkpoints, *steps, Case("linear", tiny, 0.90)]


def _is_available(row: Strategy) -> bool:
    chosen = _devices(row)
    return (
        validation.is_installed(frameworks.framework(row.framework))
        and not row.unavailable()
        and not validation.obstacle(row, chosen)
    )


def _devices(row: Strategy) -> list[Device]:
    return cpu_devices()[: row.max_devices or 2]


def _case(row: Strategy) -> Case:
    name = f"{row.framework}.{row.name}"
    work = Work(
        recipe="digits_cnn",
        devices=tuple(device.id for device in _devices(row)),
        framework=row.framework,
        strategy=row.name,
        epochs=EPOCHS[name],
    )
    other_order = row.framework == "keras" or row.is_asynchronous
    return Case(
        name, work, MARKS.get(name, MARK), APART_OTHER_ORDER if other_order else APART,
        turn_s=RANKS_TURN_S if row.processes == "per_device" else TURN_S, pairs=PAIRS.get(name, 1),
    )


def measure(case: Case) -> dict:
    """Both sides in turns, as often as the case is started."""
    stolen = Stolen()
    pairs = [compare(case.work, case.turn_s) for _ in range(case.pairs)]
    first = pairs[0]
    ratios = first.ratios if len(pairs) == 1 else [pair.ratio for pair in pairs]
    apart = _apart(first.panel_loss, first.hand_loss)
    return {
        "ratio": statistics.fmean(pair.ratio for pair in pairs),
        "error": statistics.stdev(ratios) / math.sqrt(len(ratios)),
        "ratios": ratios,
        "mark": case.mark,
        "by_hand_steps_per_s": statistics.fmean(pair.hand for pair in pairs) * first.steps_per_epoch,
        "panel_steps_per_s": statistics.fmean(pair.panel for pair in pairs) * first.steps_per_epoch,
        "losses_apart": apart,
        "stolen": stolen.share(),
        "same_work": (apart or 0.0) <= case.apart,
    }


def _apart(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else abs(ours - theirs) / theirs


def _row(name: str, data: dict) -> list[str]:
    apart = data["losses_apart"]
    return [
        name, f"{data['by_hand_steps_per_s']:,.0f}", f"{data['panel_steps_per_s']:,.0f}", f"{data['ratio']:.3f}",
        f"{data['error']:.3f}", f"{data['mark']:.2f}", "-" if apart is None else f"{apart:.1e}",
        f"{data['stolen']:.1%}",
    ]


def main() -> int:
    every = cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in every]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--epochs", type=int, help="instead of each case's own")
    parser.add_argument("--turn", type=float, metavar="SECONDS", help="instead of each case's own")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends what was started, as a Ctrl-C does
    data = {}
    for case in every:
        if chosen.only is None or case.name in chosen.only:
            work = replace(case.work, epochs=chosen.epochs or case.work.epochs)
            data[case.name] = measure(replace(case, work=work, turn_s=chosen.turn or case.turn_s))
            found = f"{data[case.name]['ratio']:.3f} +- {data[case.name]['error']:.3f}"
            print(f"{case.name}: {found}", file=sys.stderr, flush=True)
    table(
        "Throughput under the panel over a script written by hand, of the same strategy",
        [
            "case", "by hand, steps/s", "panel, steps/s", "ratio", "standard error", "mark", "losses apart", "stolen",
        ],
        [_row(name, each) for name, each in data.items()],
    )
    below = [name for name, each in data.items() if each["ratio"] < each["mark"]]
    if below:
        print("Below their marks:", ", ".join(below))
    if chosen.only is None:
        print("written:", write_json("throughput", data))
    others = [name for name, each in data.items() if not each["same_work"]]
    if others:
        print("Not the same work, by their losses:", ", ".join(others), file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
