"""The helper process that reads the GPUs: it crashes, hangs, is stopped or killed, and ends with its client."""

from __future__ import annotations

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


def test_helper_restarts_when_the_only_gpu_is_lost(nvml, sampler):
    nvml.write(gpus=1)
    sampler.survey(PATIENCE_S)
    first = helper(sampler)
    nvml.write(gpu0={"lost": 1})
    survey = wait_for(sampler, lambda survey: survey.samples[0].lost, "the lost GPU")
    assert [device.id for device in survey.devices] == [uuid(0)]
    first.wait(PATIENCE_S)
    nvml.write(gpu0={"lost": None})
    survey = wait_for(sampler, all_well, "the GPU to come back")
    assert survey.banner is None
    assert helper(sampler) != first


@pytest.mark.parametrize("how", ["segv", "abort"])
def test_helper_crashed_by_the_driver_is_restarted(nvml, sampler, how):
    nvml.write(gpus=1)
    sampler.survey(PATIENCE_S)
    nvml.write(crash=how)
    survey = wait_for(sampler, lambda survey: survey.banner, "the report of the crash")
    signal_name = {"segv": "SEGV", "abort": "ABRT"}[how]
    assert f"The helper that reads NVIDIA devices ended with signal {signal_name}" in survey.banner
    crashed_at = time.time()
    nvml.write(crash=None)
    wait_for(sampler, lambda survey: survey.samples[0].time > crashed_at, "new readings")


def test_killed_helper_is_restarted(nvml, sampler):
    nvml.write(gpus=1)
    sampler.survey(PATIENCE_S)
    first = helper(sampler)
    first.kill()
    killed_at = time.time()
    survey = wait_for(sampler, lambda survey: survey.samples[0].time > killed_at, "new readings")
    assert "ended with signal KILL; it is started again" in survey.banner
    assert helper(sampler) != first
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


def test_poll_does_not_block_on_a_stopped_helper(nvml, sampler, clock):
    nvml.write(gpus=1)
    sampler.survey(PATIENCE_S)
    stopped = helper(sampler)
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED, "the helper to stop")
    sampler.poll()
    while sampler.new_samples():
        sampler.poll()
    clock.step(2 * HOUR_S)
    survey = sampler.poll()
    assert "s old" in survey.banner
    assert sampler.new_samples() == []
    assert survey.age_s(uuid(0), clock()) >= 2 * HOUR_S, "the reading keeps its time"
    stopped.kill()  # otherwise close would time out twice waiting for it to exit


def test_close_terminates_a_stopped_helper_and_can_be_repeated(nvml, sampler):
    nvml.write(gpus=1)
    sampler.survey(PATIENCE_S)
    stopped = helper(sampler)
    stopped.send_signal(signal.SIGSTOP)
    sampler.close()
    stopped.wait(PATIENCE_S)
    sampler.close()
    assert sampler.poll().devices
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


def test_helper_environment_has_no_run_tag(nvml, sampler, monkeypatch):
    monkeypatch.setenv("TRAINYARD_RUN", "some-run")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    nvml.write(gpus=1)
    assert len(sampler.survey(PATIENCE_S).devices) == 1
    assert "TRAINYARD_RUN" not in helper(sampler).environ()


def test_helper_ignores_a_core_folder_in_the_working_directory(nvml, sampler, monkeypatch, tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    nvml.write(gpus=1)
    assert len(sampler.survey(PATIENCE_S).devices) == 1
