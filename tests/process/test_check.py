"""`trainyard check`: every row against machines of a stand-in, the program that computes, and what a check leaves."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from core.catalog.frameworks import FRAMEWORKS
from core.check import gpu_work
from core.check.check import Level, Result, State, run, scope_of
from core.check.keeper import keep
from core.check.table import CHECKS, page, without_names
from core.devices.device import Device, Survey
from core.devices.sampler import Sampler
from core.launchers import p2p
from core.launchers.local import environment
from core.memory_watch.gpu_processes import GpuProcessScan
from core.runs.run import Run
from core.schema.event_kinds import ProcessInfo
from core.schema.spec import RankAssignment
from tests.nvml.standin import ROOT, StandIn, mig_uuid, uuid
from tests.support.acted_trainings import HELD, ActedTrainings
from tests.support.pythons import install, make_environment, write_program
from tests.support.running import make_spec
from tests.support.waiting import PATIENCE_S, wait_until

ROWS = {check.id: check for check in CHECKS}
PASS, PROBLEM, COULD_NOT, NOT_APPLICABLE = "pass", "problem", "could_not", "not_applicable"
GIB = 1 << 30
BUS = "sys/bus/pci/devices"
PROFILES = ROOT / "tests/nvml/profiles"
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files of a machine with two GPUs whose driver is 550.54.14; tests change them."""
    for number in (0, 1):
        card = tmp_path / BUS / f"0000:0{number + 1}:00.0"
        card.mkdir(parents=True)
        (card / "vendor").write_text("0x10de\n")
        (card / "class").write_text("0x030200\n")
    (tmp_path / "dev/shm").mkdir(parents=True)
    for number in (0, 1):
        (tmp_path / f"dev/nvidia{number}").touch()
    (tmp_path / "dev/kmsg").write_text("6,1,0,-;NVRM: loading NVIDIA UNIX Open Kernel Module\n")
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(VERSION.format(version="550.54.14"))
    return tmp_path


GPUS = tuple(Device(id=uuid(number), kind="nvidia", label=f"GPU {number}", name="RTX 4090",
                    memory_total_bytes=24 * GIB) for number in (0, 1))
CPUS = tuple(Device(id=f"cpu:{number}", kind="cpu", label=f"CPU {number}", name="Xeon") for number in (0, 1))


def look(tree: Path, *ids: str, devices: Sequence[Device] = GPUS, **changes: object) -> list[Result]:
    """Return the results of these rows."""
    with scope_of(Survey(devices=tuple(devices)), [], computes=True) as scope:
        found = replace(scope, root=tree, **changes)
        return list(run([ROWS[each] for each in ids], found))


GPU, BOTH = {"gpus": 2}, "GPU 0 and GPU 1"
CONTAINER = {".dockerenv": "", "dev/nvidia1": None}
SLOW = "nvmlDeviceGetUtilizationRates"
READS = [
    # id, settings of the stand-in, files, state, what is seen, remedy
    ("driver", GPU, {}, PASS, "driver 550.54.14 for CUDA up to 12.4, open kernel module", ""),
    ("driver", GPU, {"proc/driver/nvidia/version": VERSION.format(version="545.23.06")}, PROBLEM,
     "kernel module 545.23.06, library 550.54.14", "reboot"),
    ("driver", GPU | {"driver_version": "470.82"}, {"proc/driver/nvidia/version": ""}, PROBLEM, "driver 470.82",
     "driver 525 or later"),
    ("driver", GPU, {"proc/driver/nvidia/version": ""}, COULD_NOT, "cannot be read", ""),
    ("driver", {"init_error": 18}, {}, PROBLEM, "ersion mismatch", "reboot"),
    ("driver", GPU | {"crash": "segv"}, {}, PROBLEM, "ended the process that asked it with signal SEGV", "dmesg"),
    ("census", GPU, {}, PASS, "2 on the bus, with NVML, and as device files", ""),
    ("census", {"gpus": 1}, {}, PROBLEM, "NVML does not list the GPU at 0000:02:00.0, although there is ", "container"),
    ("census", {"gpus": 1}, {"dev/nvidia1": None}, PROBLEM, "NVML does not list the GPU at 0000:02:00.0", "container"),
    ("census", {"gpus": 1}, CONTAINER, PASS, "this container sees 1 of 2 GPUs", ""),
    ("census", {"gpus": 1}, CONTAINER | {"dev/nvidia1": ""}, PROBLEM, "dev/nvidia1", "dmesg"),
    ("census", {"gpus": 1, "gpu0": {"mig": 1, "mig_count": 1}}, CONTAINER, PROBLEM,
     f"CUDA shows {mig_uuid(0, 0)}, which NVML does not list", "scheduler"),
    ("census", GPU, {"dev/dxg": ""}, NOT_APPLICABLE, "WSL2", ""),
    ("census", GPU, {f"{BUS}/0000:0{each}:00.0/vendor": "" for each in (1, 2)}, COULD_NOT, "no GPU on its PCI", ""),
    ("census", GPU | {"gpu1": {"lost": 1}}, {}, PROBLEM, "1 of 2 GPUs do not answer", "dmesg"),
    ("order", GPU, {}, PASS, f"CUDA shows {BOTH}, each alone and all in this order", ""),
    ("order", GPU | {"gpu1": {"cuda_hidden": 1}}, {}, PROBLEM, f"CUDA shows {uuid(0)}", "scheduler"),
    ("order", GPU | {"cuda_error": 999}, {}, COULD_NOT, "error 999", ""),
    ("memory-api", GPU, {}, PASS, "reserved: 400", ""),
    ("memory-api", GPU | {"gpu0": {"unsupported": "memory"}, "gpu1": {"unsupported": "memory"}}, {}, NOT_APPLICABLE,
     "the memory is that of the host", ""),
    ("latency", GPU | {f"slow_ms.{SLOW}": 60}, {}, PROBLEM, "utilisation, memory and power 6", "persistence mode"),
    ("memory-api", GPU | {"gpu1": {"error.memory": 13}}, {}, COULD_NOT, "GPU 1: the driver does not tell used", ""),
    ("memory-api", GPU | {"gpu0": {"error.memory": 999}}, {}, PROBLEM, "GPU 0: ", "dmesg"),
    ("memory-api", GPU | {"gpu1": {"lost": 1}}, {}, COULD_NOT, "the driver does not list GPU 1", ""),
    ("latency", GPU, {}, PASS, "for the slowest GPU", ""),
    ("latency", GPU | {"crash": "segv"}, {}, COULD_NOT, "ended the process that asked it with signal SEGV", ""),
    ("latency", GPU | {f"slow_ms.{SLOW}": 20}, {}, PROBLEM, "utilisation, memory and power 2", "persistence mode"),
    ("latency", GPU | {f"gpu{each}": {"unsupported": "utilisation,power"} for each in (0, 1)}, {}, PASS, "slowest", ""),
    ("latency", GPU | {f"gpu{each}": {"unsupported": "utilisation,memory,power,compute"} for each in (0, 1)}, {},
     COULD_NOT, "the driver gives no readings", ""),
    ("health", GPU, {}, PASS, "nothing is wrong by 2", ""),
    ("health", GPU | {"gpu1": {"recovery": 1}}, {}, PROBLEM, "GPU 1 needs a reset", "nvidia-smi --gpu-reset"),
    ("health", GPU | {"gpu1": {"error.ecc": 4}}, {}, COULD_NOT, "GPU 1 ecc-errors: ", ""),
    ("kernel-log", GPU, {}, PASS, "no Xid", ""),
    ("kernel-log", GPU, {"dev/kmsg": 2 * "4,2,1,-;NVRM: Xid (PCI:0000:01:00): 79, fell off\n"}, PROBLEM,
     "Xid 79 at 0000:01:00 (2 times)", "Reset the GPU"),
    ("kernel-log", GPU, {"dev/kmsg": "4,2,1,-;NVRM: Xid (PCI:0000:01:00): 43, pid=7\n"}, PASS, "Xid 43", ""),
    *((each, {"init_error": 999}, {}, COULD_NOT, "Unknown Error", "") for each in ("census", "kernel-log")),
    *((each, None, {}, NOT_APPLICABLE, "", "") for each in
      ("driver", "census", "order", "memory-api", "health", "latency", "kernel-log")),
]


@pytest.mark.parametrize(("name", "settings", "files", "state", "seen", "remedy"), READS)
def test_what_is_read_of_the_driver(tree, name, settings, files, state, seen, remedy, request) -> None:
    if settings is not None:
        request.getfixturevalue("nvml").write(**settings)
    for path, text in files.items():
        if text is None:
            (tree / path).unlink()
        else:
            (tree / path).write_text(text)
    shared = "host" in seen
    devices = CPUS if settings is None else [replace(each, shared_memory=shared) for each in GPUS]
    [result] = look(tree, name, devices=devices)
    assert (result.state.value, seen in result.value, remedy in result.remedy) == (state, True, True), result
    assert bool(result.remedy) == (state == PROBLEM)


@pytest.mark.parametrize(
    ("torch", "devices", "state", "seen", "remedy"),
    [
        (None, CPUS, PROBLEM, "no Python here has PyTorch or TensorFlow", "Install a framework"),
        ("None", GPUS, PROBLEM, "PyTorch 2.9.0 in ", "is a build without CUDA and cannot use GPU 0 and GPU 1."),
        ("None", CPUS, PASS, "PyTorch 2.9.0 in ", ""),
        ("'13.0'", GPUS, PASS, "PyTorch 2.9.0 in ", ""),
    ],
)
def test_frameworks_of_this_machine(tree, tmp_path, monkeypatch, torch, devices, state, seen, remedy) -> None:
    monkeypatch.setattr("core.pythons.discovery.find_pythons", lambda *_, **__: iter(()))
    python = make_environment(tmp_path / "env")
    if torch:
        install(python, "torch", "2.9.0", version_py=f"__version__ = '2.9.0'\ncuda = {torch}\n")
    for row in FRAMEWORKS:
        monkeypatch.setenv(f"TRAINYARD_PYTHON_{row.id.upper()}", str(python))
    [result] = look(tree, "frameworks", devices=devices)
    assert (result.state.value, seen in result.value, remedy in result.remedy) == (state, True, True), result
    assert bool(result.remedy) == (state == PROBLEM)


def test_limits_of_this_system_and_a_closed_log_of_the_kernel(tree, nvml: StandIn, monkeypatch) -> None:
    nvml.write(**GPU)
    monkeypatch.setattr("resource.getrlimit", lambda _: (4096, 4096))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=8 * GIB))
    monkeypatch.setenv("PATH", str(tree))  # no journalctl
    (tree / "dev/kmsg").unlink()
    limits, log = look(tree, "surroundings", "kernel-log")
    assert (limits.state, limits.value[:37]) == (State.PASS, "shared memory 8.0 GB, open files 4096"), limits
    assert (log.state, "sudo dmesg | grep -i xid" in log.value) == (State.COULD_NOT, True)
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=64 << 20))
    [limits] = look(tree, "surroundings")
    assert (limits.state, limits.value) == (State.PROBLEM, "64 MB of shared memory, at most 256 open files")
    assert all(each in limits.remedy for each in ("--shm-size", "ulimit -n 4096"))


def test_call_that_hangs_is_a_row_and_the_next_row_looks(tree, nvml: StandIn, monkeypatch) -> None:
    monkeypatch.setattr("core.check.check.ANSWER_S", 0.5)
    nvml.write(gpus=2, **{f"slow_ms.{SLOW}": 60_000})
    driver, latency, memory = look(tree, "driver", "latency", "memory-api")
    assert (driver.state, latency.state, memory.state) == (State.PASS, State.COULD_NOT, State.PASS)
    assert latency.value == "the driver did not answer in 0.5 s"


@pytest.mark.parametrize("profile", sorted(file.stem for file in PROFILES.glob("*.txt")))
def test_what_real_drivers_answer_comes_to_the_expected_results(tree, nvml: StandIn, profile) -> None:
    around = nvml.use(profile)
    for number in (0, 1):
        vendor = "0x10de" if number < int(around["pci"]) else "0x8086"
        (tree / f"{BUS}/0000:0{number + 1}:00.0/vendor").write_text(vendor)
        if number >= int(around["devices"]):
            (tree / f"dev/nvidia{number}").unlink()
    (tree / "proc/driver/nvidia/version").write_text(VERSION.format(version=around.get("module", "")))
    if around.get("dxg"):
        (tree / "dev/dxg").touch()
    with Sampler() as sampler:
        devices = [each for each in sampler.survey(PATIENCE_S).devices if each.kind == "nvidia"]
    expected = dict(line.split() for line in (PROFILES / f"{profile}.expected").read_text().splitlines())
    results = look(tree, *expected, devices=devices)
    assert {each.check.id: each.state.value for each in results} == expected, results
    assert all(bool(each.remedy) == (each.state is State.PROBLEM) for each in results)


# -- work on GPUs --------------------------------------------------------------------------------------


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Set what a Python with PyTorch says and does for each task."""
    python = make_environment(tmp_path / "env")
    install(python, "torch", "2.9.0")
    real, acted = python.parent / "real", ROOT / "tests/support/acted_torch.py"
    python.rename(real)
    acts = f'case "$1" in *gpu_probe.py) exec "{real}" "{acted}" "$@";; esac'
    write_program(python, f'#!/bin/sh\n{acts}\nexec "{real}" "$@"\n')
    monkeypatch.setenv("TRAINYARD_PYTHON_PYTORCH", str(python))
    monkeypatch.setenv("ACTED_TORCH", str(tmp_path / "acts.json"))
    for name, seconds in (("BACK_S", 0.5), ("FREED_S", 0.2), ("START_S", 20.0), ("REDUCE_S", 1.0), ("LOAD_S", 2.0)):
        monkeypatch.setattr(gpu_work, name, seconds)
    return lambda acts: (tmp_path / "acts.json").write_text(json.dumps(acts))


SPEEDS = {"multiplies": 8e14, "copies": 3e12, "to_device": 5e10, "from_device": 5e10, "under_load": True}
NUMBERS = {"errors": {"float32": 1e-6, "bfloat16": 3e-3}, "unlike": 0, "repeats": 50}
FULL_LINK = {f"gpu{number}": {"pcie_generation": 4, "pcie_max_generation": 4} for number in (0, 1)}
HOLDS = {"says": {"sum": 8.0}, "memory": GIB + (500 << 20)}
SUM = {"says": {"wrong": 0, "rate": 2e10}}
SHARED = {"says": {"wrong": [[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]}}
WELL = {"hold": HOLDS, "numbers": {"says": NUMBERS}, "speed": {"says": SPEEDS}, "ipc": SHARED, "reduce": SUM}
DESKTOP = {"gpus": 1, "gpu0": {"graphics": "1:1000"}}
WORK = [
    # id, settings of the stand-in, acts of PyTorch, state, what is seen, remedy
    ("accounting", {"gpus": 1}, {"hold": HOLDS}, PASS, "of CUDA itself, the process is listed", ""),
    ("accounting", {"gpus": 1}, {"hold": HOLDS | {"other_namespace": True}}, PASS, "under other numbers", ""),
    ("accounting", {"gpus": 1}, {"hold": HOLDS | {"memory": 1 << 20}}, PROBLEM, "wrote to 1.0 GB, and", "rely"),
    ("accounting", {"gpus": 1}, {"hold": {"says": {"error": "CUDA error: 802"}}}, COULD_NOT, "GPU 0: CUDA error", ""),
    ("release", {"gpus": 1}, {"hold": HOLDS}, PASS, "s after that of a process which it had forked", ""),
    ("release", {"gpus": 1}, {"hold": HOLDS | {"kept": True}}, PROBLEM, "were not back after", "trainyard devices"),
    ("release", DESKTOP, {"hold": HOLDS | {"kept": True, "memory": 64 << 20}}, COULD_NOT, "other programs are", ""),
    ("release", DESKTOP, {"hold": HOLDS | {"kept": True}}, PROBLEM, "were not back", "reset"),
    ("accounting", DESKTOP, {"hold": HOLDS | {"memory": GIB - (64 << 20)}}, COULD_NOT,
     "other programs are on it, and its memory changed by 64 MB meanwhile", ""),
    ("accounting", GPU | {"gpu1": {"lost": 1}}, {"hold": HOLDS}, COULD_NOT, "GPU 1: the driver does not tell its", ""),
    ("numbers", GPU, {"numbers": {"says": NUMBERS}}, PASS, "50 repetitions equal", ""),
    ("numbers", GPU, {"numbers": {"says": NUMBERS | {"unlike": 3}}}, PROBLEM, "3 of 50 repetitions", "Train nothing"),
    ("numbers", GPU, {"numbers": {"says": NUMBERS | {"errors": {"float32": 1e-3, "bfloat16": 3e-3}}}}, PROBLEM,
     "float32 1.0e-03", "Train nothing"),
    ("speed", GPU, {"speed": {"says": SPEEDS}}, PASS, "GPU 1: 16-bit products 800 TFLOP/s, memory 3000 GB/s", ""),
    ("speed", GPU, {"speed": {"says": SPEEDS, "on": {uuid(1): {"says": SPEEDS | {"multiplies": 6e14}}}}}, PROBLEM,
     "GPU 1 is slower than a GPU of the same model: 16-bit products 600 TFLOP/s and 16-bit products 800", "clocks"),
    # All GPUs work at once, and any may be the first to fail.
    *((each, GPU, {task: {"says": {"error": "CUDA error: 802"}}}, COULD_NOT, ": CUDA error: 802", "")
      for each, task in (("numbers", "numbers"), ("speed", "speed"), ("link", "speed"), ("energy", "speed"))),
    ("link", GPU | {"gpu0": {"unsupported": "pcie"}}, {"speed": {"says": SPEEDS}}, COULD_NOT, "does not tell its", ""),
    ("link", GPU | FULL_LINK, {"speed": {"says": SPEEDS}}, PASS, "GPU 0: generation 4 with 16 lanes", ""),
    ("link", GPU | {"gpu1": {"pcie_generation": 1, "pcie_max_generation": 4}},
     {"speed": {"says": SPEEDS}}, PROBLEM, "generation 1 with 16 lanes, of 4 with 16", "Reseat"),
    ("energy", GPU, {"speed": {"says": SPEEDS}}, PROBLEM, "GPU 0: 0 J counted", "estimates"),
    ("energy", GPU | {f"gpu{each}": {"energy_counts": 1} for each in (0, 1)}, {"speed": {"says": SPEEDS}},
     PASS, "J counted", ""),
    ("energy", GPU | {f"gpu{each}": {"unsupported": "energy"} for each in (0, 1)},
     {"speed": {"says": SPEEDS}}, NOT_APPLICABLE, "GPU 0: no counter of energy", ""),
    ("p2p-values", GPU, {"reduce": SUM}, PASS, "values right, 20.0 GB/s, the driver allows direct access for 2", ""),
    ("p2p-values", GPU, {"reduce": SUM | {"p2p": {"says": {"wrong": 7, "rate": 1e9}}}}, PROBLEM,
     "14 values of a sum are wrong; right without direct access", "trainyard check --p2p off"),
    ("p2p-values", GPU, {"reduce": SUM | {"p2p": {"hang": True}}}, PROBLEM, "did not answer in", "--p2p off"),
    ("p2p-values", GPU, {"reduce": {"says": {"wrong": 7, "rate": 1e9}}}, COULD_NOT, "without direct access: 14", ""),
    ("numbers", GPU, {"numbers": {"says": NUMBERS | {"errors": {"float32": 1e-6, "float16": 1e-3}}}}, PASS,
     "float16 1.0e-03", ""),
    ("p2p-values", {"gpus": 1}, {"reduce": SUM}, NOT_APPLICABLE, "needs two", ""),
    ("ipc", GPU, {"ipc": SHARED}, PASS, f"values right for 4 pairs of processes on {BOTH}", ""),
    ("ipc", GPU, {"ipc": {"says": {"wrong": [[0, 0, 0], [0, 1, 5]]}}}, PROBLEM,
     "5 values of GPU 0, shared with a process on GPU 1, are wrong", "--p2p off"),
    ("ipc", GPU, {"ipc": {"says": {"wrong": [[1, 1, 5]]}}}, PROBLEM, "with a process on GPU 1, are", "Pass no tensors"),
    ("ipc", GPU, {"ipc": {"says": {"error": "CUDA error: 801"}}}, COULD_NOT, f"{BOTH}: CUDA error: 801", ""),
    *((each, {"gpus": 0}, {}, NOT_APPLICABLE, "no NVIDIA GPU is checked", "") for each in
      ("accounting", "release", "numbers", "speed", "link", "energy", "ipc")),
]


@pytest.mark.parametrize(("name", "settings", "acts", "state", "seen", "remedy"), WORK)
def test_work_on_gpus(tree, nvml: StandIn, torch, name, settings, acts, state, seen, remedy, monkeypatch) -> None:
    nvml.write(**settings)
    torch(acts)
    if state == PASS:
        monkeypatch.setattr(gpu_work, "BACK_S", PATIENCE_S)
    [result] = look(tree, name, devices=GPUS[: settings["gpus"]])
    assert (result.state.value, seen in result.value, remedy in result.remedy) == (state, True, True), result
    assert bool(result.remedy) == (state == PROBLEM)


WORKING = [check.id for check in CHECKS if check.level is Level.WORK]


@pytest.mark.parametrize("is_seen", [True, False])
def test_process_that_a_killed_one_has_forked_is_seen_to_hold_its_memory(tree, nvml, torch, is_seen, monkeypatch):
    def scan(*_: object) -> GpuProcessScan:
        found = [each.pid for each in psutil.process_iter(["cmdline"]) if "hold" in (each.info["cmdline"] or ())]
        assert found
        return GpuProcessScan(tuple(ProcessInfo(pid=pid) for pid in found if is_seen))

    nvml.write(gpus=1)
    torch({"hold": HOLDS})
    monkeypatch.setattr(gpu_work, "scan", scan)
    monkeypatch.setattr(gpu_work, "BACK_S", PATIENCE_S)
    [result] = look(tree, "release", devices=[replace(GPUS[0], minor=0)])
    assert (result.state, "was not found as its holder" in result.value) == (
        (State.PASS, False) if is_seen else (State.PROBLEM, True)), result


@pytest.mark.parametrize(
    ("changes", "devices", "why"),
    [
        ({"obstacle": "another check"}, GPUS, "another check"),
        ({"look_for_users": lambda: "GPU 0 is used by run x"}, GPUS, "left out, since GPU 0 is used by run x"),
        ({}, [replace(each, blocked="hidden") for each in GPUS], "GPU 0 and GPU 1 cannot be used"),
    ],
)
def test_nothing_computes_on_devices_that_are_used_or_hidden(tree, nvml: StandIn, torch, changes, devices, why) -> None:
    nvml.write(gpus=2)
    torch({})
    found = {each.check.id: (each.state, each.value) for each in look(tree, *WORKING, devices=devices, **changes)}
    if not changes:
        assert found.pop("p2p-values") == (State.NOT_APPLICABLE, "a sum over devices needs two")
    assert set(found.values()) == {(State.COULD_NOT, why)}


def test_mig_devices_have_no_memory_and_no_link_to_look_at(tree, nvml: StandIn, torch) -> None:
    nvml.write(gpus=1)
    torch({"speed": {"says": SPEEDS}})
    instance = replace(GPUS[0], id="MIG-00000000-0000-4000-8000-000000000001")
    assert {each.state for each in look(tree, "memory-api", "link", devices=[instance])} == {State.NOT_APPLICABLE}


def test_health_of_a_mig_device_is_that_of_its_gpu(nvml: StandIn) -> None:
    nvml.write(gpus=1, gpu0={"mig": 1, "mig_count": 1, "recovery": 1})
    whole = replace(GPUS[0], pci_bus_id="0000:01:00.0", blocked="MIG")
    instance = replace(GPUS[0], id=mig_uuid(0, 0), label="GPU 0 MIG 0", pci_bus_id="0000:01:00.0")
    for devices, state, seen in [([whole, instance], State.PROBLEM, "GPU 0 needs a reset"),
                                 ([instance], State.NOT_APPLICABLE, "tells nothing of the health")]:
        with scope_of(Survey(devices=tuple(devices)), [instance.id], computes=False) as scope:
            [result] = run([ROWS["health"]], scope)
        assert (result.state, seen in result.value) == (state, True), result


def test_switched_off_direct_access_is_not_advised_again(tree, nvml: StandIn, torch) -> None:
    nvml.write(**GPU)
    torch({"reduce": SUM | {"p2p": {"says": {"wrong": 7, "rate": 1e9}}}})
    p2p.switch(on=False)
    [result] = look(tree, "p2p-values")
    assert result.remedy.startswith("Runs on this machine do without direct access between GPUs. To use it again: ")


def test_failure_of_one_rank_is_told_while_the_others_wait_for_it(tree, nvml: StandIn, torch, monkeypatch) -> None:
    nvml.write(**GPU)
    torch({"reduce": {"hang_of_rank": 0, "says": {"error": "CUDA error: 802"}}})
    monkeypatch.setattr(gpu_work, "REDUCE_S", 600.0)
    [result] = look(tree, "p2p-values")
    assert (result.state, "without direct access: GPU 0 and GPU 1: CUDA error: 802" in result.value) == (
        State.COULD_NOT, True), result


def test_shared_memory_is_never_filled_and_a_python_without_pytorch_does_not_compute(tree, nvml: StandIn, monkeypatch):
    nvml.write(gpus=2)
    unified = [replace(each, shared_memory=True) for each in GPUS]
    rows = ("accounting", "release", "memory")
    assert {each.state for each in look(tree, *rows, devices=unified)} == {State.NOT_APPLICABLE}
    monkeypatch.setenv("TRAINYARD_PYTHON_PYTORCH", "/nowhere/python")
    assert {each.value for each in look(tree, *WORKING)} == {
        "PyTorch, which computes here, is not installed in /nowhere/python"
    }


# -- trainings -----------------------------------------------------------------------------------------


WAITS, LIVES = {"waits": True, "steps": 30, "state": "paused"}, {"waits": True, "steps": 30, "state": "stopped"}
FAILED = {"state": "failed", "error": "It could not go on."}
NO_MEMORY = {"state": "failed", "error": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 GiB."}
ONE, SAYS = {"gpus": 1}, 'trainyard-check:{{"seconds": {}}}\n'
TRAIN = [
    # id, settings of the stand-in (none: CPU devices), trainings in the order of their start, state, seen, remedy
    ("train-pytorch", None, [], PASS,
     "trained: single, ddp, fsdp, pipeline and placement; Strategy data_parallel runs on NVIDIA GPUs only.", ""),
    ("train-pytorch", None, [{}, {"loss": 0.9}], PROBLEM, "ddp: the last loss is 0.9, and 0.5 on one device; trained: ",
     "Train with another strategy"),
    ("train-pytorch", None, [FAILED], PROBLEM, "single: It could not go on.; trained: ddp, ", "Train with another"),
    ("train-pytorch", None, [LIVES], COULD_NOT, "a training was not over after 0.5 s", ""),
    ("train-tensorflow", None, [{}, {"loss": 0.9}], PROBLEM, "mirrored: the last loss is 0.9", "Train with another"),
    ("train-keras", None, [], PASS, "trained: single, mirrored and placement; ", ""),
    ("pause", None, [{}, WAITS], PASS, "paused after step 30; last loss 0.5, without a pause 0.5", ""),
    ("pause", None, [{}, WAITS, {"loss": 0.6}], PROBLEM, "last loss 0.6, without a pause 0.5", "Do not rely on pauses"),
    ("pause", None, [{}, WAITS, FAILED], PROBLEM, "It could not go on.", "Report this check."),
    ("pause", None, [{}, {}], COULD_NOT, "the training was over before it could be paused", ""),
    ("kills", None, 3 * [LIVES], PASS, "everything gone after SIGKILL: worker ", ""),
    ("kills", None, [LIVES, LIVES | {"left": True}], PROBLEM,
     "1 process of a run was left 0.5 s after SIGKILL to its supervisor", "trainyard sweep"),
    ("kills", None, [LIVES | {"held": True}], PROBLEM, HELD, "trainyard devices"),
    ("kills", None, [FAILED], COULD_NOT, "the training had ended before: It could not go on.", ""),
    ("hang", None, [LIVES], PROBLEM, "Worker 0: not examined", "Report this check."),
    ("hang", None, [FAILED], PROBLEM, "It could not go on.", "Report this check."),
    ("memory", ONE, [NO_MEMORY], PASS, "out of memory", ""),
    ("memory", ONE, [FAILED], PROBLEM, "the failure is called “", "Report this check."),
    ("memory", ONE, [{}], NOT_APPLICABLE, "the driver lends GPUs memory of the host", ""),
    ("memory", ONE, [LIVES], COULD_NOT, "a training was not over after 0.5 s", ""),
    ("watching", None, [{"log": SAYS.format(1.0)}], PASS, "a run has 1.000 of the speed by hand", ""),
    ("watching", None, [{"log": SAYS.format(2.0)}], PROBLEM, "a run has 0.500 of the speed by hand", "what else runs"),
    ("watching", None, [FAILED], COULD_NOT, "It could not go on.", ""),
    ("watching", None, [{}], COULD_NOT, "the program said nothing", ""),
]


@pytest.fixture
def trainings(torch, monkeypatch):
    """A function that sets what the trainings of a check come to, and the time that a program takes by hand."""
    torch({"steps": {"says": {"seconds": 1.0}}})
    for name, value in (("RUN_S", PATIENCE_S), ("GONE_S", 0.5), ("ROUNDS", 1)):
        monkeypatch.setattr(f"core.check.trainings.{name}", value)
    monkeypatch.setattr("core.doctor.examination.INTERVAL_S", 0.1)
    with contextlib.ExitStack() as stack:

        def act(acts) -> ActedTrainings:
            acted = stack.enter_context(contextlib.closing(ActedTrainings(acts)))
            monkeypatch.setattr("core.runs.directory.launch_supervisor", acted.launch)
            return acted

        yield act


@pytest.mark.parametrize(("name", "settings", "acts", "state", "seen", "remedy"), TRAIN)
def test_trainings(tree, trainings, name, settings, acts, state, seen, remedy, request, monkeypatch) -> None:
    if settings is not None:
        request.getfixturevalue("nvml").write(**settings)
    if "not over" in seen:
        monkeypatch.setattr("core.check.trainings.RUN_S", 0.5)
    acted = trainings(acts)
    [result] = look(tree, name, devices=CPUS if settings is None else GPUS[:1])
    assert acted.launched
    assert all(variables == {"TMPDIR": str(run_dir.parent)} for run_dir, variables in acted.launched)
    assert (result.state.value, seen in result.value, remedy in result.remedy) == (state, True, True), result
    assert bool(result.remedy) == (state == PROBLEM)


def test_nothing_trains_without_the_framework_or_beside_a_run(tree, trainings, monkeypatch) -> None:
    trainings([])
    rows = ("train-pytorch", "pause", "kills", "hang", "watching")
    results = look(tree, *rows, devices=CPUS, look_for_users=lambda: "CPU 0 is used")
    assert {(each.state, each.value) for each in results} == {(State.COULD_NOT, "left out, since CPU 0 is used")}
    assert look(tree, "hang", devices=CPUS[:1])[0].state is State.NOT_APPLICABLE
    monkeypatch.setenv("TRAINYARD_PYTHON_PYTORCH", "/nowhere/python")
    found = {(each.state, each.value) for each in look(tree, *rows, devices=CPUS)}
    assert found == {(State.NOT_APPLICABLE, "PyTorch is not installed")}


def test_run_that_begins_meanwhile_is_named_and_keeps_the_next_check_from_computing(tree, nvml: StandIn, torch) -> None:
    nvml.write(**GPU)
    torch({"numbers": {"says": NUMBERS | {"unlike": 3}}})
    users = iter(["", ""])  # before the first check, and when it begins to compute
    numbers, speed = look(tree, "numbers", "speed", look_for_users=lambda: next(users, "GPU 0 is used by run x"))
    assert numbers.state is State.PROBLEM
    assert numbers.value.endswith("repetitions differ; perhaps disturbed: GPU 0 is used by run x")
    assert (speed.state, speed.value) == (State.COULD_NOT, "left out, since GPU 0 is used by run x")


def test_runs_that_use_the_devices_are_found_as_they_come_and_go(runs_root) -> None:
    acted = ActedTrainings([LIVES])
    with contextlib.closing(acted), scope_of(Survey(devices=CPUS), [], computes=True, runs=runs_root) as scope:
        assert scope.look_for_users() == ""
        run = Run.start(make_spec("digits_mlp"), runs_root, acted.launch)
        wait_until(lambda: scope.look_for_users() == f"CPU 0 is used by run {run.id}", "the run")
        run.request("stop")
        wait_until(lambda: scope.look_for_users() == "", "the end of the run")


# -- the command ---------------------------------------------------------------------------------------


def test_command_prints_each_result_counts_them_and_exits_with_1_for_a_problem(call, nvml: StandIn, torch, tmp_path):
    nvml.write(gpus=2, gpu1={"recovery": 1})
    torch(WELL | {"numbers": {"says": NUMBERS | {"unlike": 3}}})
    saved = tmp_path / "machine.md"
    code, out, err = call("check", "--devices", "gpu:1", "--save", saved)
    assert code == 1
    assert "Problem: health of the GPUs: The driver says that GPU 1 needs a reset (its recovery action)." in out
    assert "nvidia-smi --gpu-reset" in err
    assert "Not applicable: sum over devices: a sum over devices needs two" in out
    assert out.splitlines()[-1].endswith("not applicable. This says nothing about what is not listed.")
    assert "| health of the GPUs | problem |" in saved.read_text()
    code, out, err = call("check", "--quick", "--json")
    found = json.loads(out)
    assert (code, err, [each["id"] for each in found["checks"]]) == (1, "", [
        check.id for check in CHECKS if check.level is Level.QUICK
    ])
    [health] = [each for each in found["checks"] if each["id"] == "health"]
    assert health.keys() == {"id", "state", "value", "expected", "remedy", "seconds", "devices"}
    assert (health["state"], health["devices"]) == ("problem", [uuid(1)])
    assert found["counts"].keys() == {"pass", "problem", "could_not", "not_applicable"}
    assert sum(found["counts"].values()) == len(found["checks"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--quick", "--full"), "not allowed with"),
        (("--devices", "gpu:7"), "There is no device gpu:7 here"),
        (("--devices", "gpu:0,cpu:0"), "Name devices of one kind"),
        (("--save", "/nowhere/x.md"), "there is no folder /nowhere"),
        (("--p2p", "maybe"), "Choose one of: 'on', 'off'"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_checked(call, nvml: StandIn, words, why) -> None:
    nvml.write(gpus=1)
    code, out, err = call("check", *words)
    assert (code, out, why in err) == (2, "", True), err


def test_devices_in_use_and_a_second_check_leave_the_work_out(call, nvml: StandIn, torch, tmp_path) -> None:
    nvml.write(gpus=2, gpu0={"memory_used": 20 * GIB, "compute": f"1:{20 * GIB}"})
    torch(WELL)
    _, out, err = call("check", "--json")
    assert "GPU 0" in err
    assert err.endswith("Nothing computes on them; with --yes it does.\n")
    states = {each["id"]: (each["state"], each["value"]) for each in json.loads(out)["checks"]}
    assert states["numbers"][0] == COULD_NOT
    assert states["numbers"][1].startswith("left out, since GPU 0 is used by pid 1 ")
    _, out, _ = call("check", "--json", "--yes")
    assert {each["id"]: each["state"] for each in json.loads(out)["checks"]}["numbers"] == PASS
    with scope_of(Survey(devices=GPUS), [], computes=True):
        _, out, _ = call("check", "--json", "--yes")
    states = {each["id"]: (each["state"], each["value"]) for each in json.loads(out)["checks"]}
    assert states["numbers"] == (COULD_NOT, "another check is computing; check again when it has ended")


def test_nothing_of_a_page_to_share_names_user_host_path_or_whole_uuid(monkeypatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna lee")
    monkeypatch.setattr("core.check.table.user_name", lambda _: "anna")
    monkeypatch.setattr("socket.gethostname", lambda: "wombat.zoo.example")
    texts = (
        f"{uuid(3)} and MIG-12345678-0000-4000-9000-000000000001 and MIG-{uuid(1)}/1/0, seen by anna on wombat",
        "2.9.0 in /home/anna lee/envs/x/bin/python, “/srv/data/anna/run 1”, /opt/x/bin/python; ~/env/bin/python",
        f"{sys.prefix}/bin/python -m pip install torch (/mnt/a b/c)",
        "在/data/李 安/env/bin/python, /scratch/Anna Lee/my env/bin/python, file:///srv/li/run and /anna-home",
        "GPU 0 is used by run 20261128-132205-secret-79d2 and pid 4711 python (berta); pid 1 (in a container)",
        "connect to wombat, wombat.zoo.example, [fe80::1ff:fe23:4567:890a]:29500 or 10.1.2.3<29500> failed, as root",
    )
    results = [
        Result(check=check, state=State.PROBLEM, value=" ".join(texts), remedy=" ".join(texts), seconds=1.0)
        for check in CHECKS
    ]
    with scope_of(Survey(devices=GPUS), [], computes=False) as scope:
        shared = page(scope, results)
    for secret in ("anna", "wombat", "lee", "/home", "/srv", "/opt", "/mnt", sys.prefix, uuid(3), "-4000-",
                   "李", "Lee", "secret", "berta", "env", "/li", "zoo", "fe80", "10.1."):
        assert secret not in shared, secret
    assert "GPU-00000003…" in shared
    assert "GPU 0 is used by run 20261128-132205-…-79d2 and pid 4711 python; pid 1 (in a container)" in shared
    assert "-m pip install torch" in shared
    monkeypatch.setattr("core.check.table.user_name", lambda _: "root")
    assert without_names("sudo nvidia-smi, as root: mount /dev/shm larger (16 of 32 GB/s)") == (
        "sudo nvidia-smi, as root: mount /dev/shm larger (16 of 32 GB/s)")
    assert "2 × RTX 4090" in shared


def test_choice_to_do_without_direct_access_reaches_runs_and_is_said(call, monkeypatch) -> None:
    assignment = RankAssignment(rank=0, world_size=1, devices=(uuid(0),), own=(uuid(0),), kind="nvidia", target="x",
                                cores=())
    assert "NCCL_P2P_DISABLE" not in environment({}, "run", assignment)
    assert call("check", "--p2p", "off") == (0, f"{p2p.IS_OFF}\n", "")
    assert environment({}, "run", assignment)["NCCL_P2P_DISABLE"] == "1"
    assert environment({"NCCL_P2P_DISABLE": "0"}, "run", assignment)["NCCL_P2P_DISABLE"] == "0"
    assert "NCCL_P2P_DISABLE" not in environment({}, "run", replace(assignment, kind="cpu"))
    call("check", "--p2p", "on")
    assert "NCCL_P2P_DISABLE" not in environment({}, "run", assignment)


ONE_CHECK = """
import sys
from core.check.check import run, scope_of
from core.check.table import CHECKS
from core.devices.sampler import Sampler
with Sampler() as sampler:
    survey = sampler.survey(60)
with scope_of(survey, [], computes=True) as scope:
    list(run([each for each in CHECKS if each.id == sys.argv[1]], scope))
"""
COMPUTES = {"accounting": "hold", "release": "hold", "numbers": "numbers", "speed": "speed", "link": "speed",
            "energy": "speed", "ipc": "ipc", "p2p-values": "reduce"}
"""By check, what its processes do."""


@pytest.fixture
def begin(nvml: StandIn, torch, tmp_path, monkeypatch):
    """Begin a check in a process of its own; return that, all below it, and the folder for temporary files."""
    nvml.write(gpus=2)
    torch({task: {"hang": True} for task in COMPUTES.values()})
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))

    def start(name: str) -> tuple[psutil.Process, list[psutil.Process], Path]:
        check = psutil.Popen([sys.executable, "-c", ONE_CHECK, name], cwd=ROOT, start_new_session=True)
        wait_until(lambda: list(folder.glob("trainyard-check-*/*")), "a process that computes")
        return check, check.children(recursive=True), folder

    return start


def gone(processes: Sequence[psutil.Process]) -> bool:
    _, left = psutil.wait_procs(processes, PATIENCE_S)
    return all(each.status() == psutil.STATUS_ZOMBIE for each in left)


@pytest.mark.parametrize("name", WORKING)
def test_check_killed_at_any_row_leaves_no_process_and_no_file(begin, name) -> None:
    check, started, folder = begin(name)
    check.kill()
    check.wait()
    assert gone(started)
    wait_until(lambda: not list(folder.iterdir()), "the end of its folder")


def test_folder_whose_keeper_alone_was_killed_is_removed_at_the_end(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        (tmp_path / "runs").mkdir()
        folder = keep(tmp_path / "runs", stack)
        [keeper] = [each for each in psutil.Process().children() if "core.check.keeper" in each.cmdline()]
        keeper.kill()
    assert not folder.exists()


def test_folder_of_a_check_that_was_killed_with_its_keeper_is_removed_by_the_next(begin, monkeypatch) -> None:
    check, started, folder = begin("numbers")
    for each in [*(each for each in started if "core.check.keeper" in each.cmdline()), check]:
        each.kill()
    check.wait()
    assert gone(started)
    [left] = folder.iterdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with scope_of(Survey(devices=GPUS), [], computes=False):
        assert left.exists()
    with scope_of(Survey(devices=GPUS), [], computes=True):
        assert not left.exists()
