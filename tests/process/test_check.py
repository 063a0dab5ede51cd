"""`trainyard check`: every row against machines of a stand-in, the program that computes, and what a check leaves."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.check import gpu_work, machine
from core.check.check import Check, Level, Result, Scope, State, run
from core.check.driver import Driver
from core.check.gpu_work import PROBE, said
from core.check.scope import scope_of
from core.check.table import CHECKS, closing_line, document, page, without_names
from core.devices.device import Device, Survey
from core.devices.sampler import Sampler
from tests.nvml.standin import ROOT, StandIn, uuid
from tests.support.pythons import install, make_environment, write_program
from tests.support.waiting import PATIENCE_S

ROWS = {check.id: check for check in CHECKS}
PASS, PROBLEM, COULD_NOT, NOT_APPLICABLE = "pass", "problem", "could_not", "not_applicable"
GIB = 1 << 30
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files of a machine with two GPUs whose driver is 550.54.14; tests change them."""
    for number in (0, 1):
        card = tmp_path / f"sys/0000:0{number + 1}:00.0"
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
        found = replace(scope, sysfs=tree / "sys", proc=tree / "proc", dev=tree / "dev", **changes)
        return list(run([ROWS[each] for each in ids], found))


GPU, BOTH = {"gpus": 2}, "GPU 0 and GPU 1"
SLOW = "nvmlDeviceGetUtilizationRates"
READS = [
    # id, settings of the stand-in, files, state, what is seen, remedy
    ("driver", GPU, {}, PASS, "driver 550.54.14, open kernel module, for CUDA up to 12.4", ""),
    ("driver", GPU, {"proc/driver/nvidia/version": VERSION.format(version="545.23.06")}, PROBLEM,
     "kernel module 545.23.06, library 550.54.14", "reboot"),
    ("driver", GPU | {"driver_version": "470.82"}, {"proc/driver/nvidia/version": ""}, PROBLEM, "driver 470.82",
     "driver 525 or later"),
    ("driver", {"init_error": 18}, {}, PROBLEM, "ersion mismatch", "reboot"),
    ("driver", GPU | {"crash": "segv"}, {}, PROBLEM, "ended the process that asked it with signal SEGV", "dmesg"),
    ("census", GPU, {}, PASS, "2 on the bus, with NVML, and as device files", ""),
    ("census", {"gpus": 1}, {}, PROBLEM, "NVML does not list the GPU at 0000:02:00.0", "container"),
    ("census", GPU, {"dev/dxg": ""}, NOT_APPLICABLE, "WSL2", ""),
    ("census", GPU, {"sys/0000:01:00.0/vendor": "", "sys/0000:02:00.0/vendor": ""}, COULD_NOT, "no GPU on its PCI", ""),
    ("census", GPU | {"gpu1": {"lost": 1}}, {}, PROBLEM, "1 of 2 GPUs do not answer", "dmesg"),
    ("order", GPU, {}, PASS, f"CUDA shows {BOTH}, each alone and all in this order", ""),
    ("order", GPU | {"gpu1": {"cuda_hidden": 1}}, {}, PROBLEM, f"CUDA shows {uuid(0)}", "scheduler"),
    ("order", GPU | {"cuda_error": 999}, {}, COULD_NOT, "error 999", ""),
    ("memory-api", GPU, {}, PASS, "reserved: 400", ""),
    ("memory-api", GPU | {"gpu0": {"unsupported": "memory"}, "gpu1": {"unsupported": "memory"}}, {}, NOT_APPLICABLE,
     "the memory is that of the host", ""),
    ("memory-api", GPU | {"gpu1": {"error.memory": 13}}, {}, COULD_NOT, "GPU 1: the driver does not tell used", ""),
    ("memory-api", GPU | {"gpu0": {"error.memory": 999}}, {}, PROBLEM, "GPU 0: ", "dmesg"),
    ("latency", GPU, {}, PASS, "for the slowest GPU", ""),
    ("latency", GPU | {f"slow_ms.{SLOW}": 20}, {}, PROBLEM, "utilisation, memory and power 2", "persistence mode"),
    ("latency", GPU | {"gpu0": {"unsupported": "utilisation"}}, {}, COULD_NOT, "GPU 0: a reading is not supported", ""),
    ("kernel-log", GPU, {}, PASS, "no Xid", ""),
    ("kernel-log", GPU, {"dev/kmsg": 2 * "4,2,1,-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"}, PROBLEM,
     "Xid 79 at 0000:01:00 (2 times)", "Reset the GPU"),
    ("kernel-log", GPU, {"dev/kmsg": "4,2,1,-;NVRM: Xid (PCI:0000:01:00): 43, pid=7\n"}, PASS, "Xid 43", ""),
    *((each, {"init_error": 999}, {}, COULD_NOT, "Unknown Error", "") for each in ("census", "kernel-log")),
    *((each, None, {}, NOT_APPLICABLE, "", "") for each in
      ("driver", "census", "order", "memory-api", "latency", "kernel-log")),
]


@pytest.mark.parametrize(("name", "settings", "files", "state", "seen", "remedy"), READS)
def test_what_is_read_of_the_driver(tree, name, settings, files, state, seen, remedy, request) -> None:
    if settings is not None:
        request.getfixturevalue("nvml").write(**settings)
    for path, text in files.items():
        (tree / path).write_text(text)
    shared = "host" in seen
    devices = CPUS if settings is None else [replace(each, shared_memory=shared) for each in GPUS]
    [result] = look(tree, name, devices=devices)
    assert (result.state.value, seen in result.value, remedy in result.remedy) == (state, True, True), result
    assert bool(result.remedy) == (state == PROBLEM)


def test_call_that_hangs_is_a_row_and_the_next_row_looks(tree, nvml: StandIn, monkeypatch) -> None:
    monkeypatch.setattr("core.check.driver.ANSWER_S", 0.5)
    nvml.write(gpus=2, **{f"slow_ms.{SLOW}": 60_000})
    driver, latency, memory = look(tree, "driver", "latency", "memory-api")
    assert (driver.state, latency.state, memory.state) == (State.PASS, State.COULD_NOT, State.PASS)
    assert latency.value == "the driver did not answer in 0.5 s"


# -- work on GPUs --------------------------------------------------------------------------------------


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Set what a Python with PyTorch says and does for each task."""
    python = make_environment(tmp_path / "env")
    install(python, "torch", "2.9.0")
    real, acted = python.parent / "real", ROOT / "tests/support/acted_torch.py"
    python.rename(real)
    write_program(python, f'#!/bin/sh\nexec "{real}" "{acted}" "$@"\n')
    monkeypatch.setenv("TRAINYARD_PYTHON_PYTORCH", str(python))
    monkeypatch.setenv("ACTED_TORCH", str(tmp_path / "acts.json"))
    for name, seconds in (("BACK_S", 0.5), ("START_S", 20.0), ("REDUCE_S", 1.0)):
        monkeypatch.setattr(gpu_work, name, seconds)
    return lambda acts: (tmp_path / "acts.json").write_text(json.dumps(acts))
