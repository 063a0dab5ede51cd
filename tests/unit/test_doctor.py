"""The diagnosis of a run that hangs: the worker that holds the others up, or that this is not clear."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from core.doctor import snapshot
from core.doctor.examination import diagnose
from core.doctor.snapshot import Activity, Snapshot, activity_of, place_in
from core.doctor.stacks import Frame, Stack, main_stack

TORCH = "/env/lib/python3.12/site-packages/torch"
LOADER = Frame(f"{TORCH}/utils/data/dataloader.py", 1132, "_try_get_data")
REDUCE = (Frame(f"{TORCH}/distributed/distributed_c10d.py", 2900, "all_reduce"),
          Frame(f"{TORCH}/distributed/c10d_logger.py", 81, "wrapper"))
STEP, ITEM, OTHER = Frame("/p/train.py", 88, "step"), Frame("/p/data.py", 41, "item"), Frame("/p/train.py", 70, "check")


def taken(
    rank: int, activity: Activity = Activity.COLLECTIVE, place: Frame | None = STEP, what: str = "all_reduce"
) -> Snapshot:
    named = what if activity in {Activity.COLLECTIVE, Activity.UNKNOWN} else ""
    return Snapshot(rank=rank, pid=100 + rank, state="S", activity=activity, what=named, place=place)


class Case(NamedTuple):
    """Two snapshots, the steps at both times, and the diagnosis."""

    snapshots: tuple[Snapshot, ...]
    blamed: tuple[int, ...]
    words: str
    before: tuple[Snapshot, ...] = ()
    """The first snapshots, if they are others."""
    steps: tuple[int, int] = (7, 7)


WAIT = (taken(0), taken(2), taken(3))
CASES = {
    "one loads data": Case(
        (taken(0), taken(1, Activity.DATA, ITEM), *WAIT[1:]), (1,),
        "Workers 0, 2 and 3: waiting for the others in all_reduce at train.py, line 88, in step. Worker 1: "
        "waiting for data at data.py, line 41, in item. Worker 1 holds the others up.",
    ),
    "one is in another collective": Case((*WAIT, taken(1, place=OTHER)), (1,), "Worker 1 holds the others up."),
    "two of four are elsewhere": Case(
        (taken(0), taken(1), taken(2, Activity.CODE, ITEM), taken(3, Activity.CODE, OTHER)), (2, 3),
        "Workers 2 and 3 hold the others up.",
    ),
    "two halves": Case(
        (taken(0), taken(1), taken(2, place=OTHER), taken(3, place=OTHER)), (),
        "They wait at different places, where they never meet. It is not clear",
    ),
    "all at one place": Case(WAIT, (), "It is not clear which of them holds the others up."),
    "all compute": Case(
        (taken(0, Activity.CODE, ITEM), taken(1, Activity.CODE, OTHER)), (), "It is not clear",
    ),
    "one moves": Case(
        (*WAIT, taken(1, Activity.CODE, ITEM)), (),
        "Worker 1: in Python code at data.py, line 41, in item. It moves. Worker 1 may only be slow.",
        before=(*WAIT, taken(1, Activity.CODE, OTHER)),
    ),
    "a loop is at another line": Case(
        (*WAIT, taken(1, Activity.CODE, ITEM)), (1,), "Worker 1 holds the others up.",
        before=(*WAIT, taken(1, Activity.CODE, ITEM._replace(line=42))),
    ),
    "it trains": Case(WAIT, (), "The run trains: it went from step 7 to step 9.", steps=(7, 9)),
    "one is unknown": Case(
        (*WAIT, taken(1, Activity.UNKNOWN, None, "py-spy is not installed")), (),
        "Worker 1: not examined: py-spy is not installed. It is not clear",
    ),
    "alone": Case(
        (taken(0, Activity.LOCK, ITEM),), (), "Worker 0: waiting for a lock or a thread at data.py, line 41, in item.",
    ),
    "none": Case((), (), "No worker of this run lives on this machine."),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_worker_is_blamed_only_if_the_others_wait_and_it_stays(case: Case) -> None:
    found = diagnose(case.before or case.snapshots, case.snapshots, case.steps)
    assert (found.blamed, case.words in found.sentence) == (case.blamed, True), found
    assert "moves" not in found.sentence or case.before


def test_worker_that_was_not_examined_may_hold_up_those_that_wait() -> None:
    snapshots = (*WAIT, taken(1, place=OTHER))
    found = diagnose(snapshots, snapshots, (7, 7), unseen=2)
    assert found.blamed == ()
    assert "2 workers are on other machines, or have ended, and were not examined." in found.sentence
    snapshots = (*WAIT, taken(1, Activity.DATA, ITEM))
    assert diagnose(snapshots, snapshots, (7, 7), unseen=2).blamed == (1,), "the others wait for it in any case"


@pytest.mark.parametrize(
    ("stack", "activity", "what"),
    [
        ((*REDUCE, STEP), Activity.COLLECTIVE, "all_reduce"),
        ((Frame("/env/site-packages/tensorflow/python/training/server_lib.py", 176, "join"), STEP), Activity.GRAPH, ""),
        ((LOADER, STEP), Activity.DATA, ""),
        ((Frame(f"{TORCH}/autograd/graph.py", 800, "_engine_run_backward"), STEP), Activity.BACKWARD, ""),
        ((Frame("/usr/lib/python3.12/threading.py", 320, "wait"), STEP), Activity.LOCK, ""),
        ((Frame(f"{TORCH}/distributed/tensor/_ops.py", 1, "<module>"), STEP), Activity.CODE, ""),
        ((STEP,), Activity.CODE, ""),
        ((), Activity.CODE, ""),
    ],
)
def test_stack_tells_what_a_worker_does(stack: Stack, activity: Activity, what: str) -> None:
    assert activity_of(stack) == (activity, what)
    assert place_in(stack) == (STEP if stack else None)


EAGER = Frame("/env/site-packages/tensorflow/python/eager/polymorphic_function/polymorphic_function.py", 1, "_call")
OURS = Frame(f"{snapshot.OURS}/core/worker/tensorflow/loop.py", 90, "loop")


@pytest.mark.parametrize(
    ("stack", "activity", "place"),
    [
        ((EAGER, OURS), Activity.GRAPH, OURS),  # a collective in C++, without a frame of the user
        ((EAGER, STEP, OURS), Activity.GRAPH, STEP),
        ((ITEM, EAGER, OURS), Activity.CODE, ITEM),  # a graph is made, which calls the user's loss
        ((ITEM, REDUCE[0], STEP), Activity.CODE, ITEM),  # a hook of a reduction
        ((ITEM, LOADER, STEP), Activity.DATA, ITEM),
    ],
)
def test_code_of_the_user_that_a_library_calls_is_what_a_worker_does(
    stack: Stack, activity: Activity, place: Frame
) -> None:
    assert (activity_of(stack)[0], place_in(stack)) == (activity, place)


def test_main_thread_is_the_last_that_is_printed() -> None:
    text = """\
Thread 0x00007f623d31e6c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 982 in run

Current thread 0x00007f623e083b80 [python] (most recent call first):
  File "/p/data.py", line 41 in Images.item
  File "<frozen runpy>", line ??? in <module>
"""
    assert main_stack(text) == (ITEM, Frame("<frozen runpy>", 0, "<module>"))
    assert main_stack("garbage\n  File") == ()
    moved = replace(taken(1), place=None)
    assert diagnose((moved,), (moved,), (1, 1)).sentence == "Worker 1: waiting for the others in all_reduce."
