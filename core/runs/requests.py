"""What a run is asked, as its supervisor sees it: a file each below `control`, put there by anybody."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from core.schema.paths import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core.schema.spec import RunSpec

REQUESTS = ("stop", "force", "pause", "save")
DONE = {"pause": "paused", "save": "saved"}
"""What the workers answer, and what a run is when they have."""


def unanswered(spec: RunSpec, what: str) -> str:
    """Why nobody in this run would answer a request to `pause` or to `save`: a sentence; no text where it is answered.

    A script does not look for requests.
    """
    if spec.script is None:
        return ""
    return (
        f"A script cannot be {DONE[what]} from outside: it saves, if it does, in a way of its own. "
        "Stopping it sends SIGINT first."
    )


class Requests:
    """The requests of one run. `stop` and `force` are the supervisor's to answer, `pause` and `save` the workers'."""

    def __init__(self, run_dir: Path) -> None:
        self._control = run_dir / CONTROL
        self._recorded = ""
        self._told_to_stop = False

    def clear(self) -> None:
        """Forget what an earlier leg of the run was asked."""
        for name in REQUESTS:
            self.take_back(name)

    def has(self, name: str) -> bool:
        """Whether this was asked."""
        return (self._control / name).exists()

    def take_back(self, name: str) -> None:
        """As if it had not been asked."""
        with contextlib.suppress(OSError):
            (self._control / name).unlink()

    def refuse(self, spec: RunSpec) -> list[str]:
        """Take back what a run of this spec does not answer; why, in a sentence each."""
        refused = [(what, why) for what in DONE if (why := unanswered(spec, what)) and self.has(what)]
        for what, _ in refused:
            self.take_back(what)
        return [why for _, why in refused]

    def tell_to_stop(self) -> None:
        """As if a stop had been asked for. No more than this: it is called from a signal handler."""
        self._told_to_stop = True

    @property
    def stop(self) -> bool:
        """Whether the run shall stop."""
        return self._told_to_stop or self.has("stop")

    def pass_on_the_stop(self) -> None:
        """The loop looks for the request's file: a stop that came as a signal is put there too."""
        if self._told_to_stop:
            with contextlib.suppress(OSError):  # where it cannot be, the ladder's signals do it
                (self._control / "stop").touch()

    @property
    def hurry(self) -> bool:
        """Whether the end of the run, once it has been reached, is not to be waited for."""
        return self._told_to_stop or self.has("force")

    def record(self, write: Callable[[str], None]) -> None:
        """Record which of `pause` and `save` the workers have yet to answer, if it is another than before."""
        asked = next((name for name in DONE if self.has(name)), "")
        if asked != self._recorded:
            self._recorded = asked
            write(asked)
