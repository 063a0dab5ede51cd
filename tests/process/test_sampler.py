"""The sampler with a fake driver library: what it lists and reads, what its banner says, and its helper process.

The helper crashes, hangs, is stopped or killed, and ends with its client.
"""

import ctypes.util
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.devices.device import Sample
from core.devices.sampler import Sampler
from core.system import processes
from tests.nvml.standin import uuid
from tests.support.helper_pids import helper_pids
from tests.support.sampling import HOUR_S, NVIDIA, QUICK, all_well, hang, helper, wait_for
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


# -- the helper process ----------------------------------------------------------------------------


def test_helper_restarts_when_the_only_gpu_is_lost(nvml, watching):
    first = helper(watching)
    nvml.write(gpu0={"lost": 1})
    survey = wait_for(watching, lambda survey: survey.samples[0].lost, "the lost GPU")
    assert [device.id for device in survey.devices] == [uuid(0)]
    first.wait(PATIENCE_S)
    nvml.write(gpu0={"lost": None})
    survey = wait_for(watching, all_well, "the GPU to come back")
    assert survey.banner is None
    assert helper(watching) != first


@pytest.mark.parametrize("how", ["SEGV", "ABRT", "KILL"])
def test_helper_that_was_ended_is_restarted(nvml, watching, how):
    """By the driver that crashes in it, or from outside."""
    first = helper(watching)
    if how == "KILL":
        first.kill()
    else:
        nvml.write(crash={"SEGV": "segv", "ABRT": "abort"}[how])
    survey = wait_for(watching, lambda survey: survey.banner, "the report of its end")
    assert f"The helper that reads NVIDIA devices ended with signal {how}; it is started again" in survey.banner
    ended_at = time.time()
    nvml.write(crash=None)
    wait_for(watching, lambda survey: survey.samples[0].time > ended_at, "new readings")
    assert helper(watching) != first
    assert not psutil.pid_exists(first.pid), "no zombie is left"


def test_hanging_driver_is_reported_and_its_helper_replaced(nvml, clock):
    nvml.write(gpus=1)
    timeouts = replace(QUICK, retry_s=HOUR_S, backoff_s=HOUR_S)
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=timeouts, clock=clock) as sampler:
        sampler.survey(PATIENCE_S)
        hanging = helper(sampler)
        hang(nvml, sampler)
        clock.step(2 * HOUR_S)
        assert re.match(r"NVIDIA devices do not answer: their readings are 7\d\d\d s old", sampler.poll().banner)
        clock.step(3 * HOUR_S)
        wait_until(lambda: sampler.poll() and not psutil.pid_exists(hanging.pid), "the hanging helper to be ended")
        nvml.write(**{"slow_ms.nvmlDeviceGetMemoryInfo": None})
        replaced_at = time.time()
        clock.step(HOUR_S)  # before the first restart
        survey = wait_for(sampler, lambda survey: survey.samples[0].time > replaced_at, "new readings")
        assert (
            survey.banner
            == "The helper that reads NVIDIA devices did not answer and was terminated; it is started again."
        )


def test_slow_driver_keeps_its_helper_and_shows_reading_age(nvml, clock):
    nvml.write(gpus=1)
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=QUICK, clock=clock) as sampler:
        sampler.survey(PATIENCE_S)
        patient = helper(sampler)
        sampler.set_period(0.05, processes_s=0.05)
        nvml.write(slow_ms=400)  # a round of readings takes two seconds

        def is_slow(survey) -> bool:
            if sampler.new_samples():
                clock.step(2 * HOUR_S)  # so that these are old when the next sign of life comes
            return "slowly" in (survey.banner or "")

        survey = wait_for(sampler, is_slow, "the report of the slowness")
        assert re.match(r"NVIDIA devices answer slowly: their readings are 7\d\d\d s old", survey.banner)
        clock.step(3 * HOUR_S)  # more than `hang_s` since the last answer, less since the last sign of life
        seen = sampler.poll().samples[0].time
        wait_for(sampler, lambda survey: survey.samples[0].time > seen, "the next readings")
        assert helper(sampler) == patient, "it was not taken for one that hangs"


def eight_readings(sampler: Sampler) -> list[Sample]:
    """Return at least the next eight samples."""
    got: list[Sample] = []

    def enough() -> bool:
        sampler.poll()
        got.extend(sampler.new_samples())
        return len(got) >= 8

    wait_until(enough, "readings")
    return got


def test_unchanged_readings_keep_arriving_after_a_helper_restart(nvml, sampler):
    nvml.write(gpus=2, gpu1={"utilisation": 41, "memory_used": 7 * 2**20})
    last = sampler.survey(PATIENCE_S).samples[1]
    sampler.new_samples()
    for _ in range(2):
        of_one = [sample for sample in eight_readings(sampler) if sample.device_id == uuid(1)]
        assert [sample.reading for sample in of_one] == [last.reading] * len(of_one)
        times = [last.time, *(sample.time for sample in of_one)]
        assert times == sorted(set(times)), "each has a time of its own"
        last = of_one[-1]
        helper(sampler).kill()
        wait_for(sampler, lambda survey: "is started again" in (survey.banner or ""), "the end of the helper")
    nvml.write(gpu1={"utilisation": 42})
    wait_for(sampler, lambda survey: survey.samples[1].utilisation_percent == 42, "the change")


def test_poll_and_close_do_not_block_on_a_stopped_helper(watching, clock):
    stopped = helper(watching)
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED, "the helper to stop")
    watching.poll()
    while watching.new_samples():
        watching.poll()
    clock.step(2 * HOUR_S)
    survey = watching.poll()
    assert "s old" in survey.banner
    assert watching.new_samples() == []
    assert survey.age_s(uuid(0), clock()) >= 2 * HOUR_S, "the reading keeps its time"
    watching.close()
    stopped.wait(PATIENCE_S)
    watching.close()
    assert watching.poll().devices
    assert helper_pids() == [], "a closed sampler starts nothing"


def test_helper_in_a_hanging_driver_exits_with_its_client(nvml):
    nvml.write(gpus=1)
    code = """
import os, sys
from core.devices.sampler import Sampler
from tests.support.helper_pids import helper_pids
sampler = Sampler()
sampler.survey(300)
print(*helper_pids(), flush=True)
sys.stdin.readline()
os.abort()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **pipes) as client:
        pid = int(client.stdout.readline())
        nvml.write(slow_ms=60_000)
        client.communicate("\n")
    wait_until(lambda: processes.identify(pid) is None, "the helper's end")


@pytest.mark.parametrize("safe_path", ["", "1"])
def test_helper_has_no_run_tag_and_ignores_a_core_folder(nvml, sampler, monkeypatch, tmp_path, safe_path):
    """The folder is in the working directory, which Python searches unless the user forbids it."""
    monkeypatch.setenv("PYTHONSAFEPATH", safe_path)
    monkeypatch.setenv("TRAINYARD_RUN", "some-run")
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    nvml.write(gpus=1)
    assert len(sampler.survey(PATIENCE_S).devices) == 1
    assert "TRAINYARD_RUN" not in helper(sampler).environ()
