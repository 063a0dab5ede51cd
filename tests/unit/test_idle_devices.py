"""Chosen GPUs that a script never used are named at its end."""

from core.devices.device import Device, Sample
from core.supervisor.watches import MIN_READINGS, IdleDeviceWatch

GB = 2**30
GPUS = [Device(id=f"GPU-{number}", kind="nvidia", label=f"GPU {number}", name="A") for number in range(3)]


def watched(busy: dict[str, float], *, readings: int = MIN_READINGS, grown: int = GB) -> str | None:
    watch = IdleDeviceWatch(GPUS, [Sample(device_id=each.id, time=0.0, memory_used_bytes=GB) for each in GPUS])
    for _ in range(readings):
        watch.take(
            Sample(device_id=each, time=1.0, utilisation_percent=percent, memory_used_bytes=GB + grown)
            for each, percent in busy.items()
        )
    return watch.sentence()


def test_gpu_that_was_never_busy_is_named() -> None:
    sentence = watched({"GPU-0": 90.0, "GPU-1": 0.0, "GPU-2": 80.0})
    assert sentence is not None
    assert sentence.startswith("The script did not use GPU 1, which was chosen for it. It used GPU 0 and GPU 2.")
    assert str(watched({"GPU-0": 90.0, "GPU-1": 0.0, "GPU-2": 0.0})).startswith(
        "The script did not use GPU 1 and GPU 2"
    )


def test_nothing_is_said_where_it_is_not_known() -> None:
    assert watched({each.id: 90.0 for each in GPUS}) is None
    assert watched({each.id: 0.0 for each in GPUS}) is None, "another reader, or a program that computes on the CPU"
    assert watched({"GPU-0": 90.0, "GPU-1": 0.0}, readings=MIN_READINGS - 1) is None
    assert watched({"GPU-0": 90.0}) is None, "the others were not read"
    assert IdleDeviceWatch([], []).sentence() is None
