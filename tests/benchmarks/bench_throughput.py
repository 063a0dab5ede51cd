"""Training throughput of every cell under the panel over a script of the same strategy, written by hand.

    python -m tests.benchmarks.bench_throughput [--only NAME ...] [--pairs N] [--epochs N]

The scripts (`by_hand/`) report nothing and write no checkpoints. The two sides in turn, pair by pair, on the same
pinned cores, with the same data, order, weights, batches and validations; timed from the end of the first epoch to the
end of the last. That both end at about the same loss shows that both have done the same work.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core import catalog
from core.cells import CELLS, Cell
from core.devices.cpu import cpu_devices
from tests.benchmarks.hand import by_hand
from tests.benchmarks.panel import Work, under_the_panel
from tests.benchmarks.report import Stolen, table, write_json

if TYPE_CHECKING:
    from core.devices.device import Device

PAIRS = 5
MARK = 0.97
MARKS = {"pytorch.single": 0.98, "pytorch.ddp": 0.98}
APART = 0.10
"""As much may the two losses differ, relatively: a cell that leaves out work or does another is far beyond it."""
APART_OTHER_ORDER = 0.50
"""The same where the script sees the items in another order, or the strategy is asynchronous."""
EPOCHS = {
    "pytorch.single": 150,
    "pytorch.ddp": 100,
    "pytorch.fsdp": 80,
    "pytorch.pipeline": 40,
    "pytorch.placement": 150,
    "tensorflow.single": 150,
    "tensorflow.mirrored": 100,
    "tensorflow.central_storage": 100,
    "tensorflow.multi_worker_mirrored": 100,
    "tensorflow.parameter_server": 50,
    "tensorflow.towers": 100,
    "tensorflow.placement": 120,
    "keras.single": 100,
    "keras.mirrored": 20,
    "keras.placement": 80,
}
"""Of `digits_cnn`: six to ten seconds of training."""


@dataclass(frozen=True)
class Case:
    """One comparison."""

    name: str
    work: Work
    mark: float
    apart: float = APART


@dataclass(frozen=True)
class Pair:
    """What one turn measured."""

    ours_s: float
    """Seconds per step."""
    theirs_s: float
    apart: float | None
    """How far the two losses are apart, over the script's."""
    stolen: float
    """The share of the processors' time that the host took away meanwhile."""

    @property
    def ratio(self) -> float:
        return self.theirs_s / self.ours_s


def cases() -> list[Case]:
    """Every cell that can train on two CPU devices, what checkpoints cost by default, and a model of no work at all."""
    every = [_case(row) for row in CELLS if _is_available(row)]
    single = every[0]
    checkpoints = Case("auto_checkpoints", replace(single.work, checkpoints={}), MARK)
    linear = Path(__file__).with_name("linear.py")
    tiny = Work(recipe=str(linear), devices=("cpu:0",), epochs=60, batch_size=32)
    return [*every, checkpoints, Case("linear", tiny, 0.90)]


def _is_available(row: Cell) -> bool:
    chosen = _devices(row)
    return (
        catalog.is_installed(catalog.framework(row.framework))
        and not row.unavailable()
        and not catalog.obstacle(row, chosen)
    )


def _devices(row: Cell) -> list[Device]:
    return cpu_devices()[: row.most_devices or 2]


def _case(row: Cell) -> Case:
    name = f"{row.framework}.{row.strategy}"
    work = Work(
        recipe="digits_cnn",
        devices=tuple(device.id for device in _devices(row)),
        framework=row.framework,
        strategy=row.strategy,
        epochs=EPOCHS[name],
    )
    other_order = row.framework == "keras" or row.strategy == "parameter_server"
    return Case(name, work, MARKS.get(name, MARK), APART_OTHER_ORDER if other_order else APART)


def measure(case: Case, turn: int) -> Pair:
    """One run each; who begins changes from turn to turn."""
    stolen = Stolen()
    if turn % 2:
        ours, theirs = under_the_panel(case.work), by_hand(case.work)
    else:
        theirs, ours = by_hand(case.work), under_the_panel(case.work)
    return Pair(
        ours_s=ours.seconds_per_epoch / ours.steps_per_epoch,
        theirs_s=theirs.seconds_per_epoch / ours.steps_per_epoch,
        apart=_apart(ours.val_loss, theirs.val_loss),
        stolen=stolen.share(),
    )


def _apart(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else abs(ours - theirs) / theirs


def compare(case: Case, pairs: int) -> dict:
    """All turns of one case."""
    every = []
    for turn in range(pairs):
        every.append(measure(case, turn))
        told = (
            f"{case.name}, pair {turn + 1} of {pairs}: {every[-1].ratio:.3f}, {every[-1].stolen:.1%} stolen by the host"
        )
        print(told, file=sys.stderr, flush=True)
    ratios = [pair.ratio for pair in every]
    apart = [pair.apart for pair in every if pair.apart is not None]
    return {
        "ratios": ratios,
        "median": statistics.median(ratios),
        "mark": case.mark,
        "by_hand_steps_per_s": 1 / statistics.median(pair.theirs_s for pair in every),
        "panel_steps_per_s": 1 / statistics.median(pair.ours_s for pair in every),
        "losses_apart": max(apart, default=None),
        "stolen": max(pair.stolen for pair in every),
        "same_work": max(apart, default=0.0) <= case.apart,
    }


def _row(name: str, data: dict) -> list[str]:
    ratios, apart = data["ratios"], data["losses_apart"]
    return [
        name, f"{data['by_hand_steps_per_s']:,.0f}", f"{data['panel_steps_per_s']:,.0f}", f"{data['median']:.3f}",
        f"{min(ratios):.3f} to {max(ratios):.3f}", f"{data['mark']:.2f}", "-" if apart is None else f"{apart:.1e}",
        f"{data['stolen']:.1%}",
    ]  # fmt: skip


def main() -> int:
    every = cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in every]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--epochs", type=int, help="instead of each case's own")
    chosen = parser.parse_args()
    data = {}
    for case in every:
        if chosen.only is None or case.name in chosen.only:
            work = replace(case.work, epochs=chosen.epochs or case.work.epochs)
            data[case.name] = compare(replace(case, work=work), chosen.pairs)
    table(
        "Throughput under the panel over a script written by hand, of the same strategy",
        ["case", "by hand, steps/s", "panel, steps/s", "ratio (median)", "range", "mark", "losses apart", "stolen"],
        [_row(name, each) for name, each in data.items()],
    )
    below = [name for name, each in data.items() if each["median"] < each["mark"]]
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
