"""Which processes are Trainyard itself: known by the command lines with which they are really started."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from core.devices import helper
from core.devices.nvidia import preflight
from core.devices.reader import Options, ReadIntervals
from core.launchers.local import BOOT
from core.runs import directory
from core.system.own_processes import asks_drivers, is_panel, is_part

if TYPE_CHECKING:
    from pathlib import Path


class Asked(Exception):  # noqa: N818 (carries what would have been started)
    """Instead of a process."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(command: list[str], **_: object) -> None:
        raise Asked(list(map(str, command)))

    monkeypatch.setattr(subprocess, "run", instead)
    monkeypatch.setattr(subprocess, "Popen", instead)


def test_a_supervisor_is_one(started: None, tmp_path: Path) -> None:
    with pytest.raises(Asked) as asked:
        directory.launch_supervisor(tmp_path, "--resume")
    (command,) = asked.value.args
    words = command[command.index(sys.executable) :]
    assert is_part(words)
    assert is_panel(words)
    assert not asks_drivers(words)


def test_what_asks_the_drivers_is_one_and_holds_no_memory(started: None) -> None:
    with pytest.raises(Asked) as asked:
        preflight.visible({})
    for words in (helper.start_command("core.devices.nvidia.reader", Options(), ReadIntervals()), asked.value.args[0]):
        assert is_part(words)
        assert asks_drivers(words)
        assert not is_panel(words)


@pytest.mark.parametrize(
    "line",
    [
        "/venv/bin/python /venv/bin/trainyard",
        "trainyard run mine.py",
        "python -m core.cli runs",
        "python -m trainyard",
    ],
)
def test_the_window_and_its_commands_are(line: str) -> None:
    assert is_panel(line.split())


@pytest.mark.parametrize(
    "words", [[], ["python"], ["python", str(BOOT), "/runs/trainyard", "{}"], ["python", "train.py", "trainyard"]]
)
def test_a_training_is_none(words: list[str]) -> None:
    assert not is_part(words)
