"""UntickedDeviceWatch: report a run's processes on GPUs that were not ticked, once, and no other process."""

import pytest

from core.devices.device import Device, Process, Sample, Survey
from core.devices.sampler import Sampler
from core.language import stored
from core.supervisor import watches
from tests.nvml.standin import StandIn, mig_uuid, uuid
from tests.support.waiting import PATIENCE_S, wait_until

GPUS = [Device(id=f"GPU-{n}", kind="nvidia", label=f"GPU {n}", name="RTX 4090", pci_bus_id=f"{n}") for n in range(3)]
PARTS = [Device(id=f"MIG-{n}", kind="nvidia", label=f"GPU 1 MIG {n}", name="1g.5gb", pci_bus_id="1") for n in range(2)]


def sample(device: str, *pids: int | None) -> Sample:
    held = None if None in pids else tuple(Process(pid=pid) for pid in pids if pid is not None)
    return Sample(device_id=device, time=0.0, processes=held)


def found(ticked: list[str], *samples: Sample, pids: tuple[int, ...] = (4711, 4712)) -> list[str]:
    return [use.sentence for use in watches.find(ticked, [*GPUS, *PARTS], samples, pids)]


def test_process_on_an_unticked_gpu_is_reported() -> None:
    (use,) = watches.find(["GPU-0"], GPUS, [sample("GPU-0", 4711), sample("GPU-2", 9, 4711)], [4711, 4712])
    assert use.sentence == (
        "Process 4711 of this run is on GPU 2 (RTX 4090), which was not chosen for it. "
        "Stop the run, and look for device numbers in its recipe or script."
    )
    assert use.fields() == {"device": "GPU-2", "pids": [4711], "text": stored(use.sentence)}
    (both,) = found(["GPU-0"], sample("GPU-2", 4712, 4711))
    assert both.startswith("Processes 4711 and 4712 of this run are on GPU 2 (RTX 4090), which was not chosen for it.")


def test_ticked_gpus_other_processes_and_unknown_lists_are_not_reported() -> None:
    assert found(["GPU-0", "GPU-2"], sample("GPU-0", 4711), sample("GPU-2", 4712)) == []
    assert found(["GPU-0"], sample("GPU-1", 9), sample("GPU-2", None)) == []
    assert found(["MIG-0"], sample("GPU-1", 4711), sample("MIG-0", 4711)) == [], "the GPU of a ticked MIG device"
    (other,) = found(["MIG-0"], sample("GPU-1", 4711), sample("MIG-1", 4711))
    assert "is on GPU 1 MIG 1 (1g.5gb), which was not chosen for it." in other


def test_each_finding_is_reported_once_and_again_when_it_grows() -> None:
    watch = watches.UntickedDeviceWatch(["GPU-0"], lambda: [4711, 4712])

    def poll_with(now: float, *pids: int) -> list[tuple[int, ...]]:
        survey = Survey(devices=tuple(GPUS), samples=(sample("GPU-2", *pids),))
        return [use.pids for use in watch.poll(survey, now)]

    polls = ((4711,), (4711,), (4711, 4712), (4711, 4712), (), (4711,))
    found = [poll_with(5 * number, *pids) for number, pids in enumerate(polls)]
    assert found == [[(4711,)], [], [(4711, 4712)], [], [], [(4711,)]]


def test_poll_is_limited_in_rate_and_scans_only_for_busy_unticked_gpus() -> None:
    scans = []
    watch = watches.UntickedDeviceWatch(["GPU-0"], lambda: scans.append(1) or [4711])
    quiet = Survey(devices=tuple(GPUS), samples=(sample("GPU-0", 4711), sample("GPU-2")))
    busy = Survey(devices=tuple(GPUS), samples=(sample("GPU-0", 4711), sample("GPU-2", 4711)))
    found = [len(watch.poll(survey, now)) for survey, now in ((quiet, 0), (busy, 4.9), (busy, 5), (busy, 9))]
    assert (found, len(scans)) == ([0, 0, 1, 0], 1)


def test_run_sampler_also_reads_unticked_gpus(nvml: StandIn) -> None:
    nvml.write(gpus=2, gpu0={"compute": "4711:5"}, gpu1={"compute": "4711:5,9:1", "mig": 1, "mig_count": 1})
    with Sampler.for_run([uuid(0)]) as sampler:
        sampler.survey(PATIENCE_S)
        survey = wait_until(lambda: (each := sampler.poll()).samples and each, "the readings")
    assert [device.id for device in survey.devices] == [uuid(0), uuid(1), mig_uuid(1, 0)], "and no CPU device"
    (use,) = watches.find([uuid(0)], survey.devices, survey.samples, [4711])
    assert use.device_id == uuid(1)


def test_sampler_of_a_cpu_run_does_not_call_the_driver(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=1)
    with Sampler.for_run(["cpu:0"]) as sampler:
        assert [device.id for device in sampler.survey(PATIENCE_S).devices] == ["cpu:0"]
    assert not nvml.calls()
