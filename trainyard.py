"""The command `trainyard`: import the packages `core`, `gui` and `resources` of this installation, and run `core.cli`.

A user's package with one of these names, or with the name of a package that Trainyard needs, may come first on
PYTHONPATH. This folder is put before it, and then what is installed.
"""

import importlib
import signal
import sys
from collections.abc import Callable
from pathlib import Path

PACKAGES = ("core", "gui", "resources")


def main() -> int:
    """Run the command line."""
    try:
        command = _command()
    except KeyboardInterrupt:
        sys.stderr.write("trainyard: Interrupted. Nothing was done.\n")
        return 128 + signal.SIGINT
    return command()


def _command() -> Callable[[], int]:
    """Import the command line."""
    here = str(Path(__file__).resolve().parent)
    sys.path.insert(0, here)
    try:
        for name in PACKAGES:  # an imported package finds its own modules
            importlib.import_module(name)
    finally:
        sys.path.remove(here)
    from core.system.own_start import exit_quickly, search_own_first

    search_own_first()
    exit_quickly()
    from core.cli.__main__ import main as command

    return command
