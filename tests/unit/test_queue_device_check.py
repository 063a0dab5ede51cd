"""Whether a device is free by one reading of its driver."""

import os
import time
from typing import Self

import pytest

from core.devices.device import Device, Process, Sample, Survey
from core.devices.sampler import Sampler
from core.queue.control import QUIET_S, STALE_S, busy_devices, judge, quiet_s

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
    assert judge(Survey(), ["GPU-2"], 0)["GPU-2"].startswith("Device GPU-2 is not on this machine any more.")
    no_driver = Survey(banner="The driver does not answer.")
    assert judge(no_driver, ["GPU-2"], 0)["GPU-2"].startswith("The driver does not answer. Device GPU-2 is not")


def test_a_device_must_be_free_for_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that comes back within them keeps it, and so does a driver that gives no more readings."""
    clock = [0.0]

    class Readings:
        """Of a GPU on which a program has 6 GB from a second on, and whose driver hangs from another one on."""

        def __init__(self, begins: float, hangs: float) -> None:
            self._begins, self._hangs = begins, hangs

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def set_period(self, *_: object, **__: object) -> None:
            pass

        def survey(self, *_: object) -> Survey:
            used = 6 * GB if clock[0] >= self._begins else 0
            sample = Sample(device_id="GPU-1", time=0.0, memory_used_bytes=used)
            return Survey(devices=(GPU,), samples=(sample,), arrived={"GPU-1": min(clock[0], self._hangs)})

        poll = survey

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    never = float("inf")
    for begins, hangs, ends in (
        (QUIET_S - 1, never, QUIET_S - 1), (QUIET_S + 1, never, None), (never, 1.0, 1.0 + STALE_S),
        (never, QUIET_S - 1, None),
    ):
        clock[0] = 0.0
        monkeypatch.setattr(Sampler, "for_run", lambda _, given=(begins, hangs): Readings(*given))
        said = busy_devices(["GPU-1"], 0).get("GPU-1", "")
        assert clock[0] == pytest.approx(QUIET_S if ends is None else ends, abs=0.5)
        assert ("are in use" in said, "no reading for 5 s" in said) == (begins < QUIET_S, hangs == 1.0)


@pytest.mark.parametrize(("text", "seconds"), [("0.5", 0.5), ("inf", QUIET_S), ("nan", QUIET_S), ("-1", QUIET_S)])
def test_a_time_without_sense_is_not_waited_for(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_QUEUE_QUIET_S", text)
    assert quiet_s() == seconds
