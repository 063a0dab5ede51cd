"""What a recipe's run is called, where it trains, and which Python trains it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

if TYPE_CHECKING:
    from collections.abc import Mapping


class RunForm(FieldGroup):
    """Fields of `RunSpec` itself; empty ones are left to their defaults."""

    def __init__(self) -> None:
        super().__init__("Run")
        self._filled: dict[str, str] = {}
        """What was taken over from another run: it goes with the workload that it was taken over with."""
        self._add(
            "Name",
            name=editors.text(
                "runNameEdit", "Name of the run", "What to call the run", self.changed.emit, empty="the workload's"
            ),
        )
        self._add(
            "Trains in",
            working_dir=editors.text(
                "recipeDirEdit", "Folder to train in", "Where a recipe's relative paths start", self.changed.emit,
                empty="this window's folder",
            ),
        )  # fmt: skip
        self._add(
            "Python",
            python=editors.text(
                "recipePythonEdit", "Python that trains it",
                "An interpreter or the folder of an environment: it needs the framework, and nothing of Trainyard's",
                self.changed.emit, empty="the usual one",
            ),
        )  # fmt: skip

    def chosen(self) -> dict[str, str | None]:
        """By the field's name; None where nothing is."""
        return {name: str(editor.value()).strip() or None for name, editor in self._editors.items()}

    def fill(self, values: Mapping[str, Any]) -> None:
        """Take over what another run has."""
        super().fill(values)
        self._filled = {name: text for name, text in self.chosen().items() if text}

    def forget_filled(self) -> None:
        """Another workload is chosen: what was taken over goes, what was typed stays."""
        for name, text in self.chosen().items():
            if text and text == self._filled.get(name):
                self._editors[name].set_value("")
        self._filled = {}

    def remember(self) -> dict[str, Any]:
        """See `FieldGroup`; and what of it was taken over."""
        return {**super().remember(), "filled": self._filled}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See `FieldGroup`."""
        super().restore(kept)
        filled = kept.get("filled")
        self._filled = {str(name): str(text) for name, text in filled.items()} if isinstance(filled, dict) else {}
