"""An inherited CUDA_VISIBLE_DEVICES: which GPUs it hides, entry by entry, and the messages about it."""

from collections.abc import Mapping, Sequence

import pytest

from core.devices.device import Device
from core.devices.nvidia import reader
from core.devices.nvidia.reader import VisibleDevices
from core.devices.sampler import Sampler
from core.errors import RunError
from tests.nvml.standin import StandIn, mig_uuid, uuid
from tests.support.waiting import PATIENCE_S

# In NVML order; in PCI bus order the third GPU is first.
GPUS = [
    Device(id=f"GPU-{name}", kind="nvidia", label=f"GPU {n}", name="RTX", pci_bus_id=f"0000:0{bus}:00.0")
    for n, (name, bus) in enumerate([("aa11", 2), ("aa22", 3), ("bb33", 1)])
]
MIG = Device(id="MIG-cc44", kind="nvidia", label="GPU 2 MIG 0", name="1g.5gb", pci_bus_id="0000:01:00.0")


def never(_: Mapping[str, str]) -> list[str]:
    raise AssertionError("the driver is asked for what the list of devices tells")


def seen(value: str, devices: Sequence[Device] = GPUS, order: str = "PCI_BUS_ID") -> list[str]:
    """Return the labels of the devices that are not hidden."""
    environment = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": order}
    blocked = VisibleDevices(environment, ask=never).blocked(devices, sure=True)
    return [device.label for device in devices if device.id not in blocked]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("GPU-aa11,GPU-bb33", ["GPU 0", "GPU 2"]),
        ("GPU-bb", ["GPU 2"]),  # a unique prefix is enough
        ("GPU-aa", []),  # an ambiguous prefix is not
        ("GPU-AA11", ["GPU 0"]),
        ("GPU-aa11,GPU-ff,GPU-bb33", ["GPU 0"]),
        ("GPU-aa11,2", ["GPU 0"]),
        ("GPU-aa11,GPU-aa11", []),  # duplicate
        ("0", ["GPU 2"]),  # numbers in PCI bus order
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
def test_variable_value_determines_the_visible_gpus(value: str, left: list[str]) -> None:
    assert seen(value) == left


def test_mig_device_is_selected_by_its_id_and_a_single_gpu_is_number_0() -> None:
    assert seen("MIG-cc44", [*GPUS, MIG]) == ["GPU 2 MIG 0"]
    assert seen("MIG-cc", [*GPUS, MIG]) == ["GPU 2 MIG 0"]
    assert seen("0", GPUS[:1], order="") == ["GPU 0"], "in any order"
    assert VisibleDevices({}, ask=never).blocked(GPUS, sure=False) == {}, "without the variable"


def sentence(value: str, device: Device = GPUS[0]) -> str:
    environment = {"CUDA_VISIBLE_DEVICES": value, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return VisibleDevices(environment, ask=never).blocked(GPUS, sure=True)[device.id]


def test_message_names_variable_value_and_invalid_entry() -> None:
    assert sentence("0") == (
        "GPU 0 is hidden by CUDA_VISIBLE_DEVICES=0 in the environment that Trainyard was started in. "
        "Start Trainyard with another value, or without the variable, to use this device."
    )
    assert sentence("").startswith("GPU 0 is hidden by CUDA_VISIBLE_DEVICES, which is set and empty, in the")
    assert "(Its entry “9” is not a GPU here, or is repeated, and CUDA ignores the rest.)" in sentence("0,9,1")
    assert "entry" not in sentence("-1")


@pytest.mark.parametrize(
    ("value", "devices", "order", "sure"),
    [
        ("0,1", GPUS, "", True),  # fastest first: only CUDA knows the order
        ("0,1", GPUS, "PCI_BUS_ID", False),  # a GPU is missing from the list
        ("0,1", [*GPUS, MIG], "PCI_BUS_ID", True),  # only CUDA knows how it numbers a GPU in MIG mode
        ("MIG-GPU-bb33/1/0", [*GPUS, MIG], "", True),  # the MIG id format of old drivers
        ("GPU-ff,GPU-aa22", GPUS, "", False),  # may be a GPU that could not be listed
    ],
)
def test_cuda_driver_is_queried_once_when_nvml_is_not_enough(value, devices, order, sure) -> None:
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


@pytest.mark.parametrize(("again_s", "found"), [(3600.0, [0, 0, 0]), (0.0, [0, 2, 2])])
def test_failed_driver_query_shows_a_banner_blocks_no_gpu_and_is_retried_later(monkeypatch, again_s, found) -> None:
    answers = [RunError("The CUDA driver did not answer within 10 s."), ["GPU-aa22"]]

    def ask(_: Mapping[str, str]) -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, RunError):
            raise answer
        return answer

    monkeypatch.setattr(reader, "RETRY_S", again_s)
    inherited = VisibleDevices({"CUDA_VISIBLE_DEVICES": "1"}, ask=ask)
    assert inherited.blocked(GPUS, sure=True) == {}
    assert inherited.banner == (
        "CUDA_VISIBLE_DEVICES=1 is set, and its GPUs could not be determined: The CUDA driver did not answer "
        "within 10 s. All are offered; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the GPUs in it by UUID."
    )
    hidden = [list(inherited.blocked(GPUS, sure=True)) for _ in range(2)]
    assert hidden == [["GPU-aa11", "GPU-bb33"][:count] for count in found[1:]]
    assert (inherited.banner is None, len(answers)) == (found[-1] == 2, 1 if found[-1] == 0 else 0)


def test_sleeping_gpu_is_not_woken_for_the_driver_query() -> None:
    inherited = VisibleDevices({"CUDA_VISIBLE_DEVICES": "1"}, ask=never)
    assert inherited.blocked([], sure=False, asleep=True) == {}
    assert inherited.banner is None
    assert inherited.blocked(GPUS[:1], sure=False, asleep=True) == {}
    assert "could not be determined: A GPU is asleep, and the CUDA driver would wake it up to answer." in str(
        inherited.banner
    )


def survey(nvml: StandIn, monkeypatch: pytest.MonkeyPatch, value: str, order: str | None = None) -> dict[str, bool]:
    """Return for each GPU label whether the GPU can be selected."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    if order is not None:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)
    with Sampler(only=None) as sampler:
        found = sampler.survey(PATIENCE_S)
    assert found.banner is None
    assert [device.blocked for device in found.devices if device.id == "cpu:0"] == [None], "a CPU is never hidden"
    return {device.label: device.blocked is None for device in found.devices if device.kind == "nvidia"}


def test_gpu_numbers_are_fastest_first_unless_bus_order_is_set(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=3, gpu2={"speed": 9})
    assert survey(nvml, monkeypatch, "0") == {"GPU 0": False, "GPU 1": False, "GPU 2": True}
    assert survey(nvml, monkeypatch, "0", "PCI_BUS_ID") == {"GPU 0": True, "GPU 1": False, "GPU 2": False}


def test_device_list_honours_uuids_and_mig_ids(nvml: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=2, gpu1={"mig": 1, "mig_count": 2})
    ours = survey(nvml, monkeypatch, mig_uuid(1, 1))
    assert ours == {"GPU 0": False, "GPU 1": False, "GPU 1 MIG 0": False, "GPU 1 MIG 1": True}
    assert survey(nvml, monkeypatch, uuid(0))["GPU 0"]
    # For the id of a GPU in MIG mode, CUDA shows the first of its MIG devices.
    assert survey(nvml, monkeypatch, uuid(1)) == {
        "GPU 0": False,
        "GPU 1": False,
        "GPU 1 MIG 0": True,
        "GPU 1 MIG 1": False,
    }
