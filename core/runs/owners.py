"""Runs and presets of other users: whose they are, and the warning before a start of what belongs to another user."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from core.language import tr, tr_noop
from core.runs.foreign import there
from core.schema.paths import SPEC_FILE
from core.schema.spec import RunSpec
from core.system.processes import user_name
from core.text import first_names, one_line, replace_control_characters

MAX_CHARACTERS = 240
"""Maximum characters of a line in the warning."""
MAX_VARIABLES = 8
"""Environment variables that the warning lists; it counts the rest."""
LOADING = ("LD_", "DYLD_", "PYTHON", "PATH")
"""Beginnings of the names of variables by which other code is loaded; the warning lists them first."""


def owner_of_run(run_dir: Path) -> str | None:
    """Return the user to whom a run belongs if that is another one; None for a run of one's own."""
    if (machine := there(run_dir)) is not None:
        return machine.owners.get(run_dir.name)
    return owner_of_file(run_dir, run_dir / SPEC_FILE)


def owner_of_file(*paths: Path) -> str | None:
    """Return the first other user that owns a path, or the file to which it links; None if all are our own or gone."""
    for path in paths:
        for look in (os.lstat, os.stat):
            with contextlib.suppress(OSError):
                if (uid := look(path).st_uid) != os.geteuid():
                    return user_name(uid)
    return None


def execution_warning(owner: str, spec: RunSpec | None) -> str:
    """Return what a start of another user's run or preset executes, one line each, with a sentence before and after.

    `spec`: None if it cannot be read.
    """
    lines = _executed(spec) if spec else [tr("Its program and its Python are unknown.")]
    shown = "\n".join(replace_control_characters(one_line(line, MAX_CHARACTERS)) for line in lines)
    return tr(
        "This would be executed with your permissions, and {owner} may be able to change it at any time:"
        "\n\n{shown}\n\nContinue only if you trust {owner}.",
        owner=owner, shown=shown,
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
