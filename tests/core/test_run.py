"""What a reader of a run makes of its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.run import Run
from core.state import RunState
from tests.recorded import recorded

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from core.events import Event


def test_the_last_lines_of_a_file_that_was_read_before_the_last_word_are_read_too(
    runs_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are read one after the other: the supervisor may end the run between two of them."""
    run = Run(recorded(runs_root))
    devices = run.dir / "events" / "devices.jsonl"
    lines = devices.read_text().splitlines(keepends=True)
    devices.write_text("".join(lines[:-2]))
    read = run._log.read

    def reads_and_is_overtaken() -> list[Event]:
        events = read()
        devices.write_text("".join(lines))
        return events

    monkeypatch.setattr(run._log, "read", reads_and_is_overtaken)
    events = run.poll()
    assert run.facts.state is RunState.FINISHED
    samples = [event for event in events if event["kind"] == "sample"]
    assert [sample["t"] for sample in samples] == [json.loads(line)["t"] for line in lines]
    assert run.poll() == []
