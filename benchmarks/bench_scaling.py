"""What a second device gains: the same training by `ddp` on two pinned cores over `single` on one of them.

    python -m benchmarks.bench_scaling [--pairs N] [--epochs N]

The model is so wide that computing dominates (`wide.py`). Beside it stands what people know of data parallelism:
published times of TensorFlow towers on P40 cards, where more than four gained nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

from benchmarks.panel import Work, under_the_panel
from benchmarks.report import table, write_json
from core.devices.cpu import cpu_devices

PAIRS = 5
EPOCHS = 8
BATCH_SIZE = 64
PUBLISHED_S = {1: 22.3, 2: 12.6, 4: 11.1, 8: 12.0}
"""TensorFlow towers on so many P40 GPUs: seconds for the same work."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    chosen = parser.parse_args()
    cores = [device.id for device in cpu_devices()]
    if len(cores) < 2:
        print("Scaling needs two cores; there is one.")
        return 0
    one, two = _work("single", cores[:1], chosen.epochs), _work("ddp", cores[:2], chosen.epochs)
    single_s, ddp_s = [], []
    for turn in range(chosen.pairs):
        for work, seconds in ((one, single_s), (two, ddp_s))[:: 1 if turn % 2 else -1]:
            seconds.append(under_the_panel(work).seconds_per_epoch)
        print(f"pair {turn + 1} of {chosen.pairs}: {single_s[-1] / ddp_s[-1]:.2f}", file=sys.stderr, flush=True)
    gains = [alone / both for alone, both in zip(single_s, ddp_s, strict=True)]
    _tell(statistics.median(single_s), statistics.median(ddp_s), gains)
    return 0


def _work(strategy: str, devices: list[str], epochs: int) -> Work:
    recipe = str(Path(__file__).with_name("wide.py"))
    return Work(
        recipe=recipe, devices=tuple(devices), strategy=strategy, epochs=epochs, batch_size=BATCH_SIZE, rate=0.01
    )


def _tell(single_s: float, ddp_s: float, gains: list[float]) -> None:
    gain = statistics.median(gains)
    ours = [
        ["single, 1 core", f"{single_s:.2f} s an epoch", "1.00", ""],
        ["ddp, 2 cores", f"{ddp_s:.2f} s an epoch", f"{gain:.2f}", f"{min(gains):.2f} to {max(gains):.2f}"],
    ]
    known = [
        [f"published: towers, {gpus} P40", f"{seconds} s", f"{PUBLISHED_S[1] / seconds:.2f}", ""]
        for gpus, seconds in PUBLISHED_S.items()
    ]
    table("Speed-up of data parallel training", ["devices", "time", "speed-up", "range"], [*ours, *known])
    data = {"gains": gains, "median": gain, "one_core_s": single_s, "two_cores_s": ddp_s, "published_s": PUBLISHED_S}
    print("written:", write_json("scaling", data))


if __name__ == "__main__":
    sys.exit(main())
