"""Start a module of Trainyard so that nothing on the user's PYTHONPATH takes the place of what Trainyard imports.

    PYTHON -P own_start.py -m MODULE ARGUMENTS

PYTHONPATH comes before the standard library and the installed packages, and a `platformdirs.py` on it is the user's.
Its folders are searched last here, as is the working folder: one of them may contain a package that Trainyard needs and
that is installed nowhere else. Only `sys.path` changes; the variable goes unchanged to the processes of a run.
"""

from __future__ import annotations

import os
import site
import sys

# No other import: the path is not in order yet.

CODE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
"""The folder that contains `core`."""


def search_own_first() -> None:
    """Move the folders of PYTHONPATH and the working folder to the end of `sys.path`, and put `CODE_ROOT` first."""
    ours = {CODE_ROOT, os.path.dirname(os.__file__), *site.getsitepackages(), site.getusersitepackages()}  # noqa: PTH120
    users = {_absolute(entry) for entry in ["", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]} - ours
    moved = [entry for entry in sys.path if _absolute(entry) in users]
    kept = [entry for entry in sys.path if entry not in moved]
    sys.path[:] = [CODE_ROOT, *(entry for entry in kept if entry != CODE_ROOT), *moved]


def _absolute(entry: str) -> str:
    try:
        return os.path.abspath(entry)  # noqa: PTH100
    except OSError:  # the working folder was removed
        return entry


def exit_quickly() -> None:
    """Leave out the garbage collection that the interpreter does at its exit. The system frees the memory anyway."""
    import atexit  # here, after the path is in order
    import gc

    atexit.register(gc.freeze)


def main() -> None:
    """Run the module that the command line names."""
    search_own_first()
    import runpy  # here, after the path is in order

    exit_quickly()
    module = sys.argv[2]
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
