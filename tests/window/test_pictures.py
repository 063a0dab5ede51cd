"""The window looks as in the reference pictures: ten states, four widths, two themes, two scales, two languages.

If a change is meant, `make pictures` writes the references and the pictures of the documentation again; look at them.
"""

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import qVersion
from PySide6.QtGui import QImage

from tests.pictures import images
from tests.pictures.camera import SUFFIX, take
from tests.pictures.images import difference, read, reduced, write_difference
from tests.pictures.references import (
    CHINESE,
    COMPARED,
    DOCUMENTED,
    FEW,
    FOLDER,
    IN_DOCUMENTATION,
    LANGUAGES,
    QT_VERSION,
    SCALES,
    SIZES,
    STATES,
    THEMES,
    Shot,
)
from tests.support.packages import CHINESE_FONT, COMPILER, missing

pytestmark = pytest.mark.styled

FAILED = Path(__file__).parents[2] / "build" / "pictures"
"""Where the pictures of a failed test are left."""
ENDINGS = (".png", "_difference.png")
"""Of the picture as it was taken, and of what is different."""
MAX_REFERENCES, MAX_DOCUMENTED = 4_000_000, 150_000
"""Bytes of all references together, and of one picture of the documentation."""


def differing(shot: Shot, folder: Path, expected: images.Picture) -> str:
    """Return how a picture in a folder differs from a reduced one, or the empty string; leave both in `FAILED`."""
    taken = folder / f"{shot.name}{SUFFIX}"
    found = difference(reduced(read(taken), shot.scale), expected)
    worst = float(found.max())
    if worst <= 1:
        return ""
    FAILED.mkdir(parents=True, exist_ok=True)
    QImage(str(taken)).save(str(FAILED / f"{taken.stem}.png"))
    write_difference(found, FAILED / f"{taken.stem}_difference.png")
    y, x = (int(each) * images.REDUCED for each in np.unravel_index(found.argmax(), found.shape))
    return f"{shot.name}: it differs by {worst:.1f} times what is tolerated, most at x {x}, y {y}"


@pytest.mark.e2e
@pytest.mark.parametrize(("scale", "language"), [*product(SCALES, LANGUAGES)])
def test_window_looks_as_in_its_pictures(scale: int, language: str, tmp_path: Path) -> None:
    if why_not := missing(COMPILER, *([CHINESE_FONT] if language == CHINESE else [])):
        pytest.skip(why_not)
    written = QT_VERSION.read_text().strip()
    if written.rpartition(".")[0] != qVersion().rpartition(".")[0]:
        pytest.skip(f"the references were made with Qt {written}, and each version draws a little otherwise")
    kind = (scale, language)
    compared = [shot for shot in COMPARED if (shot.scale, shot.language) == kind]
    documented = {name: shot for name, shot in IN_DOCUMENTATION.items() if (shot.scale, shot.language) == kind}
    for shot in (*compared, *documented.values()):
        for ending in ENDINGS:
            (FAILED / f"{shot.name}{ending}").unlink(missing_ok=True)
    take([*dict.fromkeys([*compared, *documented.values()])], tmp_path)
    problems = [differing(shot, tmp_path, read(FOLDER / f"{shot.name}.png")) for shot in compared]
    for name, shot in documented.items():
        file = DOCUMENTED / f"{name}.png"
        found = differing(shot, tmp_path, reduced(read(file), shot.scale))
        problems.append(f"docs/pictures/{file.name} is old. {found}" if found else "")
    found = [each for each in problems if each]
    told = "\n".join(found)
    assert not found, (
        f"{told}\nThe pictures are in {FAILED}. If this is meant: make pictures, then look at all of them."
    )


def test_every_state_has_pictures_of_every_pair_of_size_theme_scale_and_language() -> None:
    choices = {"size": SIZES, "theme": THEMES, "scale": SCALES, "language": LANGUAGES}
    for state, (one, other) in product(STATES, combinations(choices, 2)):
        found = {(getattr(shot, one), getattr(shot, other)) for shot in COMPARED if shot.scene == state}
        assert found == set(product(choices[one], choices[other])), (state, one, other)
    assert {(shot.size, shot.theme, shot.scale, shot.language) for shot in COMPARED} == set(product(*choices.values()))
    assert {shot.theme for shot in COMPARED if shot.scene == FEW} == {*THEMES}
    assert {path.stem for path in FOLDER.glob("*.png")} == {shot.name for shot in COMPARED}
    assert {path.stem for path in DOCUMENTED.glob("*.png")} == set(IN_DOCUMENTATION)
    assert {shot.scene for shot in IN_DOCUMENTATION.values()} <= {*STATES, FEW}


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.png")) <= MAX_REFERENCES
    assert max(path.stat().st_size for path in DOCUMENTED.glob("*.png")) <= MAX_DOCUMENTED


def test_missing_word_and_other_ground_are_differences_and_a_softer_edge_is_none() -> None:
    page = np.full((120, 200, 3), 28.0, np.float32)
    page[40:52, 40:80:2] = 230.0  # strokes
    without, softer = page.copy(), page.copy()
    without[40:52, 68:80] = 28.0
    softer[39, 40:80:2] = softer[52, 40:80:2] = 60.0
    assert difference(reduced(page), reduced(without)).max() > 1
    assert difference(reduced(page), reduced(page + 4)).max() > 1
    assert difference(reduced(page), reduced(softer)).max() < 1
    assert difference(reduced(page), reduced(page[:-8])).min() > 1  # another size
