"""TensorFlow with a training loop of our own.

- `strategies`: a function for each strategy
- `task`: what is trained: model, data, optimizers and steps of a recipe
- `loop`: train a task, and validate it
- `step`: what one device does in a step
- `devices`: claim a worker's devices; put the parts of a model on several of them

The environment variables that TensorFlow and Keras read when they are imported are set here. Import this package
before them, also where Keras' own `fit` trains.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...schema.spec import RankAssignment

os.environ["KERAS_BACKEND"] = "tensorflow"  # whatever the user's keras.json says
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # hide how TensorFlow was compiled; show warnings and errors


def memory_of(given: RankAssignment, device: str) -> tuple[int, int | None]:
    """Return what TensorFlow has used of a GPU at most, in bytes; it does not know what it could have taken."""
    memory: Any = sys.modules["tensorflow"].config.experimental
    return memory.get_memory_info(f"GPU:{given.own.index(device)}")["peak"], None


def start_trace() -> Callable[[Path], None]:
    """Profile this process from now on. Return the function that ends it, and writes a trace to a `.json.gz`."""
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace  # what the profiler writes

    profiler: Any = sys.modules["tensorflow"].profiler.experimental
    folder = tempfile.TemporaryDirectory()
    profiler.start(folder.name)

    def write(path: Path) -> None:
        with folder:
            profiler.stop()
            spaces = [XSpace.FromString(each.read_bytes()) for each in Path(folder.name).rglob("*.xplane.pb")]
        events = [event for space in spaces for pid, plane in enumerate(space.planes) for event in _events(pid, plane)]
        with gzip.open(path, "wt") as file:
            json.dump({"traceEvents": events}, file)

    return write


def _events(pid: int, plane: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 (an XPlane)
    """Yield what a device, or the host, has done in the form of Chrome's traces: times in microseconds."""
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}}
    for tid, line in enumerate(plane.lines):
        own = {"pid": pid, "tid": tid}
        yield {"ph": "M", **own, "name": "thread_name", "args": {"name": line.display_name or line.name}}
        for each in line.events:
            name, start = plane.event_metadata[each.metadata_id].name, line.timestamp_ns / 1e3 + each.offset_ps / 1e6
            yield {"ph": "X", **own, "name": name, "ts": start, "dur": each.duration_ps / 1e6}
