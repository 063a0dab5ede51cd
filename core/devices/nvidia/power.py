"""Find out which NVIDIA GPUs sleep, and describe them without waking them up.

A sleeping GPU is woken up by any question to NVML, by opening a session (btop issue 1831), and even by reading
`/proc/driver/nvidia/gpus/*/information`: the driver powers the GPU up to fill it in (`nv_procfs_read_gpu_info` in
NVIDIA's published kernel module). So its UUID cannot be read. The names of those folders and the PCI bus's files in
sysfs cost nothing. This was not tried on a real laptop.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.devices.device import ASLEEP_PREFIX, Device
from core.language import tr

SYSFS = Path("/sys/bus/pci/devices")
GPUS = Path("/proc/driver/nvidia/gpus")
PCI_IDS = (Path("/usr/share/hwdata/pci.ids"), Path("/usr/share/misc/pci.ids"))
VENDOR = "10de"
SLEEPS = frozenset({b"suspended", b"suspending"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PciPaths:
    """The files and folders from which GPUs on the PCI bus are read."""

    sysfs: Path = SYSFS
    gpus: Path = GPUS
    pci_ids: tuple[Path, ...] = PCI_IDS


class PowerState:
    """The runtime power state of one device."""

    def __init__(self, sysfs: Path, pci_bus_id: str | None) -> None:
        self._path = sysfs / str(pci_bus_id) / "power" / "runtime_status"
        self._known = self._path.exists()  # missing in many virtual machines

    def is_asleep(self) -> bool:
        """Return True only if the kernel reports that it sleeps."""
        if not self._known:
            return False
        try:
            return self._path.read_bytes().strip() in SLEEPS
        except OSError:
            return False  # removed from the bus, which the driver reports


def addresses(paths: PciPaths) -> list[str]:
    """Return the PCI addresses of the driver's GPUs, in the order of the bus; none if they cannot be read."""
    try:
        return sorted(entry.name.lower() for entry in paths.gpus.iterdir())
    except OSError:
        return []


def sleepers(paths: PciPaths) -> list[str]:
    """Return the PCI addresses of the sleeping GPUs."""
    return [address for address in addresses(paths) if PowerState(paths.sysfs, address).is_asleep()]


def unwoken(address: str, paths: PciPaths) -> Device:
    """Return a row for a sleeping GPU: its address, and its model if the system has the list of PCI ids."""
    label = f"GPU at {address}"
    return Device(
        id=f"{ASLEEP_PREFIX}{address}",
        kind="nvidia",
        label=label,
        name=_model(address, paths) or "NVIDIA GPU",
        pci_bus_id=address,
        blocked=(
            tr(
                "{label} is asleep and was not woken up to be listed. "
                "To use it, wake it up: start a program that uses it, such as nvidia-smi.",
                label=label,
            )
        ),
    )


def _model(address: str, paths: PciPaths) -> str | None:
    """Look up the name. In the list of PCI ids, vendors start a line, their devices follow a tab, subsystems two."""
    wanted = f"\t{_read(paths.sysfs / address / 'device').removeprefix('0x')}  "
    ours = False
    for line in next((text for path in paths.pci_ids if (text := _read(path))), "").splitlines():
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
