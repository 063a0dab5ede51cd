"""Write what TensorFlow and Keras write and print. One process does it all, since to import them takes seconds.

    python -u -m tests.support.written_by_keras FOLDER

- `tensorflow/`: scalars of several types and a histogram, for TensorBoard
- `epoch/`, `batch/`: Keras' callback for TensorBoard, by how often it writes; `log.csv`: its CSVLogger
- `histories.json`: the histories of these trainings, by the name of the file or folder
- `printed-1.txt`, `printed-2.txt`: what Keras prints by `verbose`; `reported-1.txt`, ...: what it reports to callbacks
"""

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.support import printed
from tests.support.worker_pool import WITHOUT_ONEDNN

ROOT = Path(__file__).parents[2]


def write(folder: Path) -> None:
    """Write everything into a folder, in another process."""
    # The frameworks change the environment of the process that imports them.
    done = subprocess.run(
        [sys.executable, "-u", "-m", __name__, str(folder)],
        cwd=ROOT, env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **WITHOUT_ONEDNN},
        capture_output=True, text=True, check=False,
    )
    assert not done.returncode, done.stderr


@contextlib.contextmanager
def output_in(path: Path) -> Iterator[None]:
    """Send stdout and stderr, also of libraries in C++, to a file."""
    kept = [os.dup(number) for number in (1, 2)]
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    yield
    for number, copy in zip((1, 2), kept, strict=True):
        os.dup2(copy, number)
        os.close(copy)


def print_by_keras(folder: Path) -> None:
    """Run the program of `printed.KERAS` by each `verbose`."""
    for verbose in ("1", "2"):
        sys.argv = ["script.py", verbose, str(folder / f"reported-{verbose}.txt")]
        with output_in(folder / f"printed-{verbose}.txt"):
            exec(compile(textwrap.dedent(printed.KERAS), "script.py", "exec"), {"__name__": "__main__"})


def write_by_tensorflow(folder: Path) -> None:
    """Write scalars and a histogram."""
    import tensorflow as tf

    writer = tf.summary.create_file_writer(str(folder / "tensorflow"))
    with writer.as_default():
        for step in range(3):
            for value in (tf.constant(step / 2), tf.constant(step, tf.int64), tf.constant(step / 2, tf.float16)):
                tf.summary.write(value.dtype.name, value, step=step)
            tf.summary.write("histogram", tf.zeros([3, 3]), step=step)
    writer.close()


def write_by_keras(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Train with each callback; return the histories."""
    import keras
    import numpy as np

    inputs, targets = np.ones((8, 3)), np.ones((8, 1))
    callbacks = {often: keras.callbacks.TensorBoard(folder / often, update_freq=often) for often in ("epoch", "batch")}
    callbacks["log.csv"] = keras.callbacks.CSVLogger(folder / "log.csv", separator=";")
    histories = {}
    for name, callback in callbacks.items():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        histories[name] = model.fit(
            inputs, targets, batch_size=4, epochs=3, validation_data=(inputs, targets), verbose=0, callbacks=[callback]
        ).history
    return histories


if __name__ == "__main__":
    to = Path(sys.argv[1])
    write_by_tensorflow(to)
    (to / "histories.json").write_text(json.dumps(write_by_keras(to)))
    print_by_keras(to)
