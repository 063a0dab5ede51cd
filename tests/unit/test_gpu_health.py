"""The health of one GPU in words: with and without a fault, by profiles, and of a driver that cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.check.check import State
from core.check.gpu_health import look
from core.devices.device import Device
from tests.nvml.standin import StandIn, uuid

PASS, PROBLEM, COULD_NOT = State.PASS, State.PROBLEM, State.COULD_NOT
GPU = Device(id=uuid(1), kind="nvidia", label="GPU 1", name="H100", pci_bus_id="0000:02:00.0")
NOT_TOLD, NO_XID = "the driver does not tell it", "no Xid in the kernel's log, as far as it is kept"
SEAT = "Check its power cables, its seat in the slot and its cooling, and restart the machine."
RESET = "When its runs are over, reset it (nvidia-smi --gpu-reset -i 0000:02:00.0, as root) or restart the machine."
END = "End what runs on it first. The command for a reset: nvidia-smi --gpu-reset -i 0000:02:00.0, as root."
MODE = "Set the mode back, as root: nvidia-smi -i 0000:02:00.0 -c DEFAULT"
WELL = {
    "Recovery action": (PASS, "none"), "Rows not replaced": (PASS, "none"), "Rows of memory to replace": (PASS, "none"),
    "Pages of memory to retire": (PASS, "none"), "Uncorrected memory errors since the start": (PASS, "none"),
    "Uncorrected memory errors ever": (PASS, "none"), "Memory beyond repair": (PASS, "none"),
    "Rows of memory replaced": (PASS, "none"), "Last Xid error": (PASS, NO_XID),
    "PCIe link": (PASS, "generation 1 with 16 lanes, of 4 with 16"), "PCIe traffic": (PASS, "not measured"),
}
BUS_LOST = f"GPU 1 does not answer on the PCIe bus any more (Xid 79). {SEAT}"
XIDS = "6,1,0,-;NVRM: Xid (PCI:0000:{place}:00): 31, pid=1\n6,2,0,-;NVRM: Xid (PCI:0000:{place}:00): 79, lost\n"
CLOSED = "this user may not read the kernel's log. To look: sudo dmesg | grep -i xid"
UNASKED = {"unsupported": "recovery,remapped,retired,ecc,unrepairable,pcie,pcie_traffic"}
CASES = [
    # settings of the GPU, the kernel's log, what a run was told, whether traffic is measured, and what differs
    ({}, "", "", False, {}),
    ({"pcie_generation": 4}, "", "", False, {"PCIe link": (PASS, "generation 4 with 16 lanes, of 4 with 16")}),
    ({"pcie_rx": 1500000, "pcie_tx": 40000}, "", "", True,
     {"PCIe traffic": (PASS, "1.4 GB/s received and 38 MB/s sent by the GPU")}),
    ({"ecc_volatile": 2, "ecc_aggregate": 7}, "", "", False, {
        "Uncorrected memory errors since the start": (
            PROBLEM, f"Memory errors of GPU 1 since the driver was loaded that could not be corrected: 2. {RESET}"),
        "Uncorrected memory errors ever": (PASS, "7")}),
    ({"recovery": 1}, "", "", False, {"Recovery action": (
        PROBLEM, f"The driver says that GPU 1 needs a reset (its recovery action). {END}")}),
    ({"compute_mode": 2}, "", "", False, {"Setting": (
        PROBLEM, f"GPU 1 admits no program (its compute mode), so runs may fail to start on it. {MODE}")}),
    ({"remapped_pending": 1}, "", "", False, {
        "Rows of memory to replace": (
            PROBLEM, f"A faulty row of the memory of GPU 1 is only replaced by its next reset. {RESET}"),
        "Rows of memory replaced": (PASS, "1")}),
    ({"error.ecc": 4}, "", "", False, dict.fromkeys(
        ("Uncorrected memory errors since the start", "Uncorrected memory errors ever"),
        (COULD_NOT, "the driver says “Insufficient Permissions”"))),
    (UNASKED, "", "", True, {each: (PASS, NOT_TOLD) for each in WELL if each != "Last Xid error"}),
    ({}, XIDS.format(place="02"), "", False, {"Last Xid error": (PROBLEM, BUS_LOST)}),
    ({}, XIDS.format(place="01"), "", False, {}),
    ({}, None, "", False, {"Last Xid error": (COULD_NOT, CLOSED)}),
    ({}, None, BUS_LOST, False, {"Last Xid error": (PROBLEM, BUS_LOST)}),
]


@pytest.mark.parametrize(("settings", "log", "told", "traffic", "differing"), CASES)
def test_health_is_said_in_words(
    nvml: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], log: str | None,
    told: str, traffic: bool, differing: dict[str, tuple[State, str]],
) -> None:
    nvml.write(gpus=2, gpu1=settings)
    monkeypatch.setenv("PATH", "")  # without the journal
    root = tmp_path / "root"
    if log is not None:
        (root / "dev").mkdir(parents=True)
        (root / "dev/kmsg").write_text(log or "6,1,0,-;NVRM: loading\n")
    found = look(GPU, told, traffic=traffic, root=root)
    assert {title: (state, words) for title, state, words in found} == WELL | differing
    calls = nvml.calls()
    assert [calls[f"nvmlDeviceGetPcieThroughput gpu{number}"] for number in (0, 1)] == [0, 2 * traffic]
    assert not calls["nvmlDeviceGetComputeMode gpu0"], "no other GPU is asked"


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        ({"gpus": 1}, "The driver does not list GPU 1 any more."),
        ({"init_error": 18}, "ersion mismatch"),
        ({"gpus": 2, "crash": "segv"}, "the driver ended the process that asked it with signal SEGV"),
    ],
)
def test_driver_that_cannot_be_asked_is_said(nvml: StandIn, hardware: dict[str, object], words: str) -> None:
    nvml.write(**hardware)
    with pytest.raises(ValueError, match=words):
        look(GPU)


@pytest.mark.parametrize("profile", ["h100-hgx", "rtx-4090", "h100-needs-reset", "wsl2", "vgpu", "gb10"])
def test_health_of_profile_has_each_line_once(nvml: StandIn, profile: str) -> None:
    nvml.use(profile)
    for number in range(1 + (profile == "h100-needs-reset")):
        found = look(Device(id=uuid(number), kind="nvidia", label=f"GPU {number}", name="GPU"))
        assert sorted(title for title, _, _ in found) == sorted(WELL)
        wrong = [title for title, state, _ in found if state is PROBLEM]
        assert wrong == ["Recovery action"] * number
