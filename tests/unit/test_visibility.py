"""An inherited CUDA_VISIBLE_DEVICES: what it hides, entry by entry, and how that is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.devices.device import Device
from core.devices.nvidia import visibility
from core.devices.nvidia.visibility import VisibleDevices
from core.devices.sampler import Sampler
from core.errors import RunError
from tests.nvml.standin import mig_uuid, uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.nvml.standin import StandIn

# In the order of NVML; by bus, the third comes first.
GPUS = [
    Device(id=f"GPU-{name}", kind="nvidia", label=f"GPU {n}", name="RTX", pci_bus_id=f"0000:0{bus}:00.0")
    for n, (name, bus) in enumerate([("aa11", 2), ("aa22", 3), ("bb33", 1)])
]
MIG = Device(id="MIG-cc44", kind="nvidia", label="GPU 2 MIG 0", name="1g.5gb", pci_bus_id="0000:01:00.0")


def never(_: Mapping[str, str]) -> list[str]:
    raise AssertionError("the driver is asked for what the list of devices tells")


def seen(value: str, devices: Sequence[Device] = GPUS, order: str = "PCI_BUS_ID") -> list[str]:
    """The labels of the devices that are left."""
    environment = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}
    blocked = VisibleDevices(environment, ask=never).blocked(devices, sure=True)
    return [device.label for device in devices if device.id not in blocked]


def test_without_the_variable_nothing_is_hidden() -> None:
    assert VisibleDevices({}, ask=never).blocked(GPUS, sure=False) == {}


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("GPU-aa11,GPU-bb33", ["GPU 0", "GPU 2"]),
        ("GPU-bb", ["GPU 2"]),  # a beginning will do
        ("GPU-aa", []),  # that of two will not
        ("GPU-AA11", ["GPU 0"]),
        ("GPU-aa11,GPU-ff,GPU-bb33", ["GPU 0"]),
        ("GPU-aa11,2", ["GPU 0"]),
        ("GPU-aa11,GPU-aa11", []),  # named twice
        ("0", ["GPU 2"]),  # by bus
        ("2,0", ["GPU 1", "GPU 2"]),
        (" 1 , 0", ["GPU 0", "GPU 2"]),
        ("1gpu", ["GPU 0"]),
        ("0,7,1", ["GPU 2"]),
        ("0,-1,1", ["GPU 2"]),
        ("0,0", []),
        ("-1", []),
        ("", []),
        ("NoDevFiles", []),
        ("all", []),
    ],
)
def test_what_each_value_leaves(value: str, left: list[str]) -> None:
    assert seen(value) == left


def test_mig_devices_are_named_by_their_own_id() -> None:
    assert seen("MIG-cc44", [*GPUS, MIG]) == ["GPU 2 MIG 0"]
    assert seen("MIG-cc", [*GPUS, MIG]) == ["GPU 2 MIG 0"]


def test_the_only_gpu_is_number_0_in_any_order() -> None:
    assert seen("0", GPUS[:1], order="") == ["GPU 0"]


def sentence(value: str, device: Device = GPUS[0]) -> str:
    environment = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return VisibleDevices(environment, ask=never).blocked(GPUS, sure=True)[device.id]


def test_the_sentence_names_the_variable_its_value_and_the_entry_that_ends_the_list() -> None:
    assert sentence("0") == (
        "GPU 0 is hidden by CUDA_VISIBLE_DEVICES=0 in the environment that Trainyard was started in. "
        "Start Trainyard with another value, or without the variable, to use this device."
    )
    assert sentence("").startswith("GPU 0 is hidden by CUDA_VISIBLE_DEVICES, which is set and empty, in the")
    assert "(Its entry “9” names no GPU here, or one twice, and CUDA ignores the rest.)" in sentence("0,9,1")
    assert "entry" not in sentence("-1")


@pytest.mark.parametrize(
    ("value", "devices", "order", "sure"),
    [
        ("0,1", GPUS, "", True),  # fastest first: which that is, only CUDA knows
        ("0,1", GPUS, "PCI_BUS_ID", False),  # a GPU is missing from the list
        ("0,1", [*GPUS, MIG], "PCI_BUS_ID", True),  # how a GPU in MIG mode counts, only CUDA knows
        ("MIG-GPU-bb33/1/0", [*GPUS, MIG], "", True),  # the way of old drivers
        ("GPU-ff,GPU-aa22", GPUS, "", False),  # that of a GPU that could not be listed
    ],
)
def test_what_only_the_driver_knows_it_is_asked_once(
    value: str, devices: Sequence[Device], order: str, sure: bool
) -> None:
    asked = []

    def ask(environment: Mapping[str, str]) -> list[str]:
        asked.append(environment["CUDA_VISIBLE_DEVICES"])
        return ["GPU-aa22", "MIG-cc44"]

    inherited = VisibleDevices({"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}, ask=ask)
    for _ in range(3):
        blocked = inherited.blocked(devices, sure=sure)
        assert [device.id for device in devices if device.id not in blocked] == ["GPU-aa22", "MIG-cc44"][
            : len(devices) - 2
        ]
    assert asked == [value]
    assert inherited.banner is None


def test_what_cannot_be_found_out_is_said_and_nothing_is_blocked() -> None:
    def ask(_: Mapping[str, str]) -> list[str]:
        raise RunError("The CUDA driver did not answer within 10 s.")

    inherited = VisibleDevices({"CUDA_VISIBLE_DEVICES": "1"}, ask=ask)
    assert inherited.blocked(GPUS, sure=True) == {}
    assert inherited.banner == (
        "CUDA_VISIBLE_DEVICES=1 is set, and which GPUs it means could not be found out: The CUDA driver did not answer "
        "within 10 s. All are offered; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs in it by UUID."
    )


@pytest.mark.parametrize(("again_s", "asked"), [(3600.0, 1), (0.0, 2)])
def test_a_driver_that_was_slow_once_is_asked_again_later(
    monkeypatch: pytest.MonkeyPatch, again_s: float, asked: int
) -> None:
    answers = [RunError("The CUDA driver did not answer within 10 s."), ["GPU-aa22"]]

    def ask(_: Mapping[str, str]) -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, RunError):
            raise answer
        return answer

    monkeypatch.setattr(visibility, "RETRY_S", again_s)
    inherited = VisibleDevices({"CUDA_VISIBLE_DEVICES": "1"}, ask=ask)
    found = [list(inherited.blocked(GPUS, sure=True)) for _ in range(3)]
    assert found == [[], ["GPU-aa11", "GPU-bb33"], ["GPU-aa11", "GPU-bb33"]] if asked == 2 else [[], [], []]
    assert (inherited.banner is None) == (asked == 2)
    assert len(answers) == 2 - asked


def test_a_sleeping_gpu_is_not_woken_up_to_ask() -> None:
    inherited = VisibleDevices({"CUDA_VISIBLE_DEVICES": "1"}, ask=never)
    assert inherited.blocked([], sure=False, asleep=True) == {}
    assert inherited.banner is None
    assert inherited.blocked(GPUS[:1], sure=False, asleep=True) == {}
    assert "could not be found out: A GPU sleeps, and the CUDA driver would wake it up to answer." in str(
        inherited.banner
    )


# -- with the stand-ins for both libraries, through the helper process --------------------------------------------


def survey(nvml: StandIn, monkeypatch: pytest.MonkeyPatch, value: str, order: str | None = None) -> dict[str, bool]:
    """By label, whether a device may be ticked."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    if order is not None:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    with Sampler(only=None) as sampler:
        found = sampler.survey(30)
    assert found.banner is None
    return {device.label: device.blocked is None for device in found.devices if device.kind == "nvidia"}


def test_numbers_mean_the_fastest_first_unless_the_bus_is_asked_for(
    nvml: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.write(gpus=3, gpu2={"speed": 9})
    assert survey(nvml, monkeypatch, "0") == {"GPU 0": False, "GPU 1": False, "GPU 2": True}
    assert survey(nvml, monkeypatch, "0", "PCI_BUS_ID") == {"GPU 0": True, "GPU 1": False, "GPU 2": False}


def test_uuids_and_mig_devices_reach_the_list_of_devices(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=2, gpu1={"mig": 1, "mig_count": 2})
    ours = survey(nvml, monkeypatch, mig_uuid(1, 1))
    assert ours == {"GPU 0": False, "GPU 1": False, "GPU 1 MIG 0": False, "GPU 1 MIG 1": True}
    assert survey(nvml, monkeypatch, uuid(0))["GPU 0"]
    # A GPU in MIG mode, by its own id: CUDA then shows the first of its MIG devices.
    assert survey(nvml, monkeypatch, uuid(1)) == {
        "GPU 0": False,
        "GPU 1": False,
        "GPU 1 MIG 0": True,
        "GPU 1 MIG 1": False,
    }


def test_the_cpu_is_hidden_by_nothing(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with Sampler() as sampler:
        blocked = {device.label: bool(device.blocked) for device in sampler.survey(30).devices}
    assert blocked["GPU 0"]
    assert not blocked["CPU 0"]
