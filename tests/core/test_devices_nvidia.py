"""NVIDIA devices, read in a fresh process from a stand-in for the driver's library."""

from __future__ import annotations

import ctypes.util
from textwrap import dedent

import pytest

from tests.nvml.standin import uuid

GIGABYTE = 2**30

# Reader and stand-in in one process, so that a test says exactly what is altered between which readings.
PREAMBLE = """
import json
from dataclasses import asdict
from pathlib import Path
from core.devices.nvidia import NvidiaReader, open_reader
from core.devices.reader import ALL_TIERS, DriverError, NoDevices, Options, Tier
from tests.nvml.standin import StandIn

nvml = StandIn.inherited()
seen = []

def read(reader, *tiers):
    seen.append([asdict(sample) for sample in reader.read(1.0, tiers or ALL_TIERS)])

def trouble(**options):
    try:
        open_reader(Options(), **options)
    except (DriverError, NoDevices) as error:
        return [type(error).__name__, str(error)]
"""


@pytest.fixture
def reading(nvml):
    """Runs code that reads; returns what it added to `seen`."""
    return lambda code: nvml.python(PREAMBLE + dedent(code) + "\nprint(json.dumps(seen))")


def test_eight_gpus_are_listed_with_what_they_are(nvml, reading):
    nvml.write(gpus=8, gpu3={"name": "NVIDIA H100", "memory_total": 80 * GIGABYTE, "bus": 0xC1})
    (devices,) = reading("seen.append([asdict(device) for device in open_reader(Options()).devices])")
    assert [device["id"] for device in devices] == [uuid(index) for index in range(8)]
    assert [device["label"] for device in devices] == [f"GPU {index}" for index in range(8)]
    assert devices[3]["name"] == "NVIDIA H100"
    assert devices[3]["memory_total_bytes"] == 80 * GIGABYTE
    assert devices[3]["pci_bus_id"] == "0000:c1:00.0"
    assert {device["kind"] for device in devices} == {"nvidia"}


def test_readings_are_in_the_units_they_say(nvml, reading):
    gpu = {"utilisation": 82, "memory_used": 9 * GIGABYTE, "memory_reserved": GIGABYTE, "temperature": 61}
    nvml.write(gpus=1, gpu0={**gpu, "power_mw": 250500, "clock_reasons": 0x1 | 0x4 | 0x20})
    (((sample,)),) = reading("read(open_reader(Options()))")
    assert sample == {
        "device_id": uuid(0),
        "time": 1.0,
        "utilisation_percent": 82.0,
        "memory_used_bytes": 9 * GIGABYTE,  # without the driver's reserve
        "temperature_celsius": 61.0,
        "power_watts": 250.5,
        "clock_reasons": ["power limit", "too hot"],
        "processes": [],
        "lost": None,
    }


def test_each_holder_is_named_once_with_its_memory_if_that_is_known(nvml, reading):
    nvml.write(gpus=1, gpu0={"compute": f"30:{GIGABYTE},10", "graphics": f"20:5,30:{GIGABYTE}", "mps": "10:7"})
    (((sample,)),) = reading("read(open_reader(Options()))")
    held = {process["pid"]: process["memory_used_bytes"] for process in sample["processes"]}
    assert held == {10: 7, 20: 5, 30: GIGABYTE}
    assert len(sample["processes"]) == 3


@pytest.mark.parametrize(
    ("gpu", "field"),
    [
        ({"utilisation": 101}, "utilisation_percent"),
        ({"memory_used": 2**64 - 1}, "memory_used_bytes"),
        ({"error.power": 6}, "power_watts"),
        ({"error.memory": 4}, "memory_used_bytes"),
        ({"unsupported": "compute,graphics,mps"}, "processes"),
    ],
)
def test_what_cannot_be_known_is_none_and_the_rest_is_read(nvml, reading, gpu, field):
    nvml.write(gpus=1, gpu0={"utilisation": 50, "memory_used": 1, **gpu})
    (((sample,)),) = reading("read(open_reader(Options()))")
    assert [name for name, value in sample.items() if value is None] == [field, "lost"]


def test_what_is_not_supported_is_asked_once_and_never_again(nvml, reading):
    nvml.write(gpus=2, gpu0={"unsupported": "power,clock_reasons,mps"}, missing="nvmlDeviceGetTemperature")
    rounds = reading("reader = open_reader(Options())\nfor _ in range(5): read(reader)")
    assert [samples[0]["power_watts"] for samples in rounds] == [None] * 5
    assert [samples[1]["power_watts"] for samples in rounds] == [20.0] * 5
    assert [samples[0]["temperature_celsius"] for samples in rounds] == [35.0] * 5, "another way to ask is known"
    calls = nvml.calls()
    once = ("PowerUsage", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "Temperature")
    assert {calls[f"nvmlDeviceGet{name} gpu0"] for name in once} == {1}
    assert calls["nvmlDeviceGetPowerUsage gpu1"] == 5
    assert calls["nvmlDeviceGetMPSComputeRunningProcesses_v3 gpu0"] == 1


def test_readings_that_are_not_due_are_not_asked_and_keep_their_last_value(nvml, reading):
    nvml.write(gpus=1, gpu0={"temperature": 40, "compute": "10:1"})
    first, second = reading("""
        reader = open_reader(Options())
        read(reader)
        nvml.write(gpu0={"temperature": 50, "compute": "", "utilisation": 7})
        read(reader, Tier.LOAD)
    """)
    assert second == [{**first[0], "utilisation_percent": 7.0}]
    assert nvml.calls()["nvmlDeviceGetComputeRunningProcesses_v3 gpu0"] == 2, "how many, and which: once"


@pytest.mark.parametrize("error", [15, 16, 999])
def test_a_lost_gpu_says_so_the_others_go_on_and_it_comes_back(nvml, reading, error):
    nvml.write(gpus=3)
    rounds = reading(f"""
        reader = open_reader(Options(retry_s=0))
        read(reader)
        nvml.write(gpu1={{"error": {error}}}, gpu2={{"utilisation": 44}})
        read(reader, Tier.LOAD)
        read(reader, Tier.LOAD)
        nvml.write(gpu1={{"error": None, "temperature": 77}})
        read(reader, Tier.LOAD)
        seen.append(len(reader.devices))
    """)
    before, lost, still_lost, back, listed = rounds
    assert [sample["lost"] for sample in before] == [None] * 3
    assert lost == still_lost
    assert lost[1]["lost"].startswith("GPU 1 does not answer: the driver says “")
    assert lost[1]["memory_used_bytes"] is None
    assert lost[2]["utilisation_percent"] == 44.0
    assert [sample["lost"] for sample in back] == [None] * 3
    assert back[1]["temperature_celsius"] == 77.0, "all is read again at once"
    assert listed == 3


def test_a_lost_gpu_is_left_alone_between_two_tries(nvml, reading):
    nvml.write(gpus=1)
    reading("""
        reader = open_reader(Options(retry_s=60))
        nvml.write(gpu0={"lost": 1})
        for _ in range(5): read(reader)
    """)
    assert nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] == 1
    assert nvml.calls()["nvmlDeviceGetHandleByUUID"] == 0


def test_a_gpu_that_is_lost_at_the_start_is_told_and_listed_later(nvml, reading):
    nvml.write(gpus=2, gpu0={"lost": 1})
    banner, ids, no_banner, all_ids = reading("""
        reader = open_reader(Options(retry_s=0))
        seen += [reader.banner, [device.id for device in reader.devices]]
        nvml.write(gpu0={"lost": None})
        reader.read(1.0, ALL_TIERS)
        seen += [reader.banner, [device.id for device in reader.devices]]
    """)
    assert "GPU 0 cannot be listed: the driver says “GPU is lost”" in banner
    assert ids == [uuid(1)]
    assert no_banner is None
    assert sorted(all_ids) == [uuid(0), uuid(1)]


@pytest.mark.parametrize(
    ("code", "words", "cure"),
    [
        (9, "Driver Not Loaded", "modprobe nvidia"),
        (18, "Driver/library version mismatch", "reboot, or reload the driver"),
        (4, "Insufficient Permissions", "/dev/nvidia*"),
        (999, "Unknown Error", "dmesg"),
    ],
)
def test_driver_trouble_is_told_in_nvmls_words_with_the_cure(nvml, reading, code, words, cure):
    nvml.write(gpus=1, init_error=code)
    ((kind, sentence),) = reading("seen.append(trouble())")
    assert kind == "DriverError"
    assert f"“{words}”" in sentence
    assert cure in sentence


needs_no_library = pytest.mark.skipif(
    ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has the real library"
)


@needs_no_library
def test_no_library_is_trouble_only_where_there_is_a_driver(nvml, reading, monkeypatch):
    nvml.env["LD_LIBRARY_PATH"] = "/nonexistent"
    absent, trouble = reading("seen += [trouble(traces=[]), trouble(traces=[Path('/proc')])]")
    assert absent[0] == "NoDevices"
    assert trouble[0] == "DriverError"
    assert "libnvidia-ml.so.1" in trouble[1]


def test_a_sleeping_gpu_is_not_touched(nvml, reading, tmp_path):
    state = tmp_path / "0000:01:00.0" / "power" / "runtime_status"
    state.parent.mkdir(parents=True)
    state.write_text("active\n")
    nvml.write(gpus=2)
    awake, asleep, again = reading(f"""
        state = Path({str(state)!r})
        open_reader(Options())
        reader = NvidiaReader(Options(), sysfs=Path({str(tmp_path)!r}))
        read(reader)
        state.write_text("suspended\\n")
        read(reader)
        state.write_text("active\\n")
        read(reader)
    """)
    assert awake == again
    assert [asleep[0][name] for name in ("utilisation_percent", "power_watts", "lost")] == [None] * 3
    assert asleep[1] == awake[1]
    assert nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] == 2


def test_only_wanted_gpus_are_listed_and_read(nvml, reading):
    nvml.write(gpus=4)
    (samples,) = reading(f"read(open_reader(Options(only=frozenset({{{uuid(2)!r}}}))))")
    assert [sample["device_id"] for sample in samples] == [uuid(2)]
    assert nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] == 0
