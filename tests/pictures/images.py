"""Reduce, compare and write pictures. A picture is an array of shape (height, width, 3), 0 to 255.

One that was read has whole numbers, one that was reduced has not.
"""

from pathlib import Path

import numpy as np
from PySide6.QtGui import QColor, QImage

REDUCED = 4
"""A reference has one pixel for so many of the window in each direction, in logical pixels."""
LEVELS = 2
"""Steps between two colours of a reference: fewer colours make smaller files."""
TOLERANCES = {3: 10.0, 24: 2.5}
"""By the side of a place in pixels of a reference, how much its mean colour may differ, of 255.

In small places a word that goes missing is seen, and in large ones a ground of a slightly other colour. Edges that are
drawn a little otherwise, as by another version of FreeType, change neither as much.
"""
MAX_COLOURS = 256

Picture = np.ndarray


def read(path: Path) -> Picture:
    """Return a picture from a file."""
    image = QImage(str(path)).convertToFormat(QImage.Format.Format_RGB888)
    assert not image.isNull(), path
    height, width = image.height(), image.width()
    lines = np.frombuffer(image.constBits(), np.uint8).reshape(height, image.bytesPerLine())
    return lines[:, : 3 * width].reshape(height, width, 3).copy()


def reduced(picture: Picture, scale: int = 1) -> Picture:
    """Return the means of squares of `REDUCED` pixels; what is over at the right and at the bottom is left out."""
    side = REDUCED * scale
    height, width = picture.shape[0] // side, picture.shape[1] // side
    whole = picture[: height * side, : width * side]
    number = np.uint32 if whole.dtype == np.uint8 else np.float32
    # Whole lines are added first: numpy takes ten times longer for all squares at once.
    lines = np.add.reduce(whole.reshape(height, side, width * side * 3), axis=1, dtype=number)
    squares = np.add.reduce(lines.reshape(height, width, side, 3), axis=2, dtype=number)
    return (squares / side**2).astype(np.float32)


def difference(one: Picture, other: Picture) -> Picture:
    """Return how much two reduced pictures differ by place, in tolerances: above 1 is too much."""
    if one.shape != other.shape:
        return np.full(one.shape[:2], np.inf, np.float32)
    apart = np.pad(np.subtract(one, other, dtype=np.float32), ((1, 0), (1, 0), (0, 0)))
    summed = apart.cumsum(axis=0, dtype=np.float64).cumsum(axis=1)
    found = np.zeros(one.shape[:2], np.float32)
    for side, tolerance in TOLERANCES.items():
        sums = summed[side:, side:] - summed[:-side, side:] - summed[side:, :-side] + summed[:-side, :-side]
        excess = np.abs(sums / side**2).max(axis=2) / tolerance
        middle = found[side // 2 :, side // 2 :][: excess.shape[0], : excess.shape[1]]
        np.maximum(middle, excess, out=middle)
    return found


def write_reference(picture: Picture, path: Path) -> None:
    """Write a reduced picture, with fewer colours."""
    _write(np.minimum(np.round(picture / LEVELS) * LEVELS, 255).astype(np.uint8), path)


def write_difference(different: Picture, path: Path) -> None:
    """Write where two pictures differ: white where they differ by more than is tolerated."""
    grey = np.minimum(different * 255, 255).astype(np.uint8)
    _write(np.repeat(grey[:, :, None], 3, axis=2), path)


def write_small(picture: Picture, path: Path) -> None:
    """Write a whole picture with 256 colours."""
    packed = picture.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    parts = np.stack([colours >> 16 & 255, colours >> 8 & 255, colours & 255], axis=1).astype(np.float32)
    kept = _palette(parts, counts)
    nearest = np.array([np.square(parts[kept] - part).sum(axis=1).argmin() for part in parts], np.uint8)
    indices = np.ascontiguousarray(nearest[places].reshape(packed.shape))
    height, width = indices.shape
    image = QImage(indices.data, width, height, width, QImage.Format.Format_Indexed8)
    image.setColorTable([QColor(*map(int, parts[each])).rgb() for each in kept])
    _save(image, path)


def _palette(parts: np.ndarray, counts: np.ndarray) -> list[int]:
    """Return the colours to keep: each next one is that which is frequent, and far from all that are kept already."""
    kept = [int(counts.argmax())]
    away = np.square(parts - parts[kept[0]]).sum(axis=1)
    while len(kept) < min(MAX_COLOURS, len(parts)):
        kept.append(int((away * np.sqrt(counts)).argmax()))
        away = np.minimum(away, np.square(parts - parts[kept[-1]]).sum(axis=1))
    return kept


def _write(picture: np.ndarray, path: Path) -> None:
    data = np.ascontiguousarray(picture)
    height, width = data.shape[:2]
    _save(QImage(data.data, width, height, 3 * width, QImage.Format.Format_RGB888), path)


def _save(image: QImage, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    assert image.save(str(path), "PNG", 0), path  # quality 0: the smallest file
