"""Start a worker. This file is run by its path, under an interpreter that need not have Trainyard installed.

    python boot.py RUN_DIR '{"rank": 0, "world_size": 2, "devices": ["cpu:0"], ...}'
    python boot.py --export '{"run_dir": ..., "checkpoint": ..., ...}'

The second form exports a trained model. Our package is loaded under a private name: a user's own package `core` or
`gui` keeps its name, and our folders `pytorch` and `tensorflow` cannot be mistaken for a framework.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

PRIVATE_NAME = "_trainyard"


def _load_privately(folder: str) -> None:
    """Make the package in `folder` importable as `PRIVATE_NAME` and under no other name."""
    spec = importlib.util.spec_from_file_location(
        PRIVATE_NAME,
        os.path.join(folder, "__init__.py"),  # noqa: PTH118 (see main)
        submodule_search_locations=[folder],
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Remove our own folder from the import path, then run the worker or the export."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (`here` leaves the path before pathlib loads)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    _load_privately(os.path.dirname(here))  # noqa: PTH120
    if sys.argv[1] == "--export":
        return int(importlib.import_module(f"{PRIVATE_NAME}.worker.export").main(sys.argv[2]))
    return int(importlib.import_module(f"{PRIVATE_NAME}.worker.main").main(sys.argv[1], sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
