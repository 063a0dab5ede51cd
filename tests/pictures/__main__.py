"""Write the references of the test and the pictures of the documentation: `make pictures`."""

import sys
import tempfile
from pathlib import Path

from PySide6.QtCore import qVersion

from tests.pictures.camera import SUFFIX, take
from tests.pictures.images import difference, read, reduced, write_reference, write_small
from tests.pictures.references import CHINESE, COMPARED, DOCUMENTED, FOLDER, IN_DOCUMENTATION, QT_VERSION
from tests.support.packages import CHINESE_FONT, missing

KB = 1000
SAME = 0.4
"""A picture that differs by less, in tolerances, is not written again: histories of files that change grow."""


def main() -> int:
    """Take all pictures and write them; print how large they are."""
    with tempfile.TemporaryDirectory() as taken:
        folder = Path(taken)
        no_font = missing(CHINESE_FONT)
        compared = [shot for shot in COMPARED if not (no_font and shot.language == CHINESE)]
        take([*dict.fromkeys([*compared, *IN_DOCUMENTATION.values()])], folder)
        if no_font:
            print(f"The Chinese pictures are left as they are: taking them {no_font}")
        for old in {*FOLDER.glob("*.png")} - {FOLDER / f"{shot.name}.png" for shot in COMPARED}:
            old.unlink()
        for shot in compared:
            picture, file = reduced(read(folder / f"{shot.name}{SUFFIX}"), shot.scale), FOLDER / f"{shot.name}.png"
            if not (file.exists() and difference(picture, read(file)).max() < SAME):
                write_reference(picture, file)
        QT_VERSION.write_text(f"{qVersion()}\n")
        for name, shot in IN_DOCUMENTATION.items():
            picture, file = read(folder / f"{shot.name}{SUFFIX}"), DOCUMENTED / f"{name}.png"
            if not (file.exists() and difference(reduced(picture), reduced(read(file))).max() < SAME):
                write_small(picture, file)
    for written in (FOLDER, DOCUMENTED):
        sizes = [path.stat().st_size for path in written.glob("*.png")]
        print(f"{written}: {len(sizes)} pictures, {sum(sizes) // KB} kB, the largest {max(sizes) // KB} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
