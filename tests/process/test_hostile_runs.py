"""Commands look at random hostile runs and presets: none raises, hangs, or reads without an end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import core
from core.cli.__main__ import main
from core.config import presets
from core.history import removal
from core.history.index import RunIndex, is_run
from core.runs.run import Run
from gui.features.log.files import FileTail
from tests.support.hostile_runs import Hostile, watched
from tests.support.waiting import PATIENCE_S

SOAK_S = float(os.environ.get("TRAINYARD_SOAK_S", "300"))
BATCH = 8
COMMANDS = (
    ("show",), ("show", "--json"), ("command",), ("command", "--json"), ("export", "--csv", "-"),
    ("export", "--tensorboard", "tb", "--force"), ("report", "--output", "report.html", "--force"),
    ("log",), ("log", "--json", "--tail", "3"), ("try", r"(?P<loss>\S+)"),
    ("keep", "kept.json", "--secrets", "names", "--yes"),
)


def batches(count: int | None) -> Iterator[int]:
    """Yield seeds: a fixed number, or new ones until the time of a soak test is over, from TRAINYARD_TEST_SEED on."""
    if count is not None:
        yield from range(count)
        return
    end, seed = time.monotonic() + SOAK_S, int(os.environ.get("TRAINYARD_TEST_SEED", time.time()))
    while time.monotonic() < end:
        print(f"seed {seed}")
        yield seed
        seed += 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, pytest.param(None, marks=pytest.mark.soak)])
def test_commands_survive_hostile_runs(
    count: int | None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in batches(count):
        hostile = Hostile(tmp_path / "runs", Random(seed))
        runs = [hostile.run(number) for number in range(BATCH)]
        with watched(lambda seed=seed: f"the list of seed {seed}"):
            assert main(["runs", "--runs", str(hostile.root)]) == 0
            assert main(["runs", "--json", "--runs", str(hostile.root)]) == 0
            capfd.readouterr()
            listed = RunIndex(hostile.root).poll()
        assert {each.dir for each in listed} == {each for each in runs if is_run(each)}
        assert [each.error for each in listed if (each.error or "").endswith("Its files are damaged.")] == []
        for run_dir in runs:
            look(run_dir, f"seed {seed}, {run_dir.name!r}", capfd)
        hostile.clear()


def look(run_dir: Path, what: str, capfd: pytest.CaptureFixture[str]) -> None:
    for command, *options in COMMANDS:
        with watched(lambda command=command: f"{what}: {command}"):
            code = main([command, str(run_dir), *options])
        said = capfd.readouterr()
        assert code in {0, 2}, (what, command, said.err)
        assert code == 0 or said.err.startswith("trainyard: "), (what, command, said.err)
        assert not any(word in said.err for word in ("codec", "Traceback", "recursion")), (what, command, said.err)
        if code == 0 and "--json" in options:
            json.loads(said.out)
    with watched(lambda: f"{what}: its log and its size"):
        tail = FileTail(run_dir / "log.txt")
        while tail.read() is not None:
            pass
        removal.size_bytes(run_dir)
        removal.why_not(run_dir)


@pytest.mark.parametrize("count", [20, pytest.param(None, marks=pytest.mark.soak)])
def test_presets_survive_hostile_files(count: int | None, tmp_path: Path) -> None:
    for seed in batches(count):
        hostile = Hostile(tmp_path / "setups", Random(seed))
        for number in range(BATCH):
            hostile.preset(number)
        with watched(lambda seed=seed: f"the presets of seed {seed}"):
            found = presets.read_all(hostile.root)
        assert len(found) == len(list(hostile.root.iterdir()))
        assert all((each.spec is None) == bool(each.problem) for each in found)
        hostile.clear()


@pytest.mark.slow
def test_processes_of_the_command_line_survive_hostile_runs(tmp_path: Path) -> None:
    hostile = Hostile(tmp_path / "runs", Random(5))
    runs = [hostile.run(number) for number in range(12)]
    readable = [each for each in runs if is_run(each)]
    for words in (["runs", "--json"], ["show", str(readable[0])], ["export", str(readable[1]), "--csv", "-"], ["runs"]):
        done = subprocess.run(
            [sys.executable, "-m", "core.cli", *words, "--runs", str(hostile.root)], capture_output=True,
            timeout=PATIENCE_S,
            check=False, cwd=Path(core.__file__).parents[1],
        )
        assert done.returncode in {0, 2}
        assert b"Traceback" not in done.stderr
    assert Run.attach(readable[0]).id
