"""What a run of two hosts costs: `ddp` under the panel over `torchrun --nnodes 2`, started by hand once per node.

    python -m benchmarks.bench_hosts [--epochs N] [--turn SECONDS]

The second host is a real ssh server on this machine. Both sides are alive, on the same pinned cores, and run in turns.
That both end at about the same loss shows that both have done the same work.
"""

from __future__ import annotations

import argparse
import signal
import sys

from benchmarks.bench_throughput import APART
from benchmarks.panel import Work
from benchmarks.report import Stolen, table, write_json
from benchmarks.turns import RANKS_TURN_S, compare
from benchmarks.two_hosts import DEVICES
from core.devices.cpu import cpu_devices

EPOCHS = 500
MARK = 0.98


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--turn", type=float, metavar="SECONDS", default=RANKS_TURN_S)
    chosen = parser.parse_args()
    if len(cpu_devices()) < len(DEVICES):
        print("Two hosts need two cores; there is one.")
        return 0
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends what was started, as a Ctrl-C does
    work = Work(recipe="digits_cnn", devices=DEVICES, strategy="ddp", epochs=chosen.epochs)
    stolen = Stolen()
    found = compare(work, chosen.turn, names=("two hosts", "torchrun"))
    assert found.panel_loss is not None
    assert found.hand_loss is not None
    apart = abs(found.panel_loss - found.hand_loss) / found.hand_loss
    data = {
        "ratio": found.ratio, "error": found.error, "ratios": found.ratios, "mark": MARK,
        "by_hand_steps_per_s": found.hand * found.steps_per_epoch,
        "panel_steps_per_s": found.panel * found.steps_per_epoch, "losses_apart": apart, "stolen": stolen.share(),
    }
    _tell(data)
    if chosen.epochs == EPOCHS:
        print("written:", write_json("hosts", data))
    if apart > APART:
        print("Not the same work, by their losses.", file=sys.stderr)
    return 1 if apart > APART else 0


def _tell(data: dict) -> None:
    row = [
        f"{data['by_hand_steps_per_s']:,.0f}", f"{data['panel_steps_per_s']:,.0f}", f"{data['ratio']:.3f}",
        f"{data['error']:.3f}", f"{MARK:.2f}", f"{data['losses_apart']:.1e}", f"{data['stolen']:.1%}",
    ]
    header = [
        "torchrun, steps/s", "panel, steps/s", "ratio", "standard error", "mark", "losses apart", "stolen",
    ]
    table("ddp on two hosts under the panel over torchrun --nnodes 2 by hand", header, [row])
    if data["ratio"] < MARK:
        print("Below its mark.")


if __name__ == "__main__":
    sys.exit(main())
