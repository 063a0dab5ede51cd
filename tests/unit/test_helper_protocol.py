"""What the helper process sends about devices and their readings, and how its client keeps it."""

from dataclasses import fields, replace

import pytest

from core.devices.device import Device, Process, Sample
from core.devices.helper import HelperAnswer, from_line, to_line
from core.devices.sampler import ReadingsStore

P = Process(pid=4711, memory_used_bytes=5)


ASLEEP = Device(id="PCI-0000:01:00.0", kind="nvidia", label="GPU at", name="N", pci_bus_id="0000:01:00.0")
AWAKE = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="N", pci_bus_id="0000:01:00.0")


def sleeping(time: float) -> tuple[Sample, ...]:
    return (Sample(device_id=ASLEEP.id, time=time, asleep=True),)


def test_gpu_that_wakes_up_replaces_its_sleeping_row():
    store = ReadingsStore()
    store.add(HelperAnswer(devices=(ASLEEP,), samples=sleeping(1.0)), 0.0)
    store.add(HelperAnswer(devices=(AWAKE,)), 0.0)
    assert list(store.devices) == ["GPU-1"]
    assert not store.latest


def test_gpu_asleep_at_helper_restart_keeps_its_row():
    """The new helper does not wake the GPU to ask for its id."""
    store = ReadingsStore()
    store.add(HelperAnswer(devices=(AWAKE,), samples=(Sample(device_id="GPU-1", time=1.0, memory_used_bytes=5),)), 0.0)
    for answer in (HelperAnswer(devices=(ASLEEP,), samples=sleeping(2.0)), HelperAnswer(samples=sleeping(3.0))):
        store.add(answer, 0.0)
        assert store.devices == {"GPU-1": AWAKE}
        assert list(store.latest) == ["GPU-1"]
        assert (store.latest["GPU-1"].asleep, store.latest["GPU-1"].lost) == (True, None)
    store.add(HelperAnswer(devices=(AWAKE,), samples=(Sample(device_id="GPU-1", time=4.0, memory_used_bytes=6),)), 0.0)
    assert list(store.devices) == ["GPU-1"]
    assert store.latest["GPU-1"].memory_used_bytes == 6


def test_unchanged_sample_is_sent_as_its_new_time_only():
    old = Sample(device_id="GPU-1", time=1.0, utilisation_percent=3.0, clock_reasons=("too hot",), processes=(P,))
    other = Sample(device_id="GPU-2", time=1.0, memory_used_bytes=5, lost="It is gone.")
    before = (old, other)
    same, changed = replace(old, time=2.0), replace(other, time=2.0, lost=None, asleep=True)
    line = to_line(HelperAnswer(samples=(same, changed)), before)
    assert b"GPU-1" not in line
    assert from_line(line, before).samples == (same, changed)
    whole = to_line(HelperAnswer(samples=(same, changed)))
    assert from_line(whole).samples == (same, changed)


@pytest.mark.parametrize("name", [field.name for field in fields(Sample) if field.name != "time"])
def test_each_changed_sample_field_reaches_the_client(name):
    old = Sample(device_id="GPU-1", time=1.0)
    values = {"device_id": "GPU-2", "clock_reasons": ("too hot",), "processes": (P,), "lost": "Gone.", "asleep": True}
    values["fault"] = "It needs a reset."
    changed = replace(old, time=2.0, **{name: values.get(name, 7)})
    assert from_line(to_line(HelperAnswer(samples=(changed,)), (old,)), (old,)).samples == (changed,)


def test_answer_may_add_or_drop_devices() -> None:
    one, two = (Sample(device_id=f"GPU-{number}", time=1.0) for number in (1, 2))
    for before, samples in (((one,), (one, two)), ((one, two), (one,)), ((one, two), (two,)), ((one, two), ())):
        assert from_line(to_line(HelperAnswer(samples=samples), before), before).samples == samples
    with pytest.raises(LookupError):
        from_line(to_line(HelperAnswer(samples=(one,)), (one,)))  # which refers to an answer that is not known
