"""SlowdownWatch: report that heat or a power supply slows a device of the run down, once an episode."""

import pytest

from core.devices.device import Device, Sample, Survey
from core.devices.sampler import Sampler
from core.language import stored
from core.supervisor.watches import LASTS_S, QUIET_S, SlowdownWatch
from tests.nvml.standin import StandIn, uuid
from tests.support.waiting import wait_until

GPUS = tuple(Device(id=f"GPU-{n}", kind="nvidia", label=f"GPU {n}", name="H100") for n in range(3))
BOTH = ("GPU-1", "GPU-2")


def survey(*reasons: str, celsius: float | None = 91.0, device: str = "GPU-2") -> Survey:
    hot = Sample(device_id=device, time=0.0, temperature_celsius=celsius, clock_reasons=reasons)
    return Survey(devices=GPUS, samples=(Sample(device_id="GPU-1", time=0.0), hot))


def sentences(watch: SlowdownWatch, now: float, *reasons: str, **known: object) -> list[str]:
    return [each.sentence for each in watch.poll(survey(*reasons, **known), now)]  # type: ignore[arg-type]


def test_slowdown_is_reported_once_when_it_lasts_and_when_it_is_over() -> None:
    watch = SlowdownWatch(BOTH, waits=True)
    assert sentences(watch, 0, "too hot") == []
    (began,) = watch.poll(survey("too hot"), LASTS_S)
    assert began.sentence == "GPU 2 is slowed down: 91 °C. It holds the others up. Check its cooling."
    assert began.fields() == {"device": "GPU-2", "text": stored(began.sentence)}
    for second in (10, 12, 14 + QUIET_S / 2, 16 + QUIET_S):  # to and fro is one episode
        assert watch.poll(survey("too hot"), second) == []
        assert watch.poll(survey("sync boost"), second + 1) == []
    (over,) = watch.poll(survey(), 16 + 2 * QUIET_S)
    assert over.fields() == {"device": "GPU-2", "text": "", "seconds": 16 + QUIET_S}
    assert sentences(watch, 100, "too hot") == []
    assert len(sentences(watch, 100 + LASTS_S, "too hot")) == 1


def test_short_or_harmless_slowdown_other_devices_and_lost_ones_are_not_reported() -> None:
    watch = SlowdownWatch(BOTH, waits=True)
    for second in range(0, 60, 4):
        assert sentences(watch, second, "far too hot") == []
        assert sentences(watch, second + 2, "sync boost") == []
        assert watch.poll(survey("too hot", device="GPU-0"), second + 2) == []
    watch = SlowdownWatch(BOTH, waits=False)
    assert sentences(watch, 0, "too hot") == []
    assert len(sentences(watch, LASTS_S, "too hot")) == 1
    lost = Survey(devices=GPUS, samples=(Sample(device_id="GPU-2", time=0.0, lost="GPU 2 does not answer."),))
    assert watch.poll(lost, 10 * QUIET_S) == [], "a device that is lost is not cool"
    assert sentences(watch, 11 * QUIET_S) == [""]


@pytest.mark.parametrize(
    ("reasons", "celsius", "sentence"),
    [
        (("far too hot",), None, "GPU 2 is slowed down: it is too hot. Check its cooling."),
        (
            ("hardware slowdown", "power supply"), 60.0,
            "GPU 2 is slowed down by its power supply. Check its power cables.",
        ),
        (
            ("hardware slowdown",), 60.0,
            "GPU 2 is slowed down by its hardware. Check its cooling and its power cables.",
        ),
    ],
)
def test_sentence_names_the_reason_and_what_to_do(reasons, celsius, sentence) -> None:
    for watch in (SlowdownWatch(["GPU-2"], waits=True), SlowdownWatch(BOTH, waits=False)):
        sentences(watch, 0, *reasons)
        assert sentences(watch, LASTS_S, *reasons, celsius=celsius) == [sentence]


def test_hot_gpu_of_the_driver_is_reported(nvml: StandIn) -> None:
    nvml.write(gpus=2, gpu1={"clock_reasons": 0x40, "temperature": 91})  # nvmlClocksThrottleReasonHwThermalSlowdown
    watch, devices = SlowdownWatch([uuid(0), uuid(1)], waits=True), [uuid(0), uuid(1)]
    with Sampler.for_run(devices) as sampler:
        wait_until(lambda: any(sample.slowdowns for sample in sampler.poll().samples), "the reading of a hot GPU")
        hot = sampler.poll()
    assert watch.poll(hot, 0) == []
    (found,) = watch.poll(hot, LASTS_S)
    assert (found.device_id, found.sentence) == (
        uuid(1), "GPU 1 is slowed down: 91 °C. It holds the others up. Check its cooling."
    )
