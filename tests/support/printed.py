"""Programs that print logs as real ones do, and what is read of a log."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from core.metrics.reading import Reading
from core.metrics.text.log import LogReader

FULL = "█" * 10

TRAINER = """
    import sys, time
    from tqdm.auto import tqdm  # what transformers' ProgressCallback does, call for call

    bar = tqdm(total=12, dynamic_ncols=True)
    for step in range(1, 13):
        time.sleep(0.02)
        bar.update(1)
        if step % 4 == 0:
            bar.write(str({"loss": 2.0 / step, "grad_norm": 1.5, "learning_rate": 5e-05, "epoch": step / 6}))
        if step % 6 == 0:
            prediction = tqdm(total=3, leave=False, dynamic_ncols=True)
            for _ in range(3):
                time.sleep(0.05)
                prediction.update(1)
            bar.write(str({"eval_loss": 1.0 / step, "eval_runtime": 0.1, "epoch": step / 6}))
            prediction.close()
    bar.write(str({"train_runtime": 1.2, "train_loss": 0.7, "epoch": 2.0}))
    bar.close()
"""
TQDM = """
    import sys, time
    from tqdm import tqdm

    for epoch in range(2):
        bar = tqdm(range(10), desc=f"Epoch {epoch + 1}/2", mininterval=0)
        for index in bar:
            bar.set_postfix(loss=f"{3 - epoch - index / 10:.2f}", refresh=sys.argv[1] == "before")
"""
KERAS = """
    import sys
    import keras
    import numpy

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    inputs = numpy.random.rand(48, 4).astype("float32")
    targets = inputs.sum(axis=1)

    class Told(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            with open(sys.argv[2], "a") as out:
                out.write(" ".join(f"{name}={value:.4f}" for name, value in sorted(logs.items())) + "\\n")

    model.fit(inputs, targets, batch_size=8, epochs=3, verbose=int(sys.argv[1]), validation_data=(inputs, targets),
              callbacks=[Told()])
    model.evaluate(inputs, targets, batch_size=8, verbose=int(sys.argv[1]))
    model.predict(inputs, verbose=int(sys.argv[1]))
"""


def read(data: bytes | str) -> list[Reading]:
    """Return everything parsed from a log."""
    reader = LogReader()
    return [*reader.take(data.encode() if isinstance(data, str) else data), *reader.end()]


def series(readings: Sequence[Reading], name: str) -> list[tuple[int | None, float]]:
    """Return the (step, value) pairs of one metric."""
    return [(reading.step, reading.values[name]) for reading in readings if name in reading.values]


def progress(readings: Sequence[Reading]) -> list[tuple[float, float | None, str]]:
    """Return (done, total, unit) at each change."""
    found = [(reading.done, reading.total, reading.unit) for reading in readings if reading.done is not None]
    return [each for at, each in enumerate(found) if at == 0 or each != found[at - 1]]


def printed_by(source: str, *arguments: str, folder: Path) -> bytes:
    """Return what a program prints to stdout and stderr, as in a run's log."""
    script, log = folder / "script.py", folder / "printed.txt"
    script.write_text(textwrap.dedent(source))
    with log.open("wb") as out:
        subprocess.run(
            [sys.executable, "-u", script, *arguments], stdout=out, stderr=subprocess.STDOUT, check=True, cwd=folder
        )
    return log.read_bytes()
