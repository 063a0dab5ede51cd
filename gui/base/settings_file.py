"""The settings that the window saves, in one JSON file. The window opens with any content of the file."""

from __future__ import annotations

import json
import logging
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from PySide6.QtCore import QByteArray

from core.errors import RunError
from core.language import tr, tr_noop
from core.schema.files import MAX_JSON_BYTES, make_private, read_whole
from core.system.folders import config_folder, config_folder_locked, save_in_config_folder

FILE = "trainyard.json"
UNREADABLE = tr_noop("{path} cannot be read: {why}. The settings have their defaults, and are not saved.")
DAMAGED = tr_noop("{path} is damaged, and was renamed to {kept}. The settings have their defaults.")
Kind = TypeVar("Kind", dict[str, Any], str, bool)
log = logging.getLogger(__name__)


def default_file() -> Path:
    """Return the settings file: in the user's configuration folder, unless TRAINYARD_CONFIG_DIR names another."""
    return config_folder() / FILE


class SettingsFile:
    """Named values. Each access reads the file again, since several windows write it."""

    _unsaved: ClassVar[dict[Path, dict[str, Any]]] = {}
    """By file, the values that could not be written. This process has them all the same, and tries again."""

    def __init__(self) -> None:
        self.path = default_file()
        self.problem = ""
        """What was wrong with the file when it was last read: a sentence, or the empty string."""
        self._is_damaged = False
        make_private(self.path)  # the form in it may hold secrets

    def value(self, name: str, kind: type[Kind]) -> Kind:
        """Return a value; an empty one if it is missing or not of this kind."""
        value = {**(self._read() or {}), **self._unsaved.get(self.path, {})}.get(name)
        if isinstance(value, kind):
            return value
        if value is not None:
            self.problem = tr("{name} in {path} makes no sense, and has its default.", name=name, path=self.path)
        return kind()

    def data(self, name: str) -> QByteArray:
        """Return bytes, such as those of a Qt layout, or empty ones."""
        try:
            return QByteArray(b64decode(self.value(name, str), validate=True))
        except ValueError:
            return QByteArray()

    def save(self, values: Mapping[str, object]) -> None:
        """Write these values now: what JSON has, and bytes of Qt. If that fails, this process keeps them."""
        unsaved = self._unsaved.setdefault(self.path, {})
        unsaved.update(json.loads(json.dumps(values, default=_text)))
        with config_folder_locked():
            kept = self._read()
            if kept is None:
                return
            text = json.dumps({**kept, **unsaved}, indent=1) + "\n"
            if len(text) > MAX_JSON_BYTES:
                log.warning("%s is not written: it would have %d bytes", self.path, len(text))
                return
            try:
                save_in_config_folder(FILE, text)
            except RunError as error:
                log.warning("%s", error)
                return
        unsaved.clear()

    def first_time(self, name: str) -> bool:
        """Return True once: the first time that any window of this user asks for this name."""
        if self.value(name, bool):
            return False
        self.save({name: True})
        return True

    def move_aside_if_damaged(self) -> None:
        """Rename a file that is no JSON, and say so in `problem`; otherwise nothing is saved until it is mended."""
        with config_folder_locked():
            if self._read() is not None or not self._is_damaged:
                return
            kept = self.path.with_name(f"{self.path.stem}-damaged-{time.strftime('%Y%m%d-%H%M%S')}.json")
            try:
                self.path.rename(kept)
            except OSError as error:
                log.warning("%s", error)
                return
        self.problem = tr(DAMAGED, path=self.path, kept=kept.name)
        log.warning("%s", self.problem)

    def _read(self) -> dict[str, Any] | None:
        """Return all values; None if the file is there and cannot be read, or is damaged."""
        self._is_damaged = False
        try:
            found = json.loads(read_whole(self.path, follow_link=True))
            if isinstance(found, dict):
                return found
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.problem = tr(UNREADABLE, path=self.path, why=error.strerror)
            return None
        except (ValueError, RecursionError):
            pass
        self._is_damaged = True
        return None


def folder_key(folder: Path) -> str:
    """Return the beginning of the names of the settings of one folder of runs."""
    return f"folders/{os.fsencode(folder.absolute()).decode(errors='replace')}"


def _text(value: object) -> str:
    """Return bytes of Qt as JSON can have them."""
    assert isinstance(value, QByteArray), value
    return b64encode(value.data()).decode()
