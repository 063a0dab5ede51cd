"""Ready is said of GPUs only after the CUDA driver was asked: once, and again soon after a bad answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.config.examination import BAD_S, GOOD_S, GpuCheck
from core.devices.cpu import cpu_devices
from core.devices.device import Device
from core.devices.nvidia import preflight
from core.errors import RunError
from tests.nvml.standin import uuid
from tests.support.running import make_spec

GPU = "GPU-00000000-0000-4000-8000-000000000000"


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, ...]]:
    """The GPUs that the driver was asked about; it refuses the first time."""
    asked: list[tuple[str, ...]] = []

    def check(ids, environment, *, python):
        assert "TRAINYARD_RUN" not in environment
        assert environment["CUDA_VISIBLE_DEVICES"] == ",".join(ids)
        asked.append(tuple(ids))
        if len(asked) == 1:
            raise RunError("The library is missing.")

    monkeypatch.setattr(preflight, "check", check)
    return asked


def test_answers_are_remembered_and_bad_ones_only_for_a_moment(asked):
    now = [0.0]
    gpus = GpuCheck(lambda: now[0])
    devices = [Device(id=GPU, kind="nvidia", label="GPU 0", name="H100"), *cpu_devices()]
    on_cpu = make_spec("digits_mlp")
    spec = replace(on_cpu, devices=(GPU,))
    assert gpus.problem(on_cpu, devices) == ""
    assert asked == []
    assert [gpus.problem(spec, devices) for _ in range(3)] == ["The library is missing."] * 3
    assert len(asked) == 1
    now[0] += BAD_S
    assert [gpus.problem(spec, devices) for _ in range(3)] == [""] * 3
    assert len(asked) == 2
    now[0] += GOOD_S - 1
    assert gpus.problem(spec, devices) == ""
    assert len(asked) == 2


def test_start_is_not_offered_without_the_cuda_library(assemble, nvml, nvml_library, monkeypatch):
    nvml.write(gpus=1)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))  # without the folder of the CUDA library
    panel = assemble("start", "devices")
    panel.until(lambda: len(panel.devices) == 3, "the GPU")
    panel.tick(uuid(0))
    panel.until(lambda: "The CUDA driver's library cannot be used" in panel.start_status.text(), "the reason")
    assert not panel.start_button.isEnabled()
