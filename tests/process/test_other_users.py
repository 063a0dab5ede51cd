"""Runs and presets of another user in a shared folder, and what other users can reach of one's own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from core.cli.__main__ import main
from core.config.choices import ScriptChoices
from core.config.script_check import ScriptCheckRequest, check_script
from core.history.index import RunIndex
from core.pythons.discovery import find_pythons
from core.queue.folder import own_line
from core.queue.listing import queue_view
from core.runs.directory import new_directory
from core.runs.run import Run
from core.schema.spec import read_spec, write_spec
from core.system import procfs
from core.system.processes import here, identify
from tests.support.hostile_runs import Hostile, watched
from tests.support.recorded import recorded
from tests.support.running import script_spec
from tests.support.two_users import OTHER_UID, THIRD_UID, give_away, other_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OTHER_NAME = other_name()


@pytest.mark.two_users
def test_a_run_of_another_user_is_marked_with_its_owner(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = recorded(runs_root)
    assert Run.attach(run_dir).owner is None
    assert main(["runs", "--runs", str(runs_root)]) == 0
    assert "OWNER" not in capsys.readouterr().out

    give_away(run_dir)
    assert Run.attach(run_dir).owner == OTHER_NAME
    assert [each.owner for each in RunIndex(runs_root).poll()] == [OTHER_NAME]
    assert main(["runs", "--runs", str(runs_root)]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["RUN", "STATE", "STEP", "LOSS", "OWNER"]
    assert main(["show", run_dir.name, "--runs", str(runs_root)]) == 0
    assert f"It belongs to {OTHER_NAME}." in capsys.readouterr().out
    assert main(["show", run_dir.name, "--json", "--runs", str(runs_root)]) == 0
    assert json.loads(capsys.readouterr().out)["owner"] == OTHER_NAME


@pytest.mark.two_users
def test_a_link_that_another_user_made_counts_as_that_users_run(runs_root: Path, tmp_path: Path) -> None:
    run_dir = recorded(tmp_path / "own")
    runs_root.mkdir()
    link = runs_root / "link"
    link.symlink_to(run_dir)
    os.lchown(link, OTHER_UID, OTHER_UID)
    assert Run.attach(link).owner == OTHER_NAME


COMMANDS = [
    ("again", "RUN", "--detach"), ("resume", "RUN", "--detach"), ("keep", "RUN", "copy"),
    ("export", "RUN", "--model", "model"), ("run", "--setup", "PRESET", "--devices", "cpu:0", "--detach"),
]  # fmt: skip


@pytest.mark.two_users
@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_what_another_user_named_is_executed_only_after_a_question(
    runs_root: Path, tmp_path: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run_dir = recorded(runs_root)
    preset = tmp_path / "preset.json"
    preset.write_bytes((run_dir / "spec.json").read_bytes())
    give_away(preset)
    give_away(run_dir)
    names = {
        "RUN": run_dir.name,
        "PRESET": str(preset),
        "model": str(tmp_path / "model"),
        "copy": str(tmp_path / "c.json"),
    }
    words = [names.get(word, word) for word in command]
    before = sorted(path.name for path in tmp_path.rglob("*"))

    assert main([*words, "--runs", str(runs_root)]) == 2
    err = capsys.readouterr().err
    spec = read_spec(run_dir)
    what = f"The preset {preset}" if "PRESET" in command else f"Run {run_dir.name}"
    assert err.startswith(
        f"trainyard: {what} belongs to {OTHER_NAME}. This would be executed with your permissions, and "
        f"{OTHER_NAME} may be able to change it at any time:\n\nProgram: {spec.own_recipe.path}\n"
        f"Python: {spec.python}\nFolder: {spec.working_dir}\n\nContinue only if you trust {OTHER_NAME}.\n"
        "Nothing was done: there is no terminal to ask on. Add --yes if you agree."
    )  # fmt: skip

    asked = []
    monkeypatch.setattr("core.cli.commands.common.is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "no")
    assert main([*words, "--runs", str(runs_root)]) == 2
    assert capsys.readouterr().err == "trainyard: Nothing was done.\n"
    assert asked[0].endswith("Execute it? [y/N] ")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.two_users
def test_yes_agrees_without_a_question(runs_root: Path, tmp_path: Path) -> None:
    run_dir = recorded(runs_root)
    give_away(run_dir)
    assert main(["keep", run_dir.name, str(tmp_path / "kept.json"), "--yes", "--runs", str(runs_root)]) == 0
    assert (tmp_path / "kept.json").exists()


def test_a_run_whose_last_step_has_no_loss_is_followed(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = recorded(runs_root)
    with (run_dir / "events" / "worker-0.jsonl").open("a") as file:
        file.write('{"t": 1750000050.0, "kind": "metrics", "since": 1.75e9, "first": 51, "values": {"loss": [null]}}\n')
    assert main(["attach", run_dir.name, "--runs", str(runs_root)]) == 0
    assert capsys.readouterr().out.startswith(f"{run_dir.name}: finished, loss 0.02")


def test_export_replaces_a_file_only_with_force(
    runs_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, table = recorded(runs_root), tmp_path / "loss.csv"
    table.write_text("mine")
    words = ["export", run_dir.name, "--csv", str(table), "--runs", str(runs_root)]
    assert main(words) == 2
    assert capsys.readouterr().err == (
        f"trainyard: {table} exists already. Name another file, or add --force to replace it.\n"
    )
    assert table.read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert table.read_text().startswith("metric,step,time,value")


@pytest.mark.two_users
def test_no_name_poses_as_another_line(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_dir = recorded(runs_root)
    run_dir = run_dir.rename(run_dir.with_name(f"{run_dir.name}\nmine  running  7  0.5"))
    spec = json.loads((run_dir / "spec.json").read_text())
    spec["recipe"]["path"] += "\n  It belongs to you."
    (run_dir / "spec.json").write_text(json.dumps(spec))
    give_away(run_dir)
    for words, count in ((["runs"], 2), (["show", run_dir.name], 4)):
        assert main([*words, "--runs", str(runs_root)]) == 0
        assert len(capsys.readouterr().out.splitlines()) == count
    assert main(["again", run_dir.name, "--detach", "--runs", str(runs_root)]) == 2
    assert f"?mine  running  7  0.5 belongs to {OTHER_NAME}." in capsys.readouterr().err.splitlines()[0]


def test_names_of_metrics_are_no_formulas_and_control_no_terminal(
    runs_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = recorded(runs_root)
    with (run_dir / "events" / "worker-0.jsonl").open("a") as file:
        event = {"t": 1.75e9, "kind": "metrics", "since": 1.75e9, "first": 1, "values": {"=1+1\x1b[2J": [3.0]}}
        file.write(json.dumps(event) + "\n")
    assert main(["export", run_dir.name, "--csv", "-", "--runs", str(runs_root)]) == 0
    assert "\n'=1+1?[2J,1," in capsys.readouterr().out


# -- with two unprivileged users -------------------------------------------------------------------

VICTIM, ATTACKER = THIRD_UID, OTHER_UID


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
    """Call a function as an unprivileged user with an open umask; fail if it takes a minute.

    In a fork, since other users may not be able to start this Python: it may lie below root's home.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                signal.alarm(60)
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


@pytest.mark.two_users
def test_one_user_lists_the_runs_of_another_and_executes_nothing(shared: Path) -> None:
    """The attacker plants a run among many traps."""
    homes = make_homes(shared)
    runs = shared / "runs"
    runs.mkdir(mode=0o777)
    runs.chmod(0o1777)
    planted = recorded(runs)
    traps: dict[str, Callable[[Path], object]] = {
        "20990101-zero": lambda path: path.symlink_to("/dev/zero"),
        "20990102-pipe": os.mkfifo,
        "20990103-deep": lambda path: path.write_text("[" * 200_000),
    }

    def plant() -> None:
        for name, make in traps.items():
            (runs / name / "events").mkdir(parents=True)
            make(runs / name / "spec.json")
        for name, make in (("log.txt", os.mkfifo), ("events/worker-0.jsonl", traps["20990101-zero"])):
            (planted / name).unlink()
            make(planted / name)

    own(planted, ATTACKER)
    assert as_user(ATTACKER, plant, homes[ATTACKER]) == Said(0, "", "")

    listed = trainyard(VICTIM, "runs", "--json", "--runs", str(runs), home=homes[VICTIM])
    rows = {row["run"]: row for row in json.loads(listed.out)}
    assert set(rows) == {planted.name, "20990103-deep"}
    assert {row["owner"] for row in rows.values()} == {OTHER_NAME}
    shown = trainyard(VICTIM, "show", planted.name, "--runs", str(runs), home=homes[VICTIM])
    assert (shown.code, shown.err) == (0, "")
    assert "worker-0.jsonl cannot be read: it is a link" in shown.out
    again = trainyard(VICTIM, "again", planted.name, "--detach", "--runs", str(runs), home=homes[VICTIM])
    assert again.code == 2
    assert f"belongs to {OTHER_NAME}. This would be executed" in again.err
    assert sorted(path.name for path in runs.iterdir()) == sorted(
        {planted.name, "20990101-zero", "20990102-pipe", "20990103-deep"}
    )


@pytest.mark.two_users
def test_hostile_runs_of_another_user_are_listed_and_shown(shared: Path) -> None:
    """Some files cannot be read, and less is read of each run. Costs three seconds: twenty runs."""
    homes = make_homes(shared)
    hostile = Hostile(shared / "runs", Random(1))
    runs = [hostile.run(number) for number in range(20)]
    give_away(hostile.root, ATTACKER)

    def look() -> None:
        with watched(lambda: "the list"):
            assert main(["runs", "--runs", str(hostile.root)]) == 0
        for run_dir in runs:
            for words in (("show",), ("show", "--json"), ("export", "--csv", "-"), ("command",)):
                with watched(lambda words=words, run_dir=run_dir: f"{words} of {run_dir!r}"):
                    assert main([words[0], str(run_dir), *words[1:]]) in {0, 2}

    said = as_user(VICTIM, look, homes[VICTIM])
    assert (said.code, "Traceback" in said.err) == (0, False), said.err[-3000:]


@pytest.mark.two_users
def test_no_other_user_reads_what_a_preset_and_a_run_hold(shared: Path) -> None:
    homes = make_homes(shared)
    home = homes[VICTIM]
    home.chmod(0o755)  # as homes often are
    script = home / "train.py"
    script.write_text("print('step 1 loss 1.0')\n")
    runs = shared / "runs"
    spec = script_spec(script, cwd=home, environment={"HF_TOKEN": "hf_123"})
    run_dir = new_directory(runs, "secret")
    write_spec(run_dir, spec)
    give_away(runs, VICTIM)
    kept = trainyard(VICTIM, "keep", run_dir.name, "mine", "--secrets", "values", "--runs", str(runs), home=home)
    preset = Path(kept.out.strip())
    assert "hf_123" in preset.read_text()
    run_dir.chmod(0o755)  # the user shows the run to others; its spec stays private
    for path in (preset, run_dir / "spec.json"):
        read = as_user(ATTACKER, lambda path=path: print(path.read_text()), homes[ATTACKER])
        assert (read.code, read.out) == (99, "")
        assert "PermissionError" in read.err


def own(folder: Path, uid: int) -> None:
    """Make a folder and everything below it belong to a user, and readable by others."""
    give_away(folder, uid)
    for each in (folder, *folder.rglob("*")):
        if not each.is_symlink():
            each.chmod(0o755 if each.is_dir() else 0o644)


@contextlib.contextmanager
def planted(shared: Path, homes: dict[int, Path]) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A run of the attacker that names a stopped process of the victim as its supervisor and its guard."""
    run_dir = recorded(shared / "runs")
    with subprocess.Popen(["sleep", "600"], user=VICTIM, group=VICTIM, extra_groups=[]) as process:
        process.send_signal(signal.SIGSTOP)
        found = identify(process.pid)
        assert found
        begin = {"t": 1.75e9, "kind": "supervisor", **asdict(here()), **asdict(found)} | {"guard": asdict(found)}
        state = {"t": 1.75e9, "kind": "state", "state": "starting"}
        notice = {"t": 1.75e9, "kind": "notice", "text": "\x1b[2Jgone", "sentence": "\x1b[2Jgone"}
        lines = [json.dumps(each) + "\n" for each in (begin, state, notice)]
        (run_dir / "events" / "supervisor.jsonl").write_text("".join(lines))
        (run_dir / "control").symlink_to(homes[VICTIM])
        own(run_dir, ATTACKER)
        yield run_dir, process
        process.kill()


@pytest.mark.two_users
def test_stop_reaches_nothing_that_a_run_of_another_user_names(shared: Path) -> None:
    """Its events name the victim's process, its folder of requests the victim's home."""
    homes = make_homes(shared)
    with planted(shared, homes) as (run_dir, process):
        stop_planted(run_dir, process, homes)


def stop_planted(run_dir: Path, process: subprocess.Popen[bytes], homes: dict[int, Path]) -> None:
    for more in ([], ["--force"]):
        said = trainyard(VICTIM, "stop", run_dir.name, *more, "--runs", str(run_dir.parent), home=homes[VICTIM])
        assert said == Said(
            2, "", f"trainyard: {run_dir} is damaged: {run_dir}/control is missing or is not a folder. "
            "Start another run.\n",
        )  # fmt: skip
    found = procfs.stat(process.pid)
    assert found is not None
    assert found.state == "T"
    assert list(homes[VICTIM].iterdir()) == []
    run = Run.attach(run_dir)
    run.catch_up()
    assert run.facts.supervisor == identify(process.pid)
    assert run.facts.stopped_processes is None


@pytest.mark.two_users
def test_attach_prints_no_control_characters_of_another_users_run(shared: Path) -> None:
    homes = make_homes(shared)
    with planted(shared, homes) as (run_dir, _):
        pass  # the process that it names as its supervisor has ended
    said = trainyard(VICTIM, "attach", run_dir.name, "--runs", str(run_dir.parent), home=homes[VICTIM])
    assert said.code == 4
    assert "?[2Jgone" in said.err
    assert "\x1b" not in said.err + said.out


@pytest.mark.two_users
def test_pythons_of_another_user_are_not_started(shared: Path) -> None:
    """In a folder above the script, as the homes of all users are below `/home`."""
    homes = make_homes(shared)

    def plant() -> None:
        (homes[ATTACKER] / "mark").touch()
        for environment in (homes[ATTACKER], shared / ".venv"):
            python = environment / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text(f"#!/bin/sh\nid -u >> {homes[ATTACKER]}/mark\n")
            python.chmod(0o755)
            (environment / "pyvenv.cfg").touch()
        homes[ATTACKER].chmod(0o777)
        (homes[ATTACKER] / "mark").chmod(0o666)

    assert as_user(ATTACKER, plant, homes[ATTACKER]) == Said(0, "", "")
    (homes[VICTIM] / "train.py").write_text("print(1)")
    own(homes[VICTIM], VICTIM)
    variables = {"HOME": str(homes[VICTIM]), "PATH": ""}

    def look() -> None:
        assert not [each.path for each in find_pythons(Path(), variables=variables) if str(shared) in each.path]

    assert as_user(VICTIM, look, homes[VICTIM]) == Said(0, "", "")
    problem = (
        f"{shared}/.venv belongs to {OTHER_NAME}, whose Python is not started without being chosen. If you trust "
        f"it, choose it with --python {shared}/.venv/bin/python; otherwise choose another."
    )

    def check() -> None:
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            os.environ.pop(name, None)
        assert check_script(ScriptCheckRequest.of(ScriptChoices(script="train.py", devices=()))).problems == (problem,)

    assert as_user(VICTIM, check, homes[VICTIM]) == Said(0, "", "")
    assert (homes[ATTACKER] / "mark").read_text() == ""


@contextlib.contextmanager
def holding_a_device(uid: int) -> Iterator[str]:
    """Another user holds `cpu:0` while the block runs; the path of that user's ticket."""
    here()  # in the fork, Python may not be able to load what this needs
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(60)
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
    """Put hostile tickets into another user's folder; return one to be given to somebody else."""
    valid = {"state": "waiting", "devices": ["cpu:0"], "priority": 1e9}
    (tickets / "garbage").write_bytes(b"\x00\xff" * 100)
    (tickets / "huge").write_text(json.dumps({**valid, "name": "x" * 10_000_000}))
    (tickets / "foreign").write_text(json.dumps(valid))
    (tickets / "link").symlink_to(tickets / "foreign")
    for name in ("garbage", "huge"):
        give_away(tickets / name, ATTACKER)
    return tickets / "foreign"


@pytest.mark.two_users
def test_users_see_the_claims_of_each_other_and_can_neither_remove_nor_fake_them(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = make_homes(shared)
    common = shared / "line"
    common.mkdir()
    common.chmod(0o1777)  # as /var/tmp
    monkeypatch.setenv("TRAINYARD_QUEUE_DIR", str(common))

    hostile = {
        "foreign": "belongs to another user than its folder", "garbage": "is not a valid ticket",
        "huge": "is larger than a ticket may be", "link": "is not a regular file",
    }  # fmt: skip

    def refused(act: Callable[[], object]) -> bool:
        try:
            act()
        except PermissionError:
            return True
        return False

    def look() -> None:
        line = own_line().line
        _, theirs = line.tickets()
        assert (theirs.uid, theirs.name, theirs.devices) == (ATTACKER, "theirs", ("cpu:0",))
        assert line.claim("cpu:0") is None
        assert line.claim("cpu:1") is not None
        folder = ticket.parents[1]
        for act in (
            ticket.unlink, (folder / "devices" / "cpu:0").unlink, lambda: ticket.write_text("{}"),
            lambda: (folder / "tickets" / "planted").write_text("{}"), lambda: folder.rename(common / "gone"),
            lambda: folder.chmod(0o777), lambda: (folder / "held").write_text("held"),
        ):  # fmt: skip
            assert refused(act)
        planted = common / f"{line.prefix}{ATTACKER - 1000}" / "tickets"  # the folder says another user than its owner
        planted.mkdir(parents=True)
        (planted / "planted").write_text(json.dumps({"state": "holding", "devices": ["cpu:1"]}))
        view = queue_view(homes[VICTIM] / "runs")
        assert [each.uid for each in own_line().line.tickets()] == [ATTACKER] * 2
        assert view.troubles == tuple(
            f"{ticket.parent / name} {why}, and is passed over." for name, why in sorted(hostile.items())
        )
        (other,) = view.others
        assert (other.run, other.needs, other.state, other.reason) == (
            "their-next", "CPU 0", "held", "Its user holds it.",
        )  # fmt: skip

    with holding_a_device(ATTACKER) as path:
        ticket = Path(path)
        give_away(_plant(ticket.parent), VICTIM)
        assert as_user(VICTIM, look, homes[VICTIM]) == Said(0, "", "")
        words = ("queue", "--all", "--runs", str(homes[VICTIM] / "runs"))
        said = trainyard(VICTIM, *words, home=homes[VICTIM])
        assert [line.rpartition("/")[2].partition(" ")[0] for line in said.err.splitlines()] == sorted(hostile)
        listed = said.out.splitlines()
        assert [line.split()[:4] for line in listed] == [
            ["PLACE", "USER", "RUN", "STATE"], ["1", OTHER_NAME, "their-next", "held"],
        ]  # fmt: skip
        (row,) = json.loads(trainyard(VICTIM, *words, "--json", home=homes[VICTIM]).out)
        assert (row["user"], row["run"], row["line_place"], row["dir"]) == (OTHER_NAME, "their-next", 1, None)
        assert trainyard(VICTIM, "queue", "--json", *words[2:], home=homes[VICTIM]).out == "[]\n"

    def look_again() -> None:
        line = own_line().line
        assert line.tickets() == []
        assert line.claim("cpu:0") is not None

    assert as_user(VICTIM, look_again, homes[VICTIM]) == Said(0, "", "")


@pytest.mark.two_users
def test_without_a_place_of_their_own_in_the_line_users_queue_alone_and_are_told(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The common folder cannot be written, or another user has made what has the name of this user's folder."""
    homes, common = make_homes(shared), shared / "line"
    common.mkdir(mode=0o755)
    monkeypatch.setenv("TRAINYARD_QUEUE_DIR", str(common))
    name = f"trainyard-{here().boot}-{VICTIM}"

    def look(sentence: str) -> int:
        own = own_line()
        assert own.alone.startswith("Runs of other users are not seen by this queue, nor are yours by theirs. ")
        assert sentence in own.alone
        assert own.line.own.startswith(str(homes[VICTIM]))
        claimed = own.line.claim("cpu:0")
        assert claimed is not None
        assert own.line.claim("cpu:0") is None, "this user's own runs are seen"
        return 0

    def unwritable() -> int:
        return look(f"Make {common} writable, or name another place with TRAINYARD_QUEUE_DIR.")

    def taken() -> int:
        return look(f"{common / name} belongs to somebody else")

    assert as_user(VICTIM, unwritable, homes[VICTIM]) == Said(0, "", "")
    common.chmod(0o1777)
    assert as_user(ATTACKER, (common / name).mkdir, homes[ATTACKER]) == Said(0, "", "")
    assert as_user(VICTIM, taken, homes[VICTIM]) == Said(0, "", "")
    assert [path.name for path in common.iterdir()] == [name]
