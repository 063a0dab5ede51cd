"""Compute on devices with PyTorch, for the check of this machine, and print each answer as a line of JSON.

    PYTHON gpu_probe.py TASK DEVICE [JSON]

A program of its own, started by its path in the framework's Python with an environment that shows only the devices to
check. It ends at the end of its standard input, so that it never outlives its parent. PyTorch, the standard library,
Python 3.10. DEVICE is `cuda` or `cpu`; sizes are in bytes, times in seconds, rates in bytes or operations per second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

MARK = "trainyard-check:"
REPEATS = 50
ENDED = threading.Event()
"""Set when the parent asks this process to end by itself."""


def say(**answer: Any) -> None:  # noqa: ANN401 (JSON)
    """Print a line of the answer."""
    os.write(1, f"\n{MARK}{json.dumps(answer)}\n".encode())


def hold(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401 (a module and its types)
    """Write to memory, and keep it until the parent ends this process; as a loader does, `forks` may inherit it."""
    kept = torch.ones(terms["bytes"] // 4, device=device)
    if (forked := os.fork() if terms["forks"] else None) == 0:
        _end_with_parent()
    say(sum=float(kept[-8:].sum()), forked=forked)
    ENDED.wait()


def numbers(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401
    """Compare products with the same in float64 on the CPU, and repeat one: equal work must give equal bits."""
    torch.backends.cuda.matmul.allow_tf32 = False
    size, part = terms["size"], min(terms["size"], 1024)
    torch.manual_seed(7)
    left, right = torch.randn(size, size), torch.randn(size, size)
    exact = left[:part].double() @ right.double()
    errors = {}
    for kind in (torch.float32, _short(torch, device)):
        product = (left.to(device, kind) @ right.to(device, kind))[:part].double().cpu()
        errors[str(kind).removeprefix("torch.")] = float((product - exact).norm() / exact.norm())
    one, other = left.to(device, kind), right.to(device, kind)
    first = one @ other
    unlike = sum(not torch.equal(one @ other, first) for _ in range(REPEATS))
    say(errors=errors, unlike=unlike, repeats=REPEATS)


def speed(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401
    """Multiply and copy until the parent has read enough, on random data: equal numbers take less power."""
    size, count = terms["size"], terms["bytes"] // 4
    one, other = (torch.randn(size, size, device=device).to(_short(torch, device)) for _ in range(2))
    here = torch.randn(count, device=device)
    there = torch.empty_like(here)
    host = torch.randn(count // 4, pin_memory=device.type == "cuda")
    quarter = here[: count // 4]
    end = time.monotonic() + terms["warm_up_s"]
    while time.monotonic() < end:  # an idle GPU takes some tenths of a second to raise its clocks
        one @ other
        _synchronise(torch, device)
    say(under_load=True, multiplies=2 * size**3 / _seconds(torch, device, lambda: one @ other),
        copies=2 * 4 * count / _seconds(torch, device, lambda: there.copy_(here)),  # read and written
        to_device=count / _seconds(torch, device, lambda: quarter.copy_(host, non_blocking=True)),
        from_device=count / _seconds(torch, device, lambda: host.copy_(quarter, non_blocking=True)))
    while not ENDED.is_set():  # for the readings of the link and of the power
        for _ in range(10):
            one @ other
            quarter.copy_(host, non_blocking=True)
        _synchronise(torch, device)
    say(done=True)


def reduce(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401
    """Take part in sums over all ranks; rank r gives r + 1, so each element must become n (n + 1) / 2."""
    from datetime import timedelta

    rank, world = terms["rank"], terms["world"]
    if device.type == "cuda":
        device = torch.device("cuda", rank)
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    torch.distributed.init_process_group(
        backend, init_method=terms["meet"], rank=rank, world_size=world, timeout=timedelta(seconds=terms["seconds"]))
    wrong = 0
    for count in (1, terms["bytes"] // 4):
        values = torch.full((count,), rank + 1.0, device=device)
        torch.distributed.all_reduce(values)
        wrong += int((values != world * (world + 1) / 2).sum())
    values = torch.ones(terms["large"] // 4, device=device)
    seconds = _seconds(torch, device, lambda: torch.distributed.all_reduce(values), times=3)
    say(wrong=wrong, rate=terms["large"] / seconds, rank=rank)
    torch.distributed.destroy_process_group()


def ipc(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401
    """Have another process read and write memory of this one, from each device to each; read it in both."""
    from concurrent.futures import ProcessPoolExecutor

    devices, wrong = [torch.device(device.type, number) for number in range(terms["count"])], []
    with ProcessPoolExecutor(1, torch.multiprocessing.get_context("fork")) as pool:
        pool.submit(os.getpid).result()  # it is forked before CUDA begins here, after which it could not use it
        for one, other in product(devices, devices):
            values = torch.ones(terms["bytes"] // 4, device=one)
            there = pool.submit(_write_from, other, values).result()
            wrong.append([one.index, other.index, there + int((values != 2).sum())])
    say(wrong=wrong)


def _write_from(device: Any, values: Any) -> int:  # noqa: ANN401
    wrong = int((values.to(device) != 1).sum())
    values.copy_(2 * values.to(device))
    return wrong + int((values.to(device) != 2).sum())


def steps(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401
    """Train a small network for some steps and print the time of one, as a program of a user would."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 30 * 30, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(64, 3, 32, 32, device=device), torch.zeros(64, dtype=torch.long, device=device)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    say(seconds=_seconds(torch, device, step, terms["steps"]))


def exhaust(torch: Any, device: Any, terms: dict[str, Any]) -> None:  # noqa: ANN401
    """Ask for twice the memory of the device."""
    torch.empty(2 * terms["bytes"], dtype=torch.uint8, device=device)


TASKS: dict[str, Callable[..., None]] = {
    task.__name__: task for task in (hold, numbers, speed, reduce, ipc, steps, exhaust)}
AS_SCRIPTS = ("steps", "exhaust")
"""What also runs as a script of a user, whose input is empty and whose errors are his."""


def _short(torch: Any, device: Any) -> Any:  # noqa: ANN401
    """Return the type of 16 bits that the device multiplies itself; cuBLAS refuses bfloat16 on some older GPUs."""
    is_old = device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0)
    return torch.float16 if is_old else torch.bfloat16


def _seconds(torch: Any, device: Any, work: Callable[[], object], times: int = 10) -> float:  # noqa: ANN401
    """Return the mean time of one call, after three to warm up."""
    for _ in range(3):
        work()
    _synchronise(torch, device)
    began = time.perf_counter()
    for _ in range(times):
        work()
    _synchronise(torch, device)
    return (time.perf_counter() - began) / times


def _synchronise(torch: Any, device: Any) -> None:  # noqa: ANN401
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _in_a_line(error: Exception) -> str:
    """Return what an error says: its first line, and of NCCL's the line with the cause as well."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    cause = lines[lines.index("Last error:") + 1 :][:1] if "Last error:" in lines else []
    return ": ".join([lines[0], *cause])


def _end_with_parent() -> None:
    """Wait for the end of the input, and end this process and all that it started: it leads a group of its own."""
    while os.read(0, 1):  # a thread that waits in `sys.stdin` has Python abort at its end
        ENDED.set()
    for left in Path("/dev/shm").glob(f"torch_{os.getpid()}_*"):  # noqa: S108 (PyTorch counts there who uses what is shared)
        left.unlink(missing_ok=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Do one task."""
    task, terms = sys.argv[1], json.loads(sys.argv[3])
    os.environ.update(terms.get("variables", {}))
    if terms.get("cores"):
        os.sched_setaffinity(0, terms["cores"])
    if task not in AS_SCRIPTS:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import torch  # noqa: TID251 (likewise)

        TASKS[task](torch, torch.device(sys.argv[2]), terms)
    except Exception as error:  # a library that is missing, no CUDA, or what CUDA, cuDNN and NCCL say
        if task in AS_SCRIPTS:
            raise
        say(error=_in_a_line(error))
        os._exit(1)


if __name__ == "__main__":
    main()
