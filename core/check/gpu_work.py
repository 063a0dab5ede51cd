"""The checks that compute on GPUs. All of it is done by `gpu_probe.py` in processes with time limits."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

from core.catalog.frameworks import framework
from core.catalog.installed import has, interpreter
from core.check.check import CouldNotLook, NotApplicable, Outcome, Problem, Scope
from core.check.machine import MEMORY, PROCESSES
from core.devices.device import Device
from core.devices.names import join_labels
from core.devices.nvidia.preflight import BY_BUS, ORDER, VISIBLE
from core.devices.reader import KERNEL_LOG
from core.language import tr, tr_noop
from core.launchers import p2p
from core.launchers.local import free_addresses, loopback_variables
from core.memory_watch.gpu_processes import scan
from core.system.helper_process import HelperProcess, clean_environment
from core.text import join_phrases, size

OF_ONE = tr_noop("{label}: {words}")
PROBE = Path(__file__).with_name("gpu_probe.py")
MARK = b"trainyard-check:"
START_S = 60.0
"""Seconds for a process to import PyTorch and to begin, on a disk that has to be read."""
HELD_BYTES, TOLERANCE_BYTES = 1 << 30, 8 << 20
CONTEXT_BYTES = 2 << 30
"""More than any context of CUDA takes (about half a gigabyte for PyTorch)."""
BACK_S, FREED_S, POLL_S = 10.0, 2.0, 0.05
"""Seconds until memory has to be back, in which it is back on most machines, and between two looks."""
REPORT = tr_noop("Report this check.")
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
LINK = {"generation": ["nvmlDeviceGetCurrPcieLinkGeneration"], "width": ["nvmlDeviceGetCurrPcieLinkWidth"],
        "max_generation": ["nvmlDeviceGetMaxPcieLinkGeneration"], "max_width": ["nvmlDeviceGetMaxPcieLinkWidth"],
        "replays": ["nvmlDeviceGetPcieReplayCounter"]}
ENERGY = {"power": ["nvmlDeviceGetPowerUsage"], "energy": ["nvmlDeviceGetTotalEnergyConsumption"]}
PEERS = {kind: ["nvmlDeviceGetP2PStatus", f"NVML_P2P_CAPS_INDEX_{kind}"] for kind in ("READ", "WRITE")}
Reading = tuple[float, dict[str, dict[str, Any]]]
"""When the driver was asked, by a steady clock, and its answers by UUID and label."""
Loaded = tuple[dict[Device, dict[str, Any]], list[Reading]]
"""By GPU, what its load measured; and the readings meanwhile."""


def said(output: bytes) -> dict[str, Any]:
    """Return what the program has said in this output."""
    answers = [json.loads(line.removeprefix(MARK)) for line in output.splitlines() if line.startswith(MARK)]
    return {key: value for answer in answers for key, value in answer.items()}


class Probe(HelperProcess):
    """A process that does one task on devices."""

    def __init__(self, scope: Scope, task: str, devices: Sequence[Device], **terms: object) -> None:
        """Raises `NotApplicable` without PyTorch, and `OSError` if no process can be started."""
        python = interpreter(framework("pytorch"))
        if not has(python, "torch"):
            raise NotApplicable(tr("PyTorch, which computes here, is not installed in {python}", python=python),
                                devices=devices)
        base, is_gpu = clean_environment(), devices[0].kind == "nvidia"
        chosen = {VISIBLE: ",".join(device.id for device in devices) if is_gpu else "", ORDER: BY_BUS,
                  "TMPDIR": str(scope.folder)}
        super().__init__([python, str(PROBE), task, "cuda" if is_gpu else "cpu", json.dumps(terms)], stdin=True,
                         environment={**base, **loopback_variables(base), **chosen})
        self.devices, self.answer = devices, dict[str, Any]()

    def has_said(self, key: str) -> bool:
        """Return whether it has said this. Raises `CouldNotLook` if it has failed or ended instead."""
        ended = self.exit_code() is not None
        self.answer |= said(b"\n".join(self.read_lines()))
        if "error" in self.answer:
            raise self.failed(self.answer["error"])
        if key not in self.answer and ended:
            raise self.failed(tr("the process that computes ended with {how}", how=self.ending() or tr("no answer")))
        return key in self.answer

    def failed(self, words: str) -> CouldNotLook:
        """Return the outcome for a failure."""
        where = join_labels([device.label for device in self.devices])
        return CouldNotLook(tr(OF_ONE, label=where, words=words), devices=self.devices)

    def end(self) -> None:
        """Let it end by itself."""
        self.send(b"e")

    def __exit__(self, *_: object) -> None:
        self.close(polite=True)


def wait_for(probes: Sequence[Probe], key: str, limit_s: float) -> None:
    """Wait until all have said this. Raises `CouldNotLook` as soon as one fails or ends, or if they take too long."""
    deadline = time.monotonic() + limit_s
    while late := [probe for probe in probes if not probe.has_said(key)]:
        if time.monotonic() > deadline:
            raise late[0].failed(tr("the process that computes did not answer in {seconds:.0f} s", seconds=limit_s))
        time.sleep(POLL_S)


@contextmanager
def at_work(
    scope: Scope, task: str, places: Iterable[Sequence[Device]], key: str, *, late_s: float = 0.0, **terms: object
) -> Iterator[list[Probe]]:
    """Start a process at each place, wait until all have said `key`, and end them afterwards. Raises as `wait_for`."""
    with ExitStack() as stack:
        probes = [stack.enter_context(Probe(scope, task, place, rank=rank, **terms))
                  for rank, place in enumerate(places)]
        wait_for(probes, key, START_S + late_s)
        yield probes


def _of_each(gpus: Callable[[Scope], Iterable[Device]], look: Callable[[Scope, Device], str]) -> Callable[[Scope], str]:
    """Return the check that looks at each GPU. What is raised without naming devices is of that GPU, too."""

    def words(scope: Scope, gpu: Device) -> str:
        try:
            return tr(OF_ONE, label=gpu.label, words=look(scope, gpu))
        except Outcome as outcome:
            if outcome.devices:
                raise
            raise type(outcome)(tr(OF_ONE, label=gpu.label, words=outcome), outcome.remedy, [gpu]) from outcome

    return lambda scope: join_phrases([words(scope, gpu) for gpu in gpus(scope)])


def _with_own_memory(scope: Scope) -> list[Device]:
    gpus = [gpu for gpu in scope.gpus_to_use if not gpu.shared_memory and not gpu.is_mig]
    if not gpus:  # filling such a memory can take the whole machine down: NVIDIA/open-gpu-kernel-modules#1358
        raise NotApplicable(tr("these GPUs have no whole memory of their own"))
    return gpus


def _with_links(scope: Scope) -> list[Device]:
    if not (gpus := [gpu for gpu in _loaded(scope)[0] if not gpu.is_mig]):
        raise NotApplicable(tr("a MIG device has no link of its own"))
    return gpus


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
    scope.driver.ask(system={})  # its process runs from here on
    places, terms = [[gpu] for gpu in scope.gpus_to_use], {"size": 8192, "bytes": HELD_BYTES}
    with at_work(scope, "speed", places, "under_load", warm_up_s=WARM_UP_S, **terms) as probes:
        end = time.monotonic() + LOAD_S
        while time.monotonic() < end and all(probe.exit_code() is None for probe in probes):
            asked = time.monotonic()
            found = scope.driver.ask(each={**LINK, **ENERGY})
            readings.append(((asked + time.monotonic()) / 2, found))
            time.sleep(POLL_S)
        for probe in probes:
            probe.end()
        wait_for(probes, "done", START_S)
    return {probe.devices[0]: probe.answer for probe in probes}, readings


@partial(_of_each, _with_own_memory)
def accounting(scope: Scope, gpu: Device) -> str:
    before, others = _use(scope, gpu)
    with at_work(scope, "hold", [[gpu]], "sum", bytes=HELD_BYTES, forks=False) as [probe]:
        now, listed = _use(scope, gpu)
    context = now - before - HELD_BYTES
    if not -TOLERANCE_BYTES <= context < CONTEXT_BYTES or probe.answer["sum"] != 8:
        _blame_others(others, abs(context))
        raise Problem(tr("a program wrote to {held}, and the driver counted {taken}", held=size(HELD_BYTES),
                         taken=size(now - before)),
                      tr("Do not rely on its figures of memory. {log}", log=tr(KERNEL_LOG)))
    named = tr("the process is listed") if probe.pid in listed else tr(
        "processes are listed under other numbers, as in a container") if listed else tr("no process is listed")
    return tr("1 GiB and {context} of CUDA itself, {named}", context=size(context), named=named)


@partial(_of_each, _with_own_memory)
def release(scope: Scope, gpu: Device) -> str:
    (before, others), seconds = _use(scope, gpu), []
    for forks, end in ((False, Probe.end), (False, Probe.close), (True, Probe.close)):
        with at_work(scope, "hold", [[gpu]], "sum", bytes=HELD_BYTES, forks=forks) as [probe]:
            if forks:
                os.kill(probe.pid, signal.SIGKILL)  # the driver counts its memory on, for a process that is gone
                time.sleep(FREED_S)
                is_held = gpu.minor is not None and _use(scope, gpu)[0] - before > TOLERANCE_BYTES
                if is_held and all(each.pid != probe.answer["forked"] for each in scan([gpu], {}).holders):
                    words = tr("a forked process still holds the memory, and was not found as its holder")
                    raise Problem(words, tr(REPORT))
            began = time.monotonic()
            end(probe)
            while (left := _use(scope, gpu)[0] - before) > TOLERANCE_BYTES:
                if time.monotonic() - began > BACK_S:
                    _blame_others(others, left)
                    raise Problem(tr("{left} were not back after {seconds:g} s", left=size(left), seconds=BACK_S),
                                  tr("Look what holds it (trainyard devices), and reset the GPU or reboot."))
                time.sleep(POLL_S)
            seconds.append(time.monotonic() - began)
    return tr("{ended:.1f} s after the end, {killed:.1f} s after SIGKILL, {forked:.1f} s after that of a process which "
              "it had forked", ended=seconds[0], killed=seconds[1], forked=seconds[2])


def numbers(scope: Scope) -> str:
    with at_work(scope, "numbers", [[gpu] for gpu in scope.gpus_to_use], "errors", size=4096) as probes:
        answers = {probe.devices[0]: probe.answer for probe in probes}
    for gpu, answer in answers.items():
        wrong = {kind: error for kind, error in answer["errors"].items() if not error <= EXACT[kind]}
        if wrong or answer["unlike"]:
            raise Problem(
                tr("{label} computes wrongly: relative errors {errors}; {unlike} of {repeats} repetitions differ",
                   label=gpu.label, errors=", ".join(f"{kind} {error:.1e}" for kind, error in answer["errors"].items()),
                   unlike=answer["unlike"], repeats=answer["repeats"]),
                tr("Train nothing on it. Have the GPU and its cooling looked at."), [gpu])
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
                    tr("Compare their clocks, power limits and temperatures (trainyard devices)."), [one])
    return join_phrases(tr(OF_ONE, label=gpu.label, words=join_phrases(
        tr(words, value=each[key] / unit) for key, words, unit in SPEEDS)) for gpu, each in answers.items())


@partial(_of_each, _with_links)
def link(scope: Scope, gpu: Device) -> str:
    if not (seen := [each for _, each in _readings(scope, gpu, LINK)]):
        raise CouldNotLook(tr("the driver does not tell its link"))
    best = max(seen, key=lambda each: (each["generation"], each["width"]))
    text = tr("generation {generation} with {width} lanes", generation=best["generation"], width=best["width"])
    if (best["generation"], best["width"]) != (best["max_generation"], best["max_width"]):
        words = tr("{text}, of {generation} with {width}", text=text, generation=best["max_generation"],
                   width=best["max_width"])
        raise Problem(words, tr("Reseat the card or its riser, or look at the settings of the slot."))
    if count := seen[-1]["replays"] - seen[0]["replays"]:
        raise Problem(tr("{text}; {count} packets had to be sent again", text=text, count=count),
                      tr("Reseat the card or its riser."))
    return text


@partial(_of_each, lambda scope: _loaded(scope)[0])
def energy(scope: Scope, gpu: Device) -> str:
    if len(seen := _readings(scope, gpu, ENERGY)) < 2:
        raise NotApplicable(tr("no counter of energy"))
    counted = (seen[-1][1]["energy"] - seen[0][1]["energy"]) / 1000
    summed = sum((at - before) * (one["power"] + other["power"]) / 2000
                 for (before, one), (at, other) in pairwise(seen))
    text = tr("{counted:.0f} J counted, {summed:.0f} J from the power", counted=counted, summed=summed)
    if counted <= 0 or abs(counted - summed) > ENERGY_SHARE * summed:
        raise Problem(text, tr("Take figures of energy as estimates on this GPU."))
    return text


def ipc(scope: Scope) -> str:
    gpus = [gpu for gpu in scope.gpus_to_use if not gpu.is_mig] or scope.gpus_to_use[:1]
    with at_work(scope, "ipc", [gpus], "wrong", late_s=REDUCE_S, bytes=SMALL_BYTES, count=len(gpus)) as [probe]:
        pairs = len(probe.answer["wrong"])
    if wrong := [(gpus[one], gpus[other], count) for one, other, count in probe.answer["wrong"] if count]:
        alone = any(one is other for one, other, _ in wrong)
        words = tr_noop("{count} values of {one}, shared with a process on {other}, are wrong")
        raise Problem(
            join_phrases(tr(words, count=count, one=one.label, other=other.label) for one, other, count in wrong),
            tr("Pass no tensors between processes there (torch.multiprocessing).") if alone else _cure(),
            [gpu for gpu in gpus if any(gpu in pair for pair in wrong)])
    return tr("values right for {pairs} pairs of processes on {labels}", pairs=pairs,
              labels=join_labels([gpu.label for gpu in gpus]))


def collective(scope: Scope) -> str:  # a driver that allows direct access may still mix up data with it, or hang
    devices = [device for device in scope.devices if not device.blocked and not device.is_mig]
    if len(devices) < 2:
        raise NotApplicable(tr("a sum over devices needs two"))
    scope.refuse_if_busy()
    wrong, rate = _reduce(scope, devices, {})
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
    if also := _reduce(scope, devices, p2p.VARIABLES)[0]:
        words = tr("{wrong}; without direct access: {also}; {matrix}", wrong=wrong, also=also, matrix=matrix)
        raise CouldNotLook(words)
    raise Problem(tr("{wrong}; right without direct access between GPUs; {matrix}", wrong=wrong, matrix=matrix),
                  _cure(), devices)


# -- what they share -------------------------------------------------------------------------------


def _cure() -> str:
    """Return how runs do without direct access between GPUs, or that they do."""
    cure = tr("Runs on this machine do without direct access between GPUs. To use it again: trainyard check --p2p on."
              ) if p2p.is_off() else tr("Let runs do without direct access between GPUs: trainyard check --p2p off.")
    return f"{cure} {tr('Switching ACS off in the BIOS may cure it.')}"


def _reduce(scope: Scope, devices: Sequence[Device], variables: Mapping[str, str]) -> tuple[str, float]:
    """Return what went wrong with a sum over the devices, or the empty string, and its rate in GB/s."""
    is_gpu = devices[0].kind == "nvidia"
    places = [devices if is_gpu else [device] for device in devices]
    try:
        with at_work(
            scope, "reduce", places, "rate", late_s=REDUCE_S, world=len(devices), meet=f"tcp://{free_addresses(1)[0]}",
            bytes=SMALL_BYTES, large=LARGE_BYTES if is_gpu else SMALL_BYTES, variables=variables,
            seconds=2 * (START_S + REDUCE_S),  # after which NCCL itself would end a process that hangs
        ) as probes:
            wrong = sum(probe.answer["wrong"] for probe in probes)
    except CouldNotLook as error:
        return str(error), 0.0
    rate = min(probe.answer["rate"] for probe in probes) / 1e9
    return (tr("{count} values of a sum are wrong", count=wrong) if wrong else ""), rate


def _readings(scope: Scope, gpu: Device, names: Iterable[str]) -> list[tuple[float, dict[str, Any]]]:
    """Return the readings of a GPU under load that have all these names, with their times."""
    own = [(at, {name: found.get(gpu.id, {}).get(name) for name in names}) for at, found in _loaded(scope)[1]]
    return [(at, each) for at, each in own if all(isinstance(value, int) for value in each.values())]


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
