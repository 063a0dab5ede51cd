"""The language of the window: its own sentences, those of Qt, and whether a font has the characters."""

from __future__ import annotations

import os
from collections.abc import Mapping

from PySide6.QtCore import QLibraryInfo, QLocale, QTranslator
from PySide6.QtGui import QFont, QTextLayout
from PySide6.QtWidgets import QApplication

from core import language
from core.language import tr, tr_noop

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
