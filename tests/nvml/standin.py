"""Drives the stand-in for the NVIDIA driver's library: builds it, and alters its hardware.

The file it obeys has lines of key=value:

    gpus=8  init_error=18  driver_version=550.54.14  cuda_version=12040
    slow_ms=5000  crash=segv (or abort)  missing=nvmlDeviceGetTemperature,...   (for every call)
    slow_ms.nvmlDeviceGetUtilizationRates=5000                                  (for this one)
    gpu3.name=  .uuid=  .bus=  .minor=  .memory_total=  .memory_used=  .memory_reserved=   (bytes)
    gpu3.utilisation=82  .temperature=61  .power_mw=250000  .clock_reasons=4   (NVML's own units and bits)
    gpu3.compute=PID:BYTES,PID:BYTES  .graphics=  .mps=        (without BYTES: "not available")
    gpu3.lost=1  .error=999            (every call of this device fails, with GPU_IS_LOST or that code)
    gpu3.unsupported=temperature,power  .error.memory=4    (one reading fails; names: `READINGS`)
    gpu3.unsupported=memory  (one memory for host and device)   .numa=1  (the GPU is a NUMA node)
    gpu3.mig=1  .mig_count=2  gpu3.mig0.name=  .mig0.uuid=  .mig0.memory_used=  ...   (at most 4 MIG devices)

The library of CUDA shows the same GPUs, and besides obeys:

    gpu3.speed=2   (by default numbers mean: fastest first, those of one speed by bus)
    gpu3.cuda_hidden=1   (NVML lists it and CUDA does not, as in a control group of a cluster's scheduler)
    cuda_error=999  cuda_count_error=999  cuda_slow_ms=60000  cuda_crash=segv (or abort)

What is not said has a default: an idle RTX 4090, with the UUID that `uuid(index)` gives.
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

SOURCE = Path(__file__).with_name("nvml.c")
CUDA_SOURCE = Path(__file__).with_name("cuda.c")
ROOT = Path(__file__).parents[2]

READINGS = (
    "name", "uuid", "pci", "memory", "utilisation", "temperature", "power", "power_limit", "clock_reasons",
    "compute", "graphics", "mps", "minor", "numa", "mig", "mig_count", "mig_devices",
)  # fmt: skip


def compiler() -> str | None:
    """The machine's C compiler, if it has one."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    """Compile the library into a folder. Returns the folder, for LD_LIBRARY_PATH."""
    return _compile(SOURCE, folder / "libnvidia-ml.so.1")


def build_cuda(folder: Path, *flags: str) -> Path:
    """The same for the library of CUDA; `-DOLD`: as a driver from before 11.4 has it."""
    return _compile(CUDA_SOURCE, folder / "libcuda.so.1", *flags)


def _compile(source: Path, library: Path, *flags: str) -> Path:
    cc = compiler()
    assert cc is not None
    subprocess.run([cc, "-shared", "-fPIC", "-O2", "-std=gnu11", *flags, "-o", library, source], check=True)
    return library.parent


def uuid(index: int) -> str:
    """The UUID of a GPU that was given no other."""
    return f"GPU-{index:08x}-0000-4000-8000-{index:012x}"


def mig_uuid(gpu: int, number: int) -> str:
    """The UUID of a MIG device that was given no other."""
    return f"MIG-{gpu:08x}-0000-4000-9000-{number:012x}"


class StandIn:
    """The hardware, as the library shows it. Altered while programs run; they need `env`."""

    def __init__(self, library: Path, folder: Path, cuda: Path | None = None) -> None:
        """`library`, `cuda`: the folders of the two libraries; `folder`: where the hardware is written down."""
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
        """The one that this process was started with: to alter the hardware from inside the program."""
        library = os.environ["LD_LIBRARY_PATH"].partition(os.pathsep)[0]
        return cls(Path(library), Path(os.environ["NVML_STANDIN"]).parent)

    def write(self, **settings: object) -> None:
        """Change settings; the others stay: `gpus=8`, `gpu3={"utilisation": 82}`. None takes one back."""
        lines = self._file.read_text().splitlines() if self._file.exists() else ()
        merged: dict[str, object] = dict(line.split("=", 1) for line in lines) | _flat(settings)
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(f"{key}={value}\n" for key, value in merged.items() if value is not None))
        fresh.replace(self._file)

    def calls(self) -> Counter[str]:
        """How often each function was called so far, as `function` or `function gpu3`."""
        return Counter(self._calls.read_text().splitlines() if self._calls.exists() else ())

    def python(self, code: str) -> Any:
        """Run code in a fresh interpreter that finds the library. Returns what it printed, as JSON."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            check=True,
            timeout=60,
        )
        return json.loads(done.stdout)


def _flat(settings: dict[str, object]) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in settings.items():
        flat |= {f"{key}.{name}": one for name, one in value.items()} if isinstance(value, dict) else {key: value}
    return flat
