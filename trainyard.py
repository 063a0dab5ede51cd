"""The command `trainyard`: makes sure that `core`, `gui` and `resources` are ours, then hands over.

A user's own package of one of these names may stand on PYTHONPATH, before all that is installed.
"""

import importlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path

OURS = ("core", "gui", "resources")


def main() -> int:
    """Run the command line."""
    try:
        command = _command()
    except KeyboardInterrupt:
        sys.stderr.write("trainyard: interrupted before anything was done.\n")
        return 128 + signal.SIGINT
    return command()


def _command() -> Callable[[], int]:
    """The command line, loaded: a second's work on a slow disk."""
    here = str(Path(__file__).resolve().parent)
    sys.path.insert(0, here)
    try:
        for name in OURS:  # once loaded, a package finds its modules by itself
            importlib.import_module(name)
    finally:
        sys.path.remove(here)
    from core.cli.__main__ import main as command

    return command
