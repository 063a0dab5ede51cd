"""Examine a run: take two snapshots of its workers, and say which of them hold the others up.

Workers that wait for each other are usually many and at one place; the cause is a minority at another place. A worker
that moves between the snapshots is not blamed, and neither is anybody if no group is in the majority.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, TypeVar

from core.doctor import sources
from core.doctor.snapshot import WAITS, Activity, Snapshot, snapshots_of
from core.errors import RunError
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.launchers.local import FETCH
from core.runs.facts import state_info
from core.runs.run import Run
from core.text import join_names, join_phrases

Found = TypeVar("Found")

INTERVAL_S = 5.0
"""Seconds between two snapshots. A worker that waits only for a moment is elsewhere by then."""
MAX_SNAPSHOTS = 3
"""Snapshots after the first one, while steps are reported although no worker moves."""
WORDS = {
    Activity.COLLECTIVE: tr_noop("{who}: waiting for the others in {what}{place}."),
    Activity.BACKWARD: tr_noop("{who}: in the backward pass{place}."),
    Activity.GRAPH: tr_noop("{who}: in a step of TensorFlow{place}."),
    Activity.DEVICE: tr_noop("{who}: waiting for the device{place}."),
    Activity.DATA: tr_noop("{who}: waiting for data{place}."),
    Activity.LOCK: tr_noop("{who}: waiting for a lock or a thread{place}."),
    Activity.CODE: tr_noop("{who}: in Python code{place}."),
    Activity.STOPPED: tr_noop("{who}: stopped, as by SIGSTOP or a debugger. Continue it: kill -CONT {pid}"),
    Activity.KERNEL: tr_noop("{who}: waiting in the kernel ({what}), as for a disk or a driver."),
    Activity.UNKNOWN: tr_noop("{who}: not examined: {what}."),
}
"""Sentences about workers. `who`: `Worker 1`; `place`: ` at data.py, line 41, in item`, or the empty string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a run hangs, as far as the snapshots show it."""

    sentence: str
    blamed: tuple[int, ...] = ()
    """The ranks that hold the others up. Empty if there are none, or if the snapshots do not show it."""
    looked: dict[str, str] = field(default_factory=dict)
    """What was looked at, with the reason why it could not be; the empty string if it could."""

    def document(self, snapshots: Sequence[Snapshot]) -> dict[str, Any]:
        """Return it as JSON. `snapshots`: the last ones."""
        return {
            "sentence": self.sentence, "blamed": list(self.blamed),
            "looked_at": [what for what, why in self.looked.items() if not why],
            "could_not": [{"what": what, "why": why} for what, why in self.looked.items() if why],
            "ranks": [
                {
                    "rank": each.rank, "pid": each.pid, "state": each.state, "activity": each.activity.value,
                    "what": each.what, "place": each.place._asdict() if each.place is not None else None,
                    "stack": [frame._asdict() for frame in each.stack],
                }
                for each in snapshots
            ],
        }


def examine(run: Run, interval_s: float = 0.0) -> tuple[Diagnosis, Sequence[Snapshot]]:
    """Take snapshots of a run for 5 to 15 seconds. Return the diagnosis, and the last snapshots.

    Raises `ValueError` if the run has no workers now. `interval_s`: if not `INTERVAL_S`.
    """
    for _ in run.every_slice():
        pass
    _check_has_workers(run)
    looked = dict[str, str]()
    first, step = snapshots_of(run), run.facts.step
    counts = _look(tr_noop("NCCL"), lambda: sources.collectives(first[0].pid) if first else None, looked)
    for _ in range(MAX_SNAPSHOTS):
        time.sleep(interval_s or INTERVAL_S)
        run.poll()
        _check_has_workers(run)
        last, steps = snapshots_of(run), (step, run.facts.step)
        # The steps of a script are read from its output, and may be reported after it has begun to hang.
        if steps[0] == steps[1] or len(_unmoved(first, last)) < len(last):
            break
        first, step = last, steps[1]
    world = sum(each.role != FETCH for each in run.facts.workers.values())
    ranks = {each.pid: each.rank for each in last}
    now = _look("NCCL", lambda: sources.collectives(last[0].pid), looked) if counts and last else None
    late = {ranks.get(pid, rank) for pid, rank in sources.behind(counts or {}, now or {}, world)} - {-1}
    kernel = _look(tr_noop("the kernel's log"), lambda: sources.kernel_words(run.facts), looked)
    looked[tr_noop("stacks")] = join_phrases(
        tr("worker {rank}: {why}", rank=each.rank, why=each.what) for each in last if each.activity is Activity.UNKNOWN
    )
    found = diagnose(first, last, steps, unseen=max(world - len(last), 0), late=sorted(late))
    logged = tr("The kernel has logged since the start of the run: {found}.", found=kernel) if kernel else None
    return replace(found, sentence=join_sentences([found.sentence, logged]), looked=looked), last


def _look(what: str, look: Callable[[], Found | None], looked: dict[str, str]) -> Found | None:
    """Look at a source, and keep whether it could be looked at. None: there is nothing of the kind."""
    try:
        if (found := look()) is not None:
            looked[what] = ""
    except RunError as error:
        found, looked[what] = None, str(error)
    return found


def _check_has_workers(run: Run) -> None:
    state = state_info(run.facts.state)
    if state.over or not run.facts.workers:
        raise ValueError(tr("Run {id} has no workers now: it is {label}.", id=run.id, label=tr(state.label).lower()))


def diagnose(
    first: Sequence[Snapshot], last: Sequence[Snapshot], steps: tuple[int, int], *, unseen: int = 0,
    late: Sequence[int] = (),
) -> Diagnosis:
    """Return why a run hangs, from two snapshots of each worker.

    `steps`: the run's optimizer steps at both times. `unseen`: the number of workers without a snapshot. `late`: the
    ranks that have launched fewer collectives, by NCCL.
    """
    groups, unmoved = _groups(last), _unmoved(first, last)
    said = [_about(group, moves=group[0].rank not in unmoved) for group in groups]
    if unseen:
        said.append(tr_plural(
            "{count} worker is on another machine, or has ended, and was not examined.",
            "{count} workers are on other machines, or have ended, and were not examined.", unseen,
        ))
    if steps[1] > steps[0]:
        said.insert(0, tr("The run trains: it went from step {first} to step {last}.", first=steps[0], last=steps[1]))
        return Diagnosis(sentence=join_sentences(said))
    if not last:
        return Diagnosis(sentence=tr("No worker of this run lives on this machine."))
    if len(last) == 1 and not unseen:
        return Diagnosis(sentence=join_sentences(said))
    if late:
        said.append(tr("NCCL reports fewer collectives of {who} than of the others.", who=_who(late)))
    blamed = _blamed(groups, unseen) or list(late)
    moving = [each.rank for each in last if each.rank in blamed and each.rank not in unmoved]
    if moving:
        said.append(tr("{who} may only be slow.", who=_who(moving)))
    elif blamed:
        said.append(tr_plural("{who} holds the others up.", "{who} hold the others up.", len(blamed), who=_who(blamed)))
    else:
        if len(groups) > 1 and all(group[0].activity in WAITS for group in groups):
            said.append(tr("They wait at different places, where they never meet."))
        said.append(tr("It is not clear which of them holds the others up."))
    return Diagnosis(sentence=join_sentences(said), blamed=() if moving else tuple(blamed))


def _unmoved(first: Sequence[Snapshot], last: Sequence[Snapshot]) -> set[int]:
    """Return the ranks that are in the same call in both snapshots. A loop may be at another line of it."""
    calls = [
        {each.rank: (each.activity, each.place and (each.place.file, each.place.function)) for each in snapshots}
        for snapshots in (first, last)
    ]
    return {rank for rank, call in calls[1].items() if calls[0].get(rank) == call}


def _groups(snapshots: Sequence[Snapshot]) -> list[list[Snapshot]]:
    """Return the workers that do the same at the same place, the largest group first."""
    groups: dict[object, list[Snapshot]] = {}
    for each in snapshots:
        groups.setdefault((each.activity, each.what, each.place), []).append(each)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].rank))


def _blamed(groups: Sequence[Sequence[Snapshot]], unseen: int) -> list[int]:
    """Return the ranks for which the others wait. A worker without a snapshot may be the one for which all wait."""
    activities, count = {group[0].activity for group in groups}, sum(map(len, groups))
    if Activity.UNKNOWN in activities:
        return []
    busy = sorted(each.rank for group in groups for each in group if each.activity not in WAITS)
    if busy:
        return busy if len(busy) < count else []
    largest, *others = groups
    if unseen or 2 * len(largest) <= count:
        return []
    return sorted(each.rank for group in others for each in group)


def _who(ranks: Sequence[int]) -> str:
    return tr_plural("Worker {names}", "Workers {names}", len(ranks), names=join_names(map(str, ranks)))


def _about(group: Sequence[Snapshot], *, moves: bool) -> str:
    """Return a sentence about workers that do the same."""
    one, place = group[0], ""
    if one.place is not None:
        where = tr("{file}, line {line}, in {function}", file=PurePath(one.place.file).name, line=one.place.line,
                   function=one.place.function)
        place = tr(" at {where}", where=where)
    said = tr(WORDS[one.activity], who=_who([each.rank for each in group]), what=one.what, place=place, pid=one.pid)
    moving = tr_plural("It moves.", "They move.", len(group)) if moves else None
    return join_sentences([said, moving])
