"""Write a log, and let a view read it to its end."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from gui.features.log.view import LogView


def append(path: Path, text: str) -> None:
    """Add a text to a file."""
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)


def read_all(qtbot: QtBot, view: LogView) -> None:
    """Let the view read the file to its end."""
    qtbot.waitUntil(lambda: not view.follow())
