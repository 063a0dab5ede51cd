"""NVIDIA devices, read in a fresh process from a stand-in for the driver's library."""

from __future__ import annotations

import json

from tests.nvml.standin import StandIn, uuid

GIGABYTE = 2**30

# A reader and the stand-in in one process, so that a test says exactly when what is read.
PREAMBLE = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from core.devices.nvidia import NvidiaReader, open_reader
from core.devices.reader import ALL_TIERS, DriverError, NoDevices, Options, Tier
from tests.nvml.standin import StandIn
import os

def write(**settings):
    global standin
    standin.write(**settings)

def read(reader, *tiers):
    return [asdict(sample) for sample in reader.read(1.0, tiers or ALL_TIERS)]

standin = StandIn.__new__(StandIn)
standin._settings = dict(line.split("=", 1) for line in Path(os.environ["NVML_STANDIN"]).read_text().splitlines())
standin._file = Path(os.environ["NVML_STANDIN"])
"""
