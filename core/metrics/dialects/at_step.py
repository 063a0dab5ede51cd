"""`Training loss (for one batch) at step 200: 0.9721`, as the guides of Keras and TensorFlow print it."""

from __future__ import annotations

import re

from core.metrics.common.names import canonical
from core.metrics.common.reading import Reading
from core.metrics.dialects.metrics import NUMBER, number

AT_STEP = re.compile(
    rf"^\W*(?P<name>(?:[a-z_]+[ _])?(?:loss|accuracy))(?: \([^)]{{1,40}}\))? at (?:step|iteration) (?P<step>\d{{1,15}})"
    rf": (?P<number>{NUMBER})\s*$",
    re.IGNORECASE,
)


def read(line: str) -> Reading | None:
    """The one metric of such a line; None of another."""
    match = AT_STEP.match(line)
    value = number(match["number"]) if match else None
    if match is None or value is None:
        return None
    return Reading(values={canonical(match["name"]): value}, step=int(match["step"]))
