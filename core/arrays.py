"""numpy as `np`, loaded when it is first used.

The first frame of the window and most commands need no arrays, and loading numpy is a sixth of their start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever numpy has by this name)
            found = getattr(import_module("numpy"), name)
            setattr(self, name, found)  # the next time it is found without this method
            return found

    np = _Numpy()

__all__ = ["load", "np"]


def load() -> None:
    import_module("numpy")
