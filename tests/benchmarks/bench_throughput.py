"""Training throughput under the panel over the same loop written by hand with no reporting at all.

The two in turn, pair by pair, on the same pinned cores. Marks: at least 0.98 for `digits_cnn`, 0.90
for the linear model.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from core.book import SeriesBook
from core.compose import Choices, compose
from core.devices.cpu import cpu_devices
from core.follow import follow
from core.run import Run
from resources import ROOT
from tests.benchmarks.report import table, write_json

HERE = Path(__file__).resolve().parent
RATE = 0.05


@dataclass(frozen=True)
class Case:
    """One comparison."""

    title: str
    recipe: Path
    strategy: str
    devices: tuple[str, ...]
    epochs: int
    batch_size: int
    mark: float


DIGITS = ROOT / "recipes" / "pytorch" / "digits_cnn.py"
CASES = (
    Case("digits_cnn, batch 64, one core", DIGITS, "single", ("cpu:0",), 200, 64, 0.98),
    Case("digits_cnn, batch 64, ddp on two cores", DIGITS, "ddp", ("cpu:0", "cpu:1"), 100, 64, 0.98),
    Case("linear, batch 32, one core", HERE / "linear.py", "single", ("cpu:0",), 60, 32, 0.90),
)


def under_the_panel(case: Case, runs_root: Path) -> float:
    """Seconds per step of a real run, from the end of its first step to the end of its last."""
    choices = Choices(
        recipe=str(case.recipe),
        devices=case.devices,
        strategy=case.strategy,
        training={"epochs": case.epochs, "batch_size": case.batch_size, "learning_rate": RATE},
    )
    run = Run.start(compose(choices, cpu_devices()), runs_root)
    follow(run, None)
    book = SeriesBook()
    book.fold(Run.attach(run.dir).catch_up())
    loss = book.metrics["loss"]
    assert loss.count == run.facts.step, run.facts.error
    # The last validation is part of both, as is every other.
    end = max(float(series.times[-1]) for series in book.metrics.values())
    return (end - float(loss.times[0])) / (loss.count - 1)


def by_hand(case: Case) -> float:
    """Seconds per step of the hand-written loop."""
    cores = [str(core) for device in cpu_devices() if device.id in case.devices for core in device.cores]
    command = [
        sys.executable, str(HERE / "handwritten.py"), case.strategy, str(case.recipe), str(case.epochs),
        str(case.batch_size), str(RATE), ",".join(cores),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    rows, data = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            ratios, ours_s, theirs_s = [], [], []
            for number in range(pairs):
                first, second = (under_the_panel, by_hand) if number % 2 else (by_hand, under_the_panel)
                seconds = {
                    each: each(case, Path(folder)) if each is under_the_panel else each(case)  # type: ignore[call-arg]
                    for each in (first, second)
                }
                ours_s.append(seconds[under_the_panel])
                theirs_s.append(seconds[by_hand])
                ratios.append(theirs_s[-1] / ours_s[-1])
            ratio = statistics.median(ratios)
            rows.append([
                case.title, f"{1 / statistics.median(theirs_s):,.0f}", f"{1 / statistics.median(ours_s):,.0f}",
                f"{ratio:.3f}", f"{min(ratios):.3f} to {max(ratios):.3f}", f"{case.mark:.2f}",
            ])  # fmt: skip
            data[case.title] = {"ratios": ratios, "median": ratio, "mark": case.mark}
    table(
        "Throughput under the panel over a hand-written loop",
        ["case", "by hand, steps/s", "panel, steps/s", "ratio (median)", "range", "mark"],
        rows,
    )
    write_json("throughput", data)


if __name__ == "__main__":
    main()
