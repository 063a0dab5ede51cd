"""The queue of a machine that two unprivileged users share."""

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from core.history.index import directories
from core.queue.folder import own_line
from core.queue.listing import queue_view
from core.runs.run import Run
from core.system.processes import here
from tests.process.test_queue import alive_workers, kill_at_random
from tests.support import fake_worker
from tests.support.queueing import Queue, is_free
from tests.support.running import Followed
from tests.support.two_users import give_away, other_name
from tests.support.user_accounts import ATTACKER, VICTIM, Said, as_user, make_homes, needs_open_checkout, trainyard

OTHER_NAME = other_name()


def common_line(shared: Path, monkeypatch: pytest.MonkeyPatch, mode: int = 0o1777) -> Path:
    """Make the place of the queue of all users; by default everybody may write there, as in /var/tmp."""
    common = shared / "line"
    common.mkdir()
    common.chmod(mode)
    monkeypatch.setenv("TRAINYARD_QUEUE_DIR", str(common))
    return common


@contextlib.contextmanager
def holding_a_device(uid: int) -> Iterator[str]:
    """Another user holds `cpu:0` while the block runs; the path of that user's ticket."""
    here()  # in the fork, Python may not be able to load what this needs
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(done[1])  # so that it also ends with the test, however that ends
            os.setgid(uid)
            os.setuid(uid)
            line = own_line().line
            fields = {"state": "holding", "devices": ["cpu:0"], "name": "theirs", "since": time.time()}
            waits = {"state": "waiting", "devices": ["cpu:0"], "labels": {"cpu:0": "CPU 0"}, "since": time.time()}
            kept = line.put("their-run", fields), line.claim("cpu:0"), line.put("their-next", {**waits, "held": True})
            os.write(ready[1], f"{line.own}/tickets/their-run".encode())
            os.read(done[0], 1)
            assert None not in kept
        finally:
            os._exit(0)
    os.close(ready[1])  # so that a fork that fails is not waited for
    try:
        yield os.read(ready[0], 1000).decode()
    finally:
        os.write(done[1], b".")
        os.waitpid(pid, 0)
        for end in (ready[0], *done):
            os.close(end)


def _plant(tickets: Path) -> Path:
    """Put hostile tickets into another user's folder; return that to be given to somebody else."""
    valid = {"state": "waiting", "devices": ["cpu:0"], "priority": 1e9}
    (tickets / "garbage").write_bytes(b"\x00\xff" * 100)
    (tickets / "huge").write_text(json.dumps({**valid, "name": "x" * 10_000_000}))
    (tickets / "foreign").write_text(json.dumps(valid))
    (tickets / "link").symlink_to(tickets / "foreign")
    for name in ("garbage", "huge"):
        give_away(tickets / name, ATTACKER)
    return tickets / "foreign"


@pytest.mark.two_users
@needs_open_checkout
def test_users_see_the_claims_of_each_other_and_can_neither_remove_nor_fake_them(shared: Path, monkeypatch) -> None:
    homes, common = make_homes(shared), common_line(shared, monkeypatch)
    hostile = {
        "foreign": "belongs to another user than its folder", "garbage": "is not a valid ticket",
        "huge": "is larger than a ticket may be", "link": "is not a regular file",
    }

    def refused(act: Callable[[], object]) -> bool:
        try:
            act()
        except PermissionError:
            return True
        return False

    def look() -> None:
        line = own_line().line
        theirs = next(each for each in line.tickets() if each.run == "their-run")
        assert (theirs.uid, theirs.name, theirs.devices) == (ATTACKER, "theirs", ("cpu:0",))
        assert line.claim("cpu:0") is None
        assert line.claim("cpu:1") is not None
        folder = ticket.parents[1]
        for act in (
            ticket.unlink, (folder / "devices" / "cpu:0").unlink, lambda: ticket.write_text("{}"),
            lambda: (folder / "tickets" / "planted").write_text("{}"), lambda: folder.rename(common / "gone"),
            lambda: folder.chmod(0o777), lambda: (folder / "held").write_text("held"),
        ):
            assert refused(act)
        planted = common / f"{line.prefix}{ATTACKER - 1000}" / "tickets"  # the folder says another user than its owner
        planted.mkdir(parents=True)
        (planted / "planted").write_text(json.dumps({"state": "holding", "devices": ["cpu:1"]}))
        view = queue_view(homes[VICTIM] / "runs")
        assert [each.uid for each in own_line().line.tickets()] == [ATTACKER] * 2
        said = {f"{ticket.parent / name} {why}, and is passed over." for name, why in hostile.items()}
        assert {*view.troubles} == said
        (other,) = view.others
        assert (other.run, other.needs, other.state, other.reason) == (
            "their-next", "CPU 0", "held", "Its user holds it.",
        )

    with holding_a_device(ATTACKER) as path, contextlib.ExitStack() as stack:
        ticket = Path(path)
        give_away(_plant(ticket.parent), VICTIM)
        fcntl.flock(stack.enter_context((ticket.parent / "garbage").open()), fcntl.LOCK_EX)  # others are not read
        assert as_user(VICTIM, look, homes[VICTIM]) == Said(0, "", "")
        words = ("queue", "--all", "--runs", str(homes[VICTIM] / "runs"))
        said = trainyard(VICTIM, *words, home=homes[VICTIM])
        assert {line.rpartition("/")[2].partition(" ")[0] for line in said.err.splitlines()} == {*hostile}
        listed = said.out.splitlines()
        assert [line.split()[:5] for line in listed] == [
            ["PLACE", "USER", "RUN", "DIFFERENCE", "STATE"], ["1", OTHER_NAME, "their-next", "-", "held"],
        ]
        (row,) = json.loads(trainyard(VICTIM, *words, "--json", home=homes[VICTIM]).out)
        assert (row["user"], row["run"], row["line_place"], row["dir"]) == (OTHER_NAME, "their-next", 1, None)
        assert trainyard(VICTIM, "queue", "--json", *words[2:], home=homes[VICTIM]).out == "[]\n"

    def look_again() -> None:
        line = own_line().line
        assert line.tickets() == []
        assert line.claim("cpu:0") is not None

    assert as_user(VICTIM, look_again, homes[VICTIM]) == Said(0, "", "")


@pytest.mark.two_users
def test_without_a_common_place_users_queue_alone_and_are_told(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes, common = make_homes(shared), common_line(shared, monkeypatch, 0o755)

    def look() -> None:
        own = own_line()
        assert own.alone.startswith("Runs of other users are not seen by this queue, nor are yours by theirs. ")
        assert f"Make {common} writable, or name another place with TRAINYARD_QUEUE_DIR." in own.alone
        assert own.line.own.startswith(str(homes[VICTIM]))
        claimed = own.line.claim("cpu:0")
        assert claimed is not None
        assert own.line.claim("cpu:0") is None, "this user's own runs are seen"

    assert as_user(VICTIM, look, homes[VICTIM]) == Said(0, "", "")


@pytest.mark.two_users
def test_who_makes_the_folder_of_another_user_first_does_not_keep_that_user_out_of_the_line(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes, common = make_homes(shared), common_line(shared, monkeypatch)
    plain = common / f"trainyard-{here().boot}-{VICTIM}"
    assert as_user(ATTACKER, plain.mkdir, homes[ATTACKER]) == Said(0, "", "")

    def look() -> None:
        own = own_line()
        assert own.line.own.startswith(f"{plain}-")
        assert own_line().line.own == own.line.own
        assert own.line.claim("cpu:0") is None, "the other user has it"
        view = queue_view(homes[VICTIM] / "runs")
        assert view.apart == ""
        assert view.troubles == (f"{plain} is passed over, since its name is not that of the user who made it.",)

    with holding_a_device(ATTACKER):
        assert as_user(VICTIM, look, homes[VICTIM]) == Said(0, "", "")
    with holding_a_device(VICTIM) as ticket:
        assert ticket.startswith(f"{plain}-")
        assert as_user(ATTACKER, lambda: own_line().line.claim("cpu:0"), homes[ATTACKER]) == Said(0, "", "")


KILLS = 50
"""Of each user: they take about a minute, and `as_user` waits for five."""
CLOSED_PYTHON = [each for each in Path(sys.executable).resolve().parents if each.stat().st_mode & 0o005 != 0o005]


def _play(home: Path, seed: int) -> None:
    kill_at_random(Queue(home), KILLS, seed)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.two_users
@needs_open_checkout
@pytest.mark.skipif(bool(CLOSED_PYTHON), reason=f"other users cannot start this Python: {CLOSED_PYTHON[-1:]} is closed")
def test_kills_among_the_queued_runs_of_two_users_give_no_device_twice(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each user queues runs for both devices, and kills processes of their own; root looks at the devices of both."""
    homes, seed = make_homes(shared), int(os.environ.get("TRAINYARD_TEST_SEED", "38"))
    common_line(shared, monkeypatch)
    monkeypatch.setenv("TRAINYARD_PYTHON_PYTORCH", str(fake_worker.install(shared / "fake")))
    print(f"seed {seed}")
    roots = [home / "runs" for home in homes.values()]
    found: dict[Path, Followed] = {}
    with ThreadPoolExecutor(2) as pool:
        said = [pool.submit(as_user, uid, partial(_play, home, seed + uid), home) for uid, home in homes.items()]
        while not all(each.done() for each in said):
            runs = [run_dir for root in roots if root.is_dir() for run_dir in directories(root)]
            found |= {run_dir: Followed(Run.attach(run_dir)) for run_dir in runs if run_dir not in found}
            used = alive_workers([each.poll() for each in found.values()])
            assert len(used) == len({*used}), f"a device was given twice: {used}"
    for each in said:
        print(each.result().out)
        assert (each.result().code, each.result().err) == (0, "")
    assert is_free("cpu:0")
    assert is_free("cpu:1")
