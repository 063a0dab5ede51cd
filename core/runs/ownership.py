"""Find out whether a run or a preset belongs to another user: then its program and its Python are not one's own."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from core.schema.paths import SPEC_FILE
from core.system.process_info import user_name

if TYPE_CHECKING:
    from pathlib import Path

    from core.schema.spec import RunSpec


def owner_of_run(run_dir: Path) -> str | None:
    """Return the user to whom a run belongs if that is another one; None for a run of one's own."""
    return _other_user(run_dir, run_dir / SPEC_FILE)


def owner_of_file(path: Path) -> str | None:
    """Return the user to whom a file belongs if that is another one; None for one's own, or for no file."""
    return _other_user(path)


def executes(what: str, owner: str, spec: RunSpec) -> str:
    """Return what a start of another user's run or preset executes, in sentences. `what`: such as `Run NAME`."""
    program = shlex.join(spec.script.command) if spec.script else spec.own_recipe.path
    return (
        f"{what} belongs to {owner}. This executes {program} with the Python {spec.python}, with all your permissions."
    )


def _other_user(*paths: Path) -> str | None:
    """Return the first other user who owns one of these paths, a link among them, or the file that a link names."""
    for path in paths:
        for look in (os.lstat, os.stat):
            try:
                uid = look(path).st_uid
            except OSError:
                continue
            if uid != os.geteuid():
                return user_name(uid)
    return None
