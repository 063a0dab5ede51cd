"""How many lines of metrics a second are read.

    python -m benchmarks.bench_reading [--runs N] [--lines N]

All that lies between the bytes of a log and the file of events: lines, dialects, places in the training, curves,
batches, writing. The processor time of this process is counted, on which other programs have little effect.
Mark: 6 000 lines of `plain` a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.report import table, write_json
from core.metrics.merge import TEXT, MetricMerger
from core.metrics.rank_metrics import MetricEventWriter
from core.metrics.text.log import LogReader
from core.schema.events import Writer

RUNS, LINES = 5, 10_000
BLOCK_BYTES = 256 * 1024
MARK_PER_S = 6_000
KINDS = {
    "plain": "step {n} loss {x:.6f} lr 1e-3\n",
    "nanoGPT": "iter {n}: loss {x:.4f}, time {y:.2f}ms, mfu {y:.2f}%\n",
    "a sentence": "{n} some words that no one reads, loss: {x:.6f}\n",
    "timestamped": "2026-01-02 10:11:{s:02d},{n:03d} - INFO - step={n} loss={x:.4f} val_loss={x:.4f}\n",
    "dictionary": "{{'loss': {x:.4f}, 'grad_norm': {y:.3f}, 'learning_rate': 1e-05, 'epoch': {x:.2f}}}\n",
    "no metric": "{n} rows of part {s} were copied from the cache in {y:.2f} s\n",
    "full digits": "step {n} loss {x!r} accuracy {z!r}\n",
    "tqdm": "\rEpoch 1:  10%|███▍      | {n}/20000 [00:10<00:20, {y:.2f}it/s, loss={x:.3f}]",
    "Keras": "\r{n}/20000 ━━━━━━━━━━━━━━━━━━━━ 10s 3ms/step - accuracy: {z:.4f} - loss: {x:.4f}",
}
"""Lines as programs print them: n counts, x and z are between 0 and 1, y between 0 and 100, s is a second."""


def log_of(form: str, lines: int) -> bytes:
    """So many of them."""
    chance = Random(0)
    written = [
        form.format(n=n, x=chance.random(), z=chance.random(), y=100 * chance.random(), s=n // 1000 % 60)
        for n in range(1, lines + 1)
    ]
    return "".join(written).encode()


def read(data: bytes, path: Path) -> float:
    """Seconds of processor time from the bytes to the events."""
    reader, merge, events = LogReader(), MetricMerger(), Writer(path)
    batches = MetricEventWriter(0, events)
    began = time.process_time()
    for begin in range(0, len(data), BLOCK_BYTES):
        merged = merge.take(TEXT, reader.take(data[begin : begin + BLOCK_BYTES]))
        batches.write(merged, since=1.0, until=2.0)
    batches.write(merge.take(TEXT, reader.end()), since=2.0, until=3.0)
    seconds = time.process_time() - began
    events.close()
    return seconds


def measure(form: str, runs: int, lines: int) -> list[float]:
    """Lines a second, of every run."""
    data = log_of(form, lines)
    with tempfile.TemporaryDirectory() as folder:
        return [lines / read(data, Path(folder, f"{number}.jsonl")) for number in range(runs)]


def main() -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--lines", type=int, default=LINES)
    given = parser.parse_args()
    found = {name: measure(form, given.runs, given.lines) for name, form in KINDS.items()}
    rows = [
        (
            name, f"{statistics.median(rates):.0f}", f"{min(rates):.0f} to {max(rates):.0f}",
            f"{MARK_PER_S}" if name == "plain" else "-",
        )
        for name, rates in found.items()
    ]
    header = ("lines", "a second", "from, to", "mark")
    table(f"Reading {given.lines} lines of metrics, from a log's bytes to events", header, rows)
    print("written:", write_json("reading", found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
