"""Which devices are ticked, and which parts of their list are folded."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QObject, Signal

from gui.machine.device_rows import DeviceRow, obstacle


class ChosenDevices(QObject):
    """The ticked devices of all machines, and the parts of the list that are folded.

    A device can be ticked before it appears. If one of this machine vanishes, it is ticked again when it is back. Those
    of a host that is silent keep their rows; when a host is removed, its devices are forgotten.
    """

    changed = Signal(tuple)
    """Carries the ids of the ticked devices."""
    folded = Signal()
    """A part was folded or unfolded."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[DeviceRow] = ()
        """The devices of all machines, also those that are folded away."""
        self.ticked: tuple[str, ...] = ()
        """The ids of the ticked devices in the order of the rows."""
        self.obstacles: dict[str, str] = {}
        """By device id, why it cannot be ticked now."""
        self.folded_hosts: frozenset[str] = frozenset()
        """The names of the hosts that the user has folded, whether they are in the list now or not."""
        self.unfolded_cpus: frozenset[str] = frozenset()
        """The machines with GPUs whose CPU devices are shown; the empty string is this machine."""
        self.kept: frozenset[str] = frozenset()
        """What stays in sight in a folded part: the devices that were ticked when it was folded, or since."""
        self._awaited: set[str] = set()
        """Devices to be ticked that have no row yet."""

    @property
    def wanted(self) -> tuple[str, ...]:
        """The ids of the ticked devices, and of those that are ticked as soon as they appear."""
        return (*self.ticked, *sorted(self._awaited))

    def rows_of(self, host: str = "") -> list[DeviceRow]:
        """Return the devices of a host; without a name those of this machine."""
        return [row for row in self.rows if row.host == host]

    def show_rows(self, rows: Sequence[DeviceRow]) -> None:
        """Take the devices that there are now."""
        before, self.rows = self.rows, rows
        if len(before) == len(rows) and all(
            one is other or one.tick_inputs == other.tick_inputs for one, other in zip(before, rows, strict=True)
        ):
            return
        present = {row.id for row in rows}
        self._awaited |= {row.id for row in before if row.id in self.ticked and row.id not in present and not row.host}
        self._settle(present.intersection(self.ticked))

    def tick(self, ids: Collection[str]) -> None:
        """Tick these devices now, or when they appear."""
        self._awaited = set(ids)
        self._settle(set(self.ticked))

    def tick_only(self, ids: Collection[str]) -> None:
        """Tick these devices and no others."""
        self._awaited = set(ids)
        self._settle({each for each in self.ticked if each in ids})

    def toggle(self, device: str) -> None:
        """Untick a device, or tick it if nothing prevents that."""
        if device in self.ticked:
            self._settle({*self.ticked} - {device})
        elif device not in self.obstacles:
            self._awaited.add(device)
            self._settle({*self.ticked})

    def fold(self, hosts: Collection[str], *, unfolded_cpus: Collection[str]) -> None:
        """Fold these hosts now, or when they appear; of machines with GPUs, show the CPU devices of these."""
        self.folded_hosts, self.unfolded_cpus = frozenset(hosts), frozenset(unfolded_cpus)
        self.kept = frozenset(self.ticked)
        self.folded.emit()

    def _settle(self, ticked: set[str]) -> None:
        """Tick also the awaited devices that have a row, and report it if other devices are ticked than before."""
        for row in self.rows:
            if row.id not in self._awaited or row.id in ticked:
                continue
            # A host may answer later, and what was chosen there stays until then.
            if row.host or not obstacle(row, [each for each in self.rows if each.id in ticked]):
                ticked.add(row.id)
        self._awaited -= {row.id for row in self.rows}
        chosen = [row for row in self.rows if row.id in ticked]
        found = {row.id: obstacle(row, chosen) for row in self.rows}
        self.obstacles = {device: reason for device, reason in found.items() if reason}
        before, self.ticked = self.ticked, tuple(row.id for row in chosen)
        self.kept |= ticked
        if self.ticked != before:
            self.changed.emit(self.ticked)
