"""What can go wrong with a host."""

from __future__ import annotations

from enum import Enum

from core.errors import RunError
from core.text import one_line, replace_control_characters

LINE_LENGTH = 200


class Failure(Enum):
    """Why a host cannot be asked; the values are for programs."""

    NO_SSH = "no ssh"
    UNKNOWN_NAME = "unknown name"
    UNREACHABLE = "unreachable"
    CLOSED_PORT = "closed port"
    REFUSED_KEY = "refused key"
    UNKNOWN_HOST_KEY = "unknown host key"
    CHANGED_HOST_KEY = "changed host key"
    SSH = "ssh"
    """Any other error of ssh."""
    NO_TRAINYARD = "no trainyard"
    NO_PYTHON = "no python"
    OTHER_VERSION = "other version"
    NO_AGENT = "no agent"
    """What was started there is no agent, or does not come up."""
    NO_ANSWER = "no answer"
    NONSENSE = "nonsense"
    """It answers what is no answer."""
    CUT = "cut"
    REFUSED = "refused"
    """The agent said why it cannot do what it was asked."""


class HostError(RunError):
    """A host cannot be asked. `str()` is a sentence for users with the remedy."""

    def __init__(self, failure: Failure, sentence: str) -> None:
        super().__init__(sentence)
        self.failure = failure


def last_line(text: str) -> str:
    """Return the last line with something in it, fit to be shown."""
    return next((shown for line in reversed(text.splitlines()) if (shown := shown_line(line))), "")


def shown_line(line: str) -> str:
    """Return a line that the other side wrote, fit to be shown."""
    return one_line(replace_control_characters(line.replace("\r", "")), LINE_LENGTH)
