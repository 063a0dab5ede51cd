"""What all scripts of this folder share: the arguments and the timing."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple


class Arguments(NamedTuple):
    """Of a script's command line: RECIPE EPOCHS BATCH_SIZE LEARNING_RATE."""

    recipe: Any
    """The recipe's module."""
    epochs: int
    batch_size: int
    rate: float


def arguments() -> Arguments:
    path, epochs, batch_size, rate = sys.argv[1:5]
    return Arguments(load(Path(path)), int(epochs), int(batch_size), float(rate))


def load(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Watch:
    """Records when each epoch ended."""

    def __init__(self) -> None:
        self._ends: list[float] = []

    def epoch_done(self) -> None:
        """Training and validation."""
        self._ends.append(time.time())

    def tell(self, val_loss: float | None) -> None:
        """Print what was measured."""
        print(json.dumps({"ends": self._ends, "val_loss": val_loss}), flush=True)
