"""What a feature of the window is: the base of the controllers in `gui.features`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from gui.window.features import Services
    from gui.window.panels import MainPanels


class Feature(QObject):
    """Something that the window can do. The window calls these hooks, of which a feature has those that it needs."""

    def __init__(self, panels: MainPanels, services: Services) -> None:
        super().__init__(services.window)  # Qt deletes it with the window: see `Services`
        self.panels, self.services = panels, services
        self._message, self._machine, self._monitor = panels.message, services.machine, services.device_monitor
        self._session, self._run_list = services.session, services.run_list
        self.set_up()

    def set_up(self) -> None:
        """Make what the feature needs, and connect it."""

    def show(self) -> None:
        """Show what is known: for the first frame, and when there are plots."""

    def opened(self) -> None:
        """Do what the first frame does not need, once."""

    def prepare(self) -> None:
        """Take in what must be known before the devices, the shown run and the list of runs are read, at each poll."""

    def take_readings(self) -> None:
        """Show new readings of the devices."""

    def poll(self) -> None:
        """Bring what is shown up to date, some times a second. Never blocks."""

    def reread(self) -> None:
        """Read files again: the user has come back, perhaps from an editor."""

    def leave(self) -> bool:
        """Show the machine in the place of runs, as Escape asks for; return whether there was anything to leave."""
        return False

    @property
    def busy(self) -> bool:
        """Whether no other window may take the place of this one now. `Jobs` that guard need not be named."""
        return False

    def save(self) -> None:
        """Write what another window reads when it is made."""

    def carry(self, former: Self) -> None:
        """Show what the same feature shows in a window whose place this one takes."""

    def end(self) -> None:
        """Begin nothing any more."""
