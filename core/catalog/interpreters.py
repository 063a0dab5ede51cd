"""Which Python trains with a framework. TensorFlow may have an environment of its own: docs/installing.md says why."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from core.system.helper_process import HelperProcess

if TYPE_CHECKING:
    from core.catalog.frameworks import Framework

BELIEVED_S = 30.0
"""So long an interpreter's answer is believed: what is installed meanwhile is seen after that."""
TIMEOUT_S = 20.0
ASK = "import sys; from importlib.util import find_spec; sys.exit(find_spec(sys.argv[1]) is None)"


def interpreter(row: Framework) -> str:
    """The Python that runs a framework's workers.

    The one that the environment names (`TRAINYARD_PYTHON_TENSORFLOW`, for Keras too); else that of the environment
    made for the framework, beside our own (`.venv-tensorflow`), if the framework is there; else our own. The one
    beside comes before our own, for it has the build that uses the GPUs, where ours may have one that does not.
    """
    named = _named(row)
    if named:
        return named
    beside = f"{sys.prefix}-{row.extra}/bin/python"
    return beside if _on_disk(beside, row.module) else sys.executable


def has(python: str, module: str) -> bool:
    """Whether a Python has a module, which is not imported. False also for a Python that cannot be started."""
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    return _on_disk(python, module) or _asked(python, module, int(time.monotonic() / BELIEVED_S))


def _named(row: Framework) -> str:
    for name in (row.id, row.extra):
        python = os.environ.get(f"TRAINYARD_PYTHON_{name.upper()}", "").strip()
        if python:
            return str(Path(python).expanduser())
    return ""


def _on_disk(python: str, module: str) -> bool:
    """Whether the module lies among the packages of the interpreter's own environment; links are not followed."""
    if not os.access(python, os.X_OK):
        return False
    environment = Path(python).absolute().parent.parent
    return any(environment.glob(f"lib/python3*/site-packages/{module}/__init__.py"))


@functools.lru_cache(maxsize=64)
def _asked(python: str, module: str, period: int) -> bool:
    """Ask the interpreter itself, which also finds packages outside its own environment."""
    del period  # only a part of the cache's key: a later period asks again
    try:
        with HelperProcess([python, "-c", ASK, module]) as process:
            return process.wait(TIMEOUT_S) == 0
    except (OSError, ValueError):  # it cannot be started, takes too long or prints without end
        return False
