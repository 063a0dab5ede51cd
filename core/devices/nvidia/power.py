"""Which NVIDIA GPUs sleep, by the kernel's word, and what can be known of them without waking them up.

Any question to NVML wakes a sleeping GPU up; so does opening a session (btop issue 1831), and so does even reading
`/proc/driver/nvidia/gpus/*/information`: the driver powers the GPU up to fill it in (`nv_procfs_read_gpu_info` in
NVIDIA's published kernel module), so a UUID cannot be had. The names of those folders, and what the PCI bus keeps in
sysfs, cost nothing. Not tried on a laptop of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.devices.device import ASLEEP_PREFIX, Device

SYSFS = Path("/sys/bus/pci/devices")
GPUS = Path("/proc/driver/nvidia/gpus")
PCI_IDS = (Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/misc/pci.ids"))
VENDOR = "10de"
SLEEPS = frozenset({b"suspended", b"suspending"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PciAddresses:
    """Where the system tells of its GPUs."""

    sysfs: Path = SYSFS
    gpus: Path = GPUS
    pci_ids: tuple[Path, ...] = PCI_IDS


class PowerState:
    """The run-time power state of one device."""

    def __init__(self, sysfs: Path, pci_bus_id: str | None) -> None:
        self._path = sysfs / str(pci_bus_id) / "power" / "runtime_status"
        self._known = self._path.exists()  # not so in many virtual machines

    def is_asleep(self) -> bool:
        """True only when the kernel says so."""
        if not self._known:
            return False
        try:
            return self._path.read_bytes().strip() in SLEEPS
        except OSError:
            return False  # taken from the bus: the driver will say it in its own words


def addresses(places: PciAddresses) -> list[str]:
    """The PCI addresses of the GPUs that the driver has, in the order of the bus; none where it does not say."""
    try:
        return sorted(entry.name.lower() for entry in places.gpus.iterdir())
    except OSError:
        return []


def sleepers(places: PciAddresses) -> list[str]:
    """The PCI addresses of those that sleep."""
    return [address for address in addresses(places) if PowerState(places.sysfs, address).is_asleep()]


def unwoken(address: str, places: PciAddresses) -> Device:
    """A row for a GPU that sleeps: its address, and its model where the system has the list of PCI ids."""
    label = f"GPU at {address}"
    return Device(
        id=f"{ASLEEP_PREFIX}{address}",
        kind="nvidia",
        label=label,
        name=_model(address, places) or "NVIDIA GPU",
        pci_bus_id=address,
        blocked=(
            f"{label} sleeps, and was not woken up to be listed. "
            "Wake it up to tick it: start anything that uses it, such as nvidia-smi."
        ),
    )


def _model(address: str, places: PciAddresses) -> str | None:
    """By the list of PCI ids: vendors at the line's start, their devices after one tab, ids of makers after two."""
    wanted = f"\t{_read(places.sysfs / address / 'device').removeprefix('0x')}  "
    ours = False
    for line in next((text for path in places.pci_ids if (text := _read(path))), "").splitlines():
        if ours and line.startswith(wanted):
            return f"NVIDIA {line.removeprefix(wanted).strip()}"
        if line[:1].strip() and not line.startswith("#"):
            ours = line.startswith(VENDOR)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return ""
