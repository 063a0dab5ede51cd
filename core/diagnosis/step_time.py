"""Where the time of a run's steps goes, and why they are slow: findings from the steps that its workers have measured.

The thresholds are those of TraceML. A rule whose signal is missing says so, and finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import fmean, median, median_low
from typing import Any, TypeAlias

from core.diagnosis.evidence import DISTURBED
from core.language import Message, join_sentences, tr, tr_noop
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import Checkpoint, Rewind, Slowed, StepTime, read_all
from core.schema.events import Event

COMPUTING = (tr_noop("forward"), tr_noop("backward"), tr_noop("optimizer"))
OWN = (tr_noop("data"), tr_noop("copy"), *COMPUTING)
PARTS = (*OWN[:-1], tr_noop("wait"), "optimizer")
"""The fields of `StepTime` that are parts of a step, in their order."""
IGNORED, TOLD, EXPLAINED = 0.05, 0.10, 0.80
"""A rank that is late by less than the first share of a step is on time. A finding takes at least the second share. A
part is the cause of a lateness if it makes up at least the third share of it."""
CONSTANT = 0.75
"""Share of the measured steps in which a rank must be late."""
BUSY = 90.0
"""Utilisation in percent from which the only GPU of a script computes. Several may be busy while they wait."""
LEAST, RECENT = 5, 60
"""Measured steps from which something is concluded, and how many of the last ones are looked at."""
PHASES = {
    "data": tr_noop("while it waits for data"), "copy": tr_noop("while it copies its batch"),
    "forward": tr_noop("in the forward pass"), "backward": tr_noop("in the backward pass"),
    "optimizer": tr_noop("in the optimizer's step"), "": tr_noop("in several parts of the step"),
}
WORDS = {
    "input": tr_noop("Waiting for data takes {percent} % of a step."),
    "copy": tr_noop("Copying batches to the device takes {percent} % of a step."),
    "communication": tr_noop("Exchanging gradients takes at least {percent} % of a step."),
    "straggler": tr_noop("Rank {rank} is {ms} ms late {phase}; the others wait {percent} % of each step."),
    "compute": tr_noop("Computing takes {percent} % of a step, most of it {phase}."),
    "checkpoint": tr_noop("Checkpoints have taken {percent} % of the time."),
    "throttled": tr_noop("Heat or a weak power supply has slowed a device down for {percent} % of the time."),
}
SIGNALS = {
    "step": tr_noop("enough measured steps"), "wait": tr_noop("how long ranks wait for each other"),
    "data": tr_noop("how long a step waits for data"), "copy": tr_noop("how long batches are copied"),
    "passes": tr_noop("how long each pass takes"),
}
Step: TypeAlias = Mapping[int, StepTime]
"""What the ranks have measured of one step."""
OfRanks: TypeAlias = Callable[[list[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that takes time."""

    kind: str
    """A key of `WORDS`, or `other_jobs`."""
    words: str
    share: float | None = None
    """Of a step, or of the time for what happens between steps; None if it is not known."""
    rank: int | None = None
    phase: str = ""
    """The part of the step: of a straggler, in which it is late; of computing, the longest. Empty if there is none."""
    probable: bool = False
    """Whether a signal that would make it certain is missing."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Of a straggler, by how many seconds it is late, and how much longer than usual its parts take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings, the largest share first."""

    findings: Sequence[Finding] = ()
    missing: Mapping[str, str]
    """By kind of finding that could not be looked for, the signal that is missing: a key of `SIGNALS`."""
    parts: Mapping[str, float | None]
    """Seconds of a usual step, and of its parts; None for what was not told apart."""

    @property
    def verdict(self) -> str | None:
        """The kind of the first finding, or `balanced`; None if that cannot be said."""
        return self.findings[0].kind if self.findings else None if self.missing else "balanced"

    @property
    def sentence(self) -> str:
        said = [each.words for each in self.findings]
        if self.verdict == "balanced":
            said.append(tr("No part of a step takes too long."))
        if self.missing and self.verdict != "compute":
            signals = dict.fromkeys(tr(SIGNALS[each]) for each in self.missing.values())
            said.append(tr("Missing: {signals}.", signals=", ".join(signals)))
        return join_sentences(said)

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        found = [asdict(each) for each in self.findings]
        first = found[0] if found else {"rank": None, "phase": None}
        return {
            "verdict": self.verdict, "sentence": self.sentence, "rank": first["rank"], "phase": first["phase"] or None,
            "seconds": self.parts["seconds"], "parts": {part: self.parts[part] for part in PARTS}, "findings": found,
            "missing": [f"{kind}: {signal}" for kind, signal in self.missing.items()],
        }


class StepAccount:
    """Collects from the events of a run what its diagnosis needs."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[int, StepTime]] = {}
        self._spent_s = {"checkpoint": 0.0, "throttled": 0.0}

    def fold(self, events: list[Event]) -> None:
        """Add events, in order of time."""
        if read_all(Rewind, events):  # it was resumed, perhaps on other devices
            self._steps.clear()
        for each in read_all(StepTime, events):
            self._steps.setdefault(each.step, {})[each.rank] = each
        for old in sorted(self._steps)[: -2 * RECENT]:
            del self._steps[old]
        self._spent_s["checkpoint"] += sum(each.seconds for each in read_all(Checkpoint, events))
        self._spent_s["throttled"] += sum(each.seconds or 0.0 for each in read_all(Slowed, events))

    def diagnosis(self, facts: RunFacts, utilisation: Sequence[float | None] = ()) -> Diagnosis:
        """Return why the steps of the run are slow. `utilisation`: of its devices on average, in percent."""
        bounds = [*(time for time, _ in facts.history[1:]), facts.latest]
        trained_s = sum(until - since for (since, state), until in zip(facts.history, bounds, strict=False)
                        if state is RunState.RUNNING)
        shares = {kind: spent / trained_s for kind, spent in self._spent_s.items() if spent < trained_s}
        found = [_finding(kind, share) for kind, share in shares.items() if share >= TOLD]
        found += [Finding(kind="other_jobs", words=tr(text)) for text in facts.notices
                  if Message.read(text).say == (DISTURBED,)]
        gpus = [each for each in facts.devices.values() if each.get("device_kind") == "nvidia"]
        busy = max((each or 0.0 for each in utilisation), default=0.0)
        if not self._steps and len(gpus) == 1 and busy >= BUSY:
            words = tr("Computing probably takes most of a step: its GPU was busy {percent} % of the time.",
                       percent=round(busy))
            found.append(Finding(kind="compute", words=words, share=busy / 100, probable=True))
        ranks = max(map(len, self._steps.values()), default=1)
        steps = [each for _, each in sorted(self._steps.items()) if len(each) == ranks]
        return diagnose(steps[-RECENT:], found, has_one_clock=len({each.host for each in facts.workers.values()}) < 2)


def diagnose(steps: Sequence[Step], known: Sequence[Finding] = (), *, has_one_clock: bool = True) -> Diagnosis:
    """Return the findings on a run. `steps`: what all its ranks have measured. `known`: findings of other kinds.

    `has_one_clock`: whether all ranks are on one machine.
    """
    parts = {part: _usual(steps, part) for part in ("seconds", *PARTS)}
    if len(steps) < LEAST:
        missing = dict.fromkeys(("straggler", "input", "copy", "communication", "compute"), "step")
        return Diagnosis(findings=known, missing=missing, parts=parts)
    found, missing, several = list(known), dict[str, str](), len(steps[0]) > 1

    rules = [("input", "data", _share), ("copy", "copy", _share), *([("communication", "wait", _exchange)] * several)]
    for kind, part, share_of in rules:
        if parts[part] is None:
            missing[kind] = part
        elif (told := share_of(steps, part)) >= TOLD:
            found.append(_finding(kind, told))
    if several:
        found += _straggler(steps, parts, has_one_clock=has_one_clock)
        if parts["wait"] is None and not (has_one_clock and _usual(steps, "arrived")):
            missing["straggler"] = "wait"
    if any(parts[part] is None for part in COMPUTING):
        missing["compute"] = "passes"
    elif not found and (told := sum(shares := [_share(steps, part) for part in COMPUTING])) >= EXPLAINED:
        found.append(_finding("compute", told, COMPUTING[shares.index(max(shares))]))
    return Diagnosis(findings=sorted(found, key=lambda each: -(each.share or 0)), missing=missing, parts=parts)


def _of(step: StepTime, part: str) -> float:
    return getattr(step, part) or 0.0


def _usual(steps: Sequence[Step], part: str) -> float | None:
    """Return the median of the mean over the ranks; None unless all have measured it."""
    if not steps or any(getattr(each, part) is None for step in steps for each in step.values()):
        return None
    return median(sum(_of(each, part) for each in step.values()) / len(step) for step in steps)


def _share(steps: Sequence[Step], part: str) -> float:
    """Return a part's share of the steps of a middle rank, without the longest tenth: a hiccup is no habit."""
    shares = sorted(median_low([_of(each, part) / each.seconds for each in step.values()]) for step in steps)
    return fmean(shares[: -max(1, len(shares) // 10)])


def _exchange(steps: Sequence[Step], part: str) -> float:
    """Return the least share that a step has but for a quarter of them: the last rank waits only for the exchange."""
    return sorted(min(_of(each, part) / each.seconds for each in step.values()) for step in steps)[len(steps) // 4]


def _finding(kind: str, share: float, phase: str = "") -> Finding:
    words = tr(WORDS[kind], percent=round(100 * share), phase=tr(PHASES[phase]))
    return Finding(kind=kind, words=words, share=share, phase=phase)


def _straggler(steps: Sequence[Step], parts: Mapping[str, float | None], *, has_one_clock: bool) -> list[Finding]:
    """Return a finding on the rank that the others wait for in most steps, with the part in which it is late."""
    signals: list[Callable[[StepTime], float]] = []
    if has_one_clock and _usual(steps, "arrived") is not None:
        signals.append(lambda each: _of(each, "arrived"))
    if parts["wait"] is not None:  # others may also wait before the backward pass, or in a report between two steps
        signals += [lambda each: -_of(each, "wait"), lambda each: sum(_of(each, part) for part in OWN)]
    probable = not signals or parts["optimizer"] is None
    of_others: OfRanks = median if signals else max  # not all ranks of a pipeline need data
    for late in signals or [lambda each: _of(each, "data")]:
        behind = {rank: [_behind(step, rank, late, of_others) for step in steps] for rank in steps[0]}
        rank = max(behind, key=lambda each: median(behind[each]))
        shares = [late_s / step[rank].seconds for late_s, step in zip(behind[rank], steps, strict=True)]
        if median(shares) < TOLD or sum(each >= IGNORED for each in shares) < CONSTANT * len(shares):
            continue
        late_s = median(behind[rank])
        excess = {part: median(_behind(step, rank, partial(_of, part=part)) for step in steps)
                  for part in OWN if parts[part] is not None}
        if signals and parts["optimizer"] is None:  # late when a step begins: late at the end of the one before
            excess["optimizer"] = late_s - sum(excess.values())
        phase = max(excess, key=lambda part: excess[part])
        phase = phase if excess[phase] >= EXPLAINED * late_s else ""
        words = tr(WORDS["straggler"], rank=rank, ms=round(1000 * late_s), phase=tr(PHASES[phase]),
                   percent=round(100 * median(shares)))
        words = join_sentences([words, tr("This is probable, but not certain.") if probable else ""])
        return [Finding(kind="straggler", share=median(shares), rank=rank, phase=phase, words=words, probable=probable,
                        evidence={"late": late_s, **excess})]
    return []


def _behind(
    step: Step, rank: int, value: Callable[[StepTime], float], of_others: OfRanks = median
) -> float:
    """Return by how much the value of a rank is above the median of the others, or what else `of_others` gives."""
    return value(step[rank]) - of_others([value(each) for other, each in step.items() if other != rank])
