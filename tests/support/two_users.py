"""Other users for tests: their ids, their files, and a user namespace where the tests do not run as root.

A user namespace has the ids that /etc/subuid gives to the user; newuidmap (package uidmap) maps them. Root of the
namespace can start processes and own files as any of these users, and nothing outside of it changes.
"""

import os
import pwd
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.support.packages import SECOND_USER, missing

NAMESPACE = ("unshare", "--user", "--map-root-user", "--map-auto", "--")
ROOT = Path(__file__).parents[2]
OTHER_UID, THIRD_UID = 65534, 65533  # the first has a name: nobody


@cache
def obstacle() -> str:
    """Return why no second user is possible here; the empty string if one is."""
    if os.geteuid() == 0:
        return ""
    if why_not := missing(SECOND_USER):
        return why_not
    try:
        done = _as_root_of_namespace(sys.executable, "-c", f"import os; os.setuid({OTHER_UID})")
    except OSError as error:
        return f"only root has a second user here, and {error.filename} cannot be started: {error.strerror}"
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"only root has a second user here, and there is no user namespace: {why}"
    return ""


def run_in_namespace(test: str) -> str:
    """Run one test as root of a user namespace. Return its output if it failed, else the empty string."""
    folder = Path(tempfile.mkdtemp())
    words = ["pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp", str(folder / "tests"), test]
    done = _as_root_of_namespace(sys.executable, "-m", *words)
    _as_root_of_namespace("rm", "-r", str(folder))  # files in it belong to users of the namespace
    return done.stdout + done.stderr if done.returncode else ""


def give_away(path: Path, uid: int = OTHER_UID) -> None:
    """Make a file, or a folder and everything below it, belong to another user."""
    for each in (path, *path.rglob("*")):
        os.chown(each, uid, uid, follow_symlinks=False)


def other_name() -> str:
    """Return the name of the user `OTHER_UID`."""
    return pwd.getpwuid(OTHER_UID).pw_name


def _as_root_of_namespace(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NAMESPACE, *command], cwd=ROOT, capture_output=True, text=True, check=False)
