"""Give a run another name. The name is in a file of its own: `spec.json` stays what was asked for."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING

from core.errors import RunError
from core.history.changed_runs import note_change
from core.language import tr
from core.runs import copies
from core.runs.ownership import owner_of_run
from core.schema.files import not_written, write_whole
from core.schema.paths import NAME_FILE, SPEC_FILE
from core.schema.spec import MAX_NAME

if TYPE_CHECKING:
    from pathlib import Path


def why_no_name(name: str) -> str:
    """Return why this cannot be the name of a run; the empty string if it can."""
    if not name.strip():
        return tr("Enter a name.")
    if len(name) > MAX_NAME:
        return tr("The name has {count} characters. Give at most {limit}.", count=len(name), limit=MAX_NAME)
    if not name.isprintable():
        return tr("The name has a character that cannot be printed. Leave it out.")
    return ""


def rename(run_dir: Path, name: str) -> str:
    """Name a run, and return the name as it is shown: without spaces around it.

    Raises `ValueError` with a sentence for a name that cannot be used or a run of another user, `RunError` if the name
    cannot be written.
    """
    copies.refuse(run_dir)
    name = re.sub(" +", " ", name).strip()  # as it is read; a line break or a tab is refused
    if problem := why_no_name(name):
        raise ValueError(problem)
    if owner := owner_of_run(run_dir):
        raise ValueError(tr("Run {id} belongs to {owner}. Only its owner can rename it.", id=run_dir.name, owner=owner))
    path = run_dir / NAME_FILE
    try:
        write_whole(path, json.dumps({"name": name}, ensure_ascii=False) + "\n")
        path.chmod(stat.S_IMODE((run_dir / SPEC_FILE).stat().st_mode))  # readable by the same users
    except OSError as error:
        remedy = tr("Check the permissions of its folder.")
        raise RunError(not_written(path, error, if_full=tr("Free some space."), otherwise=remedy)) from error
    note_change(run_dir)
    return name
