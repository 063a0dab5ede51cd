"""The colours of curves and devices, in the window and in reports.

People who see no red or no green can tell them apart, too: `tests/window/test_device_colours.py` computes that.
"""

from __future__ import annotations

ON_LIGHT = (
    "#1f6fd6", "#d36a00", "#449999", "#dd3377", "#116644", "#0011bb", "#440033", "#332200", "#2299cc", "#225511",
    "#bb1144", "#004466",
)  # fmt: skip
"""On a light ground."""
ON_DARK = (
    "#4d9bff", "#ff9f45", "#33ddbb", "#cc55aa", "#eeffaa", "#ddccff", "#dd5533", "#558877", "#ee5588", "#ddff00",
    "#aa5555", "#ee9988",
)  # fmt: skip
"""On a dark ground."""
