"""A program that prints a log as real ones do, and what is read of a log."""

from collections.abc import Sequence

from core.metrics.reading import Reading
from core.metrics.text.log import LogReader

FULL = "█" * 10

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
