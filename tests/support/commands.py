"""Call a command of Trainyard within the process of the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.cli import __main__

Call = Callable[..., tuple[int, str, str]]
"""Calls a command with arguments, and returns what `call` returns."""


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return the exit code of a command, and what it printed on standard output and standard error."""
    try:
        code = __main__.main([str(each) for each in arguments])
    except SystemExit as left:
        code = int(left.code or 0)
    return code, *capsys.readouterr()
