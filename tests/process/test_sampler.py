"""The sampler with a fake driver library: what it lists and reads, and what its banner says."""

from __future__ import annotations

import ctypes.util
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.devices.sampler import Sampler
from tests.nvml.standin import uuid
from tests.support.helper_pids import helper_pids
from tests.support.sampling import NVIDIA, QUICK, all_well, hang, helper, wait_for
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]


def test_readings_of_eight_gpus_follow_the_hardware(nvml, sampler):
    nvml.write(gpus=8, **{f"gpu{index}": {"utilisation": index, "memory_used": 2**20} for index in range(8)})
    survey = sampler.survey(PATIENCE_S)
    assert [device.id for device in survey.devices] == [uuid(index) for index in range(8)]
    assert [sample.device_id for sample in survey.samples] == [uuid(index) for index in range(8)]
    assert [sample.utilisation_percent for sample in survey.samples] == list(range(8))
    assert survey.samples[0].memory_used_bytes == 2**20
    assert survey.banner is None
    nvml.write(gpu7={"utilisation": 99, "compute": "4711:5"})
    wait_for(sampler, lambda survey: survey.samples[7].utilisation_percent == 99, "the new utilisation")


def test_process_list_period_can_be_shortened(nvml, sampler):
    nvml.write(gpus=1)
    assert sampler.survey(PATIENCE_S).samples[0].processes == ()
    nvml.write(gpu0={"compute": "4711:5"})
    sampler.set_period(0.05, processes_s=0.05)
    survey = wait_for(sampler, lambda survey: survey.samples[0].processes, "the process in the list")
    assert [(process.pid, process.memory_used_bytes) for process in survey.samples[0].processes] == [(4711, 5)]


def test_new_samples_returns_each_sample_once(nvml, sampler):
    nvml.write(gpus=2)
    sampler.survey(PATIENCE_S)
    times = []

    def four():
        sampler.poll()
        times.extend(sample.time for sample in sampler.new_samples() if sample.device_id == uuid(0))
        return len(times) >= 4

    wait_until(four, "four readings")
    assert times == sorted(set(times))
    assert sampler.new_samples() == []


def test_lost_gpu_is_reported_and_recovers(nvml, sampler):
    nvml.write(gpus=2)
    sampler.survey(PATIENCE_S)
    nvml.write(gpu1={"lost": 1})
    survey = wait_for(sampler, lambda survey: survey.samples[1].lost, "the lost GPU")
    assert survey.samples[1].lost.startswith("GPU 1 does not answer")
    assert survey.samples[1].utilisation_percent is None
    assert survey.samples[0].lost is None
    assert len(survey.devices) == 2
    nvml.write(gpu1={"lost": None})
    wait_for(sampler, all_well, "the GPU to come back")


def test_driver_error_shows_a_banner_until_resolved(nvml, sampler):
    nvml.write(gpus=2, init_error=18)
    survey = sampler.survey(PATIENCE_S)
    assert survey.devices == ()
    assert "Driver/library version mismatch" in survey.banner
    assert "reboot, or reload the driver" in survey.banner
    nvml.write(init_error=None)
    survey = wait_for(sampler, lambda survey: survey.devices, "the devices")
    assert (len(survey.samples), survey.banner) == (2, None)


def test_known_gpu_stays_listed_when_the_driver_disappears(nvml, sampler):
    nvml.write(gpus=2)
    sampler.survey(PATIENCE_S)
    nvml.write(init_error=9)
    helper(sampler).kill()
    survey = wait_for(sampler, lambda survey: "Driver Not Loaded" in (survey.banner or ""), "the trouble")
    assert [device.label for device in survey.devices] == ["GPU 0", "GPU 1"]
    assert [sample.lost for sample in survey.samples] == [
        f"GPU {index} is not listed by its driver any more." for index in range(2)
    ]
    nvml.write(init_error=None)
    wait_for(sampler, all_well, "the GPUs to come back")


def test_reading_age_is_known_while_a_driver_call_hangs(nvml, clock):
    nvml.write(gpus=2)
    with Sampler(period_s=0.05, timeouts=QUICK, clock=clock) as sampler:
        assert sampler.survey(PATIENCE_S).age_s("GPU-unknown", clock()) is None
        hang(nvml, sampler)
        clock.step(2)
        survey = wait_for(sampler, lambda each: each.age_s("cpu:0", clock()) < 1, "a reading of the CPU")
        now = clock()
        assert survey.age_s("cpu:0", now) < survey.age_s(uuid(0), now), "the CPU is read on"
        assert survey.age_s(uuid(0), now) >= 2
        ages = [survey.age_s(uuid(0), now + later) for later in (0, 5)]
        assert ages[1] - ages[0] == pytest.approx(5)


def test_poll_does_not_block_on_a_slow_driver(nvml):
    nvml.write(gpus=1, slow_ms=10**9)
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=QUICK) as sampler:
        maps = Path(f"/proc/{helper(sampler).pid}/maps")
        wait_until(lambda: "libnvidia-ml" in maps.read_text(), "the helper to call the driver")
        assert [sampler.poll().samples for _ in range(10)] == [()] * 10


def test_survey_times_out_when_no_driver_answers(nvml):
    nvml.write(gpus=1, slow_ms=10**9)
    with Sampler(timeouts=QUICK) as sampler:
        survey = sampler.survey(0.3)
    assert survey.banner == "NVIDIA devices have not answered within 0.3 s."
    assert all(device.kind == "cpu" for device in survey.devices)


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has the real library")
def test_missing_driver_library_shows_no_banner_and_keeps_no_helper(clock):
    with Sampler(timeouts=QUICK, clock=clock) as sampler:
        survey = sampler.survey(PATIENCE_S)
        assert {device.kind for device in survey.devices} == {"cpu"}
        assert survey.banner is None
        wait_until(lambda: sampler.poll() and not helper_pids(), "the helper to end")
        clock.step(2 * QUICK.retry_s)
        sampler.poll()
        assert helper_pids() == []


def test_unselected_device_kind_starts_no_helper(nvml):
    nvml.write(gpus=1)
    with Sampler(only=["cpu:0"]) as sampler:
        assert [device.id for device in sampler.survey(PATIENCE_S).devices] == ["cpu:0"]
        assert helper_pids() == []


def test_gpus_precede_the_cpu_and_cpu_memory_is_of_watched_processes(nvml):
    nvml.write(gpus=1)
    with Sampler(period_s=0.05, timeouts=QUICK) as sampler:
        assert [device.id for device in sampler.survey(PATIENCE_S).devices][:2] == [uuid(0), "cpu:0"]
        sampler.watch({"cpu:0": [os.getpid()]})
        survey = wait_for(sampler, lambda survey: survey.samples[1].memory_used_bytes, "the memory")
        assert survey.samples[1].memory_used_bytes > 2**20


def test_importing_core_devices_loads_no_driver_library():
    code = "import core.devices, core.devices.sampler, sys; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
    code = "import core.devices, sys; sys.exit('psutil' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("period_s", [0, -1, float("nan")])
def test_period_that_is_not_positive_is_rejected(period_s):
    with pytest.raises(ValueError, match="more than 0"):
        Sampler(period_s=period_s)


def test_unresponsive_driver_is_reported_once_in_the_banner(nvml):
    nvml.write(gpus=1, slow_ms=10**9)
    seconds = itertools.count()
    with Sampler(kinds=NVIDIA, period_s=0.05, clock=lambda: float(next(seconds))) as sampler:
        banner = sampler.survey(10).banner
    assert banner.count("have not answered") == 1
