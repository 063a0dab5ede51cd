"""What stands where there is nothing to show: every place has a sentence for every situation, and a true one."""

import itertools

import pytest

from core.language import stored, tr
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from gui.runs.progress import Place, Situation, empty_words, plot_words, situation_of
from gui.runs.verdicts import PAST, past_tense, run_message


def after(*states: str, **last: object) -> RunFacts:
    """Return the facts of a run that went through these states."""
    events = [{"t": float(number), "kind": "state", "state": state} for number, state in enumerate(states)]
    return fold(RunFacts(), [*events[:-1], {**events[-1], **last}] if events else [])


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), Situation.STARTING),
        (("queued",), Situation.QUEUED),
        (("starting",), Situation.STARTING),
        (("starting", "running"), Situation.RUNNING),
        (("starting", "running", "stopping"), Situation.RUNNING),
        (("starting", "failed"), Situation.EARLY),
        (("starting", "releasing", "failed"), Situation.EARLY),
        (("starting", "running", "releasing", "finished"), Situation.OVER),
        (("starting", "running", "releasing", "paused"), Situation.OVER),
    ],
)
def test_situation_follows_the_states_of_a_run(states: tuple[str, ...], expected: Situation) -> None:
    assert situation_of(after(*states), is_shown=True) is expected
    assert situation_of(after(*states), is_shown=False) is Situation.MACHINE


def test_every_place_has_a_sentence_for_every_situation() -> None:
    for place, situation, script, cpu in itertools.product(Place, Situation, (False, True), (False, True)):
        words = empty_words(place, situation, is_script=script, is_cpu_only=cpu)
        assert words.endswith(".")
        assert situation is not Situation.QUEUED or "in a moment" not in words
        if situation in {Situation.EARLY, Situation.OVER}:
            assert " yet" not in words
            assert "appear" not in words
    assert plot_words("temperaturePlot", Situation.OVER) == empty_words(Place.UTILISATION, Situation.OVER)


def test_only_what_concerns_a_run_is_told() -> None:
    for situation in Situation:
        assert "CPU" not in empty_words(Place.MEMORY, situation)
    assert "CPU" in empty_words(Place.MEMORY, Situation.MACHINE, is_cpu_only=True)
    assert "output or the files" in empty_words(Place.LOSS, Situation.OVER, is_script=True)
    assert "step" in empty_words(Place.LOSS, Situation.EARLY, is_script=False)


def test_notices_are_told_in_the_past_tense_once_a_run_is_over() -> None:
    now, then = list(PAST.items())[-1]
    values = {"step": 9, "folder": "/a", "error": "The disk is full"}
    notice = {"t": 9.0, "kind": "notice", "text": stored(tr(now, **values))}
    running = fold(after("starting", "running"), [notice])
    over = fold(after("starting", "running", "releasing", "finished"), [notice])
    assert run_message(running, None, 0).text == now.format(**values)
    assert run_message(over, None, 0).text == then.format(**values)
    assert over.state is RunState.FINISHED
    assert (
        past_tense("The script continues, and its log is complete.") == "The script continues, and its log is complete."
    )
