"""The runs of these tests train with the fake worker: no framework is loaded."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from core.devices.sampler import Sampler
from tests.support import commands
from tests.support.acting import sleeper  # noqa: F401 (fixture)
from tests.support.commands import Call
from tests.support.helper_pids import helper_pids
from tests.support.ray_cluster import cluster, running_cluster  # noqa: F401 (fixtures)
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.sampling import NVIDIA, QUICK, Clock
from tests.support.ssh_server import server, ssh_server  # noqa: F401 (fixtures)
from tests.support.user_accounts import shared  # noqa: F401 (fixture)
from tests.support.waiting import PATIENCE_S


@pytest.fixture(scope="module", autouse=True)
def _fake_framework(fake_python: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_PYTHON_PYTORCH", str(fake_python))
        patch.setenv("TRAINYARD_PYTHON_TENSORFLOW", str(fake_python))
        yield


@pytest.fixture
def call(runs_root: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """A function that calls a command on the runs of the test; see `commands.call`."""
    return lambda *arguments: commands.call(capsys, *arguments, "--runs", runs_root)


@pytest.fixture
def endless(tmp_path: Path) -> str:
    """A recipe with one short step per epoch."""
    return write_recipe(tmp_path, LONG)


@pytest.fixture
def training(endless: str, runs_root: Path) -> Followed:
    """A run that trains until it is ended."""
    return start(make_spec(endless, epochs=FOREVER), runs_root).until_trained()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sampler(nvml, clock):
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=QUICK, clock=clock) as sampler:
        yield sampler
        helpers = [psutil.Process(pid) for pid in helper_pids()]
    for each in helpers:
        each.wait(PATIENCE_S)


@pytest.fixture
def watching(nvml, sampler):
    """The sampler, which has read the only GPU."""
    nvml.write(gpus=1)
    sampler.survey(PATIENCE_S)
    return sampler


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """A function that makes a program of shell lines, to be started in place of Trainyard, and returns its path."""

    def make(text: str) -> str:
        path = tmp_path / "fake"
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make
