"""Tickets and claims as files: locks, hostile files, the folder, past use."""

import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from core.launchers import program
from core.queue import folder
from core.queue.decision import Ticket
from core.queue.folder import own_line
from core.queue.line import HALF_LIFE_S, Line, read_small, release
from core.queue.listing import MAX_REFUSED, label_words, queue_view
from core.system import processes
from core.system.procfs import Mount
from tests.support.waiting import PATIENCE_S

FIELDS = {"state": "waiting", "devices": ["cpu:0"], "name": "bert"}


@pytest.fixture
def line() -> Line:
    return own_line().line


def test_a_ticket_counts_while_it_is_locked(line: Line) -> None:
    handle = line.put("run", FIELDS)
    (ticket,) = line.tickets()
    assert (ticket.run, ticket.name, ticket.uid, ticket.devices) == ("run", "bert", os.getuid(), ("cpu:0",))
    before = line.mark()
    handle = line.put("run", {**FIELDS, "priority": 3}, handle)
    assert line.mark() != before
    assert [each.priority for each in line.tickets()] == [3]
    assert line.has("run", handle)
    os.close(handle)
    assert line.tickets() == []
    assert line.tickets(remove=True) == []
    assert line.removed == ["run"]
    assert not [*Path(line.own, "tickets").iterdir()], "what a killed process leaves is removed"


def test_a_ticket_that_was_replaced_is_not_removed_by_its_old_owner(line: Line) -> None:
    old = os.dup(line.put("run", FIELDS))
    new = line.put("run", FIELDS, None)
    line.remove("run", old)
    assert [each.run for each in line.tickets()] == ["run"]
    line.remove("run", new)
    assert line.tickets() == []


def test_a_device_is_claimed_once(line: Line) -> None:
    handle = line.claim("cpu:0")
    assert handle is not None
    assert own_line().line.claim("cpu:0") is None
    other = line.claim("HOST/GPU-1 2")
    assert other is not None
    inherited = os.dup(handle)
    release(handle)
    again = line.claim("cpu:0")
    assert again is not None, "a claim that is given up is free although another process has inherited it"
    for each in (inherited, other, again):
        os.close(each)


def test_claims_of_other_users_count_by_the_owner_of_their_folder(line: Line, tmp_path: Path, monkeypatch) -> None:
    """Played with one user: a folder counts only if it belongs to the user whom its name says."""
    theirs = Path(line.parent) / f"{line.prefix}4711"
    (theirs / "devices").mkdir(parents=True)
    claimed = (theirs / "devices" / "cpu:0").open("w")
    fcntl.flock(claimed, fcntl.LOCK_EX)
    handle = line.claim("cpu:0")
    assert handle is not None, "the folder belongs to somebody else than its name says"
    os.close(handle)
    real = os.lstat

    def of_4711(path: str) -> object:
        return SimpleNamespace(st_mode=real(path).st_mode, st_uid=4711) if path == str(theirs) else real(path)

    monkeypatch.setattr(os, "lstat", of_4711)
    assert line.claim("cpu:0") is None
    claimed.close()
    handle = line.claim("cpu:0")
    assert handle is not None
    os.close(handle)


HOSTILE = {
    "content": b"\x00\xff not json",
    "list": b"[]",
    "types": json.dumps({"state": "waiting", "devices": "cpu:0"}).encode(),
    "state": json.dumps({**FIELDS, "state": "finished"}).encode(),
    "numbers": json.dumps({**FIELDS, "priority": float("nan")}).encode(),
    "depth": b"[" * 4000,
    "text": json.dumps({**FIELDS, "name": "a\x1b[31mred"}).encode(),
    "any": json.dumps({"state": "waiting", "any": 9, "among": ["cpu:0"]}).encode(),
    "none": json.dumps({"state": "waiting", "devices": []}).encode(),
}


def test_hostile_tickets_are_passed_over_and_told(line: Line, tmp_path: Path) -> None:
    tickets = Path(line.own, "tickets")
    held = []
    for name, data in {**HOSTILE, "size": b"x" * 10_000_000}.items():
        file = (tickets / name).open("wb")
        file.write(data)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        held.append(file)
    (tmp_path / "secret").write_text(json.dumps(FIELDS))
    (tickets / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tickets / "pipe")
    (tickets / "folder").mkdir()
    good = line.put("good", FIELDS)
    assert [each.run for each in line.tickets()] == ["good"]
    told = {Path(path).name: why for path, why in line.refused.items()}
    assert told == dict.fromkeys(HOSTILE, "content") | {
        "size": "size", "link": "kind", "pipe": "kind", "folder": "kind",
    }
    *named, last = queue_view(tmp_path / "runs").troubles
    assert len(named) == MAX_REFUSED
    assert last == f"{len(told) - MAX_REFUSED} more tickets or folders are passed over."
    os.close(good)
    for file in held:
        file.close()


@pytest.fixture
def of_others(line: Line, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Makes folders that belong to users of the ids that their names begin with, with live tickets of many bytes."""
    real, locked = os.lstat, []

    def made(name: str, tickets: int = 0, size: int = 200) -> Path:
        folder = Path(line.parent) / f"{line.prefix}{name}"
        (folder / "tickets").mkdir(parents=True)
        (folder / "devices").mkdir()
        for number in range(tickets):
            file = (folder / "tickets" / f"run-{number:04}").open("w")
            file.write(json.dumps(FIELDS).ljust(size))
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX)
            locked.append(file)
        return folder

    def lstat(path: str) -> os.stat_result:
        found = real(path)
        uid = re.match(rf"{re.escape(line.parent)}/{line.prefix}0*(\d+)", str(path))
        return os.stat_result([*found[:4], int(uid[1]), *found[5:10]]) if uid else found

    monkeypatch.setattr(os, "lstat", lstat)
    monkeypatch.setattr("core.queue.line.read_small", lambda path, most, **_: read_small(path, most))
    yield made
    for file in locked:
        file.close()


def test_each_other_user_has_one_folder_of_a_plain_name(line: Line, of_others: Callable[..., Path]) -> None:
    of_others("4711-b", 1)
    of_others("4711-a", 1)
    of_others("04711", 1)
    of_others("4712", 1)
    of_others("4712-a", 1)
    assert [Path(folder).name[len(line.prefix) :] for _, folder in line.folders()] == ["0", "4711-a", "4712"]
    assert {(each.uid, each.run) for each in line.tickets()} == {(4711, "run-0000"), (4712, "run-0000")}
    told = {Path(path).name[len(line.prefix) :]: why for path, why in line.passed.items()}
    assert told == {"04711": "name", "4711-b": "second", "4712-a": "second"}


def test_what_other_users_can_add_is_bounded_in_total(line, of_others, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("core.queue.line.MAX_OTHERS_BYTES", 10_000)
    of_others("4711", 30, size=1000)
    of_others("4712", 10, size=200)
    of_others("4713", 3, size=1000)
    read = Counter(each.uid for each in line.tickets())
    assert read == {4712: 10, 4713: 3, 4711: 4}, "the two with less than a third are read whole"
    assert Counter(line.refused.values()) == {"many": 26}
    assert len(line._known) == 17, "what is passed over takes no memory"
    assert own_line().apart == ""

    monkeypatch.setattr("core.queue.line.MAX_OTHERS", 35)
    assert {each.uid for each in line.tickets()} == {4711, 4712}
    line._looked_at = float("-inf")
    monkeypatch.setattr("core.queue.line.MAX_USERS", 1)
    assert [uid for uid, _ in line.folders()] == [os.getuid(), 4711]
    monkeypatch.setattr("core.queue.line.MAX_NAMES", 1)
    view = queue_view(tmp_path / "runs")
    assert view.apart.startswith(
        f"There are more folders or tickets of other users in {line.parent} than are looked at"
    )
    assert view.troubles[0] == view.apart


def test_the_folder_is_private_to_its_user_and_made_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        own = own_line()
    finally:
        os.umask(before)
    assert own.alone == ""
    assert stat.S_IMODE(Path(own.line.own).stat().st_mode) == 0o755
    assert processes.here().boot in own.line.own


@pytest.mark.parametrize("taken_by", ["link", "file"])
def test_where_the_plain_name_is_taken_the_folder_has_another_name_that_all_processes_find(taken_by, tmp_path) -> None:
    common = tmp_path / "line"
    common.mkdir()
    plain = common / f"trainyard-{processes.here().boot}-{os.getuid()}"
    if taken_by == "link":
        (tmp_path / "elsewhere").mkdir()
        plain.symlink_to(tmp_path / "elsewhere")
    else:
        plain.write_text("")
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: own_line(), range(8))]
    assert {each.apart for each in found} == {""}
    (own,) = {each.line.own for each in found}
    assert own.startswith(f"{plain}-")
    assert [path.name for path in sorted(common.iterdir())] == [plain.name, Path(own).name]
    assert not [*(tmp_path / "elsewhere").iterdir()] if taken_by == "link" else True
    plain.unlink()
    assert own_line().line.own == own, "also when the plain name is free again: runs may wait in this folder"


@pytest.mark.parametrize("trouble", ["network", "relative"])
def test_without_the_common_place_the_queue_is_this_users_own_and_says_so(trouble, tmp_path, monkeypatch) -> None:
    common = tmp_path / "line"
    common.mkdir()
    if trouble == "relative":
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(folder, "parent", lambda: Path("line"))
    else:
        monkeypatch.setattr(folder, "mount_of", lambda _: Mount(str(common), "nfs4"))
    found = own_line()
    assert found.line.own.startswith(str(tmp_path / "cache"))
    assert "Runs of other users are not seen" in found.alone
    assert "TRAINYARD_QUEUE_DIR" in found.alone
    assert [uid for uid, _ in found.line.folders()] == [os.getuid()]
    assert found.apart == found.alone


def test_folders_of_earlier_boots_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "line" / f"trainyard-{'0' * 36}-{os.getuid()}"
    other = tmp_path / "line" / f"trainyard-{'0' * 36}-4711"
    for each in (old, other):
        (each / "tickets").mkdir(parents=True)
    own_line()
    assert not old.exists()
    assert other.exists()


def test_past_use_fades_and_three_equal_failures_hold_the_queue(line: Line, monkeypatch) -> None:
    folder.record(line, 100.0, None)
    now = json.loads(Path(line.own, "use").read_text())["at"]
    assert line.use(now)[line.uid] == pytest.approx(100.0)
    assert line.use(now + HALF_LIFE_S)[line.uid] == pytest.approx(50.0)

    def ends(run: str, error: str) -> bool:
        run = f"20260101-120000-{run}"
        folder.record(line, 0.0, {"run": run, "error": error.replace("RUN", run)})
        return line.uid in line.held_users()

    assert not ends("a", "Worker of RUN: no file 1")
    assert not ends("b", "")
    assert not ends("c", "Worker of RUN: no file 2")
    assert not ends("d", "Worker of RUN: no file 3")
    assert not ends("e", "another error")
    assert not ends("f", "Worker of RUN: no file 1")
    assert not ends("g", "Worker of RUN: no file 2")
    assert ends("h", "Worker of RUN: no file 3")
    assert folder.let_go(line)
    assert not ends("i", "Worker of RUN: no file 4"), "the count starts anew"
    assert not folder.let_go(line)


def test_runs_that_fail_at_the_same_moment_all_count(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a broken setup and eight devices; a user who has locked the folder delays this only."""
    clock = SimpleNamespace(time=lambda: 1000.0, monotonic=time.monotonic, sleep=time.sleep)  # else use fades
    monkeypatch.setattr(folder, "time", clock)
    monkeypatch.setattr(folder, "ALONE_S", PATIENCE_S)
    ends = [{"run": f"20260101-120000-{number}", "error": "No module named torch"} for number in range(8)]
    threads = [Thread(target=folder.record, args=(line, 100.0, each)) for each in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert json.loads(Path(line.own, "use").read_text())["seconds"] == 800.0
    assert line.uid in line.held_users()
    monkeypatch.setattr(folder, "ALONE_S", 0.05)
    handle = os.open(Path(line.own, "tickets"), os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    folder.record(line, 100.0, None)
    os.close(handle)
    assert json.loads(Path(line.own, "use").read_text())["seconds"] == 900.0


def test_a_script_is_run_from_its_copy_as_if_it_were_the_file(tmp_path: Path) -> None:
    script, copy = tmp_path / "program.py", tmp_path / "run" / "workload.py"
    copy.parent.mkdir()
    (tmp_path / "neighbour.py").write_text("VALUE = 41\n")
    copy.write_text(
        "import neighbour, sys\nprint(sys.argv, __file__, __name__, neighbour.VALUE)\nraise ValueError(1)\n"
    )
    script.write_text("print('changed')\n")
    done = subprocess.run(
        [sys.executable, program.__file__, copy, script, "--seed", "1"], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{[str(script), '--seed', '1']} {script} __main__ 41\n"
    assert f'File "{script}", line 3' in done.stderr
    assert "raise ValueError(1)" in done.stderr
    assert "launchers/program.py" not in done.stderr


@pytest.mark.parametrize(("label", "words"), [("CPU {}", "CPU 0 to 999"), ("d{}", "d0, d1, d2"), ("GPU 0{}9", "GPU ")])
def test_very_many_devices_of_a_run_are_named_in_a_few_words(label: str, words: str) -> None:
    """A ticket of another user may have any names, and there may be many such tickets."""
    names = [str(number) for number in range(1000)]
    labels = {name: label.format(name) for name in names}
    ticket = Ticket(1, "run", {"state": "waiting", "devices": names, "labels": labels})
    assert label_words(ticket, names).startswith(words)
    assert len(label_words(ticket, names)) < 150
