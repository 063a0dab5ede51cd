"""What one unprivileged user can do to another, who looks at the first one's runs, presets and Pythons."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from core.cli.__main__ import main
from core.config.choices import ScriptChoices
from core.config.script_check import ScriptCheckRequest, check_script
from core.pythons.discovery import find_pythons
from core.runs.directory import new_directory
from core.schema.spec import write_spec
from core.system import procfs
from core.system.processes import here, identify
from tests.support.hostile_runs import Hostile, watched
from tests.support.recorded import recorded
from tests.support.running import attached, script_spec
from tests.support.two_users import give_away, other_name
from tests.support.user_accounts import ATTACKER, VICTIM, Said, as_user, make_homes, needs_open_checkout, own, trainyard

OTHER_NAME = other_name()


@pytest.mark.two_users
@needs_open_checkout
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


@pytest.mark.slow
@pytest.mark.two_users
@needs_open_checkout
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
@needs_open_checkout
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


@pytest.mark.two_users
@needs_open_checkout
def test_stop_reaches_nothing_that_a_run_of_another_user_names(shared: Path) -> None:
    """Its events name a stopped process of the victim as supervisor and guard; its folder of requests is their home."""
    homes = make_homes(shared)
    run_dir = recorded(shared / "runs")
    (run_dir / "control").symlink_to(homes[VICTIM])
    sleeping = subprocess.Popen(["sleep", "600"], user=VICTIM, group=VICTIM, extra_groups=[])
    with sleeping as process, ExitStack() as stack:
        stack.callback(process.kill)
        process.send_signal(signal.SIGSTOP)
        found = identify(process.pid)
        begin = {"t": 1.75e9, "kind": "supervisor", **asdict(here()), **asdict(found)} | {"guard": asdict(found)}
        state = {"t": 1.75e9, "kind": "state", "state": "starting"}
        lines = [json.dumps(each) + "\n" for each in (begin, state)]
        (run_dir / "events" / "supervisor.jsonl").write_text("".join(lines))
        own(run_dir, ATTACKER)
        damage = f"{run_dir} is damaged: {run_dir}/control is missing or is not a folder. Start another run."
        for more in ([], ["--force"]):
            said = trainyard(VICTIM, "stop", run_dir.name, *more, "--runs", str(run_dir.parent), home=homes[VICTIM])
            assert said == Said(2, "", f"trainyard: {damage}\n")
        assert procfs.stat(process.pid).state == "T"
        assert list(homes[VICTIM].iterdir()) == []
        run = attached(run_dir)
        assert run.facts.supervisor == found
        assert run.facts.stopped_processes is None


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
