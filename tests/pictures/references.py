"""Which pictures there are: of each state eight, in which each pair of size, theme, scale and language occurs.

All combinations would be 288 pictures, and mistakes come from one choice, or from two that do not fit together. The
states have different eights, so that every combination of the four choices occurs in some state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Self

from core.language import ENGLISH

STATES = ("first-run", "ready", "starting", "running", "paused", "failed", "memory-held", "long-run", "machine")
FEW = "hosts"
"""A state with fewer pictures than the others: what differs is the list of devices."""
CHINESE = "zh_CN"
THEMES, SCALES, LANGUAGES = ("dark", "light"), (1, 2), (ENGLISH, CHINESE)
SIZES = ((900, 600), (1280, 800), (1480, 900), (2560, 1440))
FOLDER = Path(__file__).with_name("references")
QT_VERSION = FOLDER / "qt.txt"
"""The version that drew the references."""
DOCUMENTED = Path(__file__).parents[2] / "docs" / "pictures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One picture."""

    scene: str
    size: tuple[int, int]
    """In logical pixels."""
    theme: str
    scale: int = 1
    language: str = ENGLISH

    @property
    def name(self) -> str:
        """`running_1480x900_dark_1`, or `running_1480x900_dark_1_zh-CN`."""
        name = f"{self.scene}_{self.size[0]}x{self.size[1]}_{self.theme}_{self.scale}"
        return name if self.language == ENGLISH else f"{name}_{self.language.replace('_', '-')}"

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the picture with a name."""
        scene, size, theme, scale, *language = name.split("_")
        width, height = size.split("x")
        return cls(
            scene=scene, size=(int(width), int(height)), theme=theme, scale=int(scale),
            language=language[0].replace("-", "_") if language else ENGLISH,
        )


def _shots(row: int, state: str) -> Iterator[Shot]:
    """Yield the pictures of a state: an orthogonal array of one choice of four and three choices of two."""
    for (number, size), theme in product(enumerate(SIZES), (0, 1)):
        high, low = divmod(number, 2)
        yield Shot(
            scene=state, size=size, theme=THEMES[theme], scale=SCALES[(low + theme + row) % 2],
            language=LANGUAGES[(high + theme + row // 2) % 2],
        )


COMPARED = (
    *(shot for row, state in enumerate(STATES) for shot in _shots(row, state)),
    Shot(scene=FEW, size=SIZES[2], theme="dark"),
    Shot(scene=FEW, size=SIZES[0], theme="light"),
    Shot(scene=FEW, size=SIZES[2], theme="light", language=CHINESE),
)
IN_DOCUMENTATION = {
    name: Shot(scene=state, size=SIZES[2], theme=theme)
    for name, state, theme in (
        ("running-dark", "running", "dark"), ("running-light", "running", "light"), ("ready", "ready", "light"),
        ("failed", "failed", "dark"), ("memory-held", "memory-held", "light"), ("hosts", FEW, "dark"),
    )
}
"""By the name of the file."""
