"""What it costs to measure the metrics of `digits_cnn` on training batches: with and without them, in turns.

    python -m benchmarks.bench_training_metrics [--only NAME ...] [--epochs N]

Metrics are measured in as many steps as take at most a hundredth of the time. The first seconds, in which it is found
out what they cost, count, too.
"""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import replace

from benchmarks.panel import Work
from benchmarks.report import Stolen, table, write_json
from benchmarks.turns import compare
from core.catalog import frameworks
from core.config import validation

MARK = 0.99
EPOCHS = {"pytorch.single": 400, "tensorflow.single": 400, "keras.single": 250, "keras.mirrored": 80}


def works() -> dict[str, Work]:
    """Return what is trained, by framework and strategy."""
    found = {}
    for name, epochs in EPOCHS.items():
        framework, _, strategy = name.partition(".")
        if validation.is_installed(frameworks.framework(framework)):
            devices = ("cpu:0",) if strategy == "single" else ("cpu:0", "cpu:1")
            found[name] = Work(
                recipe="digits_cnn", devices=devices, framework=framework, strategy=strategy, epochs=epochs
            )
    return found


def measure(work: Work) -> dict:
    """Train it with and without metrics, in turns."""
    stolen = Stolen()
    found = compare(work, other=replace(work, training={"training_metrics": False}))
    assert found.panel_loss == found.hand_loss, "the metrics have changed the training"
    return {
        "ratio": found.ratio,
        "error": found.error,
        "blocks": found.ratios,
        "mark": MARK,
        "without_steps_per_s": found.hand * found.steps_per_epoch,
        "with_steps_per_s": found.panel * found.steps_per_epoch,
        "stolen": stolen.share(),
    }


def main() -> int:
    every = works()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(every), metavar="NAME", help=f"of {', '.join(every)}")
    parser.add_argument("--epochs", type=int, help="instead of each case's own")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends what was started, as a Ctrl-C does
    data = {}
    for name in chosen.only or every:
        data[name] = measure(replace(every[name], epochs=chosen.epochs or every[name].epochs))
        print(f"{name}: {data[name]['ratio']:.3f} +- {data[name]['error']:.3f}", file=sys.stderr, flush=True)
    table(
        "Throughput with metrics of training batches over that without",
        ["case", "without, steps/s", "with, steps/s", "ratio", "standard error", "mark", "stolen"],
        [
            [
                name, f"{each['without_steps_per_s']:,.0f}", f"{each['with_steps_per_s']:,.0f}",
                f"{each['ratio']:.3f}", f"{each['error']:.3f}", f"{each['mark']:.2f}", f"{each['stolen']:.1%}",
            ]
            for name, each in data.items()
        ],
    )
    if chosen.only is None:
        print("written:", write_json("training_metrics", data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
