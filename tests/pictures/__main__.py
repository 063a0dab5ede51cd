"""Write the references of the test and the pictures of the documentation: `make pictures`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PySide6.QtCore import qVersion

from tests.pictures.camera import take
from tests.pictures.images import read, reduced, write_reference, write_small
from tests.pictures.references import COMPARED, DOCUMENTED, FOLDER, IN_DOCUMENTATION, QT_VERSION

KB = 1000


def main() -> int:
    """Take all pictures and write them; print how large they are."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        take([*dict.fromkeys([*COMPARED, *IN_DOCUMENTATION.values()])], folder)
        for old in FOLDER.glob("*.png"):
            old.unlink()
        for shot in COMPARED:
            picture = read(folder / f"{shot.name}.png")
            write_reference(reduced(picture, shot.scale), FOLDER / f"{shot.name}.png")
        QT_VERSION.write_text(f"{qVersion()}\n")
        for file, shot in IN_DOCUMENTATION.items():
            write_small(read(folder / f"{shot.name}.png"), DOCUMENTED / f"{file}.png")
    for written in (FOLDER, DOCUMENTED):
        sizes = [path.stat().st_size for path in written.glob("*.png")]
        print(f"{written}: {len(sizes)} pictures, {sum(sizes) // KB} kB, the largest {max(sizes) // KB} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
