"""What is known of a training before its start: sentences, each with what a click can do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from core.catalog.strategies import strategy_of
from core.devices.device import Device
from core.language import join_sentences, tr, tr_noop
from core.schema.spec import RunSpec
from core.text import one_line

BATCH, PYTHON, TICK, QUEUE, FIT = "batch_size", "python", "tick", "queue", "fit"
"""What a cure does: set the batch size or the Python, tick devices and no others, add the run to the queue, or measure
its memory."""
FIND_LARGEST = tr_noop("Find the largest batch")
MAX_NAME = 16


class Mark(Enum):
    """What a finding means for the start; a problem prevents it."""

    READY, WARNING, PROBLEM = "ready", "warning", "problem"


class ProblemKind(Enum):
    """What a problem is about. Callers may add to the sentences of some kinds, or replace them."""

    NO_DEVICE = "no device"
    UNKNOWN_DEVICE = "unknown device"
    TOO_MANY = "too many devices"
    TOO_FEW = "too few devices"
    OTHER_KIND = "another kind of device"
    OPEN_PORTS = "open ports"
    """The user may allow them."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """What one click does about a finding."""

    does: str
    words: str
    """For a link."""
    values: tuple[str, ...] = ()
    """The number, the path, or the ids of devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A row of what is known before a start."""

    sentence: str
    mark: Mark = Mark.PROBLEM
    kind: ProblemKind = ProblemKind.OTHER
    remedy: str = ""
    """A sentence that says the same as the cures, for where there are no links."""
    cures: tuple[Cure, ...] = ()

    def __str__(self) -> str:
        return join_sentences([self.sentence, self.remedy])


def findings_of(sentences: Iterable[str], cures: tuple[Cure, ...] = (), mark: Mark = Mark.PROBLEM) -> list[Finding]:
    return [Finding(sentence=sentence, cures=cures, mark=mark) for sentence in sentences]


def problems_of(findings: Iterable[Finding]) -> list[str]:
    """Return the problems as sentences."""
    return [str(each) for each in findings if each.mark is Mark.PROBLEM]


def batch_cure(batch: int) -> Cure:
    return Cure(does=BATCH, words=tr("Batch {batch}", batch=batch), values=(str(batch),))


def python_cure(path: str) -> Cure:
    return Cure(does=PYTHON, words=tr("Use Python {name}", name=one_line(Path(path).parent.parent.name, MAX_NAME)),
                values=(path,))


def cpu_cures(spec: RunSpec, devices: Sequence[Device]) -> tuple[Cure, ...]:
    """Return the cure that ticks the CPU devices of this machine; none if the strategy cannot train on them."""
    try:
        strategy = strategy_of(spec)
    except ValueError:  # which is a problem of its own
        return ()
    cpus = tuple(each.id for each in devices if each.kind == "cpu" and not each.host)[: strategy.max_devices]
    fits = "cpu" in strategy.device_kinds and len(cpus) >= strategy.min_devices
    return (Cure(does=TICK, words=tr("Train on the CPU"), values=cpus),) if fits else ()
