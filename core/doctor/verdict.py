"""What two looks at a run say: where its workers are, and which of them hold the others up.

The rule is that of people who read such stacks: the workers that wait for each other are many and at one place, and
the cause is the few that are elsewhere. Nothing is blamed that moves between the looks, and nothing in a tie.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from core.doctor.look import WAITS, Doing, Look, look_at
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.runs.facts import state_info
from core.runs.run import Run
from core.text import join_names

BETWEEN_S = 5.0
"""Seconds between two looks: what waits for others for a moment is elsewhere by then."""
MOST_LOOKS = 3
"""Looks after the first one at a run that reports steps although none of its workers moves."""
WORDS = {
    Doing.COLLECTIVE: tr_noop("{who} in {what}{place}: in an exchange with the others"),
    Doing.BACKWARD: tr_noop("{who} in the backward pass{place}"),
    Doing.GRAPH: tr_noop("{who} in a step of TensorFlow{place}"),
    Doing.DEVICE: tr_noop("{who} waiting for the device{place}"),
    Doing.DATA: tr_noop("{who} waiting for data{place}"),
    Doing.LOCK: tr_noop("{who} waiting for a lock or a thread{place}"),
    Doing.CODE: tr_noop("{who} in Python code{place}"),
    Doing.STOPPED: tr_noop("{who} stopped, as by SIGSTOP or a debugger (continue: kill -CONT {pid})"),
    Doing.KERNEL: tr_noop("{who} waiting in the kernel ({what}), as for a disk or a driver"),
    Doing.UNKNOWN: tr_noop("{who} not looked at: {what}"),
}
"""What a group of workers does. `who`: `Worker 1:`; `place`: ` at data.py, line 41, in item()`, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What two looks say."""

    sentence: str
    blamed: tuple[int, ...] = ()
    """The ranks that hold the others up; empty if none do, or if that cannot be told."""

    def document(self, looks: Sequence[Look]) -> dict[str, Any]:
        """Return it for programs. `looks`: the second ones."""
        return {
            "sentence": self.sentence, "blamed": list(self.blamed),
            "ranks": [
                {
                    "rank": each.rank, "pid": each.pid, "state": each.state, "doing": each.doing.value,
                    "what": each.what, "place": each.place._asdict() if each.place is not None else None,
                    "stack": [frame._asdict() for frame in each.stack],
                }
                for each in looks
            ],
        }


def examine(run: Run) -> tuple[Verdict, Sequence[Look]]:
    """Look at a run twice, which takes seconds. Return what that says, and the second look.

    Raises `ValueError` if it has no workers now.
    """
    run.catch_up()
    _check_lives(run)
    first, step = look_at(run), run.facts.step
    for _ in range(MOST_LOOKS):
        time.sleep(BETWEEN_S)
        run.poll()
        _check_lives(run)
        second, steps = look_at(run), (step, run.facts.step)
        # The steps of a script are read from its output, and may come late: a run that trains moves, or goes on.
        if steps[0] == steps[1] or len(_still(first, second)) < len(second):
            break
        first, step = second, steps[1]
    return judge(first, second, steps, unseen=max(len(run.facts.workers) - len(second), 0)), second


def _check_lives(run: Run) -> None:
    state = state_info(run.facts.state)
    if state.over or not run.facts.workers:
        raise ValueError(tr("Run {id} has no workers now: it is {label}.", id=run.id, label=tr(state.label).lower()))


def judge(
    first: Sequence[Look], second: Sequence[Look], steps: tuple[int, int], *, unseen: int = 0
) -> Verdict:
    """Return what two looks say. `steps`: the run's optimizer steps at the first and at the second look.

    `unseen`: how many workers were not looked at. Where all others wait, one of these may hold them up.
    """
    still = _still(first, second)
    where = [_group_words(group, is_still=group[0].rank in still) for group in _groups(second)]
    if steps[1] > steps[0]:
        trains = tr("The run trains: it went from step {first} to step {second} meanwhile.", first=steps[0],
                    second=steps[1])
        return Verdict(sentence=join_sentences([trains, *where]))
    if not second:
        return Verdict(sentence=tr("No worker of this run lives on this machine."))
    blamed = [] if unseen and all(each.doing in WAITS for each in second) else _blamed(second)
    if unseen:
        where.append(tr_plural(
            "{count} worker is on another machine, or has ended, and was not looked at.",
            "{count} workers are on other machines, or have ended, and were not looked at.", unseen,
        ))
    moving = [rank for rank in blamed if rank not in still]
    if len(second) == 1:
        return Verdict(sentence=join_sentences(where))
    if not blamed:
        apart = all(each.doing in WAITS for each in second) and len(_groups(second)) > 1
        meet = tr("They wait at different places, where they never meet.") if apart else None
        end = join_sentences([meet, tr("Which of them holds the others up cannot be told from this.")])
    elif moving:
        end = tr("{who} may only be slow: it moves.", who=_who(moving))
    else:
        end = tr("{who} holds the others up.", who=_who(blamed)) if len(blamed) == 1 else tr(
            "{who} hold the others up.", who=_who(blamed))
    return Verdict(sentence=join_sentences([*where, end]), blamed=tuple(blamed) if not moving else ())


def _still(first: Sequence[Look], second: Sequence[Look]) -> set[int]:
    """Return the ranks that were in the same call at both looks. A loop may be at other lines of it."""
    calls = [
        {each.rank: (each.doing, each.place and (each.place.file, each.place.function)) for each in looks}
        for looks in (first, second)
    ]
    return {rank for rank, call in calls[1].items() if calls[0].get(rank) == call}


def _groups(looks: Sequence[Look]) -> list[list[Look]]:
    """Return the workers that do the same at the same place, the largest group first."""
    groups: dict[object, list[Look]] = {}
    for each in looks:
        groups.setdefault((each.doing, each.what, each.place), []).append(each)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].rank))


def _blamed(looks: Sequence[Look]) -> list[int]:
    """Return the ranks on which the others wait."""
    if any(each.doing is Doing.UNKNOWN for each in looks):
        return []
    working = [each.rank for each in looks if each.doing not in WAITS]
    if working:
        return working if len(working) < len(looks) else []
    places = Counter((each.doing, each.what, each.place) for each in looks)
    most, count = places.most_common(1)[0]
    if 2 * count <= len(looks) or len(places) == 1:
        return []
    return [each.rank for each in looks if (each.doing, each.what, each.place) != most]


def _who(ranks: Sequence[int]) -> str:
    names = join_names(map(str, ranks))
    return tr("Worker {names}", names=names) if len(ranks) == 1 else tr("Workers {names}", names=names)


def _group_words(group: Sequence[Look], *, is_still: bool) -> str:
    one = group[0]
    place = ""
    if one.place is not None:
        where = tr("{file}, line {line}, in {function}", file=PurePath(one.place.file).name, line=one.place.line,
                   function=one.place.function)
        place = tr(" at {where}", where=where)
    said = tr(WORDS[one.doing], who=f"{_who([each.rank for each in group])}:", what=one.what, place=place, pid=one.pid)
    return f"{said}." if is_still else tr("{said}, and moves.", said=said)
