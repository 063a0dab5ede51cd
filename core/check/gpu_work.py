"""The checks that compute on GPUs. All of it is done by `gpu_probe.py` in processes with time limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from core.catalog.frameworks import framework, has, interpreter
from core.check.check import CouldNotLook, NotApplicable, Outcome, Problem, Scope
from core.check.machine import MEMORY, PROCESSES
from core.devices.device import Device
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.devices.reader import KERNEL_LOG
from core.language import tr, tr_noop
from core.launchers import p2p
from core.launchers.local import free_addresses, loopback_variables
from core.system.helper_process import HelperProcess, clean_environment
from core.text import join_labels, join_phrases, size

OF_ONE = tr_noop("{label}: {words}")
PROBE = Path(__file__).with_name("gpu_probe.py")
MARK = b"trainyard-check:"
START_S = 60.0
"""Seconds for a process to import PyTorch and to begin, on a disk that has to be read."""
HELD_BYTES, TOLERANCE_BYTES = 1 << 30, 8 << 20
CONTEXT_BYTES = 2 << 30
"""More than any context of CUDA takes (about half a gigabyte for PyTorch)."""
BACK_S, POLL_S = 10.0, 0.05
"""Seconds until memory has to be back, and between two looks."""
WARM_UP_S, LOAD_S, ENERGY_SHARE = 1.0, 12.0, 0.05
"""Seconds of work before it is timed; seconds of load, since drivers average power over one and may count energy more
seldom; and the share by which the counter may differ from the sum of the power."""
ALIKE = 0.1
"""Share by which GPUs of one model may differ in the first two speeds. All copy from and to the host at once, and some
share a switch or are farther from the memory; their links have a check of their own."""
SPEEDS = (("multiplies", tr_noop("16-bit products {value:.0f} TFLOP/s"), 1e12),
          ("copies", tr_noop("memory {value:.0f} GB/s"), 1e9),
          ("to_device", tr_noop("from the host {value:.1f} GB/s"), 1e9),
          ("from_device", tr_noop("to the host {value:.1f} GB/s"), 1e9))
EXACT = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 1e-2}
"""Relative norms of the error of a product."""
SMALL_BYTES, LARGE_BYTES = 16 << 20, 256 << 20
REDUCE_S = 90.0
USE = {"memory": MEMORY, "compute": PROCESSES, "graphics": ["nvmlDeviceGetGraphicsRunningProcesses_v3"]}
LINK = {
    "generation": ["nvmlDeviceGetCurrPcieLinkGeneration"], "width": ["nvmlDeviceGetCurrPcieLinkWidth"],
    "max_generation": ["nvmlDeviceGetMaxPcieLinkGeneration"], "max_width": ["nvmlDeviceGetMaxPcieLinkWidth"],
    "replays": ["nvmlDeviceGetPcieReplayCounter"],
}
ENERGY = {"power": ["nvmlDeviceGetPowerUsage"], "energy": ["nvmlDeviceGetTotalEnergyConsumption"]}
PEERS = {kind: ["nvmlDeviceGetP2PStatus", f"NVML_P2P_CAPS_INDEX_{kind}"] for kind in ("READ", "WRITE")}
Reading = tuple[float, dict[str, dict[str, Any]]]
"""When the driver was asked, by a steady clock, and its answers by UUID and label."""
Loaded = tuple[dict[Device, dict[str, Any]], list[Reading]]
"""By GPU, what its load measured; and the readings meanwhile."""


def said(output: bytes) -> dict[str, Any]:
    """Return what the program has said in this output."""
    answer: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            answer |= json.loads(line.removeprefix(MARK))
    return answer


class Probe(HelperProcess):
    """A process that does one task on devices."""

    def __init__(
        self, task: str, devices: Sequence[Device], variables: Mapping[str, str] | None = None, **terms: object
    ) -> None:
        """Raises `NotApplicable` without PyTorch, and `OSError` if no process can be started."""
        python = interpreter(framework("pytorch"))
        if not has(python, "torch"):
            why = tr("PyTorch, which computes here, is not installed in {python}", python=python)
            raise NotApplicable(why, devices=devices)
        is_gpu = devices[0].kind == "nvidia"
        base = clean_environment()
        chosen = {VISIBLE: ",".join(device.id for device in devices) if is_gpu else "", ORDER: BY_BUS}
        super().__init__(
            [python, str(PROBE), task, "cuda" if is_gpu else "cpu", json.dumps(terms)], stdin=True,
            environment={**base, **loopback_variables(base), **chosen, **(variables or {})},
        )
        self.devices = devices
        self.answer: dict[str, Any] = {}
        """What it has said so far."""

    def has_said(self, key: str) -> bool:
        """Return whether it has said this. Raises `CouldNotLook` if it has failed or ended instead."""
        ended = self.exit_code() is not None
        self.answer |= said(b"\n".join(self.read_lines()))
        if "error" in self.answer:
            raise self.failed(self.answer["error"])
        if key not in self.answer and ended:
            how = self.ending() or tr("no answer")
            raise self.failed(tr("the process that computes ended with {how}", how=how))
        return key in self.answer

    def failed(self, words: str) -> CouldNotLook:
        """Return the outcome for a failure."""
        where = join_labels([device.label for device in self.devices])
        return CouldNotLook(tr(OF_ONE, label=where, words=words), devices=self.devices)

    def end(self) -> None:
        """Let it end by itself."""
        self.send(b"e")


def wait_for(probes: Sequence[Probe], key: str, limit_s: float) -> None:
    """Wait until all have said this. Raises `CouldNotLook` as soon as one fails or ends, or if they take too long."""
    deadline = time.monotonic() + limit_s
    while late := [probe for probe in probes if not probe.has_said(key)]:
        if time.monotonic() > deadline:
            raise late[0].failed(tr("the process that computes did not answer in {seconds:.0f} s", seconds=limit_s))
        time.sleep(POLL_S)


def accounting(scope: Scope) -> str:
    def look(gpu: Device) -> str:
        before, others = _use(scope, gpu)
        with Probe("hold", [gpu], bytes=HELD_BYTES) as probe:
            wait_for([probe], "sum", START_S)
            now, listed = _use(scope, gpu)
        taken = now - before
        context = taken - HELD_BYTES
        if not -TOLERANCE_BYTES <= context < CONTEXT_BYTES or probe.answer["sum"] != 8:
            _blame_others(others, abs(context))
            raise Problem(tr("a program wrote to {held}, and the driver counted {taken}", held=size(HELD_BYTES),
                             taken=size(taken)),
                          tr("Do not rely on its figures of memory. {log}", log=tr(KERNEL_LOG)))
        named = tr("the process is listed") if probe.pid in listed else tr(
            "processes are listed under other numbers, as in a container") if listed else tr("no process is listed")
        return tr("1 GiB and {context} of CUDA itself, {named}", context=size(context), named=named)

    return _of_each(_with_own_memory(scope), look)


def release(scope: Scope) -> str:
    def look(gpu: Device) -> str:
        (before, others), seconds = _use(scope, gpu), []
        for end in (Probe.end, Probe.close):
            with Probe("hold", [gpu], bytes=HELD_BYTES) as probe:
                wait_for([probe], "sum", START_S)
                began = time.monotonic()
                end(probe)
                while (left := _use(scope, gpu)[0] - before) > TOLERANCE_BYTES:
                    if time.monotonic() - began > BACK_S:
                        _blame_others(others, left)
                        raise Problem(tr("{left} were not back after {seconds:g} s", left=size(left), seconds=BACK_S),
                                      tr("Look what holds it (trainyard devices), and reset the GPU or reboot."))
                    time.sleep(POLL_S)
                seconds.append(time.monotonic() - began)
        return tr("{ended:.1f} s after the end, {killed:.1f} s after SIGKILL", ended=seconds[0], killed=seconds[1])

    return _of_each(_with_own_memory(scope), look)


def numbers(scope: Scope) -> str:
    answers = _on_each(scope.gpus_to_use, "numbers", "errors", size=4096)
    for gpu, answer in answers.items():
        wrong = {kind: error for kind, error in answer["errors"].items() if not error <= EXACT[kind]}
        if wrong or answer["unlike"]:
            raise Problem(
                tr("{label} computes wrongly: relative errors {errors}; {unlike} of {repeats} repetitions differ",
                   label=gpu.label, errors=", ".join(f"{kind} {error:.1e}" for kind, error in answer["errors"].items()),
                   unlike=answer["unlike"], repeats=answer["repeats"]),
                tr("Train nothing on it. Have the GPU and its cooling looked at."), [gpu],
            )
    errors = {kind: [each["errors"][kind] for each in answers.values() if kind in each["errors"]] for kind in EXACT}
    listed = ", ".join(f"{kind} {max(found):.1e}" for kind, found in errors.items() if found)
    return tr("relative errors at most {errors}; {repeats} repetitions equal in all bits", errors=listed,
              repeats=answer["repeats"])


def speed(scope: Scope) -> str:  # GPUs of one model are compared, as no model has a speed that it must have
    answers, _ = _loaded(scope)
    for one, other in permutations(answers, 2):
        for key, words, unit in SPEEDS[:2]:
            slow, fast = answers[one][key], answers[other][key]
            if one.name == other.name and slow < (1 - ALIKE) * fast:
                raise Problem(
                    tr("{label} is slower than a GPU of the same model: {slow} and {fast}", label=one.label,
                       slow=tr(words, value=slow / unit), fast=tr(words, value=fast / unit)),
                    tr("Compare their clocks, power limits and temperatures (trainyard devices)."), [one],
                )
    return _of_each(answers, lambda gpu: join_phrases(
        tr(words, value=answers[gpu][key] / unit) for key, words, unit in SPEEDS))


def link(scope: Scope) -> str:
    answers, readings = _loaded(scope)
    if not (gpus := [gpu for gpu in answers if not gpu.is_mig]):
        raise NotApplicable(tr("a MIG device has no link of its own"))

    def look(gpu: Device) -> str:
        if not (seen := [each for _, each in _of_gpu(readings, gpu, LINK)]):
            raise CouldNotLook(tr("the driver does not tell its link"))
        best = max(seen, key=lambda each: (each["generation"], each["width"]))
        text = tr("generation {generation} with {width} lanes", generation=best["generation"], width=best["width"])
        if (best["generation"], best["width"]) != (best["max_generation"], best["max_width"]):
            raise Problem(tr("{text}, of {generation} with {width}", text=text, generation=best["max_generation"],
                             width=best["max_width"]),
                          tr("Reseat the card or its riser, or look at the settings of the slot."))
        if count := seen[-1]["replays"] - seen[0]["replays"]:
            raise Problem(tr("{text}; {count} packets had to be sent again", text=text, count=count),
                          tr("Reseat the card or its riser."))
        return text

    return _of_each(gpus, look)


def energy(scope: Scope) -> str:
    answers, readings = _loaded(scope)

    def look(gpu: Device) -> str:
        if len(seen := _of_gpu(readings, gpu, ENERGY)) < 2:
            raise NotApplicable(tr("no counter of energy"))
        counted = (seen[-1][1]["energy"] - seen[0][1]["energy"]) / 1000
        summed = sum((at - before) * (one["power"] + other["power"]) / 2000
                     for (before, one), (at, other) in pairwise(seen))
        text = tr("{counted:.0f} J counted, {summed:.0f} J from the power", counted=counted, summed=summed)
        if counted <= 0 or abs(counted - summed) > ENERGY_SHARE * summed:
            raise Problem(text, tr("Take figures of energy as estimates on this GPU."))
        return text

    return _of_each(answers, look)


def collective(scope: Scope) -> str:  # a driver that allows direct access may still mix up data with it, or hang
    devices = [device for device in scope.devices if not device.blocked and not device.is_mig]
    if len(devices) < 2:
        raise NotApplicable(tr("a sum over devices needs two"))
    scope.refuse_if_busy()
    wrong, rate = _reduce(devices, {})
    words = tr("values right, {rate:.1f} GB/s", rate=rate)
    if devices[0].kind != "nvidia":
        if wrong:
            raise Problem(wrong, tr("Reinstall PyTorch; look at the network of this machine."), devices)
        return words
    peers = scope.driver.ask(pairs=PEERS)
    allowed = [all(status == 0 for status in peers.get(f"{one.id} {other.id}", {"": -1}).values())
               for one, other in permutations(devices, 2)]
    matrix = tr("the driver allows direct access for {allowed} of {pairs} pairs", allowed=sum(allowed),
                pairs=len(allowed))
    if not wrong:
        return join_phrases((words, matrix))
    if also := _reduce(devices, p2p.VARIABLES)[0]:
        words = tr("{wrong}; without direct access: {also}; {matrix}", wrong=wrong, also=also, matrix=matrix)
        raise CouldNotLook(words)
    cure = tr("Runs on this machine do without it already; to use it again: trainyard check --p2p on."
              ) if p2p.is_off() else tr("Let runs on this machine do without it: trainyard check --p2p off.")
    raise Problem(tr("{wrong}; right without direct access between GPUs; {matrix}", wrong=wrong, matrix=matrix),
                  f"{cure} {tr('Switching ACS off in the BIOS may cure it.')}", devices)


# -- what they share -------------------------------------------------------------------------------


def _of_each(gpus: Iterable[Device], look: Callable[[Device], str]) -> str:
    """Return what was seen of each GPU. What is raised without naming devices is of that GPU, too."""

    def words(gpu: Device) -> str:
        try:
            return tr(OF_ONE, label=gpu.label, words=look(gpu))
        except Outcome as outcome:
            if outcome.devices:
                raise
            raise type(outcome)(tr(OF_ONE, label=gpu.label, words=outcome), outcome.remedy, [gpu]) from outcome

    return join_phrases([words(gpu) for gpu in gpus])


def _reduce(devices: Sequence[Device], variables: Mapping[str, str]) -> tuple[str, float]:
    """Return what went wrong with a sum over the devices, or the empty string, and its rate in GB/s."""
    is_gpu = devices[0].kind == "nvidia"
    terms: dict[str, Any] = {
        "world": len(devices), "meet": f"tcp://{free_addresses(1)[0]}", "bytes": SMALL_BYTES,
        "large": LARGE_BYTES if is_gpu else SMALL_BYTES,
        "seconds": 2 * (START_S + REDUCE_S),  # that of NCCL, which would end a process that hangs before we call it so
    }
    with ExitStack() as stack:
        probes = []
        for rank, device in enumerate(devices):
            shown = devices if is_gpu else [device]
            probes.append(stack.enter_context(Probe("reduce", shown, variables, rank=rank, **terms)))
        try:
            wait_for(probes, "rate", START_S + REDUCE_S)
        except CouldNotLook as error:
            return str(error), 0.0
        wrong = sum(probe.answer["wrong"] for probe in probes)
        rate = min(probe.answer["rate"] for probe in probes) / 1e9
    return (tr("{count} values of a sum are wrong", count=wrong) if wrong else ""), rate


def _on_each(
    devices: Sequence[Device], task: str, key: str, meanwhile: Callable[[list[Probe]], None] = lambda _: None,
    **terms: object,
) -> dict[Device, dict[str, Any]]:
    """Do a task on each device at once, and return the answers when all have said `key`."""
    with ExitStack() as stack:
        probes = [stack.enter_context(Probe(task, [device], None, **terms)) for device in devices]
        meanwhile(probes)
        wait_for(probes, key, START_S)
        return {device: probe.answer for device, probe in zip(devices, probes, strict=True)}


def _loaded(scope: Scope) -> Loaded:
    """Return what the loads of the GPUs measured, and readings of link and power meanwhile. Done once."""
    if "load" not in scope.kept:
        try:
            scope.kept["load"] = _load(scope)
        except Outcome as outcome:
            scope.kept["load"] = outcome
    found: Loaded | Outcome = scope.kept["load"]
    if isinstance(found, Outcome):
        raise found
    return found


def _load(scope: Scope) -> Loaded:
    readings = list[Reading]()

    def read(probes: list[Probe]) -> None:
        scope.driver.ask(system={})  # its process runs from here on
        wait_for(probes, "under_load", START_S)
        end = time.monotonic() + LOAD_S
        while time.monotonic() < end and all(probe.exit_code() is None for probe in probes):
            asked = time.monotonic()
            found = scope.driver.ask(each={**LINK, **ENERGY})
            readings.append(((asked + time.monotonic()) / 2, found))
            time.sleep(POLL_S)
        for probe in probes:
            probe.end()

    terms = {"size": 8192, "bytes": HELD_BYTES, "warm_up_s": WARM_UP_S}
    return _on_each(scope.gpus_to_use, "speed", "done", read, **terms), readings


def _of_gpu(readings: Sequence[Reading], gpu: Device, names: Iterable[str]) -> list[tuple[float, dict[str, Any]]]:
    """Return the readings of a GPU that have all these names, with their times."""
    own = [(at, {name: found.get(gpu.id, {}).get(name) for name in names}) for at, found in readings]
    return [(at, each) for at, each in own if all(isinstance(value, int) for value in each.values())]


def _with_own_memory(scope: Scope) -> list[Device]:
    gpus = [gpu for gpu in scope.gpus_to_use if not gpu.shared_memory and not gpu.is_mig]
    if not gpus:  # filling such a memory can take the whole machine down: NVIDIA/open-gpu-kernel-modules#1358
        raise NotApplicable(tr("these GPUs have no whole memory of their own"))
    return gpus


def _use(scope: Scope, gpu: Device) -> tuple[int, list[int]]:
    """Return the used bytes of a GPU and the pids that the driver lists on it, if it can. Raises `CouldNotLook`."""
    found = scope.driver.ask(each=USE).get(gpu.id, {"memory": {}})
    if "used" not in found["memory"]:
        raise CouldNotLook(tr("the driver does not tell its memory"))
    return found["memory"]["used"], [each["pid"] for listed in found.values() if isinstance(listed, list)
                                     for each in listed]


def _blame_others(others: Sequence[int], unexplained: int) -> None:
    """Raise `CouldNotLook` if other programs, such as a desktop, can have taken an amount of memory meanwhile."""
    if others and unexplained < HELD_BYTES:
        raise CouldNotLook(tr("other programs are on it, and its memory changed by {amount} meanwhile",
                              amount=size(unexplained)))
