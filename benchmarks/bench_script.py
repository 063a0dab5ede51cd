"""A script under the panel over the same script from a shell, in turns: its throughput, and how much later it starts.

    python -m benchmarks.bench_script [--pairs N]

The script trains a small model on one core, prints a line each step, and measures itself: when its first line was
executed, and how many steps it made in a second. Marks: at least 0.99 of the throughput; it starts at most 0.3 s later
than its command was given. A third row writes as fast as it can: reading its output must not slow it down.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.report import Stolen, table, write_json
from core.cli.runs import follow
from core.config.choices import ScriptChoices
from core.config.script_check import ScriptCheckRequest, check_script, fill_in
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState
from core.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 5
THROUGHPUT_MARK, START_MARK_S = 0.99, 0.3
TRAINS = textwrap.dedent("""\
    import time
    began = time.time()
    import json, sys
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(256, 64)
    first = None
    for step in range(1, 4001):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        if step == 100:
            first = time.perf_counter()
    json.dump({"began": began, "rate": 3900 / (time.perf_counter() - first)}, open(sys.argv[1], "w"))
""")
FLOODS = textwrap.dedent("""\
    import time
    began = time.time()
    import json, os, sys

    block = b"".join(b"%d some words that no one reads, loss: 0.%06d\\n" % (n, n) for n in range(20_000))
    first = time.perf_counter()
    for _ in range(600):
        os.write(1, block)
    json.dump({"began": began, "rate": 600 * len(block) / (time.perf_counter() - first)}, open(sys.argv[1], "w"))
""")
"""Half a gigabyte."""


class Measured(NamedTuple):
    """What a script measured of itself."""

    late_s: float
    """From the command to its first line."""
    rate: float
    """Steps, or bytes, a second."""


def under_the_panel(script: Path, folder: Path) -> Measured:
    """As a run. Raises `RuntimeError` where it does not finish."""
    (device, *_) = cpu_devices()
    answer = folder / "panel.json"
    choices = ScriptChoices(
        script=str(script), arguments=(str(answer),), working_dir=str(folder), launch="one", python=sys.executable,
        devices=(device.id,),
    )
    spec = fill_in(check_script(ScriptCheckRequest.of(choices)), choices, cpu_devices())
    began = time.time()
    run = Run.start(spec, folder / "runs")
    follow(run, None)
    if run.facts.state is not RunState.FINISHED:
        raise RuntimeError(f"The run ended {run.facts.state}: {run.facts.error}\n{run.log_end()}")
    return _measured(answer, began)


def from_a_shell(script: Path, folder: Path) -> Measured:
    """On the same core, its output into a file."""
    (device, *_) = cpu_devices()
    cores, answer = ",".join(map(str, device.cores)), folder / "shell.json"
    began = time.time()
    with (folder / "shell.txt").open("wb") as log:
        subprocess.run(
            ["taskset", "--cpu-list", cores, sys.executable, str(script), str(answer)],
            check=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env=_environment(len(device.cores)),
        )
    return _measured(answer, began)


def _environment(threads: int) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)}


def _measured(path: Path, began: float) -> Measured:
    answer = json.loads(path.read_text())
    return Measured(late_s=answer["began"] - began, rate=answer["rate"])


def compare(source: str, pairs: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """The ratio of throughputs, and the difference of starts in seconds, of each pair."""
    ratios, later = [], []
    for number in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "script.py")
            script.write_text(source)
            stolen = Stolen()
            sides = [under_the_panel, from_a_shell]
            measured = {side: side(script, Path(folder)) for side in (sides if number % 2 else reversed(sides))}
        panel, shell = measured[under_the_panel], measured[from_a_shell]
        ratios.append(panel.rate / shell.rate)
        later.append(panel.late_s - shell.late_s)
        say(f"pair {number + 1} of {pairs}: {ratios[-1]:.3f}, {later[-1]:.2f} s later, {stolen.share():.1%} stolen")
    return {"ratio": ratios, "later_s": later}


def main() -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    given = parser.parse_args()
    found = {"trains": compare(TRAINS, given.pairs, print), "floods": compare(FLOODS, given.pairs, print)}
    rows = [
        [name, f"{statistics.median(each['ratio']):.3f}", f"{min(each['ratio']):.3f} to {max(each['ratio']):.3f}",
         f"{statistics.median(each['later_s']):.2f}", THROUGHPUT_MARK if name == "trains" else "-", START_MARK_S]
        for name, each in found.items()
    ]
    header = ["script", "throughput over a shell's", "from, to", "starts later, s", "mark", "mark, s"]
    table("A script under the panel over the same from a shell", header, rows)
    write_json("script", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
