"""What two looks at a run say: the worker that holds the others up, or that this cannot be told."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from core.doctor.look import Doing, Look, doing_of, place_in
from core.doctor.stacks import Frame, Stack, main_stack
from core.doctor.verdict import judge

TORCH = "/env/lib/python3.12/site-packages/torch"
LOADER = Frame(f"{TORCH}/utils/data/dataloader.py", 1132, "_try_get_data")
REDUCE = (Frame(f"{TORCH}/distributed/distributed_c10d.py", 2900, "all_reduce"),
          Frame(f"{TORCH}/distributed/c10d_logger.py", 81, "wrapper"))
STEP, ITEM, OTHER = Frame("/p/train.py", 88, "step"), Frame("/p/data.py", 41, "item"), Frame("/p/train.py", 70, "check")


def look(rank: int, doing: Doing = Doing.COLLECTIVE, place: Frame | None = STEP, what: str = "all_reduce") -> Look:
    named = what if doing in {Doing.COLLECTIVE, Doing.UNKNOWN} else ""
    return Look(rank=rank, pid=100 + rank, state="S", doing=doing, what=named, place=place)


class Case(NamedTuple):
    """Two looks, the steps at them, and what they say."""

    looks: tuple[Look, ...]
    blamed: tuple[int, ...]
    words: str
    before: tuple[Look, ...] = ()
    """The first look, where it is another."""
    steps: tuple[int, int] = (7, 7)


WAIT = (look(0), look(2), look(3))
CASES = {
    "one loads data": Case(
        (look(0), look(1, Doing.DATA, ITEM), *WAIT[1:]), (1,),
        "Workers 0, 2 and 3: in all_reduce at train.py, line 88, in step: in an exchange with the others. Worker 1: "
        "waiting for data at data.py, line 41, in item. Worker 1 holds the others up.",
    ),
    "one is at another exchange": Case((*WAIT, look(1, place=OTHER)), (1,), "Worker 1 holds the others up."),
    "two of four are elsewhere": Case(
        (look(0), look(1), look(2, Doing.CODE, ITEM), look(3, Doing.CODE, OTHER)), (2, 3),
        "Workers 2 and 3 hold the others up.",
    ),
    "two halves": Case(
        (look(0), look(1), look(2, place=OTHER), look(3, place=OTHER)), (),
        "They wait at different places, where they never meet. Which of them",
    ),
    "all at one place": Case(WAIT, (), "Which of them holds the others up cannot be told from this."),
    "all compute": Case(
        (look(0, Doing.CODE, ITEM), look(1, Doing.CODE, OTHER)), (), "Which of them holds the others up cannot be told",
    ),
    "one moves": Case(
        (*WAIT, look(1, Doing.CODE, ITEM)), (),
        "Worker 1: in Python code at data.py, line 41, in item, and moves. Worker 1 may only be slow: it moves.",
        before=(*WAIT, look(1, Doing.CODE, OTHER)),
    ),
    "a loop is at another line": Case(
        (*WAIT, look(1, Doing.CODE, ITEM)), (1,), "Worker 1 holds the others up.",
        before=(*WAIT, look(1, Doing.CODE, ITEM._replace(line=42))),
    ),
    "it trains": Case(WAIT, (), "The run trains: it went from step 7 to step 9 meanwhile.", steps=(7, 9)),
    "one is unknown": Case(
        (*WAIT, look(1, Doing.UNKNOWN, None, "py-spy is not installed")), (),
        "Worker 1: not looked at: py-spy is not installed. Which of them",
    ),
    "alone": Case(
        (look(0, Doing.LOCK, ITEM),), (), "Worker 0: waiting for a lock or a thread at data.py, line 41, in item.",
    ),
    "none": Case((), (), "No worker of this run lives on this machine."),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_worker_is_blamed_only_if_the_others_wait_and_it_stays(case: Case) -> None:
    found = judge(case.before or case.looks, case.looks, case.steps)
    assert (found.blamed, case.words in found.sentence) == (case.blamed, True), found
    assert "moves" not in found.sentence or case.before


def test_worker_that_was_not_looked_at_may_hold_up_those_that_wait() -> None:
    looks = (*WAIT, look(1, place=OTHER))
    found = judge(looks, looks, (7, 7), unseen=2)
    assert found.blamed == ()
    assert "2 workers are on other machines, or have ended, and were not looked at." in found.sentence
    looks = (*WAIT, look(1, Doing.DATA, ITEM))
    assert judge(looks, looks, (7, 7), unseen=2).blamed == (1,), "it keeps them waiting, whoever else does"


@pytest.mark.parametrize(
    ("stack", "doing", "what"),
    [
        ((*REDUCE, STEP), Doing.COLLECTIVE, "all_reduce"),
        ((Frame("/env/site-packages/tensorflow/python/training/server_lib.py", 176, "join"), STEP), Doing.GRAPH, ""),
        ((LOADER, STEP), Doing.DATA, ""),
        ((Frame(f"{TORCH}/autograd/graph.py", 800, "_engine_run_backward"), STEP), Doing.BACKWARD, ""),
        ((Frame("/usr/lib/python3.12/threading.py", 320, "wait"), STEP), Doing.LOCK, ""),
        ((Frame(f"{TORCH}/distributed/tensor/_ops.py", 1, "<module>"), STEP), Doing.CODE, ""),
        ((STEP,), Doing.CODE, ""),
        ((), Doing.CODE, ""),
    ],
)
def test_stack_tells_what_a_worker_does(stack: Stack, doing: Doing, what: str) -> None:
    assert doing_of(stack) == (doing, what)
    assert place_in(stack) == (STEP if stack else None)


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
    moved = replace(look(1), place=None)
    assert judge((moved,), (moved,), (1, 1)).sentence == "Worker 1: in all_reduce: in an exchange with the others."
