"""The sampler and its helper process, with real processes and a fake driver library."""

from __future__ import annotations

import ctypes.util
import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import psutil
import pytest

from core.devices.device import Device, Process, Sample
from core.devices.helper import HelperAnswer, from_line, to_line
from core.devices.kinds import KINDS
from core.devices.sampler import Sampler
from core.devices.source import HelperTimeouts, ReadingsStore
from core.system import processes
from tests.nvml.standin import uuid
from tests.support.helper_pids import helper_pids
from tests.support.waiting import wait_until

QUICK = HelperTimeouts(stale_s=0.3, hang_s=0.6, start_s=5, retry_s=0.2, backoff_s=0.05, notice_s=30)
NVIDIA = [kind for kind in KINDS if kind.name == "nvidia"]
ROOT = Path(__file__).parents[2]
P = Process(pid=4711, memory_used_bytes=5)


class Clock:
    """Real time that a test can put forward, instead of waiting for it to pass."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    def step(self, seconds: float) -> None:
        self._ahead_s += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sampler(nvml, clock):
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=QUICK, clock=clock) as sampler:
        yield sampler
        helpers = helper_pids()
    assert not any(psutil.pid_exists(pid) for pid in helpers)


def helper(sampler: Sampler) -> psutil.Process:
    (pid,) = wait_until(lambda: sampler.poll() and helper_pids(), what="a helper process")
    return psutil.Process(pid)


def wait_for(sampler: Sampler, condition, what: str):
    """Return the first survey for which the condition is true."""
    return wait_until(lambda: (survey := sampler.poll()) and condition(survey) and survey, what=what)


def fall_silent(sampler: Sampler) -> None:
    """Poll until GPU 0 has sent no reading for six intervals."""
    heard_at = time.monotonic()

    def silent() -> bool:
        nonlocal heard_at
        sampler.poll()
        if any(sample.device_id == uuid(0) for sample in sampler.new_samples()):
            heard_at = time.monotonic()
        return time.monotonic() - heard_at > 0.3

    wait_until(silent, what="the readings to stop")


def all_well(survey) -> bool:
    return bool(survey.samples) and not any(sample.lost for sample in survey.samples)


def test_readings_of_eight_gpus_follow_the_hardware(nvml, sampler):
    nvml.write(gpus=8, **{f"gpu{index}": {"utilisation": index, "memory_used": 2**20} for index in range(8)})
    survey = sampler.survey(10)
    assert [device.id for device in survey.devices] == [uuid(index) for index in range(8)]
    assert [sample.device_id for sample in survey.samples] == [uuid(index) for index in range(8)]
    assert [sample.utilisation_percent for sample in survey.samples] == list(range(8))
    assert survey.samples[0].memory_used_bytes == 2**20
    assert survey.banner is None
    nvml.write(gpu7={"utilisation": 99, "compute": "4711:5"})
    wait_for(sampler, lambda survey: survey.samples[7].utilisation_percent == 99, "the new utilisation")


def test_process_list_period_can_be_shortened(nvml, sampler):
    nvml.write(gpus=1)
    assert sampler.survey(10).samples[0].processes == ()
    nvml.write(gpu0={"compute": "4711:5"})
    sampler.set_period(0.05, processes_s=0.05)
    survey = wait_for(sampler, lambda survey: survey.samples[0].processes, "the process in the list")
    assert [(process.pid, process.memory_used_bytes) for process in survey.samples[0].processes] == [(4711, 5)]


def test_new_samples_returns_each_sample_once(nvml, sampler):
    nvml.write(gpus=2)
    sampler.survey(10)
    times = []

    def four():
        sampler.poll()
        times.extend(sample.time for sample in sampler.new_samples() if sample.device_id == uuid(0))
        return len(times) >= 4

    wait_until(four, what="four readings")
    assert times == sorted(set(times))
    assert sampler.new_samples() == []


def test_lost_gpu_is_reported_and_recovers(nvml, sampler):
    nvml.write(gpus=2)
    sampler.survey(10)
    nvml.write(gpu1={"lost": 1})
    survey = wait_for(sampler, lambda survey: survey.samples[1].lost, "the lost GPU")
    assert survey.samples[1].lost.startswith("GPU 1 does not answer")
    assert survey.samples[1].utilisation_percent is None
    assert survey.samples[0].lost is None
    assert len(survey.devices) == 2
    nvml.write(gpu1={"lost": None})
    wait_for(sampler, all_well, "the GPU to come back")


def test_helper_restarts_when_the_only_gpu_is_lost(nvml, sampler):
    nvml.write(gpus=1)
    sampler.survey(10)
    first = helper(sampler)
    nvml.write(gpu0={"lost": 1})
    survey = wait_for(sampler, lambda survey: survey.samples[0].lost, "the lost GPU")
    assert [device.id for device in survey.devices] == [uuid(0)]
    first.wait(10)
    nvml.write(gpu0={"lost": None})
    survey = wait_for(sampler, all_well, "the GPU to come back")
    assert survey.banner is None
    assert helper(sampler) != first


def test_driver_error_shows_a_banner_until_resolved(nvml, sampler):
    nvml.write(gpus=2, init_error=18)
    survey = sampler.survey(10)
    assert survey.devices == ()
    assert "Driver/library version mismatch" in survey.banner
    assert "reboot, or reload the driver" in survey.banner
    nvml.write(init_error=None)
    survey = wait_for(sampler, lambda survey: survey.devices, "the devices")
    assert (len(survey.samples), survey.banner) == (2, None)


def test_known_gpu_stays_listed_when_the_driver_disappears(nvml, sampler):
    nvml.write(gpus=2)
    sampler.survey(10)
    nvml.write(init_error=9)
    helper(sampler).kill()
    survey = wait_for(sampler, lambda survey: "Driver Not Loaded" in (survey.banner or ""), "the trouble")
    assert [device.label for device in survey.devices] == ["GPU 0", "GPU 1"]
    assert [sample.lost for sample in survey.samples] == [
        f"GPU {index} is not listed by its driver any more." for index in range(2)
    ]
    nvml.write(init_error=None)
    wait_for(sampler, all_well, "the GPUs to come back")


@pytest.mark.parametrize("how", ["segv", "abort"])
def test_helper_crashed_by_the_driver_is_restarted(nvml, sampler, how):
    nvml.write(gpus=1)
    sampler.survey(10)
    nvml.write(crash=how)
    survey = wait_for(sampler, lambda survey: survey.banner, "the report of the crash")
    signal_name = {"segv": "SEGV", "abort": "ABRT"}[how]
    assert f"The helper that reads NVIDIA devices ended with signal {signal_name}" in survey.banner
    crashed_at = time.time()
    nvml.write(crash=None)
    wait_for(sampler, lambda survey: survey.samples[0].time > crashed_at, "new readings")


def test_killed_helper_is_restarted(nvml, sampler):
    nvml.write(gpus=1)
    sampler.survey(10)
    first = helper(sampler)
    first.kill()
    killed_at = time.time()
    survey = wait_for(sampler, lambda survey: survey.samples[0].time > killed_at, "new readings")
    assert "ended with signal KILL; it is started again" in survey.banner
    assert helper(sampler) != first
    assert not psutil.pid_exists(first.pid), "no zombie is left"


def test_hanging_driver_is_reported_and_its_helper_replaced(nvml, clock):
    nvml.write(gpus=1)
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=HelperTimeouts(start_s=30), clock=clock) as sampler:
        sampler.survey(10)
        hanging = helper(sampler)
        nvml.write(slow_ms=60_000)
        fall_silent(sampler)
        clock.step(5)
        assert sampler.poll().banner.startswith("NVIDIA devices do not answer: their readings are 5 s old")
        clock.step(12)
        wait_until(lambda: sampler.poll() and not psutil.pid_exists(hanging.pid), what="the hanging helper to be ended")
        nvml.write(slow_ms=None)
        replaced_at = time.time()
        clock.step(0.5)  # before the first restart
        survey = wait_for(sampler, lambda survey: survey.samples[0].time > replaced_at, "new readings")
        assert (
            survey.banner
            == "The helper that reads NVIDIA devices did not answer and was terminated; it is started again."
        )


def test_slow_driver_keeps_its_helper_and_shows_reading_age(nvml, clock):
    nvml.write(gpus=1)
    timeouts = HelperTimeouts(stale_s=1.5, hang_s=60, start_s=30, retry_s=30)
    with Sampler(kinds=NVIDIA, period_s=0.05, timeouts=timeouts, clock=clock) as sampler:
        sampler.survey(10)
        patient = helper(sampler)
        sampler.set_period(0.05, processes_s=0.05)
        nvml.write(slow_ms=400)  # a round of readings takes two seconds
        fall_silent(sampler)
        clock.step(50)
        survey = wait_for(sampler, lambda survey: "slowly" in (survey.banner or ""), "the report of the slowness")
        assert survey.banner.startswith("NVIDIA devices answer slowly: their readings are 5")
        clock.step(50)  # more than `hang_s` since the last answer, less since the last sign of life
        seen = sampler.poll().samples[0].time
        wait_for(sampler, lambda survey: survey.samples[0].time > seen, "the next readings")
        assert helper(sampler) == patient, "it was not taken for one that hangs"


def test_reading_age_is_known_while_a_driver_call_hangs(nvml, clock):
    nvml.write(gpus=2)
    timeouts = HelperTimeouts(stale_s=0.3, hang_s=60)
    with Sampler(period_s=0.05, timeouts=timeouts, clock=clock) as sampler:
        assert sampler.survey(20).age_s("GPU-unknown", clock()) is None
        nvml.write(**{"slow_ms.nvmlDeviceGetUtilizationRates": 60_000})
        fall_silent(sampler)
        clock.step(2)
        survey = wait_for(sampler, lambda each: each.age_s("cpu:0", clock()) < 1, "a reading of the CPU")
        now = clock()
        assert survey.age_s("cpu:0", now) < survey.age_s(uuid(0), now), "the CPU is read on"
        assert survey.age_s(uuid(0), now) >= 2
        ages = [survey.age_s(uuid(0), now + later) for later in (0, 5)]
        assert ages[1] - ages[0] == pytest.approx(5)


def test_poll_does_not_block_on_a_slow_driver(nvml):
    nvml.write(gpus=1, slow_ms=100)
    polls = 0
    with Sampler(kinds=NVIDIA, period_s=0.05) as sampler:

        def polled():
            nonlocal polls
            polls += 1
            return sampler.poll().samples

        assert len(wait_until(polled, 60, "the first readings")) == 1
    assert polls > nvml.calls().total(), "more polls than calls: none of them took as long as one"


def test_gpu_that_wakes_up_replaces_its_sleeping_row():
    store = ReadingsStore()
    asleep = Device(id="PCI-0000:01:00.0", kind="nvidia", label="GPU at", name="N", pci_bus_id="0000:01:00.0")
    store.add(HelperAnswer(devices=(asleep,), samples=(Sample(device_id=asleep.id, time=1.0, asleep=True),)), 0.0)
    awake = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="N", pci_bus_id="0000:01:00.0")
    store.add(HelperAnswer(devices=(awake,)), 0.0)
    assert list(store.devices) == ["GPU-1"]
    assert not store.latest


def test_gpu_asleep_at_helper_restart_keeps_its_row():
    """The new helper does not wake the GPU to ask for its id."""
    store = ReadingsStore()
    awake = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="N", pci_bus_id="0000:01:00.0")
    store.add(HelperAnswer(devices=(awake,), samples=(Sample(device_id="GPU-1", time=1.0, memory_used_bytes=5),)), 0.0)
    asleep = Device(id="PCI-0000:01:00.0", kind="nvidia", label="GPU at", name="N", pci_bus_id="0000:01:00.0")
    for answer in (
        HelperAnswer(devices=(asleep,), samples=(Sample(device_id=asleep.id, time=2.0, asleep=True),)),
        HelperAnswer(samples=(Sample(device_id=asleep.id, time=3.0, asleep=True),)),
    ):
        store.add(answer, 0.0)
        assert store.devices == {"GPU-1": awake}
        assert list(store.latest) == ["GPU-1"]
        assert (store.latest["GPU-1"].asleep, store.latest["GPU-1"].lost) == (True, None)
    store.add(HelperAnswer(devices=(awake,), samples=(Sample(device_id="GPU-1", time=4.0, memory_used_bytes=6),)), 0.0)
    assert list(store.devices) == ["GPU-1"]
    assert store.latest["GPU-1"].memory_used_bytes == 6


def test_device_survives_the_helper_protocol_unchanged():
    device = Device(
        id="GPU-1", kind="nvidia", label="GPU 0", name="N", minor=3, shared_memory=True, blocked="hidden", cores=(1,)
    )
    sample = Sample(device_id="GPU-1", time=1.0, asleep=True)
    answer = from_line(to_line(HelperAnswer(devices=(device,), samples=(sample,))))
    assert (answer.devices, answer.samples) == ((device,), (sample,))


def test_unchanged_sample_is_sent_as_its_new_time_only():
    old = Sample(device_id="GPU-1", time=1.0, utilisation_percent=3.0, clock_reasons=("too hot",), processes=(P,))
    other = Sample(device_id="GPU-2", time=1.0, memory_used_bytes=5, lost="It is gone.")
    before = (old, other)
    same, changed = replace(old, time=2.0), replace(other, time=2.0, lost=None, asleep=True)
    line = to_line(HelperAnswer(samples=(same, changed)), before)
    assert b"GPU-1" not in line
    assert from_line(line, before).samples == (same, changed)
    whole = to_line(HelperAnswer(samples=(same, changed)))
    assert from_line(whole).samples == (same, changed)


@pytest.mark.parametrize("name", [field.name for field in fields(Sample) if field.name != "time"])
def test_each_changed_sample_field_reaches_the_client(name):
    old = Sample(device_id="GPU-1", time=1.0)
    values = {"device_id": "GPU-2", "clock_reasons": ("too hot",), "processes": (P,), "lost": "Gone.", "asleep": True}
    changed = replace(old, time=2.0, **{name: values.get(name, 7)})
    assert from_line(to_line(HelperAnswer(samples=(changed,)), (old,)), (old,)).samples == (changed,)


def test_answer_may_add_or_drop_devices():
    one, two = (Sample(device_id=f"GPU-{number}", time=1.0) for number in (1, 2))
    for before, samples in (((one,), (one, two)), ((one, two), (one,)), ((one, two), (two,)), ((one, two), ())):
        assert from_line(to_line(HelperAnswer(samples=samples), before), before).samples == samples


def test_answer_referring_to_an_unknown_answer_is_rejected():
    one = Sample(device_id="GPU-1", time=1.0)
    with pytest.raises(LookupError):
        from_line(to_line(HelperAnswer(samples=(one,)), (one,)))


def eight_readings(sampler: Sampler) -> list[Sample]:
    """Return at least the next eight samples."""
    got: list[Sample] = []

    def enough() -> bool:
        sampler.poll()
        got.extend(sampler.new_samples())
        return len(got) >= 8

    wait_until(enough, what="readings")
    return got


def test_unchanged_readings_keep_arriving_after_a_helper_restart(nvml, sampler):
    nvml.write(gpus=2, gpu1={"utilisation": 41, "memory_used": 7 * 2**20})
    last = sampler.survey(10).samples[1]
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
    sampler.survey(10)
    stopped = helper(sampler)
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED, what="the helper to stop")
    sampler.poll()
    while sampler.new_samples():
        sampler.poll()
    clock.step(0.5)
    survey = sampler.poll()
    assert "s old" in survey.banner
    assert sampler.new_samples() == []
    assert survey.age_s(uuid(0), clock()) >= 0.5, "the reading keeps its time"
    stopped.kill()  # otherwise close would time out twice waiting for it to exit


def test_close_terminates_a_stopped_helper_and_can_be_repeated(nvml, sampler):
    nvml.write(gpus=1)
    sampler.survey(10)
    stopped = helper(sampler)
    stopped.send_signal(signal.SIGSTOP)
    sampler.close()
    assert not psutil.pid_exists(stopped.pid)
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
sampler.survey(10)
print(*helper_pids(), flush=True)
sys.stdin.readline()
os.abort()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **pipes) as client:
        pid = int(client.stdout.readline())
        nvml.write(slow_ms=60_000)
        client.communicate("\n")
    wait_until(lambda: processes.identify(pid) is None, what="the helper's end")


def test_helper_environment_has_no_run_tag(nvml, sampler, monkeypatch):
    monkeypatch.setenv("TRAINYARD_RUN", "some-run")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    nvml.write(gpus=1)
    assert len(sampler.survey(10).devices) == 1
    assert "TRAINYARD_RUN" not in helper(sampler).environ()


def test_helper_ignores_a_core_folder_in_the_working_directory(nvml, sampler, monkeypatch, tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)
    nvml.write(gpus=1)
    assert len(sampler.survey(10).devices) == 1


def test_survey_times_out_when_no_driver_answers(nvml):
    nvml.write(gpus=1, slow_ms=60_000)
    with Sampler() as sampler:
        survey = sampler.survey(0.3)
    assert survey.banner == "NVIDIA devices have not answered within 0.3 s."
    assert all(device.kind == "cpu" for device in survey.devices)


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has the real library")
def test_missing_driver_library_shows_no_banner_and_keeps_no_helper(clock):
    with Sampler(timeouts=QUICK, clock=clock) as sampler:
        survey = sampler.survey(10)
        assert {device.kind for device in survey.devices} == {"cpu"}
        assert survey.banner is None
        wait_until(lambda: sampler.poll() and not helper_pids(), what="the helper to end")
        clock.step(2 * QUICK.retry_s)
        sampler.poll()
        assert helper_pids() == []


def test_unselected_device_kind_starts_no_helper(nvml):
    nvml.write(gpus=1)
    with Sampler(only=["cpu:0"]) as sampler:
        assert [device.id for device in sampler.survey(10).devices] == ["cpu:0"]
        assert helper_pids() == []


def test_gpus_precede_the_cpu_and_cpu_memory_is_of_watched_processes(nvml):
    nvml.write(gpus=1)
    with Sampler(period_s=0.05) as sampler:
        assert [device.id for device in sampler.survey(10).devices][:2] == [uuid(0), "cpu:0"]
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
    nvml.write(gpus=1, slow_ms=60_000)
    seconds = itertools.count()
    with Sampler(kinds=NVIDIA, period_s=0.05, clock=lambda: float(next(seconds))) as sampler:
        banner = sampler.survey(10).banner
    assert banner.count("have not answered") == 1
