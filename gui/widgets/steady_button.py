"""A button that keeps the focus while it is disabled."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton


class SteadyButton(QPushButton):
    """For a button that is disabled while it does what its press has asked for.

    Qt would move the focus to the next button, where a second press of the space bar would do something else.
    """

    def focusNextPrevChild(self, forward: bool) -> bool:  # noqa: N802 (Qt's signature)
        """Keep the focus when Qt asks because this button was disabled: a disabled widget receives no keys."""
        return True if not self.isEnabled() else super().focusNextPrevChild(forward)
