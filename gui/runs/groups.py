"""Rows of the list that stand for several runs: those of a scaling table, or those that were queued together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.history.differences import values_within
from core.history.summary import SWEEP, RunSummary
from core.language import tr
from core.runs.facts import RunState, state_info
from gui.runs.words import POSITIONS, loss_words

MEMBER = "↳ "
"""Begins the names of the runs below such a row."""
FOLDED, UNFOLDED = ARROWS = "▸ ", "▾ "
"""Begin the names of such rows."""
NO_RESULT = frozenset({RunState.FAILED, RunState.LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(RunSummary):
    """The row, folded, as one run. Its `dir` is no folder of a run. Texts and `fraction` are as in `RunRow`."""

    words: str
    outcome: str
    result: str = ""
    below: str = ""
    left: str = ""
    fraction: float | None = None
    tip: str
    members: tuple[RunSummary, ...] = ()
    names: tuple[str, ...] = ()
    """What stands below the row for each of them."""


def fold(found: Iterable[RunSummary], groups: Iterable[Group], unfolded: Collection[Path]) -> list[RunSummary]:
    """Put one row in the place of the newest run of each group, with its runs below it if it is unfolded."""
    group_of = {id(each): group for group in groups for each in group.members}  # a path takes long, among thousands
    rows, placed = list[RunSummary](), set[int]()
    for each in found:
        group = group_of.get(id(each))
        if group is None:
            rows.append(each)
        elif id(group) not in placed:
            placed.add(id(group))
            is_open = group.dir in unfolded
            rows.append(replace(group, name=group.name.replace(FOLDED, UNFOLDED, 1)) if is_open else group)
            below = zip(group.members, group.names, strict=True) if is_open else ()
            rows += [replace(member, name=f"{MEMBER}{name}") for member, name in below]
    return rows


def sweeps(found: Iterable[RunSummary], known: dict[tuple[str | None, str], Group]) -> list[Group]:
    """Return the groups of runs that were queued together, in the order of their values.

    `known`: the groups of the last time, which are brought up to date.
    """
    together: dict[tuple[str | None, str], list[RunSummary]] = {}
    for each in found:
        if common := each.settings.get(SWEEP):
            together.setdefault((each.owner, str(common)), []).append(each)
    for key, runs in together.items():
        if key not in known or {*map(id, known[key].members)} != {*map(id, runs)}:
            runs.sort(key=lambda run: [value for value in run.settings.values() if isinstance(value, (int, float))])
            known[key] = _sweep(runs[0].dir.parent / f"{key[0] or ''}{key[1]}.sweep", runs)
    return [known[key] for key, runs in together.items() if len(runs) > 1]


def _sweep(path: Path, runs: Sequence[RunSummary]) -> Group:
    values, names = values_within([each.settings for each in runs])
    name, states = tr("{name}, sweep of {count}", name=runs[0].name, count=len(runs)), [each.state for each in runs]
    ended = states.count(RunState.FINISHED)
    done = tr("{done} of {count} done", done=ended, count=len(runs))
    failed = tr("{count} failed", count=count) if (count := sum(each in NO_RESULT for each in states)) else ""
    losses = [(each.loss, own) for each, own in zip(runs, names, strict=True) if each.loss is not None]
    finite = [each for each in losses if math.isfinite(each[0].value)]
    loss, own = min(finite, key=lambda each: (not each[0].is_validation, each[0].value), default=(None, ""))
    best = tr("best {loss} at {settings}", loss=loss_words(loss), settings=own) if loss is not None else ""
    outcome = tr(", ").join(filter(None, (done, failed, best)))
    goes_on = sorted((each for each in states if not state_info(each).over), key=lambda each: state_info(each).waits)
    return Group(
        dir=path, name=f"{FOLDED}{name}", owner=runs[0].owner, state=goes_on[0] if goes_on else state_of(states),
        words=values, outcome=outcome, result=failed, below=tr(POSITIONS[""], done=ended, total=len(runs)),
        tip=f"{name}\n{values}\n{outcome}",
        left=" · ".join(filter(None, (loss_words(loss), own))), members=tuple(runs), names=tuple(names),
        fraction=sum(state_info(each).over for each in states) / len(runs),
    )


def state_of(states: Collection[RunState | None]) -> RunState:
    """Return the state of several runs that are over, as of one."""
    if all(each is RunState.FINISHED for each in states):
        return RunState.FINISHED
    return RunState.FAILED if NO_RESULT.intersection(states) else RunState.STOPPED
