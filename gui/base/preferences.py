"""The preferences of the user, where they are kept, and the language that they choose: of our sentences and Qt's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from PySide6.QtCore import QLibraryInfo, QLocale, QTranslator
from PySide6.QtGui import QFont, QTextLayout
from PySide6.QtWidgets import QApplication

from core import language
from core.language import tr, tr_noop
from core.schema.setting import settings_of
from core.schema.settings import ReleaseWatch
from core.schema.spec import RunSpec
from gui.base.settings_file import SettingsFile

KEY = "window/preferences"
VERSION = 1
THEMES = {"desktop": tr_noop("as the desktop"), "dark": tr_noop("dark"), "light": tr_noop("light")}
COLOURS = {
    "desktop": tr_noop("as the desktop"), "standard": tr_noop("standard"), "strong": tr_noop("strong contrast"),
}
"""Values with their titles."""
SENSELESS = tr_noop("Some preferences in {path} make no sense, and have their defaults: {shown}.")
NEWER = tr_noop(
    "The preferences were written by a newer Trainyard. What this one does not know is kept in the settings file, and "
    "has no effect."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the user prefers. Raises `ValueError` with a few words for a value that cannot be."""

    theme: str = "desktop"
    colours: str = "desktop"
    """How strong the contrast of the colours is."""
    language: str = ""
    """Its code; the empty string for that of the desktop. An unknown code means English."""
    show_cpus: bool = True
    """Whether CPU devices are listed where there are GPUs."""
    tolerance_mb: int = ReleaseWatch().tolerance_mb
    wait_s: float = ReleaseWatch().wait_s
    cuda_ids: str = settings_of(RunSpec)["cuda_ids"].default

    def __post_init__(self) -> None:
        settings_of(RunSpec)["cuda_ids"].check(self.cuda_ids)
        ReleaseWatch(tolerance_mb=self.tolerance_mb, wait_s=self.wait_s)
        valid = {
            "theme": self.theme in THEMES,
            "colours": self.colours in COLOURS,
            "language": isinstance(self.language, str),
            "show_cpus": isinstance(self.show_cpus, bool),
        }
        for name, is_valid in valid.items():
            if not is_valid:
                raise ValueError(f"{name} = {getattr(self, name)!r}")


class PreferencesFile:
    """Reads and writes the preferences. Keeps what a newer version has written."""

    def __init__(self, file: SettingsFile) -> None:
        self._file = file
        self._kept: dict[str, Any] = {}
        self.problem = ""
        """What was wrong with the file: a sentence, or the empty string."""
        self.preferences = self._read()

    def save(self, preferences: Preferences) -> None:
        """Write the preferences now."""
        self.preferences = preferences
        self._kept = {"version": VERSION, **self._kept, **asdict(preferences)}
        self._file.save({KEY: self._kept})

    def _read(self) -> Preferences:
        self._file.move_aside_if_damaged()
        self._kept = self._file.value(KEY, dict)
        self.problem = self._file.problem
        known = Preferences()
        wrong = []
        for name in (field.name for field in fields(Preferences)):
            if name in self._kept:
                try:
                    known = replace(known, **{name: self._kept[name]})
                except (ValueError, TypeError):
                    wrong.append(f"{name} = {self._kept[name]!r}")
        version = self._kept.get("version", VERSION)
        if isinstance(version, int) and version > VERSION:
            self.problem = tr(NEWER)
        elif wrong:
            self.problem = tr(SENSELESS, path=self._file.path, shown=", ".join(wrong)[:200])
        return known


NO_FONT = tr_noop(
    "No font of this machine has the characters of the language {code}. Install one, such as the package "
    "fonts-noto-cjk for Chinese, or choose another language under File, Preferences (Ctrl+,)."
)
"""Shown in English: in the language itself it could not be read."""
TRANSLATOR = "qtTranslator"


def choose_language(app: QApplication, wanted: str, environment: Mapping[str, str] = os.environ) -> str:
    """Use a language from now on. Return what is wrong with it: a sentence, or the empty string.

    `wanted`: its code; the empty string for that of the desktop, which `environment` names.
    """
    try:
        language.use(wanted or language.from_environment(environment))
        problem = ""
    except ValueError:
        language.use(language.ENGLISH)
        problem = tr(
            "The preferences name the language {code!r}, which this version does not have. English is used.",
            code=wanted[:40],
        )
    code = language.current()
    _translate_qt(app, code)
    QLocale.setDefault(QLocale(code) if wanted else QLocale.system())  # of dates in Qt's file dialog
    if code != language.ENGLISH and not can_show(language.available()[code], app.font()):
        problem = NO_FONT.format(code=code)
    return problem


def can_show(text: str, font: QFont) -> bool:
    """Return whether this font, or another one that Qt takes in its place, has all characters of a text."""
    layout = QTextLayout(text, font)
    layout.beginLayout()
    layout.createLine()
    layout.endLayout()
    return all(0 not in run.glyphIndexes() for run in layout.glyphRuns())  # 0 is the glyph for a missing one


def _translate_qt(app: QApplication, code: str) -> None:
    """Translate what Qt itself says, such as in its file dialog."""
    before = app.findChild(QTranslator, TRANSLATOR)
    if before is not None:
        app.removeTranslator(before)
        before.setParent(None)
        before.deleteLater()
    if code != language.ENGLISH:
        translator = QTranslator(app)
        translator.setObjectName(TRANSLATOR)
        if translator.load(f"qtbase_{code}", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
            app.installTranslator(translator)
