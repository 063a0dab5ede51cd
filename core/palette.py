"""The colours of curves and devices, in the window and in reports.

People who see no red or no green can tell them apart, too: `tests/window/test_theme.py` computes that.
"""

from __future__ import annotations

ON_LIGHT = (
    "#1f6fd6", "#d36a00", "#449999", "#dd3377", "#116644", "#0011bb", "#440033", "#332200", "#2299cc", "#225511",
    "#bb1144", "#004466",
)
"""On a light ground."""
ON_DARK = (
    "#4d9bff", "#ff9f45", "#33ddbb", "#cc55aa", "#eeffaa", "#ddccff", "#dd5533", "#558877", "#ee5588", "#ddff00",
    "#aa5555", "#ee9988",
)
"""On a dark ground."""
STRONG_ON_LIGHT = (
    "#0055cc", "#aa4400", "#116666", "#cc0077", "#550011", "#000066", "#bb5555", "#991144", "#2200bb", "#881111",
    "#337799", "#550033",
)
"""Colours on white, each with a contrast of at least 4.5 : 1."""
STRONG_ON_DARK = (
    "#7db8ff", "#ffb060", "#ee1188", "#88ffdd", "#ee5500", "#3377ff", "#99eeff", "#ee8888", "#bb6655", "#ffff00",
    "#338899", "#55bbbb",
)
"""Colours on black, each with such a contrast."""
