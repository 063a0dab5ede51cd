"""Build the stand-in for the NVIDIA driver's library, and change its hardware.

The settings file has lines of key=value:

    gpus=8  init_error=18  driver_version=550.54.14  cuda_version=12040
    slow_ms=5000  crash=segv (or abort)                                         (applies to every call)
    missing=nvmlDeviceGetTemperature,...  unsupported=...  deprecated=...       (what these calls answer)
    slow_ms.nvmlDeviceGetUtilizationRates=5000                                  (applies to this call)
    gpu3.name=  .uuid=  .bus=  .minor=  .memory_total=  .memory_used=  .memory_reserved=   (bytes)
    gpu3.utilisation=82  .temperature=61  .power_mw=250000  .sm_clock_mhz=1980   (NVML's own units)
    gpu3.clock_reasons=4   (NVML's own bits)   .compute_capability=89   (8.9)
    gpu3.compute=PID:BYTES,PID:BYTES  .graphics=  .mps=        (without BYTES: "not available")
    gpu3.shares=PID:PERCENT,PID:PERCENT    (of the processes that used the GPU in the last moments)
    gpu3.lost=1  .error=999            (every call on this device fails with GPU_IS_LOST or that code)
    gpu3.unsupported=temperature,power  .error.memory=4    (fail: names in `READINGS`, or names of functions)
    gpu3.unsupported=memory  (host and device share memory)   .numa=1  (the GPU is a NUMA node)
    gpu3.recovery=1  .remapped_pending=1  .remapped_failure=1  .retired_pending=1  .ecc_volatile=2  .ecc_aggregate=2
    gpu3.unrepairable=1  .compute_mode=3  .persistence=1  .virtualisation=2  .gsp=0  .fabric=3  .fabric_status=0
    gpu3.xids=31,79  (an event of each is delivered to those who registered before)
    .energy_mj=   .energy_counts=1  (the power is added with the time)
    gpu3.pcie_generation=  .pcie_width=  .pcie_max_generation=  .pcie_max_width=  .pcie_replays=
    .pcie_rx=  .pcie_tx=   (kB/s)
    gpu3.p2p.1=0  .topology.1=30  (NVML's status and level between GPU 3 and GPU 1)
    gpu*.temperature=61  (of all GPUs)
    gpu3.mig=1  .mig_count=2  gpu3.mig0.name=  .mig0.uuid=  .mig0.memory_used=  ...   (at most 4 MIG devices)

The CUDA stand-in shows the same GPUs and has these settings of its own:

    gpu3.speed=2   (CUDA numbers GPUs fastest first by default, equal ones by bus)
    gpu3.cuda_hidden=1   (NVML lists it and CUDA does not, as in a cluster's control group)
    cuda_error=999  cuda_count_error=999  cuda_slow_ms=60000  cuda_crash=segv (or abort)

The default GPU is an idle RTX 4090 with the UUID `uuid(index)`.

`profiles/NAME.txt` has such lines of what a real driver answers, after the public source of that. What is around the
driver has keys of its own, which the libraries ignore: `host.module`, the version of the kernel module;
`host.pci` and `host.devices`, how many GPUs are on the bus and in /dev; `host.dxg=1`, that there is /dev/dxg.
`profiles/NAME.expected` has a line for each check of the machine: its id and its result.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S

SOURCE = Path(__file__).with_name("nvml.c")
CUDA_SOURCE = Path(__file__).with_name("cuda.c")
ROOT = Path(__file__).parents[2]

PROFILES = Path(__file__).with_name("profiles")

READINGS = (
    "name", "uuid", "pci", "memory", "utilisation", "temperature", "power", "power_limit", "clock", "clock_reasons",
    "compute", "graphics", "mps", "minor", "numa", "mig", "mig_count", "mig_devices", "fields", "recovery", "remapped",
    "retired", "ecc", "unrepairable", "compute_mode", "persistence", "virtualisation", "gsp", "fabric", "events",
    "pcie", "pcie_traffic", "pcie_replays", "energy", "p2p", "topology",
)


def compiler() -> str | None:
    """Return the name of the machine's C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    """Compile the NVML stand-in into a folder. Return the folder, for LD_LIBRARY_PATH."""
    return _compile(SOURCE, folder / "libnvidia-ml.so.1")


def build_cuda(folder: Path, *flags: str) -> Path:
    """Compile the CUDA stand-in into a folder. `-DOLD` builds it like a driver before 11.4."""
    return _compile(CUDA_SOURCE, folder / "libcuda.so.1", *flags)


def _compile(source: Path, library: Path, *flags: str) -> Path:
    cc = compiler()
    assert cc is not None
    subprocess.run([cc, "-shared", "-fPIC", "-O2", "-std=gnu11", *flags, "-o", library, source], check=True)
    return library.parent


def uuid(index: int) -> str:
    """Return the default UUID of a GPU."""
    return f"GPU-{index:08x}-0000-4000-8000-{index:012x}"


def mig_uuid(gpu: int, number: int) -> str:
    """Return the default UUID of a MIG device."""
    return f"MIG-{gpu:08x}-0000-4000-9000-{number:012x}"


def profiles() -> list[str]:
    """Return the names of the profiles."""
    return sorted(path.stem for path in PROFILES.glob("*.txt"))


def expected(profile: str) -> dict[str, str]:
    """Return the results of the checks of a machine with this profile, by their ids."""
    lines = (PROFILES / f"{profile}.expected").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


class StandIn:
    """The simulated hardware. It can change while programs run; start them with `env`."""

    def __init__(self, library: Path, folder: Path, cuda: Path | None = None) -> None:
        """`library` and `cuda` are the folders of the two libraries; `folder` holds the settings file."""
        self._file = folder / "nvml.txt"
        self._calls = folder / "nvml-calls.txt"
        libraries = [str(each) for each in (library, cuda) if each is not None]
        paths = [*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        self.env = {
            "LD_LIBRARY_PATH": os.pathsep.join(paths),
            "NVML_STANDIN": str(self._file),
            "NVML_STANDIN_CALLS": str(self._calls),
        }

    @classmethod
    def inherited(cls) -> StandIn:
        """Return the stand-in that this process was started with, to change its hardware from inside."""
        library = os.environ["LD_LIBRARY_PATH"].partition(os.pathsep)[0]
        return cls(Path(library), Path(os.environ["NVML_STANDIN"]).parent)

    def write(self, **settings: object) -> None:
        """Change some settings and keep the others: `gpus=8`, `gpu3={"utilisation": 82}`. None resets a setting."""
        lines = self._file.read_text().splitlines() if self._file.exists() else ()
        merged: dict[str, object] = dict(line.split("=", 1) for line in lines) | _flat(settings)
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in merged.items() if value is not None))
        fresh.replace(self._file)

    def use(self, profile: str) -> dict[str, str]:
        """Change the settings to those of a profile. Return what is around the driver: the keys without `host.`."""
        lines = (PROFILES / f"{profile}.txt").read_text().splitlines()
        settings = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        self.write(**settings)
        return {key.removeprefix("host."): value for key, value in settings.items() if key.startswith("host.")}

    def calls(self) -> Counter[str]:
        """Return the number of calls of each function so far, as `function` or `function gpu3`."""
        return Counter(self._calls.read_text().splitlines() if self._calls.exists() else ())

    def python(self, code: str) -> Any:
        """Run code in a new interpreter that finds the library. Return its output, parsed as JSON."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            check=True,
            timeout=PATIENCE_S,
        )
        return json.loads(done.stdout)


def _flat(settings: dict[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in settings.items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return flat
