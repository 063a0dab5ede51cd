"""Make pictures (PNG) of drawings (SVG): a process of its own, since commands load no Qt.

    python -m gui.plots.svg_to_png FOLDER

Each drawing in the folder gets a picture beside it. The last line on standard error says why that was impossible.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from core import language
from core.language import tr

SCALE = 2
"""Dots of a picture for each unit of the drawing, so that it is sharp in print."""


def main(folder: Path) -> str:
    """Draw them; return why one could not be drawn, or the empty string."""
    try:
        from PySide6.QtGui import QGuiApplication, QImage, QPainter
        from PySide6.QtSvg import QSvgRenderer
    except ImportError as error:
        return tr("Qt could not be loaded ({error}).", error=error)
    app = QGuiApplication.instance() or QGuiApplication([])
    for path in sorted(folder.glob("*.svg")):
        drawing = QSvgRenderer(str(path))
        if not drawing.isValid():
            return tr("{file} is no drawing.", file=path.name)
        image = QImage(drawing.defaultSize() * SCALE, QImage.Format.Format_RGB32)
        painter = QPainter(image)
        drawing.render(painter)
        painter.end()
        if not image.save(str(path.with_suffix(".png"))):
            return tr("{path} could not be written.", path=path.with_suffix(".png"))
    del app
    return ""


if __name__ == "__main__":
    language.use(language.from_environment(os.environ))
    sys.exit(main(Path(sys.argv[1])) or 0)
