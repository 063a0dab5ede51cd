"""Run a command of the user's with a message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.language import tr
from core.notifications.channels.errors import NotDeliveredError
from core.system.helper_process import HelperProcess, clean_environment

if TYPE_CHECKING:
    from core.notifications.message import Message

MAX_DETAIL = 2000
MAX_ENVIRONMENT = 4000
"""Characters of a variable."""


def run(command: str, message: Message, timeout_s: float) -> None:
    """Run a line of the shell: the text is its input, and variables have its parts. Raises `NotDeliveredError`."""
    try:
        process = HelperProcess(
            ["/bin/sh", "-c", command], cwd=_home(), environment={**clean_environment(), **variables(message)},
            stdin=True, stderr=-1,
        )  # fmt: skip
    except OSError as error:
        raise NotDeliveredError(tr("The command could not be started: {strerror}.", strerror=error.strerror)) from error
    with process:
        process.send(f"{message.text}\n".encode())
        process.end_input()
        try:
            process.wait(timeout_s)
        except TimeoutError:
            raise NotDeliveredError(
                tr("The command did not end within {seconds:g} s, and was ended.", seconds=timeout_s)
            ) from None
        except ValueError as error:
            raise NotDeliveredError(tr("The command was ended: it printed too much.")) from error
        if ending := process.ending():
            # Its output stays out of the run: it may show an address.
            detail = process.errors.decode(errors="replace").strip()[:MAX_DETAIL]
            raise NotDeliveredError(tr("The command failed: {ending}.", ending=ending), detail)


def variables(message: Message) -> dict[str, str]:
    """Return the environment variables that a command finds."""
    parts = {
        "TITLE": message.title, "TEXT": message.text, "OCCASION": message.occasion or "test",
        "RUNS": "\n".join(each.run_dir for each in message.news),
    }  # fmt: skip
    return {f"NOTIFICATION_{name}": text.replace("\0", "?")[:MAX_ENVIRONMENT] for name, text in parts.items()}


def _home() -> str:
    home = Path.home()
    return str(home) if home.is_dir() else "/"
