"""NVIDIA GPUs that sleep: they are listed and not woken up, unless a run needs them."""

import pytest

from tests.nvml.standin import uuid


def test_sleeping_gpu_is_not_read(nvml, reading, tmp_path):
    state = tmp_path / "0000:01:00.0" / "power" / "runtime_status"
    state.parent.mkdir(parents=True)
    state.write_text("active\n")
    nvml.write(gpus=2)
    awake, asleep, again = reading(f"""
        state = Path({str(state)!r})
        reader = NvidiaReader(Options(), paths=PciPaths(sysfs=Path({str(tmp_path)!r})))
        read(reader)
        state.write_text("suspended\\n")
        read(reader)
        state.write_text("active\\n")
        read(reader)
    """)
    assert awake == again
    assert [asleep[0][name] for name in ("utilisation_percent", "power_watts", "lost")] == [None] * 3
    assert [sample["asleep"] for sample in asleep] == [True, False]
    assert asleep[1] == awake[1]
    assert nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] == 2


@pytest.fixture
def laptop(tmp_path):
    """PciPaths of a machine whose GPUs at 0000:01:00.0 and 0000:02:00.0 have these power states."""
    names = tmp_path / "pci.ids"
    names.write_text("# list\n1002  AMD\n\t2860  another\n10de  NVIDIA Corporation\n\t2860  AD106M [RTX 4070]\n")

    def make(**states):
        for address, state in states.items():
            bus = f"0000:{address.removeprefix('bus')}:00.0"
            (tmp_path / "gpus" / bus).mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys" / bus / "power").mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys" / bus / "power" / "runtime_status").write_text(f"{state}\n")
            (tmp_path / "sys" / bus / "device").write_text("0x2860\n")
        root = f"Path({str(tmp_path)!r})"
        return f"PciPaths(sysfs={root} / 'sys', gpus={root} / 'gpus', pci_ids=({root} / 'pci.ids',))"

    return make


def test_laptop_with_a_sleeping_gpu_lists_it_without_waking_it_up(nvml, reading, laptop):
    nvml.write(gpus=1)
    places = laptop(bus01="suspended")
    (device,), samples, calls, awake, samples_awake = reading(f"""
        places = {places}
        reader = NvidiaReader(Options(retry_s=0), paths=places)
        seen.append([asdict(device) for device in reader.devices])
        read(reader)
        seen += [nvml.calls().total(), None]
        (places.sysfs / "0000:01:00.0" / "power" / "runtime_status").write_text("active\\n")
        read(reader)
        seen[-2] = [asdict(device) for device in reader.devices]
    """)
    assert (device["id"], device["name"]) == ("PCI-0000:01:00.0", "NVIDIA AD106M [RTX 4070]")
    assert device["blocked"] == (
        "GPU at 0000:01:00.0 is asleep and was not woken up to be listed. "
        "To use it, wake it up: start a program that uses it, such as nvidia-smi."
    )
    assert [samples[0][name] for name in ("asleep", "lost", "memory_used_bytes")] == [True, None, None]
    assert calls == 0, "of the driver"
    assert [one["id"] for one in awake] == [uuid(0)], "listed as soon as another program wakes it"
    assert samples_awake[0]["memory_used_bytes"] == 0


def test_sleeping_gpu_is_not_read_while_another_is_awake(nvml, reading, laptop):
    nvml.write(gpus=2)
    (labels,) = reading(f"""
        reader = NvidiaReader(Options(retry_s=0), paths={laptop(bus01="suspended", bus02="active")})
        reader.read(1.0, frozenset(Tier))
        seen.append([device.label for device in reader.devices])
    """)
    assert labels == ["GPU 1", "GPU at 0000:01:00.0"]
    assert not [call for call in nvml.calls() if call.endswith(" gpu0")]


@pytest.mark.parametrize("option", ["only", "wake"])
def test_sleeping_gpu_needed_by_a_run_is_woken_up(nvml, reading, laptop, option):
    nvml.write(gpus=2)
    wanted = f"frozenset({{{uuid(0)!r}}})"
    (ids,) = reading(f"""
        reader = NvidiaReader(Options({option}={wanted}), paths={laptop(bus01="suspended", bus02="active")})
        seen.append([device.id for device in reader.devices])
    """)
    assert ids == [uuid(0), uuid(1)][: 1 if option == "only" else 2]
