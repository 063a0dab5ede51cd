"""The command `trainyard`: put the folder of `core`, `gui` and `resources` on the path, and run `core.cli`.

A user's package with one of these names, or with the name of a package that Trainyard needs, may come first on
PYTHONPATH. Trainyard's folder is searched before it, and then what is installed. In a wheel, this file is the package
`trainyard`, which contains the others (see resources/install/build_backend.py).
"""

import signal
import sys
from collections.abc import Callable
from pathlib import Path


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
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from core.system.own_start import exit_quickly, search_own_first

    search_own_first()
    exit_quickly()
    from core.cli.__main__ import main as command

    return command


if __name__ == "__main__":
    sys.exit(main())
