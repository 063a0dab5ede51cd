"""A script that fills the disk of its run is told which disk was full, when, and what may be missing."""

from __future__ import annotations

import re

import pytest

from core.runs.facts import RunState
from tests.support.running import source_spec, start
from tests.support.waiting import wait_until

FLOOD = """\
import os, time
for step in range(1, 6001):
    try:
        print(f"step {step} loss {1 / step:.4f} " + "x" * 250, flush=True)
    except OSError:
        if not SWALLOWS:
            raise
    while step == 500 and not os.path.exists("read"):
        time.sleep(0.01)  # until some of it has been recorded
"""


@pytest.mark.parametrize("swallows", [False, True])
def test_script_that_fills_the_disk_is_told_which_and_what_is_missing(small_disk, tmp_path, swallows) -> None:
    source = FLOOD.replace("SWALLOWS", str(swallows))
    followed = start(source_spec(tmp_path, source), small_disk / "runs")
    wait_until(lambda: "loss" in followed.poll().run_series.metrics, "the first losses")
    (tmp_path / "read").touch()
    followed.until_over()
    facts = followed.run.facts
    words = " ".join([*facts.notices, facts.error or ""])
    disk = rf"The disk at {re.escape(str(small_disk))} \(tmpfs\) was full at \d\d:\d\d:\d\d\."
    missing = " Output that the script printed from then on may be missing from the log, and its measurements"
    assert re.search(disk + missing, words), words
    assert "log is complete" not in words
    assert facts.state is (RunState.FINISHED if swallows else RunState.FAILED)
    if not swallows:
        assert re.search(disk + " That may be why.", str(facts.error)), facts.error
    losses = followed.losses()
    assert losses == [round(1 / step, 4) for step in range(1, len(losses) + 1)]  # what there is, is right
