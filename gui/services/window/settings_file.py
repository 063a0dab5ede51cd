"""The settings that the window saves. The window opens with any content of the file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QSettings

from core.schema.files import PRIVATE_FOLDER, make_folder, make_private, make_private_folder, touch
from core.system.folders import CONFIG_VARIABLE, config_folder

MAX_BYTES = 1024 * 1024
"""Largest size of one value."""


def default_file() -> Path:
    """Return the settings file: in the user's configuration folder, unless TRAINYARD_CONFIG_DIR names another."""
    return config_folder() / "trainyard.ini"


class SettingsFile:
    """Named values in an INI file. What is missing, or not of the kind asked for, is None or empty.

    All values are written as plain text, so that nothing of what Qt would decode is ever decoded.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or default_file()
        self._make_private()
        self._settings = QSettings(str(self._file), QSettings.Format.IniFormat)

    def _make_private(self) -> None:
        """Make the file private: the form in it may hold secrets. Qt keeps its permissions."""
        with contextlib.suppress(OSError):  # then nothing can be saved there either
            if CONFIG_VARIABLE in os.environ:  # its permissions are the user's
                make_folder(self._file.parent, PRIVATE_FOLDER)
            else:
                make_private_folder(self._file.parent)
            touch(self._file)
            make_private(self._file)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file

    @property
    def is_damaged(self) -> bool:
        """True if the file has lines that are no settings; those that are can be used all the same."""
        return self._settings.status() is QSettings.Status.FormatError

    def text(self, name: str) -> str:
        """Return a text, or the empty string."""
        value = self._settings.value(name)
        return value if isinstance(value, str) and len(value) < MAX_BYTES else ""

    def keep_text(self, name: str, value: str) -> None:
        """Set a text."""
        self._settings.setValue(name, value)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return a mapping of plain values, or an empty one."""
        try:
            value = json.loads(b64decode(self.text(name), validate=True))
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def keep_mapping(self, name: str, value: dict[str, Any]) -> None:
        """Set a mapping of plain values."""
        self.keep_text(name, b64encode(json.dumps(value).encode()).decode())

    def data(self, name: str) -> QByteArray:
        """Return bytes, such as those of a Qt layout, or empty ones."""
        try:
            return QByteArray(b64decode(self.text(name), validate=True))
        except ValueError:
            return QByteArray()

    def keep_data(self, name: str, value: QByteArray) -> None:
        """Set bytes."""
        self.keep_text(name, b64encode(value.data()).decode())

    def save(self) -> None:
        """Write the file now. If the folder cannot be written, the settings are lost and nothing else."""
        self._settings.sync()


def folder_key(folder: Path) -> str:
    """Return the group of the settings of one folder of runs."""
    return f"folders/{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]}"
