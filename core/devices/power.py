"""Whether a device on the PCI bus sleeps, by the kernel's word: asking its driver would wake it up."""

from __future__ import annotations

from pathlib import Path

SYSFS = Path("/sys/bus/pci/devices")


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
            return self._path.read_bytes() == b"suspended\n"
        except OSError:
            return False  # taken from the bus: the driver will say it in its own words
