"""Run code with a reader of NVIDIA devices in a fresh process, on a stand-in for the driver's library."""

from textwrap import dedent
from typing import Any

from tests.nvml.standin import StandIn

# Reader and stand-in share one process, so that a test can change values between two readings.
PREAMBLE = """
import json
from dataclasses import asdict
from pathlib import Path
from core.devices.nvidia.reader import NvidiaReader, open_reader
from core.devices.nvidia.card import PciPaths
from core.devices.reader import DriverError, NoDevices, Options, Tier
from tests.nvml.standin import StandIn

nvml = StandIn.inherited()
seen = []

def read(reader, *tiers):
    samples = reader.read(1.0, tiers or frozenset(Tier))
    seen.append([{**asdict(each), "processes": processes(each)} for each in samples])

def processes(sample):
    names = "pid", "memory_used_bytes"
    return None if sample.processes is None else [dict(zip(names, each)) for each in sample.processes]

def shares(reader, *tiers):
    samples = reader.read(1.0, tiers or frozenset(Tier))
    seen.append([{each.pid: each.utilisation_percent for each in sample.processes} for sample in samples])

def trouble(**options):
    try:
        open_reader(Options(), **options)
    except (DriverError, NoDevices) as error:
        return [type(error).__name__, str(error)]
"""


def run_reader(nvml: StandIn, code: str) -> Any:
    """Run code and return what it appended to `seen`."""
    return nvml.python(PREAMBLE + dedent(code) + "\nprint(json.dumps(seen))")
