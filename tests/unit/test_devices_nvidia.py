"""NVIDIA devices, read in a fresh process from a stand-in for the driver's library."""

import ctypes.util

import pytest

from tests.nvml.standin import mig_uuid, uuid

GIGABYTE = 2**30


def listed(reading, code="open_reader(Options())"):
    (devices,) = reading(f"seen.append([asdict(device) for device in {code}.devices])")
    return devices


def test_eight_gpus_are_listed_with_their_properties(nvml, reading):
    named = {"name": "NVIDIA H100", "memory_total": 80 * GIGABYTE, "bus": 0xC1}
    numa = {"name": "NVIDIA GH200 480GB", "numa": 1, "memory_total": 96 * GIGABYTE}
    nvml.write(gpus=8, gpu0={"minor": 2}, gpu2={"unsupported": "minor"}, gpu3=named, gpu4=numa)
    devices = listed(reading)
    assert [device["id"] for device in devices] == [uuid(index) for index in range(8)]
    assert [device["label"] for device in devices] == [f"GPU {index}" for index in range(8)]
    assert devices[3]["name"] == "NVIDIA H100"
    assert [devices[index]["memory_total_bytes"] // GIGABYTE for index in (3, 4)] == [80, 96]
    assert devices[3]["pci_bus_id"] == "0000:c1:00.0"
    assert {device["kind"] for device in devices} == {"nvidia"}
    assert [device["minor"] for device in devices[:4]] == [2, 1, None, 3], "the number of the device file, if known"
    assert [device["id"] for device in devices if device["shared_memory"]] == [uuid(4)], "the node of NUMA"


def test_readings_have_the_units_in_their_names(nvml, reading):
    gpu = {"utilisation": 82, "memory_used": 9 * GIGABYTE, "memory_reserved": GIGABYTE, "temperature": 61}
    gpu |= {"power_mw": 250500, "power_limit_mw": 300_000, "sm_clock_mhz": 1980}
    nvml.write(gpus=1, gpu0={**gpu, "clock_reasons": 0x1 | 0x4 | 0x20})
    (((sample,)),) = reading("read(open_reader(Options()))")
    assert sample == {
        "device_id": uuid(0),
        "time": 1.0,
        "utilisation_percent": 82.0,
        "memory_used_bytes": 9 * GIGABYTE,  # without the driver's reserve
        "temperature_celsius": 61.0,
        "power_watts": 250.5,
        "power_limit_watts": 300.0,
        "sm_clock_mhz": 1980.0,
        "clock_reasons": ["too hot"],  # a GPU at its power limit does what it should
        "processes": [],
        "lost": None,
        "fault": None,
        "asleep": False,
    }


def test_share_of_a_process_is_unknown_unless_the_driver_tells_it_or_the_gpu_is_idle(nvml, reading):
    """NVML names only the processes that had a share, and none where none had, or where nothing was sampled yet."""
    both = {"compute": "10:1,20:2", "utilisation": 90}
    nvml.write(gpus=6, gpu0={**both, "shares": "10:87"}, gpu1=both, gpu2={**both, "utilisation": 0},
               gpu3={**both, "unsupported": "process_utilisation", "utilisation": 0},
               gpu4={**both, "shares": "10:4294967295,20:5"}, gpu5={"mig": 1, "mig_count": 1, "mig0.compute": "10:1"})
    (found,) = reading("shares(open_reader(Options()))")
    assert found[:5] == [
        {"10": 87.0, "20": 0.0}, {"10": None, "20": None}, {"10": 0.0, "20": 0.0}, {"10": None, "20": None},
        {"10": None, "20": 5.0},
    ]
    assert found[6] == {"10": None}, "a MIG device"


def test_each_process_is_listed_once_with_its_memory_if_known(nvml, reading):
    """A GPU that no process uses has an empty list, and one whose compute processes are unknown has none."""
    merged = {"compute": f"30:{GIGABYTE},10", "graphics": f"20:5,30:{GIGABYTE}", "mps": "10:7"}
    part = {"compute": "10:1", "unsupported": "graphics,mps"}
    nvml.write(gpus=4, gpu0=merged, gpu1=part, gpu2={"unsupported": "compute"})
    (samples,) = reading("read(open_reader(Options()))")
    found = [each["processes"] for each in samples]
    assert sorted((each["pid"], each["memory_used_bytes"]) for each in found[0]) == [(10, 7), (20, 5), (30, GIGABYTE)]
    assert found[1:] == [[{"pid": 10, "memory_used_bytes": 1}], None, []]


@pytest.mark.parametrize(
    ("gpu", "field"),
    [
        ({"utilisation": 101}, "utilisation_percent"),
        ({"memory_used": 2**64 - 1}, "memory_used_bytes"),
        ({"error.power": 6}, "power_watts"),
        ({"unsupported": "power_limit"}, "power_limit_watts"),
        ({"error.power_limit": 999}, "power_limit_watts"),
        ({"unsupported": "clock"}, "sm_clock_mhz"),
        ({"error.clock": 6}, "sm_clock_mhz"),
        ({"error.memory": 4}, "memory_used_bytes"),
        ({"unsupported": "compute,graphics,mps"}, "processes"),
    ],
)
def test_unreadable_value_is_none_and_the_rest_is_read(nvml, reading, gpu, field):
    nvml.write(gpus=1, gpu0={"utilisation": 50, "memory_used": 1, **gpu})
    (((sample,)),) = reading("read(open_reader(Options()))")
    assert [name for name, value in sample.items() if value is None] == [field, "lost", "fault"]


def test_unsupported_call_is_made_once_and_never_again(nvml, reading):
    nvml.write(gpus=2, gpu0={"unsupported": "power,clock_reasons,mps"}, missing="nvmlDeviceGetTemperature")
    rounds = reading("reader = open_reader(Options())\nfor _ in range(5): read(reader)")
    assert [samples[0]["power_watts"] for samples in rounds] == [None] * 5
    assert [samples[1]["power_watts"] for samples in rounds] == [20.0] * 5
    assert [samples[0]["temperature_celsius"] for samples in rounds] == [35.0] * 5, "read with another NVML function"
    calls = nvml.calls()
    once = ("PowerUsage", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "Temperature")
    assert {calls[f"nvmlDeviceGet{name} gpu0"] for name in once} == {1}
    assert calls["nvmlDeviceGetPowerUsage gpu1"] == 5
    assert calls["nvmlDeviceGetMPSComputeRunningProcesses_v3 gpu0"] == 1


def test_readings_not_due_are_not_read_and_keep_their_last_value(nvml, reading):
    nvml.write(gpus=1, gpu0={"temperature": 40, "compute": "10:1"})
    first, second = reading("""
        reader = open_reader(Options())
        read(reader)
        nvml.write(gpu0={"temperature": 50, "compute": "", "utilisation": 7})
        read(reader, Tier.LOAD)
    """)
    assert second == [{**first[0], "utilisation_percent": 7.0}]
    assert nvml.calls()["nvmlDeviceGetComputeRunningProcesses_v3 gpu0"] == 2, (
        "one read: a call for the count, one for the list"
    )


@pytest.mark.parametrize("error", [15, 16, 999])
def test_lost_gpu_is_reported_others_continue_and_it_recovers(nvml, reading, error):
    nvml.write(gpus=3)
    rounds = reading(f"""
        reader = open_reader(Options(retry_s=0))
        read(reader)
        nvml.write(gpu1={{"error": {error}}}, gpu2={{"utilisation": 44}})
        read(reader, Tier.LOAD)
        read(reader, Tier.LOAD)
        nvml.write(gpu1={{"error": None, "temperature": 77}})
        read(reader, Tier.LOAD)
        seen.append(len(reader.devices))
    """)
    before, lost, still_lost, back, listed = rounds
    assert [sample["lost"] for sample in before] == [None] * 3
    assert lost == still_lost
    assert lost[1]["lost"].startswith("GPU 1 does not answer: the driver says “")
    assert lost[1]["memory_used_bytes"] is None
    assert lost[2]["utilisation_percent"] == 44.0
    assert [sample["lost"] for sample in back] == [None] * 3
    assert back[1]["temperature_celsius"] == 77.0, "all values are read at once"
    assert listed == 3


def test_lost_gpu_is_not_read_before_the_next_retry(nvml, reading):
    nvml.write(gpus=1)
    reading("""
        reader = open_reader(Options(retry_s=60))
        nvml.write(gpu0={"lost": 1})
        for _ in range(5): read(reader)
    """)
    assert nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] == 1
    assert nvml.calls()["nvmlDeviceGetHandleByUUID"] == 0


def test_gpu_lost_at_the_start_is_reported_and_listed_later(nvml, reading):
    nvml.write(gpus=2, gpu0={"lost": 1})
    banner, ids, no_banner, all_ids = reading("""
        reader = open_reader(Options(retry_s=0))
        seen += [reader.banner, [device.id for device in reader.devices]]
        nvml.write(gpu0={"lost": None})
        reader.read(1.0, frozenset(Tier))
        seen += [reader.banner, [device.id for device in reader.devices]]
    """)
    assert "GPU 0 cannot be listed: the driver says “GPU is lost”" in banner
    assert ids == [uuid(1)]
    assert no_banner is None
    assert sorted(all_ids) == [uuid(0), uuid(1)]


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [
        (9, "Driver Not Loaded", "modprobe nvidia"),
        (18, "Driver/library version mismatch", "reboot, or reload the driver"),
        (4, "Insufficient Permissions", "/dev/nvidia*"),
        (999, "Unknown Error", "dmesg"),
    ],
)
def test_driver_error_has_nvml_message_and_remedy(nvml, reading, code, words, remedy):
    nvml.write(gpus=1, init_error=code)
    ((kind, sentence),) = reading("seen.append(trouble())")
    assert kind == "DriverError"
    assert f"“{words}”" in sentence
    assert remedy in sentence


needs_no_library = pytest.mark.skipif(
    ctypes.util.find_library("nvidia-ml") is not None, reason="this machine has the real library"
)


@needs_no_library
def test_missing_library_is_an_error_only_if_a_driver_exists(nvml, reading, monkeypatch):
    nvml.env["LD_LIBRARY_PATH"] = "/nonexistent"
    absent, trouble = reading("seen += [trouble(traces=[]), trouble(traces=[Path('/proc')])]")
    assert absent[0] == "NoDevices"
    assert trouble[0] == "DriverError"
    assert "libnvidia-ml.so.1" in trouble[1]


@pytest.mark.parametrize(
    "gpu",
    [
        {"name": "NVIDIA GB10", "unsupported": "memory"},
        {"name": "Orin (nvgpu)", "memory_total": 0},
        {"name": "NVIDIA N1X", "memory_total": 8 * GIGABYTE},  # part of the host memory, reported as if it were its own
    ],
)
def test_gpu_without_own_memory_is_marked_shared_and_has_no_memory_reading(nvml, reading, gpu):
    nvml.write(gpus=2, gpu0={**gpu, "memory_used": GIGABYTE, "compute": f"4711:{GIGABYTE}"})
    devices, (shared, own) = reading("""
        reader = open_reader(Options())
        seen.append([asdict(device) for device in reader.devices])
        read(reader)
    """)
    assert [device["shared_memory"] for device in devices] == [True, False]
    assert devices[0]["memory_total_bytes"] is None
    assert (shared["memory_used_bytes"], own["memory_used_bytes"]) == (None, 0)
    assert shared["processes"] == [{"pid": 4711, "memory_used_bytes": GIGABYTE}], "memory of each process is known"


def test_memory_unknown_to_an_old_driver_is_not_taken_for_shared_memory(nvml, reading):
    nvml.write(gpus=1, missing="nvmlDeviceGetMemoryInfo_v2")
    (device,) = listed(reading)
    assert (device["memory_total_bytes"], device["shared_memory"]) == (None, False)


def test_gpu_in_mig_mode_is_blocked_and_its_mig_devices_appear_and_disappear(nvml, reading):
    part = {"mig1.memory_used": 2 * GIGABYTE, "mig1.memory_total": 10 * GIGABYTE, "mig1.compute": "4711:7"}
    mig = {"mig": 1, "mig_count": 2, "mig1.name": "NVIDIA A100 MIG 2g.10gb", **part}
    nvml.write(gpus=2)
    before, devices, samples, lost, whole = reading(f"""
        reader = open_reader(Options(retry_s=0))
        seen.append([[device.label, bool(device.blocked)] for device in reader.devices])
        nvml.write(gpu0={mig})
        reader.read(1.0, frozenset(Tier))
        seen.append([asdict(device) for device in reader.devices])
        read(reader)
        nvml.write(gpu0={{"mig_count": 1}})
        seen.append([sample.lost for sample in reader.read(1.0, frozenset(Tier))])
        nvml.write(gpu0={{"mig": None, "mig_count": None}})
        reader.read(1.0, frozenset(Tier))
        seen.append([[device.label, bool(device.blocked)] for device in reader.devices])
    """)
    assert before == [["GPU 0", False], ["GPU 1", False]]
    gpu, _, second, other = sorted(devices, key=lambda device: device["label"])
    assert [device["id"] for device in devices if device is not other] == [uuid(0), mig_uuid(0, 0), mig_uuid(0, 1)]
    assert [device["label"] for device in (gpu, second, other)] == ["GPU 0", "GPU 0 MIG 1", "GPU 1"]
    assert (second["name"], second["memory_total_bytes"]) == ("NVIDIA A100 MIG 2g.10gb", 10 * GIGABYTE)
    assert second["pci_bus_id"] == gpu["pci_bus_id"]
    assert [each["minor"] for each in (gpu, second, other)] == [0, None, 1], "MIG devices have no minor number"
    assert gpu["blocked"] == (
        "GPU 0 is in MIG mode and cannot be used as a whole: tick a MIG device of it. Where none is listed, make one "
        "(nvidia-smi mig -i 0 -cgi ... -C), or switch the mode off (nvidia-smi -i 0 -mig 0)."
    )
    assert [device["blocked"] for device in devices if device is not gpu] == [None] * 3
    sample = samples[devices.index(second)]
    assert sample["memory_used_bytes"] == 2 * GIGABYTE
    assert sample["processes"] == [{"pid": 4711, "memory_used_bytes": 7}]
    assert [sample[name] for name in ("utilisation_percent", "temperature_celsius", "lost")] == [None] * 3
    (trouble,) = filter(None, lost)
    assert trouble.startswith("GPU 0 MIG 1 does not answer: the driver says “Not Found”")
    assert ["GPU 0", False] in whole


@pytest.mark.parametrize("name", ["compute", "graphics"])
def test_process_list_that_fails_temporarily_is_unknown_not_empty(nvml, reading, name):
    """The stand-in returns "not found", one of the temporary errors, and keeps its handle."""
    nvml.write(gpus=1, gpu0={f"error.{name}": 6, "compute": "10:1"})
    ((failed,), (whole,)) = reading("""
        reader = open_reader(Options())
        read(reader)
        nvml.write(gpu0={"error.compute": None, "error.graphics": None})
        read(reader)
    """)
    assert failed["processes"] is None
    assert whole["processes"] == [{"pid": 10, "memory_used_bytes": 1}]


def test_gpu_hidden_by_inherited_variable_is_listed_and_blocked(nvml, reading):
    nvml.write(gpus=4)
    devices, samples = reading(f"""
        reader = open_reader(Options(), environment={{'CUDA_VISIBLE_DEVICES': {uuid(1)!r}}})
        seen.append([asdict(device) for device in reader.devices])
        read(open_reader(Options(only=frozenset({{{uuid(2)!r}}}))))
    """)
    assert devices[0]["blocked"] == (
        f"GPU 0 is hidden by CUDA_VISIBLE_DEVICES={uuid(1)} in the environment that Trainyard was started in. "
        "Start Trainyard with another value, or without the variable, to use this device."
    )
    assert devices[1]["blocked"] is None
    assert [sample["device_id"] for sample in samples] == [uuid(2)], "only the requested one"
    assert nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] == 0
