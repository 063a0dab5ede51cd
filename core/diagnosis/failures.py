"""Say why a run failed, in the words that window and command line show."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from core.diagnosis.causes import NO_MODULE, ROWS, Cause, Role, Row, row_of
from core.diagnosis.evidence import OF_WORKER, Place, evidence_of, examined, place_of
from core.diagnosis.program_output import exception_lines
from core.language import Message, join_sentences, tr
from core.runs.facts import RunFacts, RunState
from core.schema.spec import RunSpec
from core.text import one_line

LAST_LINES = 3
"""Lines of the traceback or of the log that belong to a failure."""
MAX_LINE = 240
"""Characters of such a line."""
MAX_SENTENCE = 400
MAX_TITLE = 90
MAX_REASON = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run failed."""

    cause: Cause
    title: str
    """The cause in a few words, without a full stop."""
    sentence: str
    """What happened, and what helps: one or more sentences."""
    others: str
    """That other workers failed because of it, and what an examination found before; empty if that is not known."""
    place: Place | None
    """Where in the user's code; None if it is not known."""
    is_explained: bool
    """As in `Row`."""
    lines: tuple[str, ...]
    """The line that names the exception and those before it, else the last lines of the log."""
    rank: int
    """The worker that failed first; 0 if it is not known."""


def failure_of(
    facts: RunFacts, spec: RunSpec | None, *, log_end: str = "", labels: Mapping[str, str] | None = None
) -> Failure | None:
    """Return why a run failed; None for a run that did not.

    `log_end`: the end of its log; `labels`: names of devices by id, where they are known better than by the run.
    """
    if facts.error is None or facts.state not in {RunState.FAILED, RunState.LOST, RunState.HEAD_LOST}:
        return None
    evidence = evidence_of(facts, spec, facts.error, labels or {}, log_end)
    row = row_of(evidence)
    title, sentence = row.words(evidence)
    confirmed = [each.words(evidence)[1] for each in ROWS if each.role is Role.CONFIRMATION and each.applies(evidence)]
    sentence = join_sentences([sentence, *confirmed])
    lines, first = exception_lines(facts.traceback or "")  # of the traceback, as far as the exception's name
    log = [line.rstrip() for line in log_end.splitlines() if line.strip() and not set(line) <= set(" ^~")]
    shown = (lines[: first + 1] or log)[-LAST_LINES:]
    return Failure(
        cause=row.cause, title=one_line(title, MAX_TITLE).rstrip("."), sentence=one_line(sentence, MAX_SENTENCE),
        others=one_line(join_sentences([evidence.others, *map(tr, examined(facts)[-1:])]), 2 * MAX_SENTENCE),
        place=place_of(facts.traceback or "", spec), is_explained=row.is_explained, rank=evidence.rank,
        lines=tuple(line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…" for line in shown),
    )


def short_cause(error: str) -> str:
    """Return the cause in a few words for a list, from the sentence of an error alone; the empty string if unknown."""
    row, module = _row_and_module(error)
    return tr(row.short, module=module) if row.short else ""


def short_reason(error: str) -> str:
    """Return the first words of an error, without the worker that it is of; of one that names another, the other."""
    sentences = [each for each in Message.read(error).sentences if each.say != (OF_WORKER,)]
    found = join_sentences(tr(each.named("error") or each) for each in sentences)
    first = found.partition("\n")[0]
    return first if len(first) <= MAX_REASON else first[:MAX_REASON].rstrip() + "…"


@functools.lru_cache(maxsize=2048)
def _row_and_module(error: str) -> tuple[Row, str]:
    evidence = evidence_of(RunFacts(state=RunState.FAILED, error=error), None, error, {})
    return row_of(evidence), evidence.found(NO_MODULE)
