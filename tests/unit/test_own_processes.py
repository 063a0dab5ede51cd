"""Trainyard's own processes are recognised by the command lines that really start them."""

import subprocess
import sys
from pathlib import Path

import pytest

from core.devices import helper
from core.devices.nvidia import preflight
from core.devices.reader import Options, ReadIntervals
from core.launchers.local import BOOT
from core.runs import directory
from core.system.own_processes import asks_drivers, is_main_process, is_trainyard


class Started(Exception):  # noqa: N818 (carries what would have been started)
    """Raised instead of starting a process."""


@pytest.fixture
def record_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_started(command: list[str], **_: object) -> None:
        raise Started(list(map(str, command)))

    monkeypatch.setattr(subprocess, "run", raise_started)
    monkeypatch.setattr(subprocess, "Popen", raise_started)


def test_supervisor_and_driver_helpers_are_part_of_trainyard(record_command: None, tmp_path: Path) -> None:
    started = []
    for start in (lambda: directory.launch_supervisor(tmp_path, "--resume", A="1"), lambda: preflight.visible({})):
        with pytest.raises(Started) as raised:
            start()
        started += raised.value.args
    supervisor, asking = started
    assert supervisor[supervisor.index("env") : supervisor.index(sys.executable)] == ["env", "A=1"]
    reader = helper.start_command("core.devices.nvidia.reader", Options(), ReadIntervals())
    for words in (supervisor[supervisor.index(sys.executable) :], asking, reader):
        assert is_trainyard(words)
        is_main = sys.executable in supervisor and "--resume" in words
        assert (is_main_process(words), asks_drivers(words)) == (is_main, not is_main)


@pytest.mark.parametrize(
    ("words", "is_ours"),
    [
        *((line.split(), True) for line in (
            "/venv/bin/python /venv/bin/trainyard", "trainyard run mine.py", "python -m core.cli runs",
            "python -m trainyard", "python -I -S /site/core/queue/waiter.py /runs/a {}")),
        ([], False), (["python"], False), (["python", str(BOOT), "/runs/trainyard", "{}"], False),
        (["python", "train.py", "trainyard"], False),
    ],
)
def test_window_and_commands_are_main_processes_and_training_ones_are_none_of_ours(words, is_ours) -> None:
    assert is_main_process(words) is is_ours
    assert is_ours or not is_trainyard(words)
