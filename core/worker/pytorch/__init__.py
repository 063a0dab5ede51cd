"""PyTorch. A strategy of several processes has a file with `train(recipe, context)`.

- `strategies`: the strategies of one process, a function for each
- `task`: what is trained: model, data, optimizers and steps of a recipe
- `loop`, `distributed`: what the loops share: passes, updates, validation; what several ranks send each other
- `model`: a model on several devices, or with blocks that are computed twice or compiled
- `first_nan`: which layer makes the first number that is not finite
- `deferred`: a model without memory
- `cuts`, `stage`: where a model can be cut for a pipeline; this rank's stage
- `export`: write models
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...schema.spec import RankAssignment


def memory_of(given: RankAssignment, device: str) -> tuple[int, int | None]:
    """Return what PyTorch has taken of a GPU at most, and what it could have taken beyond that, in bytes."""
    cuda: Any = sys.modules["torch"].cuda
    gpu = given.devices.index(device)
    peak = cuda.max_memory_reserved(gpu)
    return peak, cuda.mem_get_info(gpu)[0] + cuda.memory_reserved(gpu) - peak


def start_trace() -> Callable[[Path], None]:
    """Profile this process from now on. Return the function that ends it, and writes a trace to a `.json.gz`."""
    profiler: Any = sys.modules["torch"].profiler.profile()  # of the CPU and, where there are some, of the GPUs
    profiler.start()

    def write(path: Path) -> None:
        profiler.stop()
        profiler.export_chrome_trace(str(path))

    return write
