"""What the program says about itself: the libraries it uses, and a report to be pasted into a bug report."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from core.devices.device import Survey
from core.system.installation import version
from core.text import size
from gui.style.formatting import DASH

LIBRARIES = ("PySide6-Essentials", "pyqtgraph", "numpy", "nvidia-ml-py", "platformdirs")
DESKTOP_VARIABLES = ("XDG_CURRENT_DESKTOP", "XDG_SESSION_TYPE", "QT_QPA_PLATFORM", "QT_SCALE_FACTOR", "LANG")
"""Environment variables that decide how a window looks."""
MAX_LICENCE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library that the window uses."""

    name: str
    version: str
    licence: str


def libraries() -> list[Library]:
    """Return the libraries with what their packages say about themselves. Reads files."""
    found = [Library(name="Python", version=platform.python_version(), licence="PSF-2.0")]
    return found + [_library(name) for name in LIBRARIES]


def _library(name: str) -> Library:
    try:
        data = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return Library(name=name, version=DASH, licence=DASH)
    texts = [*(data.get_all("License-Expression") or ()), *(data.get_all("License") or ())]
    classifiers = [each.rpartition(" :: ")[2] for each in data.get_all("Classifier") or () if "License ::" in each]
    short = next((text for text in texts if text and len(text) <= MAX_LICENCE and "\n" not in text), "")
    return Library(name=name, version=data["Version"], licence=short or ", ".join(classifiers) or DASH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the program keeps what it writes."""

    runs: Path
    presets: Path
    settings: Path


def report(survey: Survey, places: Places, last_error: str) -> str:
    """Return a report in plain text: versions, platform, devices, folders, and the last error of the window."""
    lines = [
        f"Trainyard {version()}",
        f"System: {platform.platform()}",
        *[f"{each.name} {each.version}" for each in libraries()],
        *[f"{name}={os.environ[name]}" for name in DESKTOP_VARIABLES if os.environ.get(name)],
        "",
        "Devices:",
        *_devices(survey),
        "",
        f"Runs: {places.runs}",
        f"Presets: {places.presets}",
        f"Settings: {places.settings}",
        "",
        "Last error of the window:",
        last_error.strip() or "none",
    ]
    home = os.path.expanduser("~")  # noqa: PTH111 (as text)
    text = "\n".join(lines) + "\n"
    return re.sub(rf"{re.escape(home)}(?=/)", "~", text) if home != "/" else text


def _devices(survey: Survey) -> Sequence[str]:
    rows = [f"  {each.label}: {each.name}, {size(each.memory_total_bytes)}" for each in survey.devices]
    return [*(rows or ["  none"]), *([f"  {survey.banner}"] if survey.banner else [])]
