"""The Python that trains with a framework, and what it has installed.

TensorFlow may have its own environment: see docs/installing.md.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

from core.catalog.frameworks import Framework
from core.system.helper_process import HelperProcess

CACHED_S = 30.0
"""Seconds for which an interpreter's answer is reused, until newly installed packages are noticed."""
TIMEOUT_S = 20.0
"""Seconds to wait for an interpreter's answer."""
NCCL_S = 60.0
"""Seconds to wait for the version of NCCL: PyTorch is imported for it."""
ASK = "import sys; from importlib.util import find_spec; sys.exit(find_spec(sys.argv[1]) is None)"


def interpreter(framework: Framework) -> str:
    """Return the Python that runs a framework's workers.

    It is the one named by an environment variable (`TRAINYARD_PYTHON_TENSORFLOW`, also used for Keras); else that of
    the framework's environment next to our own (`.venv-tensorflow`), if the framework is installed there; else our own.
    The one next to ours comes first, because it has the build that uses GPUs.
    """
    for name in (framework.id, framework.extra):
        if python := os.environ.get(f"TRAINYARD_PYTHON_{name.upper()}", "").strip():
            return str(Path(python).expanduser())
    beside = f"{sys.prefix}-{framework.extra}/bin/python"
    return beside if _on_disk(beside, framework.module) else sys.executable


def has(python: str, module: str) -> bool:
    """Return whether a Python has a module, without importing it; False if the Python cannot be started."""
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    return _on_disk(python, module) or _ask(python, module, int(time.monotonic() / CACHED_S))


def installed_version(python: str, module: str) -> str:
    """Return the version of a package under a Python, without importing it; the empty string if that is not known."""
    return _printed(python, f"import importlib.metadata as m; print(m.version({module!r}))", TIMEOUT_S)


def nccl_version(python: str) -> str:
    """Return the version of NCCL that PyTorch has under a Python, such as 2.27.7.

    The empty string if it has none, as a build for CPUs, or if that is not known. Imports PyTorch there: takes seconds.
    """
    code = "import torch; print(*torch.cuda.nccl.version(), sep='.')"
    return _printed(python, code, NCCL_S)


def torch_architectures(python: str) -> list[str]:
    """Return the architectures that PyTorch was built for under a Python, such as `sm_86`; an empty list if unknown.

    Imports PyTorch there, which takes seconds. `torch.cuda.get_arch_list` returns none where no GPU is seen.
    """
    return _printed(python, "import torch; print(torch._C._cuda_getArchFlags())", NCCL_S).split()


def _printed(python: str, code: str, timeout_s: float) -> str:
    """Return what a program of one line prints; the empty string if it fails or takes too long."""
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=timeout_s, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _on_disk(python: str, module: str) -> bool:
    """Return whether the module is in the interpreter's own environment; links are not followed."""
    if not os.access(python, os.X_OK):
        return False
    environment = Path(python).absolute().parent.parent
    return any(environment.glob(f"lib/python3*/site-packages/{module}/__init__.py"))


@functools.lru_cache(maxsize=64)
def _ask(python: str, module: str, period: int) -> bool:
    """Ask the interpreter itself, which also finds packages outside its own environment."""
    del period  # only a part of the cache's key: a later period asks again
    try:
        with HelperProcess([python, "-c", ASK, module]) as process:
            return process.wait(TIMEOUT_S) == 0
    except (OSError, ValueError):  # it cannot be started, takes too long or prints without end
        return False
