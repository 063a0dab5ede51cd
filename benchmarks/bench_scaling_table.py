"""The scaling table of the command itself: `trainyard scale` with a compute-bound model on two pinned cores.

    python -m benchmarks.bench_scaling_table [--repeats N] [--epochs N] [--rounds N]

It fails unless two cores are 1.9 times as fast as one and both walked the same curve. Beside it stands the ceiling of
this machine: what two cores gain on trainings that exchange nothing (`ceiling.py`). `bench_scaling.py` measures the
same model in pairs, without the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.ceiling import ROUNDS, Ceiling, Workload, measure_ceiling
from benchmarks.report import Stolen, table, write_json
from core.devices.cpu import cpu_devices

REPEATS = 3
EPOCHS = 10
BATCH_SIZE = 128
STEPS_PER_EPOCH = 2
WIDTH, LAYERS, SIZE = 128, 9, 8
"""Channels, convolutions and pixels: half a second of computing for a step, and 5 MB of gradients to exchange in it.

One core trains as many samples per second with the whole batch as with half of it. It does not with larger pictures,
whose activations no longer fit into the caches: two cores would be more than twice as fast as one, or wait for memory.
"""
GOAL = 1.9
CALM = 0.3
"""Load of the machine before it is measured above which other programs take part of the cores."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--batch-size", type=int, default=BATCH_SIZE)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each of the two measurements of the ceiling")
    chosen = parser.parse_args()
    if len(cpu_devices()) < 2:
        print("Scaling needs two cores; there is one.")
        return 0
    stolen, load = Stolen(), os.getloadavg()[0]
    if load > CALM:
        print(f"The load is {load:.1f}: other programs use the cores, and the result says little.", file=sys.stderr)
    workload = Workload(WIDTH, LAYERS, SIZE, chosen.batch_size)
    before = measure_ceiling(workload, chosen.rounds)
    document = measure(chosen)
    after = measure_ceiling(workload, chosen.rounds)
    ceiling = Ceiling(before.alone_per_s, before.ratios + after.ratios)
    _tell(document, ceiling)
    about = {"stolen": stolen.share(), "load": load, "ceilings": ceiling.ratios, "ceiling": ceiling.ratio}
    print("written:", write_json("scaling_table", {**document, **about}))
    gain, same = document["rows"][1]["speed_up"], document["rows"][1]["same_curve"]
    if gain is None or gain < GOAL or not same:
        print(f"Missed: a speed-up of {gain} (goal {GOAL}), same curve: {same}.", file=sys.stderr)
        return 1
    return 0


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the document that the command prints."""
    recipe = Path(__file__).with_name("wide.py")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "core.cli", "scale", str(recipe), "--devices", "cpu:0,cpu:1"),
                *("--epochs", str(chosen.epochs), "--repeats", str(chosen.repeats)),
                *("--batch-size", str(chosen.batch_size), "--set", f"items={STEPS_PER_EPOCH * chosen.batch_size}"),
                *("--set", f"width={WIDTH}", "--set", f"layers={LAYERS}", "--set", f"size={SIZE}"),
                *("--learning-rate", "0.01", "--checkpoint-every", "never", "--runs", folder, "--json"),
            ],
            stdout=subprocess.PIPE, text=True, check=True,
        )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _tell(document: dict[str, Any], ceiling: Ceiling) -> None:
    rows = [
        [
            row["devices"], row["strategy"], f"{row['samples_per_s']:.1f} ± {row['spread']['samples_per_s'] or 0:.1f}",
            f"{row['speed_up']:.2f} ± {row['spread']['speed_up'] or 0:.2f}", f"{100 * row['efficiency']:.0f} %",
            row["same_curve"], row["curve"]["largest_difference"],
        ]
        for row in document["rows"]
    ]
    header = ["cores", "strategy", "samples/s", "speed-up", "efficiency", "same curve", "difference"]
    table("Scaling table of a compute-bound model", header, rows)
    gain = document["rows"][1]["speed_up"]
    print(
        f"Ceiling of this machine: {ceiling.ratio:.3f} ({min(ceiling.ratios):.2f} to {max(ceiling.ratios):.2f});",
        end=" ",
    )
    print(
        "nothing was trained on two cores" if gain is None else f"the table reaches {100 * gain / ceiling.ratio:.0f} %"
    )
    for notice in document["notices"]:
        print(notice)


if __name__ == "__main__":
    sys.exit(main())
