"""What is recorded of the logs of public programs (`tests/recorded_logs`)."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.recorded_logs import WITHOUT_METRICS, RecordedLog, parse, record, recorded_logs
from tests.support.recorded_logs_table import DOCUMENT, document

LOGS = list(recorded_logs())
OTHERS = list(recorded_logs(WITHOUT_METRICS))
LARGEST_PIECE = 40
"""Bytes. Smaller than most lines, so that lines, redraws and characters are cut."""


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_a_recorded_log_becomes_these_curves_however_it_is_cut(log: RecordedLog) -> None:
    assert log.faults(*record([log.data])) == []
    assert log.faults(*record(_pieces(log.data))) == []


@pytest.mark.parametrize("log", OTHERS, ids=lambda log: log.name)
def test_output_with_numbers_but_no_metrics_gives_none(log: RecordedLog) -> None:
    assert log.expect == "only"
    curves, _ = record([log.data])
    assert curves == {}
    curves, _ = record(_pieces(log.data))
    assert curves == {}


def test_the_table_of_understood_programs_is_up_to_date() -> None:
    """Write it again with `python -m tests.support.recorded_logs_table`."""
    assert len(LOGS) >= 60
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_a_wrong_record_is_a_fault() -> None:
    log = parse("made", "# program: p\n# source: run\n# kind: k\n# expect: loss n=2 1:0.5 *:0.25; only\n# log:\n␛[1mx␍")
    assert log.data == b"\x1b[1mx\r"
    assert log.faults({"loss": [(1, 0.5), (2, 0.25)]}, None) == []
    assert len(log.faults({"loss": [(2, 0.5)], "lr": [(1, 0.1)]}, None)) == 4
    assert log.faults({}, None) == ["no loss"]
    with pytest.raises(ValueError, match="'# made: 1' is none of the lines"):
        parse("made", "# made: 1\n")
    with pytest.raises(ValueError, match="lacks one of the lines"):
        parse("made", "# program: p\n")


def _pieces(data: bytes) -> list[bytes]:
    chance, pieces = Random(0), []
    while data:
        size = chance.randint(1, LARGEST_PIECE)
        pieces.append(data[:size])
        data = data[size:]
    return pieces
