"""Whether a device is free by one reading of its driver."""

from __future__ import annotations

import os

import pytest

from core.devices.device import Device, Process, Sample, Survey
from core.queue.device_check import judge

GB = 2**30
TOTAL = 24 * GB
GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX", memory_total_bytes=TOTAL)


def why(used_bytes=None, processes=(), *, free_bytes=0, device=GPU, **sample) -> str:
    reading = Sample(device_id="GPU-1", time=0.0, memory_used_bytes=used_bytes, processes=processes, **sample)
    return judge(Survey(devices=(device,), samples=(reading,)), ["GPU-1"], free_bytes).get("GPU-1", "")


def test_an_idle_gpu_and_the_desktop_on_it_are_free() -> None:
    assert why(10 << 20) == ""
    assert why(900 << 20, (Process(pid=1, memory_used_bytes=500 << 20),)) == ""
    assert why(None) == "", "without a reading nothing speaks against it; claims count"


def test_a_program_with_much_memory_is_named() -> None:
    me = os.getpid()
    said = why(6 * GB, (Process(pid=7, memory_used_bytes=100 << 20), Process(pid=me, memory_used_bytes=5 * GB)))
    assert said.startswith("GPU 0 is used by python")
    assert f"(pid {me})" in said
    assert f"(pid {me})" in why(6 * GB, (Process(pid=me),)), "its amount is not known, and most memory has no owner"


def test_memory_that_is_not_back_keeps_the_device() -> None:
    assert why(3 * GB) == "3.0 GB of GPU 0's memory are in use, by no process that the driver lists."
    small = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX", memory_total_bytes=4 * GB)
    assert "are in use" in why(GB // 2, device=small), "on a small GPU less counts"


@pytest.mark.parametrize(("free_bytes", "is_free"), [(18 * GB, True), (19 * GB, False)])
def test_with_free_memory_other_programs_may_use_the_rest(free_bytes: int, is_free: bool) -> None:
    said = why(6 * GB, (Process(pid=1, memory_used_bytes=6 * GB),), free_bytes=free_bytes)
    assert said == ("" if is_free else "GPU 0 has 18.0 GB of free memory, and the run needs 19.0 GB.")


def test_a_lost_device_and_one_that_is_gone_say_so() -> None:
    assert why(0, lost="It does not answer.") == "GPU 0 cannot be used: It does not answer."
    assert "is not on this machine any more" in judge(Survey(), ["GPU-2"], 0)["GPU-2"]
