"""Act as one of two unprivileged users. Only root can, and so only tests that are marked with `two_users`."""

import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.cli.__main__ import main
from tests.support.two_users import OTHER_UID, ROOT, THIRD_UID, give_away
from tests.support.waiting import PATIENCE_S

VICTIM, ATTACKER = THIRD_UID, OTHER_UID
# What a user's process imports only when it needs it must be readable for that user.
CLOSED = [each for each in (ROOT, *ROOT.parents) if each.stat().st_mode & 0o005 != 0o005]
needs_open_checkout = pytest.mark.skipif(
    bool(CLOSED), reason=f"other users cannot read this checkout: {', '.join(map(str, CLOSED[-1:]))} is closed to them"
)


def own(folder: Path, uid: int) -> None:
    """Make a folder and everything below it belong to a user, and readable by others."""
    give_away(folder, uid)
    for each in (folder, *folder.rglob("*")):
        if not each.is_symlink():
            each.chmod(0o755 if each.is_dir() else 0o644)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that both users reach; pytest's own belongs to root alone."""
    folder = Path(tempfile.mkdtemp(prefix="trainyard-shared-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@dataclass(frozen=True)
class Said:
    """What a command of a user said."""

    code: int
    out: str
    err: str


def as_user(uid: int, command: Callable[[], int | None], home: Path) -> Said:
    """Call a function as an unprivileged user with an open umask; fail if it takes longer than a test waits.

    In a fork, since other users may not be able to start this Python: it may lie below root's home.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                signal.alarm(round(PATIENCE_S))
                for stream, file in ((1, out), (2, err)):
                    os.dup2(file.fileno(), stream)
                    setattr(sys, ("", "stdout", "stderr")[stream], os.fdopen(stream, "w"))
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
                os.umask(0)
                os.chdir(home)
                for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TRAINYARD_CONFIG_DIR", "TRAINYARD_CACHE_DIR"):
                    os.environ.pop(name, None)
                os.environ["HOME"] = str(home)
                code = command() or 0
            except BaseException:  # noqa: BLE001 (the fork must never return into pytest)
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Said(status, *(file.read() for file in (out, err) if file.seek(0) == 0))


def trainyard(uid: int, *words: str, home: Path) -> Said:
    return as_user(uid, lambda: main(words), home)


def make_homes(shared: Path) -> dict[int, Path]:
    """Make a home of each user. Not a fixture: only root can, and so only the test itself (`two_users`)."""
    import core.cli.parser  # noqa: F401 (here, since Python may not be able to load it in a fork)

    found = {uid: shared / f"home-{uid}" for uid in (VICTIM, ATTACKER)}
    for uid, home in found.items():
        home.mkdir(mode=0o700)
        os.chown(home, uid, uid)
    return found
