"""Other users put random folders, tickets and claims beside ours: the queue answers, runs start, waiting is cheap."""

import contextlib
import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from core.queue.folder import own_line
from core.queue.line import Line
from core.runs.facts import RunState
from tests.process.test_hostile_runs import batches
from tests.support.commands import call
from tests.support.hostile_runs import NAMES, hostile_value, put_in_place_of, watched
from tests.support.queueing import Queue, is_free, stop
from tests.support.two_users import ROOT, give_away

USERS = (1, 1000, 65533, 65534, 2**31, 2**32 - 2)
FORMS = (
    *["{0}"] * 8, "{0}-x", "{0}-", "0{0}", "000{0}", "+{0}", "-{0}", " {0}", "{0}\n", "{0}.0", "{0:x}", "{0}x",
    "\u0661{0}", "{0:0>150}", "", "0", "0-x", "\x1b[31m{0}", "\udcff{0}",
)
"""Of the end of a folder's name, by user."""
TICKET = {
    "state": "waiting", "devices": ["cpu:1"], "name": "theirs", "labels": {"cpu:1": "CPU 1"}, "since": 1.0, "any": 0,
    "order": 1.0, "priority": 0, "among": [], "not_before": None, "after": "", "limit_s": None, "ends_at": None,
    "held": False, "blocked": {"cpu:1": [0, 9e14, "It is used."]},
}
COUNTS = (0, 1, 3, 30, 30, 300)
TIMES = (-1, 0, 2**31, 2**33)
MAX_KIB = 16 * 1024
"""Of a process that waits."""
LOOK = """
import sys
sys.path.insert(0, sys.argv[1])
from core.queue.waiter import Waiter
waiter = Waiter("/nowhere", {"line": sys.argv[2:], "lock": [], "ticket": 0, "ticket_fields": {}, "late_s": 60.0})
waiter._decide(waiter.line.tickets(), 2e9)
print(open("/proc/self/status").read())
"""
"""What a waiting process does when it looks at the line."""


class HostileLine:
    """What other users may put into the common folder, at random."""

    def __init__(self, parent: Path, prefix: str, random: Random) -> None:
        self._parent, self._prefix, self._random = parent, prefix, random
        self._locked: list[int] = []

    def plant(self) -> None:
        """Put some folders there."""
        for _ in range(self._random.randint(1, 12)):
            user = self._random.choice(USERS)
            name = self._random.choice(FORMS).format(user)
            folder = self._parent / f"{self._prefix}{name}"
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                owner = user if self._random.random() < 0.9 else self._random.choice(USERS)
                self._fill(folder, owner, counts=f"{name}-".startswith(f"{owner}-"))
                if self._random.random() < 0.1:
                    put_in_place_of(folder, self._random)
                _give(folder, owner)

    def clear(self) -> None:
        """Remove all but the folder of this user."""
        while self._locked:
            os.close(self._locked.pop())
        for each in self._parent.iterdir():
            if each.lstat().st_uid != os.getuid():
                each.unlink() if each.is_symlink() or not each.is_dir() else shutil.rmtree(each)

    def _fill(self, folder: Path, owner: int, *, counts: bool) -> None:
        """Put tickets and claims into a folder. A claim on `cpu:0` is none, or in a folder that does not count."""
        for name in ("tickets", "devices"):
            (folder / name).mkdir()
        for number in range(self._random.choice(COUNTS)):
            self._ticket(folder / "tickets" / self._name(number), owner)
        for name in ("cpu:0", "cpu:1"):
            path = folder / "devices" / name
            path.touch()
            if name == "cpu:1" or not counts:
                self._lock(path)
            else:
                put_in_place_of(path, self._random)
        for name in ("held", "use"):
            (folder / name).write_bytes(self._content({"seconds": 1.0, "at": 1.0}))
        for path in (folder / "tickets", folder / "devices", folder / "held", folder / "use"):
            if self._random.random() < 0.1:
                put_in_place_of(path, self._random)
            _give(path, owner)

    def _ticket(self, path: Path, owner: int) -> None:
        path.write_bytes(self._content(TICKET))
        if self._random.random() < 0.9:
            self._lock(path)
        if self._random.random() < 0.05:
            put_in_place_of(path, self._random)
        if self._random.random() < 0.05:
            moment = self._random.choice(TIMES)
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, (moment, moment), follow_symlinks=False)
        if self._random.random() < 0.95:
            _give(path, owner)

    def _name(self, number: int) -> str:
        odd = self._random.choice(NAMES) if self._random.random() < 0.2 else b"20261128-120000-run"
        return os.fsdecode(b"%d-" % number + odd)

    def _content(self, document: dict[str, object]) -> bytes:
        chance = self._random.random()
        if chance < 0.1:
            return self._random.randbytes(self._random.choice([0, 100, 40_000]))
        if chance < 0.2:
            many = self._random.choice([10, 3_000, 9_000])  # a few bytes each, which are many in memory
            much: object = self._random.choice([[[]] * many, [f"{each:x}" for each in range(min(many, 1020))]])
            change = self._random.choice([
                {"blocked": {"cpu:1": [0, 9e14, much]}}, {"devices": much, "state": "holding"}, {"devices": much},
                {"among": much, "any": 1}, {"labels": {f"{each:x}": "" for each in range(min(many, 3_000))}},
            ])
        elif chance < 0.5:
            change = {self._random.choice(sorted(document)): hostile_value(self._random)}
        else:
            change = {"priority": self._random.randint(-9, 9), "since": self._random.choice(TIMES)}
        return json.dumps({**document, **change}, separators=(",", ":")).encode()

    def _lock(self, path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        fcntl.flock(handle, self._random.choice([fcntl.LOCK_EX, fcntl.LOCK_EX, fcntl.LOCK_SH]))
        self._locked.append(handle)


def _give(path: Path, owner: int) -> None:
    with contextlib.suppress(FileNotFoundError):  # the name of a socket may be too long
        os.chown(path, owner, owner, follow_symlinks=False)


@pytest.fixture
def _many_files() -> Iterator[None]:
    """A locked ticket takes an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def look_from_outside(line: Line) -> str:
    """Look at the line in a process like that of a run which waits; return its `/proc/PID/status`."""
    words = [sys.executable, "-I", "-S", "-c", LOOK, ROOT, line.own, line.parent, line.prefix]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def peak_kib(status: str) -> int:
    """Return how large a process has been, from its `/proc/PID/status`."""
    return int(status.partition("VmHWM:")[2].split()[0])


@pytest.mark.slow
@pytest.mark.two_users
@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("count", [2, pytest.param(None, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_the_queue_survives_what_other_users_put_beside_it(
    count: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue, line = Queue(tmp_path), own_line().line
    waiting = queue.add("waiting", "cpu:0", held=True)
    try:
        for seed in batches(count):
            hostile = HostileLine(Path(line.parent), line.prefix, Random(seed))
            hostile.plant()
            look_at_all(queue, capsys, f"seed {seed}")
            own = Path(f"/proc/{waiting.run.facts.waiter.pid}/status").read_text()
            assert max(peak_kib(look_from_outside(line)), peak_kib(own)) < MAX_KIB, seed
            with watched(lambda seed=seed: f"the start of seed {seed}"):
                started = queue.start("cpu:0")
                assert not is_free("cpu:0"), seed
                assert all(each.isprintable() for each in started.run.facts.notices), seed
                stop(started)
            assert started.state is RunState.STOPPED, seed
            hostile.clear()
        assert call(capsys, "queue", "release", waiting.run.id, "--runs", queue.runs_root)[0] == 0
        assert waiting.until_over().state is RunState.FINISHED
    finally:
        waiting.run.request("stop")  # after a failure


def _numbers(begin: int, count: int) -> list[str]:
    return [f"{begin + number:x}" for number in range(count)]


WORST = {
    "small": (1000, lambda _: {}),
    "labels": (9, lambda _: {"labels": dict.fromkeys(_numbers(0, 2000), "")}),
    "devices": (30, lambda number: {"devices": _numbers(1000 * number, 1000)}),
    "holding": (30, lambda number: {"devices": _numbers(1000 * number, 1000), "state": "holding"}),
    "reasons": (9, lambda _: {"blocked": {"cpu:1": [0, 9e14, [[]] * 7_000]}}),
}
"""Tickets of each of two users, and what is in them: what takes most memory for its bytes."""


@pytest.mark.slow
@pytest.mark.two_users
@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("what", WORST)
def test_what_waits_stays_small_whatever_other_users_put_there(what: str) -> None:
    """Beside folders of more users than are looked at."""
    line, locked, (count, change) = own_line().line, [], WORST[what]
    for user in range(100_000, 103_000):
        folder = Path(line.parent, f"{line.prefix}{user}")
        folder.mkdir()
        os.chown(folder, user, user)
    for user in (1000, 1001):
        folder = Path(line.parent, f"{line.prefix}{user}", "tickets")
        folder.mkdir(parents=True)
        for number in range(count):
            path = folder / f"{number:04}-{'x' * 200}"
            path.write_text(json.dumps({"state": "waiting", "devices": ["cpu:1"], **change(number)}))
            locked.append(path.open())
            fcntl.flock(locked[-1], fcntl.LOCK_EX)
        give_away(folder.parent, user)
    assert peak_kib(look_from_outside(line)) < MAX_KIB
    assert {each.uid for each in line.tickets()} == {1000, 1001}
    for each in locked:
        each.close()


def look_at_all(queue: Queue, capsys: pytest.CaptureFixture[str], what: str) -> None:
    for option in ("--all", "--json"):
        with watched(lambda option=option: f"{what}: queue {option}"):
            code, out, err = call(capsys, "queue", option, "--runs", queue.runs_root)
        assert code == 0, (what, err)
        assert "Traceback" not in err, (what, err)
        assert all(line.isprintable() for line in (out + err).split("\n")), (what, out, err)
        if option == "--json":
            assert [each["state"] for each in json.loads(out)] == ["held"], what
