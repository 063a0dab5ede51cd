"""Who may take which devices: order, reservation, passing, turns of users."""

import pytest

from core.queue.decision import (
    AFTER,
    BLOCKED,
    BLOCKED_LONG_S,
    GRANTED,
    HELD,
    KEPT,
    NOT_BEFORE,
    USED,
    Ticket,
    decide,
)

NOW = 1_000_000.0
ANNA, BERT = 1001, 1002


def waiting(run, devices="", *, uid=ANNA, order=0.0, **fields):
    return Ticket(uid, run, {"state": "waiting", "devices": devices.split(), "order": order, **fields})


def any_of(run, count, devices, *, uid=ANNA, order=0.0, **fields):
    return Ticket(
        uid, run, {"state": "waiting", "any": count, "among": devices.split(), "order": order, **fields}
    )


def holding(run, devices, *, uid=ANNA, since=NOW, ends_at=None):
    return Ticket(uid, run, {"state": "holding", "devices": devices.split(), "since": since, "ends_at": ends_at})


def granted(*tickets, **more):
    """Return by run the devices that it may take."""
    decision = decide(tickets, NOW, **more)
    return {run: outcome.devices for (_, run), outcome in decision.outcomes.items() if outcome.reason == GRANTED}


def outcome(run, *tickets, **more):
    decision = decide(tickets, NOW, **more)
    return next(outcome for (_, name), outcome in decision.outcomes.items() if name == run)


BOTH = waiting("both", "a b", order=1)
UNTIL_600, ENDLESS = holding("busy", "b", ends_at=NOW + 600), holding("busy", "b")


@pytest.mark.parametrize(
    ("tickets", "devices"),
    [
        # in order, and each once
        ([any_of(run, 1, "a b", order=at) for at, run in enumerate(("first", "second", "third"))][::-1],
         {"first": ("a",), "second": ("b",)}),
        ([waiting("old", "a", order=1), waiting("urgent", "a", order=2, priority=5)], {"urgent": ("a",)}),
        # all devices at once or none
        ([waiting("both", "a b"), holding("other", "b")], {}),
        ([any_of("two", 2, "a b c"), holding("other", "b")], {"two": ("a", "c")}),
        ([any_of("any", 1, " ".join(f"cpu:{number}" for number in range(512))), holding("other", "cpu:0")],
         {"any": ("cpu:1",)}),
        # a run passes if it ends before the others start, or needs other devices
        ([UNTIL_600, BOTH, waiting("short", "a", order=2, limit_s=500)], {"short": ("a",)}),
        ([UNTIL_600, BOTH, waiting("long", "a", order=2, limit_s=700)], {}),
        ([UNTIL_600, BOTH, waiting("endless", "a", order=2)], {}),
        ([ENDLESS, BOTH, waiting("other", "c", order=2)], {"other": ("c",)}),
        ([ENDLESS, BOTH, any_of("any", 1, "a b c", order=2)], {"any": ("c",)}),
    ],
)
def test_devices_are_given_in_order_all_at_once_and_to_runs_that_pass(tickets, devices) -> None:
    assert granted(*tickets) == devices


def test_devices_are_set_aside_for_the_run_that_needs_several() -> None:
    """Small runs do not overtake it for ever; the reason names it."""
    small = waiting("small", "a", order=2)
    assert decide([ENDLESS, BOTH, small], NOW).kept["a"] is BOTH
    found = outcome("small", ENDLESS, BOTH, small)
    assert (found.reason, found.devices, found.other) == (KEPT, ("a",), BOTH)
    assert outcome("both", ENDLESS, BOTH, small).reason == USED


def test_expected_starts_follow_each_other() -> None:
    busy = holding("busy", "a", ends_at=NOW + 100)
    line = [waiting(run, "a", order=at, limit_s=50) for at, run in enumerate(("one", "two", "three"))]
    starts = {run: each.expected for (_, run), each in decide([busy, *line], NOW).outcomes.items()}
    assert starts == {"one": NOW + 100, "two": NOW + 150, "three": NOW + 200}
    assert outcome("both", UNTIL_600, BOTH).expected == NOW + 600
    assert outcome("run", holding("busy", "a"), waiting("run", "a")).expected is None, "its end is not known"


def test_runs_that_cannot_start_set_nothing_aside() -> None:
    small = waiting("small", "a", order=9)
    for fields, reason in (({"held": True}, HELD), ({"not_before": NOW + 9}, NOT_BEFORE), ({"after": "other"}, AFTER)):
        first = waiting("first", "a b", order=1, **fields)
        assert granted(first, small) == {"small": ("a",)}
        assert outcome("first", first, small).reason == reason
    assert granted(waiting("due", "a", not_before=NOW)) == {"due": ("a",)}


def test_a_held_queue_is_that_of_one_user() -> None:
    own, other = waiting("own", "a", order=1), waiting("other", "a", order=2, uid=BERT)
    assert granted(own, other, held=[ANNA]) == {"other": ("a",)}


def test_users_take_turns_and_past_use_counts() -> None:
    anna = [waiting(f"anna{number}", "a", order=number) for number in range(3)]
    bert = [waiting(f"bert{number}", "a", order=10 + number, uid=BERT) for number in range(2)]
    order = [ticket.run for ticket in decide([*anna, *bert], NOW).order]
    assert order == ["anna0", "bert0", "anna1", "bert1", "anna2"]
    order = [ticket.run for ticket in decide([*anna, *bert], NOW, use={ANNA: 9000.0}).order]
    assert order == ["bert0", "bert1", "anna0", "anna1", "anna2"]
    busy = holding("busy", "b c", since=NOW - 10_000)
    assert decide([busy, *anna, *bert], NOW).order[0].run == "bert0"


def test_a_device_that_another_program_uses_is_passed_over() -> None:
    blocked = {"a": [NOW - 5, NOW + 10, "GPU 0 is used by blender."]}
    exact = waiting("exact", "a", blocked=blocked)
    assert outcome("exact", exact).reason == BLOCKED
    assert granted(any_of("any", 1, "a b", blocked=blocked)) == {"any": ("b",)}
    over = {"a": [NOW - 5, NOW - 1, "It was used."]}
    assert granted(waiting("later", "a", blocked=over)) == {"later": ("a",)}


def test_nothing_is_set_aside_for_long_for_a_run_whose_device_is_blocked() -> None:
    small = waiting("small", "b", order=9)
    now = {"a": [NOW - 5, NOW + 10, "It is used."]}
    long = {"a": [NOW - BLOCKED_LONG_S - 1, NOW + 10, "It is used."]}
    assert granted(waiting("both", "a b", order=1, blocked=now), small) == {}
    assert granted(waiting("both", "a b", order=1, blocked=long), small) == {"small": ("b",)}
