"""Find out whether a run or a preset belongs to another user, and word what a start of it would execute."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.runs import copies
from core.schema.paths import SPEC_FILE
from core.system.process_info import user_name
from core.text import first_names, one_line, replace_control_characters

if TYPE_CHECKING:
    from pathlib import Path

    from core.schema.spec import RunSpec

MAX_CHARACTERS = 240
"""Maximum characters of a line in the warning."""
MAX_VARIABLES = 8
"""Environment variables that the warning lists; it counts the rest."""
LOADING = ("LD_", "DYLD_", "PYTHON", "PATH")
"""Beginnings of the names of variables by which other code is loaded; the warning lists them first."""


def owner_of_run(run_dir: Path) -> str | None:
    """Return the user to whom a run belongs if that is another one; None for a run of one's own."""
    if (there := copies.there(run_dir)) is not None:
        return there.owners.get(run_dir.name)
    return _other_user(run_dir, run_dir / SPEC_FILE)


def owner_of_file(path: Path) -> str | None:
    """Return the user to whom a file belongs if that is another one; None for one's own, or for no file."""
    return _other_user(path)


def execution_warning(owner: str, spec: RunSpec | None) -> str:
    """Return what a start of another user's run or preset executes, one line each, with a sentence before and after.

    `spec`: None if it cannot be read.
    """
    lines = _executed(spec) if spec else [tr("Its program and its Python are unknown.")]
    shown = "\n".join(replace_control_characters(one_line(line, MAX_CHARACTERS)) for line in lines)
    return tr(
        "This would be executed with your permissions, and {owner} may be able to change it at any time:"
        "\n\n{shown}\n\nContinue only if you trust {owner}.",
        owner=owner,
        shown=shown,
    )


def _executed(spec: RunSpec) -> list[str]:
    script = spec.script
    command = " ".join(script.command) if script else spec.own_recipe.path
    environment = (script.environment if script else {}).items()
    ordered = sorted(environment, key=lambda item: not item[0].startswith(LOADING))  # the rest may be only counted
    variables = [tr("Variable: {name}={value}", name=name, value=value) for name, value in ordered]
    return [
        tr("Program: {command}", command=command),
        tr("Python: {python}", python=spec.python),
        tr("Folder: {folder}", folder=spec.working_dir),
        *first_names(variables, MAX_VARIABLES, tr_noop("{count} more variables")),
    ]


def _other_user(*paths: Path) -> str | None:
    """Return the first other user who owns one of these paths or, for a link, the file that it names."""
    for path in paths:
        for look in (os.lstat, os.stat):
            try:
                uid = look(path).st_uid
            except OSError:
                continue
            if uid != os.geteuid():
                return user_name(uid)
    return None
