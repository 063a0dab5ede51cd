"""What our reader costs over the bare calls of nvidia-ml-py: utilisation, memory, temperature and power.

    python -m benchmarks.bench_sampler

Both read the same GPUs of the stand-in library, in pairs, in turns first and second, so that whatever else the
machine does falls on both; the ratio is the median of the pairs' ratios. The stand-in answers once in no time,
which gives the worst ratio there is, and once in about two microseconds, as a driver does at best. Our reading
asks one thing more, why the clocks are low: it is measured against the bare four calls, and against the bare five.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.report import table, write_json
from tests.nvml.standin import ROOT, StandIn, build

if TYPE_CHECKING:
    from collections.abc import Callable

COUNTS = (8, 64)
PAIRS = 400
IN_CHILD = "--in-child"


def main() -> None:
    """Measure each count of GPUs in a child process that finds the stand-in; print and write the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        standin = StandIn(build(folder), folder)
        results = [_in_child(standin, count, frozen) for count in COUNTS for frozen in (True, False)]
    header = ("GPUs", "library", "bare 4 calls, us", "bare 5 calls, us", "ours, us", "ours / 4 calls", "ours / 5 calls")
    rows = [
        (
            result["gpus"],
            "instant" if result["instant"] else "2 us a call",
            f"{result['bare_us']:.1f}",
            f"{result['bare_with_clocks_us']:.1f}",
            f"{result['ours_us']:.1f}",
            f"{result['ratio']:.2f}",
            f"{result['ratio_with_clocks']:.2f}",
        )
        for result in results
    ]
    table("One reading of all GPUs: our reader over nvidia-ml-py", header, rows)
    write_json("sampler", results)


def _in_child(standin: StandIn, gpus: int, instant: bool) -> dict[str, float]:
    standin.write(gpus=gpus)
    environment = {**os.environ, **standin.env}
    del environment["NVML_STANDIN_CALLS"]
    if instant:
        environment["NVML_STANDIN_FROZEN"] = "1"  # else it looks at its file in every call
    command = [sys.executable, "-m", "benchmarks.bench_sampler", IN_CHILD]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return {"instant": instant, **json.loads(done.stdout)}


def measure() -> dict[str, float]:
    """In the child: the medians, in microseconds, and the ratios."""
    ours, bare, bare_with_clocks = _subjects()
    against_four = _pairs(ours, bare)
    against_five = _pairs(ours, bare_with_clocks)
    return {
        "gpus": len(ours()),
        "ours_us": median(one for one, _ in against_four),
        "bare_us": median(other for _, other in against_four),
        "bare_with_clocks_us": median(other for _, other in against_five),
        "ratio": median(one / other for one, other in against_four),
        "ratio_with_clocks": median(one / other for one, other in against_five),
    }


def _subjects() -> tuple[Callable[[], list], Callable[[], list], Callable[[], list]]:
    import pynvml

    from core.devices.nvidia.reader import open_reader
    from core.devices.reader import Options, Tier

    reader = open_reader(Options())
    tiers = frozenset({Tier.LOAD, Tier.HEAT})
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]

    def bare_of(handle: object) -> tuple[float, ...]:
        return (
            pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used,
            pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            pynvml.nvmlDeviceGetPowerUsage(handle),
        )

    def bare_with_clocks_of(handle: object) -> tuple[float, ...]:
        return (*bare_of(handle), pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))

    return (
        lambda: reader.read(time.time(), tiers),
        lambda: [bare_of(handle) for handle in handles],
        lambda: [bare_with_clocks_of(handle) for handle in handles],
    )


def _pairs(one: Callable[[], object], other: Callable[[], object]) -> list[tuple[float, float]]:
    """Microseconds of the one and of the other, measured next to each other, in turns first and second."""
    pairs = []
    for number in range(PAIRS):
        if number % 2:
            pairs.append((_microseconds(one), _microseconds(other)))
        else:
            second = _microseconds(other)
            pairs.append((_microseconds(one), second))
    return pairs[PAIRS // 10 :]  # the first ones warm up


def _microseconds(subject: Callable[[], object]) -> float:
    started = time.perf_counter()
    subject()
    return (time.perf_counter() - started) * 1e6


if __name__ == "__main__":
    if IN_CHILD in sys.argv:
        print(json.dumps(measure()))
    else:
        main()
