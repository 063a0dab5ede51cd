"""Call a command of Trainyard within the process of the test, or in one of its own."""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from core.cli import __main__, options, run_options
from core.config.choices import RecipeChoices, ScriptChoices

ROOT = Path(__file__).resolve().parents[2]
Call = Callable[..., tuple[int, str, str]]
"""Calls a command with arguments, and returns what `call` returns."""


def choices_of(*words: str) -> RecipeChoices | ScriptChoices:
    """Return what the words of `trainyard run` choose."""
    at = words.index("--") if "--" in words else len(words)
    parser = options.Parser()
    options.add_run_options(parser)
    return run_options.choices(parser.parse_args(words[:at], Namespace(arguments=[*words[at + 1 :]])))


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return the exit code of a command, and what it printed on standard output and standard error."""
    try:
        code = __main__.main([str(each) for each in arguments])
    except SystemExit as left:
        code = int(left.code or 0)
    return code, *capsys.readouterr()


def in_a_process(*arguments: object) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    command = [sys.executable, "-m", "core.cli", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
