"""Run states and facts: only legal transitions, a table row for each state, and tolerance of unknown events."""

import itertools

import pytest

from core.cli.output import release_lines
from core.cli.runs import hard_end
from core.runs.facts import STATES, TRANSITIONS, RunFacts, RunState, state_info
from core.runs.fold import fold
from core.schema.event_kinds import Checkpoint, Plan, Verdict
from core.system.processes import ProcessId
from gui.runs.verdicts import ended_words


def state(name: str, t: float = 1.0, **fields: object) -> dict[str, object]:
    return {"t": t, "kind": "state", "state": name, **fields}


def test_states_that_can_be_forced_describe_the_effect() -> None:
    forced = [each for each in STATES if each.can_force]
    assert [each.state for each in forced] == [RunState.STOPPING, RunState.RELEASING]
    assert all(each.forcing for each in forced)
    assert not any(each.can_stop for each in forced)


def test_every_state_has_a_table_row_and_a_path_to_an_end() -> None:
    assert [each.state for each in STATES] == list(RunState)
    for first in RunState:
        ways = {then for before, then in TRANSITIONS if before is first}
        if state_info(first).can_resume:
            assert ways - {RunState.QUEUED} == {RunState.STARTING}
        else:
            assert bool(ways) is not state_info(first).over
    assert not [pair for pair in TRANSITIONS if pair[1] is RunState.LOST]


@pytest.mark.parametrize(("first", "then"), [*itertools.product(RunState, RunState)])
def test_only_legal_transitions_are_applied(first: RunState, then: RunState) -> None:
    after = fold(RunFacts(state=first), [state(then.value)])
    if (first, then) in TRANSITIONS:
        assert (after.state, after.history) == (then, ((1.0, then),))
    else:
        assert after.state is first
        assert after.notices == ("An event of kind 'state' could not be read.",)


def test_facts_of_a_complete_run() -> None:
    facts = fold(
        RunFacts(),
        [
            {"t": 1.0, "kind": "supervisor", "pid": 7, "created": 3.5},
            state("starting", 2.0),
            {"t": 2.1, "kind": "worker", "rank": 0, "pid": 8, "created": 4.0, "devices": ["cpu:0"]},
            {"t": 2.2, "kind": "plan", "epochs": 3, "steps_per_epoch": 10, "samples_per_epoch": 100},
            state("running", 3.0),
            {"t": 4.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0, 0.5]}},
            {"t": 4.5, "kind": "stop_step", "name": "asked", "grace_s": 10},
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
    assert [(step.name, step.grace_s) for step in facts.stop_steps] == [("asked", 10)]
    assert facts.notices == ()


def supervisor(t: float, pid: int = 7) -> dict[str, object]:
    return {"t": t, "kind": "supervisor", "pid": pid, "created": 3.5}


BEFORE_RESUME: list[dict[str, object]] = [
    supervisor(1.0),
    state("starting", 2.0),
    {"t": 2.5, "kind": "worker", "rank": 0, "pid": 8, "created": 3.6, "devices": ["cpu:0"]},
    state("running", 3.0),
    {"t": 3.0, "kind": "plan", "epochs": 3, "steps_per_epoch": 10, "samples_per_epoch": 100},
    {"t": 4.0, "kind": "metrics", "first": 1, "values": {"loss": [1.0, 0.5, 0.3]}},
    {"t": 4.1, "kind": "checkpoint", "step": 2, "epoch": 0, "name": "step-00000002", "reason": "asked"},
    {"t": 4.2, "kind": "notice", "text": "Mind the gap."},
    {"t": 4.3, "kind": "request", "asked": "pause"},
]


def test_request_is_pending_until_it_is_answered_and_checkpoint_is_recorded() -> None:
    facts = fold(RunFacts(), BEFORE_RESUME)
    assert facts.asked == "pause"
    assert fold(facts, [{"t": 5.0, "kind": "request", "asked": ""}]).asked == ""
    assert fold(facts, [state("releasing", 5.0)]).asked == ""
    assert facts.checkpoint == Checkpoint(step=2, name="step-00000002", reason="asked")
    assert facts.checkpoint.time == 4.1


def test_second_supervisor_resets_facts_but_keeps_step_and_checkpoint() -> None:
    """Workers, plan, notices, error and stop steps are reset."""
    paused = fold(RunFacts(), [*BEFORE_RESUME, state("releasing", 5.0), state("paused", 6.0)])
    assert (paused.starts, paused.ended) == (1, 6.0)
    resumed = fold(paused, [supervisor(9.0, pid=70)])
    assert (resumed.starts, resumed.state) == (2, RunState.PAUSED)
    assert (resumed.workers, resumed.plan, resumed.notices, resumed.error, resumed.stop_steps) == (
        {},
        None,
        (),
        None,
        (),
    )
    assert (resumed.step, resumed.checkpoint) == (3, paused.checkpoint)
    again = fold(resumed, [state("starting", 10.0), {"t": 11.0, "kind": "rewind", "step": 2}])
    assert (again.state, again.step, again.started, again.ended) == (RunState.STARTING, 2, 2.0, None)
    assert again.notices == ()


def test_unticked_device_uses_are_kept_until_the_run_is_resumed() -> None:
    use = {"t": 4.5, "kind": "unticked_device", "device": "GPU-1", "pids": [4711], "text": "Process 4711 is on GPU 1."}
    facts = fold(RunFacts(), [*BEFORE_RESUME, use, use])
    (known,) = facts.unticked_device_uses
    assert (known.device_id, known.pids, known.sentence) == ("GPU-1", (4711,), "Process 4711 is on GPU 1.")
    assert known.sentence not in facts.notices
    assert facts.warnings == ("Process 4711 is on GPU 1.", *facts.notices)
    assert fold(facts, [supervisor(9.0, pid=70)]).unticked_device_uses == ()


def test_run_that_ended_without_a_final_state_was_lost_at_its_last_event() -> None:
    for pieces in (
        [BEFORE_RESUME, [supervisor(9.0)]],
        [[*BEFORE_RESUME, supervisor(9.0)]],
        [[each] for each in [*BEFORE_RESUME, supervisor(9.0)]],
    ):
        facts = RunFacts()
        for events in pieces:
            facts = fold(facts, events)
        assert facts.state is RunState.LOST
        assert facts.history[-1] == (4.3, RunState.LOST)
        assert fold(facts, [state("starting", 10.0)]).state is RunState.STARTING


RELEASED: dict[str, object] = {
    "t": 5.5, "kind": "release", "device": "GPU-1", "verdict": "held by others", "before_bytes": 1, "peak_bytes": None,
    "after_bytes": 5, "seconds": 1.5, "sentence": "It is held.", "holders": [{"pid": 5, "memory_used_bytes": None}],
}
ENDED: dict[str, object] = {
    "t": 5.6, "kind": "ended", "by": "supervisor",
    "processes": [{"pid": 9, "created": 4.0, "name": "python", "command": "python x", "signal": "SIGKILL"}],
}


def test_memory_watch_results_are_kept_until_the_run_is_resumed() -> None:
    waiting = {"t": 5.4, "kind": "waiting", "text": "GPU 0 is waited for."}
    facts = fold(RunFacts(), [*BEFORE_RESUME, state("releasing", 5.0), waiting])
    assert facts.waiting == "GPU 0 is waited for."
    facts = fold(facts, [RELEASED, ENDED, {**ENDED, "by": "guard"}, state("finished", 6.0)])
    found = facts.releases["GPU-1"]
    assert (found.verdict, found.before_bytes, found.peak_bytes, found.after_bytes, found.seconds) == (
        Verdict.HELD_BY_OTHERS, 1, None, 5, 1.5,
    )
    assert found.holders[0].words == "pid 5 (in a container, or already ended)"
    assert [(each.pid, each.name, each.signal, each.by) for each in facts.ended_processes] == [
        (9, "python", "SIGKILL", by) for by in ("supervisor", "guard")
    ]
    assert facts.waiting is None
    again = fold(facts, [supervisor(9.0, pid=70)])
    assert (again.releases, again.ended_processes, again.waiting) == ({}, (), None)


def test_a_thousand_processes_that_were_terminated_are_counted() -> None:
    left = [
        {"pid": pid, "created": 4.0, "name": "sleep", "command": "x" * 300, "signal": "SIGKILL"} for pid in range(1000)
    ]
    before_resume = {"t": 5.6, "kind": "ended", "by": "supervisor", "before_resume": True, "processes": left}
    facts = fold(RunFacts(), [*BEFORE_RESUME, before_resume])
    assert len(facts.ended_processes) == 1000
    texts = [facts.notices[-1], ended_words(facts), str(hard_end(facts))]
    for text in texts:
        assert "pid 0" in text
        assert "995 more" in text
        assert len(text) < 600
    assert "`trainyard show RUN --json` lists all of them." in texts[0]
    assert "`trainyard show RUN --json` lists all of them." in texts[1]
    assert len(release_lines(facts)) == 21
    assert release_lines(facts)[-1] == "980 more processes were ended; --json lists all of them."


@pytest.mark.parametrize(
    "event",
    [
        {**RELEASED, "verdict": "marvellous"}, {**ENDED, "processes": None}, {"t": 1.0, "kind": "waiting"},
        {"t": 1.0, "kind": "worker", "rank": "zero"}, state("starting", error=5),
    ],
)
def test_invalid_event_becomes_one_notice_and_changes_nothing(event: dict[str, object]) -> None:
    notice = f"An event of kind {event['kind']!r} could not be read."
    facts = fold(RunFacts(), [event, event])
    assert facts == RunFacts(notices=(notice,), collected=facts.collected, latest=event["t"])
