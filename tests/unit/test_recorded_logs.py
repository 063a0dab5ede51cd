"""What is recorded of the logs of public programs (`tests/recorded_logs`)."""

from random import Random

import pytest

from core.metrics.dialects import forms
from core.metrics.text.printed_lines import PrintedLines
from core.metrics.text.statements import statement_of
from tests.support.recorded_logs import WITHOUT_METRICS, RecordedLog, parse, public_programs, record, recorded_logs
from tests.support.recorded_logs_table import DOCUMENT, document

LOGS = list(recorded_logs())
PROGRAMS = list(public_programs())
OTHERS = list(recorded_logs(WITHOUT_METRICS))
OTHER_LINES = {
    " validation loss at iteration 100 on test set | lm loss value: 7.6E+00 | lm loss PPL: 1.9E+03 | ": {},
    "2026-05-01 10:00:09 | INFO | valid | epoch 001:     1 / 20 loss=9.8, ppl=515.4, num_updates=3": {},
    "2026-05-01 10:00:09 | INFO | train | epoch 001 | loss 9.81 | ppl 5.4 | num_updates 200": {
        "loss": 9.81, "perplexity": 5.4},
    "Training loss (for one batch) at step 200: 0.9721": {"loss": 0.9721},
    "Training acc over epoch: 0.7222": {"accuracy": 0.7222},
}
"""Lines of forms that no recorded log has, and their values."""
LARGEST_PIECE = 40
"""Bytes. Smaller than most lines, so that lines, redraws and characters are cut."""


@pytest.mark.parametrize("log", [*LOGS, *PROGRAMS], ids=lambda log: log.name)
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


def test_each_form_reads_a_line_of_its_program() -> None:
    lines = [line.text for log in (*LOGS, *PROGRAMS) for line in PrintedLines().take(log.data)]
    read = {each[0] for line in (*lines, *OTHER_LINES) if (each := forms.read(line)) is not None}
    assert [form.program for form in forms.FORMS if form not in read] == []
    found = {line: statement_of(line).reading for line in OTHER_LINES}
    assert {line: each.values if each else {} for line, each in found.items()} == OTHER_LINES


def test_the_list_of_understood_programs_is_up_to_date() -> None:
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
