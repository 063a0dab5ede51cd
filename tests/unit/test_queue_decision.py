"""Who may take which devices: order, reservation, passing, turns of users."""

from __future__ import annotations

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


def test_free_devices_are_given_in_order_and_each_once() -> None:
    first, second = any_of("first", 1, "a b", order=1), any_of("second", 1, "a b", order=2)
    third = any_of("third", 1, "a b", order=3)
    assert granted(third, second, first) == {"first": ("a",), "second": ("b",)}


def test_all_devices_at_once_or_none() -> None:
    assert granted(waiting("both", "a b"), holding("other", "b")) == {}
    assert granted(any_of("two", 2, "a b c"), holding("other", "b")) == {"two": ("a", "c")}


def test_priority_goes_before_time() -> None:
    assert granted(waiting("old", "a", order=1), waiting("urgent", "a", order=2, priority=5)) == {"urgent": ("a",)}


def test_devices_are_set_aside_for_the_run_that_needs_several() -> None:
    """Small runs do not overtake it for ever; the reason names it."""
    busy, both, small = holding("busy", "b"), waiting("both", "a b", order=1), waiting("small", "a", order=2)
    decision = decide([busy, both, small], NOW)
    assert decision.kept["a"] is both
    found = outcome("small", busy, both, small)
    assert (found.reason, found.devices, found.other) == (KEPT, ("a",), both)
    assert outcome("both", busy, both, small).reason == USED


def test_a_run_passes_if_it_ends_before_the_others_start() -> None:
    busy, both = holding("busy", "b", ends_at=NOW + 600), waiting("both", "a b", order=1)
    assert granted(busy, both, waiting("short", "a", order=2, limit_s=500)) == {"short": ("a",)}
    assert granted(busy, both, waiting("long", "a", order=2, limit_s=700)) == {}
    assert granted(busy, both, waiting("endless", "a", order=2)) == {}
    assert outcome("both", busy, both).expected == NOW + 600


def test_a_run_that_needs_other_devices_passes() -> None:
    busy, both = holding("busy", "b"), waiting("both", "a b", order=1)
    assert granted(busy, both, waiting("other", "c", order=2)) == {"other": ("c",)}
    assert granted(busy, both, any_of("any", 1, "a b c", order=2)) == {"any": ("c",)}


def test_expected_starts_follow_each_other() -> None:
    busy = holding("busy", "a", ends_at=NOW + 100)
    line = [waiting(run, "a", order=at, limit_s=50) for at, run in enumerate(("one", "two", "three"))]
    starts = {run: each.expected for (_, run), each in decide([busy, *line], NOW).outcomes.items()}
    assert starts == {"one": NOW + 100, "two": NOW + 150, "three": NOW + 200}


def test_an_unknown_end_makes_no_expected_start() -> None:
    assert outcome("run", holding("busy", "a"), waiting("run", "a")).expected is None


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


def test_a_stream_of_small_runs_does_not_starve_a_large_one() -> None:
    """Played: a small run arrives whenever one ends, and the large one starts as soon as those before it have ended."""
    large = waiting("large", "a b", order=3)
    running, line, started = {"a": holding("s0", "a"), "b": holding("s1", "b")}, [large], []
    for turn in range(2, 12):
        ended = "a" if turn % 2 else "b"
        running.pop(ended, None)
        if line:
            line.append(any_of(f"s{turn}", 1, "a b", order=3 + turn))
        for run, devices in granted(*running.values(), *line).items():
            started.append(run)
            line = [each for each in line if each.run != run]
            running |= {device: holding(run, " ".join(devices)) for device in devices}
        if "large" in started:
            break
    assert started == ["large"]


def test_any_device_of_a_large_machine() -> None:
    devices = " ".join(f"cpu:{number}" for number in range(512))
    assert granted(any_of("any", 1, devices), holding("other", "cpu:0")) == {"any": ("cpu:1",)}
