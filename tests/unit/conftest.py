"""Fixtures of several modules of unit tests."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.standin import StandIn
from tests.support import written_by_keras as keras_files
from tests.support.acting import sleeper  # noqa: F401 (fixture)
from tests.support.fake_machine import FakeMachine
from tests.support.nvidia_reader import run_reader
from tests.support.shared import made_once


@pytest.fixture
def machine() -> FakeMachine:
    """A machine with a GPU and a CPU device, for the memory watch."""
    return FakeMachine()


@pytest.fixture
def reading(nvml: StandIn) -> Callable[[str], Any]:
    """Run code with a reader of the stand-in's GPUs in a process of its own, and return what it appended to `seen`."""
    return lambda code: run_reader(nvml, code)


@pytest.fixture(scope="session")
def written_by_keras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of what TensorFlow and Keras write and print; see `tests.support.written_by_keras`."""
    if find_spec("tensorflow") is None:
        pytest.skip("no TensorFlow for this Python")
    return made_once(tmp_path_factory, "written-by-keras", keras_files.write)
