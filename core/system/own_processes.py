"""The processes that Trainyard itself consists of, told by their command lines: no training, nor to be ended as one.

What a training is started with, `core.worker`, is none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SUPERVISOR = "core.supervisor"
"""The module of supervisors; guards, and readers of scripts, are forked from them, and look the same."""
PANEL_MODULES = frozenset({SUPERVISOR, "core.cli", "trainyard"})
PANEL_SCRIPTS = frozenset({"trainyard", "trainyard.py"})
HELPER = "core.devices.helper"
PREFLIGHT_SCRIPT = "ask_cuda.py"


def is_part(words: Sequence[str]) -> bool:
    """Whether a process with this command line is any of them."""
    return is_panel(words) or asks_drivers(words)


def is_panel(words: Sequence[str]) -> bool:
    """Whether this is how the panel, one of its commands, or a supervisor is started."""
    return bool(PANEL_MODULES & _modules(words)) or any(Path(word).name in PANEL_SCRIPTS for word in words[:2])


def asks_drivers(words: Sequence[str]) -> bool:
    """Whether this is how a helper or a pre-flight is started: they open the devices' files, and hold no memory."""
    return HELPER in _modules(words) or any(Path(word).name == PREFLIGHT_SCRIPT for word in words)


def _modules(words: Sequence[str]) -> set[str]:
    """What Python is told to run: words of the program that it runs may look the same, which does no harm."""
    return {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-m"}
