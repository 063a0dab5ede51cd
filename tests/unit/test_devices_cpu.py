"""CPU devices: the list of devices and their readings."""

import os
import subprocess
import sys
from dataclasses import replace

import psutil
import pytest

from core.devices.cpu import CORES_VARIABLE, COUNT_VARIABLE, CpuReader, cpu_devices, open_reader
from core.devices.reader import Options, Tier
from core.devices.sampler import Sampler
from tests.support.waiting import wait_until

CORES = sorted(os.sched_getaffinity(0))
MEGABYTE = 2**20


@pytest.fixture
def child(request):
    command = [sys.executable, "-c", request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in (COUNT_VARIABLE, CORES_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def test_cpu_devices_cover_all_usable_cores():
    devices = cpu_devices()
    assert [device.id for device in devices] == [f"cpu:{number}" for number in range(len(devices))]
    assert sorted({core for device in devices for core in device.cores}) == CORES
    assert devices[0].label == "CPU 0"
    assert devices[0].name.endswith((" core", " cores"))
    assert devices[0].memory_total_bytes == psutil.virtual_memory().total


def test_only_requested_devices_are_listed_and_an_invalid_count_shows_a_banner(monkeypatch):
    monkeypatch.setenv(COUNT_VARIABLE, "1")
    reader = open_reader(Options(only=frozenset({"cpu:7"})))
    assert (reader.devices, reader.read(0.0, frozenset(Tier))) == ((), [])
    monkeypatch.setenv(COUNT_VARIABLE, "many")
    with Sampler(only=["cpu:0"]) as sampler:
        survey = sampler.poll()
    assert survey.devices == ()
    assert f"{COUNT_VARIABLE}=many" in survey.banner


@pytest.mark.parametrize("child", ["print('ready', flush=True)\nwhile True: pass"], indirect=True)
def test_utilisation_covers_only_the_cores_of_the_device(child, monkeypatch):
    os.sched_setaffinity(child.pid, {CORES[0]})
    monkeypatch.setenv(COUNT_VARIABLE, "1")
    whole = cpu_devices()[0]
    reader = CpuReader([replace(whole, id=f"cpu:{core}", cores=(core,)) for core in CORES[:2]])
    assert [sample.utilisation_percent for sample in reader.read(0.0, frozenset(Tier))] == [None] * len(CORES[:2])

    process = psutil.Process(child.pid)

    def busy() -> bool:
        """Utilisation is measured over an interval: one in which the process has worked."""
        until_s = process.cpu_times().user + 0.2
        wait_until(lambda: process.cpu_times().user > until_s, "the process to work")
        return reader.read(0.0, frozenset(Tier))[0].utilisation_percent > 80

    wait_until(busy, "the core of the busy process to be busy")


PARENT_AND_CHILD = f"""
import subprocess, sys
own = b"x" * {40 * MEGABYTE}
hold = 'held = b"x" * {60 * MEGABYTE}; print("ready", flush=True); input()'
child = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
input()
child.kill()
"""


@pytest.mark.parametrize("child", [PARENT_AND_CHILD], indirect=True)
def test_memory_is_the_sum_of_watched_processes_and_children(child):
    reader = CpuReader(cpu_devices()[:1])

    def used() -> int | None:
        return reader.read(0.0, frozenset(Tier))[0].memory_used_bytes

    assert used() is None, "while no process is watched"
    reader.watch({"cpu:0": [child.pid]})
    assert 100 * MEGABYTE < used() < 200 * MEGABYTE
    child.communicate("\n")
    # The child was killed, and may still be on its way out. That all is free again is a reading.
    wait_until(lambda: used() == 0, "all that was held to be free")
    reader.watch({})
    assert used() is None
