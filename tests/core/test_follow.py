"""Ctrl-C beside a run that is followed: it asks for what can be had in the run's state, and says what that is."""

from __future__ import annotations

import io

import pytest

from core.follow import follow
from core.state import Facts, RunState


class Interrupted:
    """A run in some state, beside which Ctrl-C is pressed once; then it is over."""

    def __init__(self, state: RunState) -> None:
        self.facts = Facts(state=state)
        self.asked: list[str] = []

    def poll(self) -> list[dict[str, object]]:
        if not self.asked:
            raise KeyboardInterrupt
        self.facts = Facts(state=RunState.STOPPED)
        return []

    def request(self, what: str) -> None:
        self.asked.append(what)


@pytest.mark.parametrize(
    ("state", "asked", "said"),
    [
        (RunState.RUNNING, "stop", "Stopping; Ctrl-C again forces it."),
        (RunState.STOPPING, "force", "Forcing the end of the workers."),
        (RunState.RELEASING, "force", "Not waiting any longer for the devices' memory."),
    ],
)
def test_ctrl_c_asks_for_what_can_be_had(state: RunState, asked: str, said: str) -> None:
    run, out = Interrupted(state), io.StringIO()
    follow(run, out)  # type: ignore[arg-type]
    assert run.asked == [asked]
    assert said in out.getvalue().splitlines()
