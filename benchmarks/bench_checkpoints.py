"""What a checkpoint costs: seconds per MB, and steps per second with one at the end of every epoch over none.

    python -m benchmarks.bench_checkpoints [--pairs N] [--epochs N]

A small model, where a checkpoint is all overhead, and one of four million parameters. To be read, not to be passed:
left to itself (`auto`) a run spends a hundredth of its time, which `bench_throughput.py` measures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.panel import Work, under_the_panel
from benchmarks.report import table, write_json
from core.catalog import frameworks
from core.config import validation
from core.devices.cpu import cpu_devices

if TYPE_CHECKING:
    from benchmarks.panel import Measured

PAIRS = 2
EVERY_EPOCH = {"unit": "epochs"}
MB = 1e6
LARGE = {"hidden": 2000}
"""Of `digits_mlp`: 4.2 million parameters, 17 MB, and as much again for the optimizer's momentum."""


def cases() -> dict[str, Work]:
    """By name; with one device per cell, or two where a checkpoint is gathered from two."""
    devices = tuple(device.id for device in cpu_devices()[:2])
    cells = [("pytorch", "single", 1), ("pytorch", "fsdp", 2), ("tensorflow", "single", 1), ("keras", "single", 1)]
    every = {}
    for framework, strategy, count in cells:
        if not validation.is_installed(frameworks.framework(framework)) or count > len(devices):
            continue
        base = Work(recipe="digits_cnn", devices=devices[:count], framework=framework, strategy=strategy, epochs=30)
        every[f"{framework}.{strategy}, digits_cnn"] = base
        every[f"{framework}.{strategy}, large"] = replace(base, recipe="digits_mlp", settings=LARGE, epochs=6)
    return every


def compare(work: Work, pairs: int) -> dict:
    """With checkpoints and without, in turn."""
    with_s, without_s, events = [], [], []
    for turn in range(pairs):
        for every_epoch in (True, False) if turn % 2 else (False, True):
            measured = under_the_panel(replace(work, checkpoints=EVERY_EPOCH) if every_epoch else work)
            (with_s if every_epoch else without_s).append(_per_step(measured))
            events += measured.checkpoints
    seconds, size = (statistics.median(event[name] for event in events) for name in ("seconds", "bytes"))
    return {
        "mb": size / MB,
        "seconds": seconds,
        "seconds_per_mb": seconds / (size / MB),
        "steps_per_s_with": 1 / statistics.median(with_s),
        "steps_per_s_without": 1 / statistics.median(without_s),
    }


def _per_step(measured: Measured) -> float:
    return measured.seconds_per_epoch / measured.steps_per_epoch


def _row(name: str, data: dict) -> list[str]:
    return [
        name, f"{data['mb']:.2f}", f"{data['seconds'] * 1e3:.0f}", f"{data['seconds_per_mb']:.4f}",
        f"{data['steps_per_s_without']:,.1f}", f"{data['steps_per_s_with']:,.1f}",
    ]


def main() -> int:
    every = cases()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(every), metavar="NAME", help=f"of: {'; '.join(every)}")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--epochs", type=int, help="instead of each case's own")
    chosen = parser.parse_args()
    data = {}
    for name, work in every.items():
        if chosen.only is None or name in chosen.only:
            data[name] = compare(replace(work, epochs=chosen.epochs or work.epochs), chosen.pairs)
            print(f"{name}: {data[name]['seconds_per_mb']:.4f} s/MB", file=sys.stderr, flush=True)
    table(
        "What a checkpoint costs: one at the end of every epoch (23 steps of batch 64)",
        ["cell and model", "MB", "ms", "s per MB", "steps/s without", "steps/s with"],
        [_row(name, each) for name, each in data.items()],
    )
    if chosen.only is None:
        print("written:", write_json("checkpoints", data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
