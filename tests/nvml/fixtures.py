"""Fixtures: a machine with any number of simulated NVIDIA GPUs."""

from pathlib import Path

import pytest

from tests.nvml.standin import StandIn, build, build_cuda
from tests.support.packages import COMPILER, missing


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the NVML stand-in, compiled once per session."""
    if why_not := missing(COMPILER):
        pytest.skip(why_not)
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def cuda_library(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the CUDA stand-in, compiled once per session."""
    return build_cuda(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def nvml(nvml_library: Path, cuda_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A stand-in used by every process started from now on. It has no GPU until `nvml.write(gpus=8)`."""
    folder = tmp_path / "nvml"
    folder.mkdir()
    standin = StandIn(nvml_library, folder, cuda_library)
    for name, value in standin.env.items():
        monkeypatch.setenv(name, value)
    return standin
