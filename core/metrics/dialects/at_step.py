"""`Training loss (for one batch) at step 200: 0.9721`, as in the guides of Keras and TensorFlow."""

from __future__ import annotations

import re

from core.metrics.common.names import canonical
from core.metrics.common.reading import Reading
from core.metrics.dialects.syntax import NUMBER

AT_STEP = re.compile(
    rf"^\W*(?P<name>(?:[a-z_]+[ _])?(?:loss|accuracy))(?: \([^)]{{1,40}}\))? at (?:step|iteration) (?P<step>\d{{1,15}})"
    rf": (?P<number>{NUMBER})\s*$",
    re.IGNORECASE,
)


def read(line: str) -> Reading | None:
    """Return the metric of such a line; None for any other line."""
    match = AT_STEP.match(line)
    if match is None:
        return None
    return Reading(values={canonical(match["name"]): float(match["number"])}, step=int(match["step"]))
