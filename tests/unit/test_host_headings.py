"""Hosts in words: the headings of their sections, and their devices while they are away."""

import pytest

from core.devices.device import Device, Sample, Survey, device_here, own_id, sample_here
from core.hosts.carrier import Failure, HostError
from core.hosts.connection import Clock
from core.hosts.host_list import Host
from core.hosts.inquiry import HostState, Phase
from core.hosts.protocol import HostUse, HostUses
from gui.machine.device_rows import DeviceRows
from gui.machine.host_devices import host_heading, on_host, shown_rows, usable_survey

HOST = Host(name="node2", address="anna@node2")
GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="NVIDIA RTX 4090", memory_total_bytes=24 * 2**30)
CPU = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon, 8 cores", cores=tuple(range(8)))
SAMPLES = (
    Sample(device_id="GPU-1", time=1005.0, utilisation_percent=30.0, memory_used_bytes=2**30),
    Sample(device_id="cpu:0", time=1005.0, utilisation_percent=90.0),
)
SURVEY = Survey(
    devices=tuple(device_here("node2", each) for each in (GPU, CPU)),
    samples=tuple(sample_here("node2", each, 5.0) for each in SAMPLES),
)


def state(phase=Phase.REACHABLE, offset_s=0.0, failure=None, **more) -> HostState:
    error = None if failure is None else HostError(failure, "Why it is so.")
    clock = Clock(offset_s=offset_s, round_trip_s=0.1) if phase is Phase.REACHABLE else None
    return HostState(host=HOST, phase=phase, clock=clock, error=error, **{"survey": SURVEY, **more})


def rows(host: HostState, wanted=()):
    survey = usable_survey(host, wanted)
    return DeviceRows().make(survey, {device.id: "#000000" for device in survey.devices}, on_host(host, {}))


@pytest.mark.parametrize(
    ("host", "words", "sentence", "may_retry"),
    [
        (state(Phase.CONNECTING), "connecting …", "", False),
        (state(), "reachable · clock +0.0 s", "", False),
        (state(offset_s=-3.0), "reachable · clock -3.0 s", "The clock of node2 is 3.0 s behind the one here.", False),
        (state(offset_s=3700), "reachable · clock +1 h 1 min", "The clock of node2 is 1 h 1 min ahead", False),
        (state(Phase.NOT_REACHABLE, failure=Failure.CUT), "not reachable", "Why it is so.", True),
        (state(Phase.NOT_REACHABLE, failure=Failure.OTHER_VERSION), "other version", "Why it is so.", True),
        (state(Phase.CONNECTING, failure=Failure.CUT), "connecting …", "Why it is so.", False),
    ],
)
def test_heading_says_what_a_host_does(host, words, sentence, may_retry) -> None:
    heading = host_heading(host, rows(host))
    assert (heading.words, heading.may_retry) == (words, may_retry)
    assert heading.sentence.startswith(sentence)
    assert bool(heading.sentence) == bool(sentence)
    assert heading.accessible_text.startswith(f"node2, {heading.state}")


def test_users_of_a_host_are_those_of_its_devices() -> None:
    uses = HostUses(by_device={"GPU-1": HostUse(runs=("a",), names=("mine",), program="blender (ben)")})
    gpu, cpu = rows(state(uses=uses))
    assert (gpu.used_by, gpu.held_by, gpu.own_label, gpu.free) == ("mine", "blender (ben)", "GPU 0", False)
    assert (cpu.used_by, cpu.held_by) == (None, None)
    assert host_heading(state(), rows(state())).devices == "1 GPU · 30 %", "folded: without the CPUs"


def test_devices_and_readings_name_their_host_and_have_the_time_here() -> None:
    gpu, cpu = SURVEY.devices
    assert (gpu.id, gpu.label, gpu.short_name, gpu.host) == ("node2/GPU-1", "node2 · GPU 0", "node2/gpu:0", "node2")
    assert (cpu.id, cpu.own_label, GPU.host, GPU.short_name) == ("node2/cpu:0", "CPU 0", "", "gpu:0")
    assert SURVEY.samples[0].time == 1000.0
    assert [own_id(each) for each in ("node2/cpu:0", "cpu:0", "MIG-GPU-5/1/0")] == ["cpu:0", "cpu:0", "MIG-GPU-5/1/0"]


def test_device_of_a_host_that_is_away_stays_if_it_is_chosen_and_says_why_it_cannot_be_used() -> None:
    away = state(Phase.NOT_REACHABLE, failure=Failure.CUT, survey=Survey(devices=SURVEY.devices))
    shown = shown_rows(away, rows(away, ["node2/GPU-1"]), ["node2/GPU-1"])
    assert [row.id for row in shown] == ["node2/GPU-1"]
    assert shown[0].why_blocked == "node2 is not reachable. Untick its devices, or wait until it is back."
    assert shown[0].utilisation == "–"
    never = state(Phase.CONNECTING, survey=Survey())
    (row,) = rows(never, ["node2/cpu:3"])
    assert (row.label, row.why_blocked) == ("node2 · CPU 3", "node2 has not answered yet.")
    gone = rows(state(), ["node2/GPU-2"])[-1]
    assert gone.why_blocked == "GPU-2 is not on node2 now. Untick it, or wait until it is back."
