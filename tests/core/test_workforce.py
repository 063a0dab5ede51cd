"""How a worker's failure is put into one sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from core.catalog import cell
from core.devices.cpu import cpu_devices
from core.launchers.local import placements
from core.workforce import Member, describe

if TYPE_CHECKING:
    import subprocess

    from core.events import Tail

TRACED = """in user code:

    File "recipe.py", line 23, in measure  *
        return base(y, p)

    ValueError: Cannot take the length of shape with unknown rank.
"""
IN_THE_GRAPH = """Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
ValueError: label out of range
Traceback (most recent call last):
  File "script_ops.py", line 269, in __call__
"""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("it broke", "it broke."),
        ("two\nlines", "two."),
        (TRACED, "Cannot take the length of shape with unknown rank."),
        (IN_THE_GRAPH, "label out of range."),
        (
            "Error(s) in loading state_dict for Net:\n\tMissing key(s)",
            "Error(s) in loading state_dict for Net: Missing key(s).",
        ),
        ("", "."),
    ],
)
def test_the_line_that_tells_something_is_told(message: str, told: str) -> None:
    (placement,) = placements(cpu_devices()[:1], cell("pytorch", "single"))
    process, tail = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=1)), cast("Tail", None)
    member = Member(placement, process, None, tail, error={"type": "ValueError", "message": message})
    assert describe(member) == f"Worker 0 on cpu:0: ValueError: {told}"
