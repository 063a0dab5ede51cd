"""What the window remembers from one time to the next. Whatever is in the file, the window opens."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import platformdirs
from PySide6.QtCore import QByteArray, QSettings

FOLDER_VARIABLE = "TRAINYARD_CONFIG_DIR"
MAX_BYTES = 1024 * 1024
"""A larger file is none of ours."""


def default_file() -> Path:
    """Where it is kept: the user's configuration folder, unless TRAINYARD_CONFIG_DIR names another."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return (Path(folder) if folder else platformdirs.user_config_path("trainyard")) / "trainyard.ini"


class SettingsFile:
    """Named values in an INI file. What is missing, or not of the kind asked for, is None or empty.

    All values are written as plain text, so that nothing of what Qt would decode is ever decoded.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._settings = QSettings(str(file or default_file()), QSettings.Format.IniFormat)

    def text(self, name: str) -> str:
        """A text; empty when there is none."""
        value = self._settings.value(name)
        return value if isinstance(value, str) and len(value) < MAX_BYTES else ""

    def keep_text(self, name: str, value: str) -> None:
        """Remember a text."""
        self._settings.setValue(name, value)

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping of plain values; empty when there is none."""
        try:
            value = json.loads(b64decode(self.text(name), validate=True))
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def keep_mapping(self, name: str, value: dict[str, Any]) -> None:
        """Remember a mapping of plain values."""
        self.keep_text(name, b64encode(json.dumps(value).encode()).decode())

    def data(self, name: str) -> QByteArray:
        """Bytes as Qt packs a layout into; empty when there are none."""
        try:
            return QByteArray(b64decode(self.text(name), validate=True))
        except ValueError:
            return QByteArray()

    def keep_data(self, name: str, value: QByteArray) -> None:
        """Remember bytes."""
        self.keep_text(name, b64encode(value.data()).decode())

    def save(self) -> None:
        """Write it down now. A folder that cannot be written costs the memory and nothing else."""
        self._settings.sync()


def folder_key(folder: Path) -> str:
    """A name for what is remembered of one folder of runs."""
    return f"folders/{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]}"
