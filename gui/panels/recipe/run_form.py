"""Name, working folder and Python of a recipe run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.language import tr
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup


class RunForm(FieldGroup):
    """Fields of `RunSpec`; an empty field means the default."""

    def __init__(self) -> None:
        super().__init__(tr("Run"))
        self._filled: dict[str, str] = {}
        """Values copied from another run; they are dropped when the workload changes."""
        self._add(
            tr("Name"),
            name=editors.text(
                "runNameEdit",
                tr("Name of the run"),
                tr("Name of the run in the list of runs"),
                self.changed.emit,
                empty=tr("same as workload"),
            ),
        )
        self._add(
            tr("Working folder"),
            working_dir=editors.text(
                "recipeDirEdit", tr("Working folder"), tr("Folder in which relative paths start"), self.changed.emit,
                empty=tr("current folder"),
            ),
        )  # fmt: skip
        self._add(
            "Python",
            python=editors.text(
                "recipePythonEdit", tr("Python that trains"),
                tr("A Python executable or an environment folder with the framework; it does not need Trainyard"),
                self.changed.emit, empty=tr("automatic"),
            ),
        )  # fmt: skip
        self.set_defaults(dict.fromkeys(self._editors, ""))

    def chosen(self) -> dict[str, str | None]:
        """Return the values by field name; None for an empty field."""
        return {name: str(editor.value()).strip() or None for name, editor in self._editors.items()}

    def fill(self, values: Mapping[str, Any]) -> None:
        """Fill in the values of another run."""
        super().fill(values)
        self._filled = {name: text for name, text in self.chosen().items() if text}

    def forget_filled(self) -> None:
        """Clear the values copied from another run; values typed by the user stay."""
        for name, text in self.chosen().items():
            if text and text == self._filled.get(name):
                self._editors[name].set_value("")
        self._filled = {}

    def remember(self) -> dict[str, Any]:
        """See `FieldGroup`; also returns which values were copied."""
        return {**super().remember(), "filled": self._filled}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See `FieldGroup`."""
        super().restore(kept)
        filled = kept.get("filled")
        self._filled = {str(name): str(text) for name, text in filled.items()} if isinstance(filled, dict) else {}
