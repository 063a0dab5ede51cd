"""How many lines of metrics a second are read, with the shapes of lines learned over each line read in full.

    python -m tests.benchmarks.bench_reading [--pairs N] [--lines N]

All that lies between the bytes of a log and the file of events: lines, dialects, places in the training, curves,
batches, writing. Both sides read the same lines, in turns, and must write the same events. The processor time of this
process is counted, on which other programs have little effect. Mark: a million lines of `plain` a minute.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from core.metrics.common.merge import TEXT, MetricMerger
from core.metrics.dialects.registry import statement_of
from core.metrics.event_writer import MetricEventWriter
from core.metrics.text.log import LogReader
from core.metrics.text.shapes import ShapeCache
from core.schema.events import Writer
from tests.benchmarks.report import table, write_json

PAIRS, LINES = 5, 10_000
BLOCK_BYTES = 256 * 1024
MARK_PER_S = 1_000_000 / 60
KINDS = {
    "plain": "step {n} loss {x:.6f} lr 1e-3\n",
    "nanoGPT": "iter {n}: loss {x:.4f}, time {y:.2f}ms, mfu {y:.2f}%\n",
    "a sentence": "{n} some words that no one reads, loss: {x:.6f}\n",
    "timestamped": "2026-01-02 10:11:{s:02d},{n:03d} - INFO - step={n} loss={x:.4f} val_loss={x:.4f}\n",
    "dictionary": "{{'loss': {x:.4f}, 'grad_norm': {y:.3f}, 'learning_rate': 1e-05, 'epoch': {x:.2f}}}\n",
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


def read(data: bytes, path: Path, *, learns: bool) -> float:
    """Seconds of processor time from the bytes to the events."""
    reader, merge, events = (
        LogReader(parse=ShapeCache().statement_of if learns else statement_of),
        MetricMerger(),
        Writer(path),
    )
    batches = MetricEventWriter(0, events)
    began = time.process_time()
    for begin in range(0, len(data), BLOCK_BYTES):
        merged = merge.take(TEXT, reader.take(data[begin : begin + BLOCK_BYTES]))
        batches.write(merged, since=1.0, until=2.0)
    batches.write(merge.take(TEXT, reader.end()), since=2.0, until=3.0)
    seconds = time.process_time() - began
    events.close()
    return seconds


def compare(form: str, pairs: int, lines: int) -> list[tuple[float, float]]:
    """(with shapes, without), lines a second each, of every pair. Raises `RuntimeError` where the events differ."""
    data, found = log_of(form, lines), []
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            sides = {
                learns: Path(folder, f"{learns}.jsonl") for learns in ((True, False) if number % 2 else (False, True))
            }
            rates = {learns: lines / read(data, path, learns=learns) for learns, path in sides.items()}
            if sides[True].read_bytes() != sides[False].read_bytes():
                raise RuntimeError(f"With shapes, other events are written of lines such as {form!r}.")
        found.append((rates[True], rates[False]))
    return found


def main() -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--lines", type=int, default=LINES)
    given = parser.parse_args()
    found = {name: compare(form, given.pairs, given.lines) for name, form in KINDS.items()}
    rows = []
    for name, pairs in found.items():
        ratios = [learned / full for learned, full in pairs]
        rows.append((
            name, *(f"{statistics.median(side):.0f}" for side in zip(*pairs, strict=True)),
            f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}",
            f"{MARK_PER_S:.0f}" if name == "plain" else "-",
        ))  # fmt: skip
    header = ("lines", "a second, with shapes", "without", "ratio", "from, to", "mark")
    table(f"Reading {given.lines} lines of metrics, from a log's bytes to events", header, rows)
    print("written:", write_json("reading", found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
