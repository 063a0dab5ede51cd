"""Machines as their drivers answer: what the reader, the health of the GPUs and the pre-flight make of each profile."""

import pytest

from tests.nvml.standin import PROFILES, expected, profiles

CHECKS = {"driver", "census", "order", "memory-api", "health", "latency"}
STATES = {"pass", "problem", "could_not", "not_applicable"}
UNREADABLE = {"mismatch"}
"""Machines whose driver cannot be asked."""

READ = """
    import os

    import pynvml
    from core.devices.nvidia import preflight
    from core.devices.nvidia.health import health, problems
    from core.errors import RunError

    reader = open_reader(Options(retry_s=0))
    for _ in range(3):
        read(reader)
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    answers = [health(handle) for handle in handles]
    found = [len(problems(each, device)) for each, device in zip(answers, reader.devices)]
    read(reader)
    ids = [device.id for device in reader.devices if device.blocked is None]
    try:
        shown = preflight.visible({**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(ids)}, timeout_s=60)
    except RunError as error:
        shown = str(error)
    seen.append([[asdict(device) for device in reader.devices], answers, found, ids, shown])
"""


def state(answers, found):
    """Return the result of the check of the health by the answers and the number of problems of each GPU."""
    if any(found):
        return "problem"
    known = [answer for each in answers for answer in each.values()]
    if any("could_not" in answer for answer in known):
        return "could_not"
    return "pass" if any("value" in answer for answer in known) else "not_applicable"


@pytest.mark.parametrize("profile", profiles())
def test_profile_names_its_source_and_the_result_of_each_check(profile):
    first, *_ = (PROFILES / f"{profile}.txt").read_text().splitlines()
    assert first.startswith("# https://"), "the public source"
    assert expected(profile).keys() == CHECKS
    assert set(expected(profile).values()) <= STATES


@pytest.mark.parametrize("profile", sorted(set(profiles()) - UNREADABLE))
def test_reader_lives_with_what_the_driver_answers(nvml, reading, profile):
    host = nvml.use(profile)
    *rounds, (devices, answers, found, ids, shown) = reading(READ)
    wanted = expected(profile)
    assert state(answers, found) == wanted["health"]
    assert [sample["lost"] for samples in rounds for sample in samples] == [None] * 4 * len(devices)
    whole = [device for device in devices if not device["id"].startswith("MIG-")]
    if wanted["census"] == "pass":
        assert {len(whole)} == {int(host["pci"])} == {int(host["devices"])}
    if wanted["order"] == "pass":
        assert shown == ids
    if wanted["memory-api"] == "not_applicable":
        assert [device["shared_memory"] for device in devices] == [True] * len(devices)
    else:
        usable = [sample for sample in rounds[-1] if sample["device_id"] in ids]
        assert None not in [sample["memory_used_bytes"] for sample in usable]


def test_driver_that_does_not_fit_its_library_is_said_with_the_remedy(nvml, reading):
    nvml.use("mismatch")
    ((kind, sentence),) = reading("seen.append(trouble())")
    assert kind == "DriverError"
    assert sentence == (
        "The NVIDIA driver cannot be asked: “Driver/library version mismatch”. "
        "It was updated while in use: reboot, or reload the driver."
    )


@pytest.mark.parametrize(
    ("profile", "readings"),
    [
        ("wsl2", {"utilisation_percent": None, "processes": [{"pid": 79, "memory_used_bytes": None}]}),
        ("vgpu", {"power_watts": None, "temperature_celsius": None, "power_limit_watts": None}),
        ("gb10", {"memory_used_bytes": None, "power_watts": 11.17, "processes": [
            {"pid": 4194999, "memory_used_bytes": 40427061248},
        ]}),
        ("mig", {"utilisation_percent": None, "memory_used_bytes": 0}),
        ("mig-in-container", {"memory_used_bytes": None, "processes": None}),
        ("deprecated", {"temperature_celsius": 35.0, "clock_reasons": []}),
    ],
)
def test_missing_readings_are_none_and_the_others_are_read(nvml, reading, profile, readings):
    nvml.use(profile)
    (((first, *_)),) = reading("read(open_reader(Options()))")
    assert {name: first[name] for name in readings} == readings
