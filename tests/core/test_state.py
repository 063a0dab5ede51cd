"""States: legal transitions only, a row for each, and a fold that survives what it does not know."""

from __future__ import annotations

import itertools

import pytest

from core.state import STATES, TRANSITIONS, Facts, Plan, ProcessId, RunState, fold, row


def state(name: str, t: float = 1.0, **fields: object) -> dict[str, object]:
    return {"t": t, "kind": "state", "state": name, **fields}


def test_every_state_has_its_row_and_a_way_to_an_end() -> None:
    assert [each.state for each in STATES] == list(RunState)
    for first in RunState:
        if row(first).over:
            assert not [pair for pair in TRANSITIONS if pair[0] is first]
        else:
            assert [pair for pair in TRANSITIONS if pair[0] is first]
    assert not [pair for pair in TRANSITIONS if pair[1] is RunState.LOST]


@pytest.mark.parametrize(("first", "then"), [*itertools.product(RunState, RunState)])
def test_only_legal_transitions_are_followed(first: RunState, then: RunState) -> None:
    after = fold(Facts(state=first), [state(then.value)])
    if (first, then) in TRANSITIONS:
        assert (after.state, after.history) == (then, ((1.0, then),))
    else:
        assert after.state is first
        assert after.notices == ("An event of kind 'state' could not be read.",)


def test_a_life_is_folded() -> None:
    facts = fold(
        Facts(),
        [
            {"t": 1.0, "kind": "supervisor", "pid": 7, "created": 3.5},
            state("starting", 2.0),
            {"t": 2.1, "kind": "worker", "rank": 0, "pid": 8, "created": 4.0, "devices": ["cpu:0"]},
            {"t": 2.2, "kind": "plan", "epochs": 3, "steps_per_epoch": 10, "samples_per_epoch": 100},
            state("running", 3.0),
            {"t": 4.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0, 0.5]}},
            {"t": 4.5, "kind": "rung", "name": "asked", "grace_s": 10},
            {"t": 4.6, "kind": "from the future", "shape": "unknown"},
            state("releasing", 5.0),
            {"t": 5.1, "kind": "worker_exit", "rank": 0, "exit_code": -9},
            state("failed", 6.0, error="It broke.", traceback="Traceback"),
        ],
    )
    assert facts.supervisor == ProcessId(pid=7, created=3.5)
    assert facts.workers[0].exit_code == -9
    assert facts.plan == Plan(epochs=3, steps_per_epoch=10, samples_per_epoch=100)
    assert facts.plan.steps == 30
    assert (facts.step, facts.started, facts.ended) == (2, 2.0, 6.0)
    assert (facts.error, facts.traceback) == ("It broke.", "Traceback")
    assert [(rung.name, rung.grace_s) for rung in facts.rungs] == [("asked", 10)]
    assert facts.notices == ()


def test_an_event_that_lacks_its_fields_is_a_notice() -> None:
    facts = fold(Facts(), [{"t": 1.0, "kind": "worker", "rank": "zero"}])
    assert facts.workers == {}
    assert facts.notices == ("An event of kind 'worker' could not be read.",)


def test_an_error_that_is_no_text_is_not_taken_for_one_and_said_once() -> None:
    wrong = state("starting", error=5)
    facts = fold(Facts(), [wrong, wrong])
    assert facts.error is None
    assert facts.notices == ("An event of kind 'state' could not be read.",)
