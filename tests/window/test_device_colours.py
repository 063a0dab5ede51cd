"""The colours of devices can be told apart, also by people who see no red or no green."""

from __future__ import annotations

import itertools

import pytest

from gui.base.theme import THEMES, Theme
from tests.support.colour_vision import SIGHTS, ciede2000, contrast, difference

pytestmark = pytest.mark.styled

ALL = pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
FIRST = 8
"""As many devices as most machines have at most."""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, 2.5, 0), (58, 24, 15), 19.4535),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_difference_is_that_of_the_published_pairs(one, other, expected) -> None:
    assert ciede2000(one, other) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sight", SIGHTS)
@ALL
def test_device_colours_can_be_told_apart(theme: Theme, sight: str) -> None:
    apart = {pair: difference(*pair, sight) for pair in itertools.combinations(theme.devices, 2)}
    first = {pair: value for pair, value in apart.items() if set(pair) <= set(theme.devices[:FIRST])}
    assert min(first.values()) >= 12, min(first, key=first.__getitem__)
    assert min(apart.values()) >= 11, min(apart, key=apart.__getitem__)


@ALL
def test_device_colours_stand_out_from_panel(theme: Theme) -> None:
    assert [colour for colour in theme.devices if contrast(colour, theme.panel) < theme.mark_contrast] == []
