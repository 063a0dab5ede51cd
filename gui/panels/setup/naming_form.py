"""How a run's GPUs are named to CUDA: a switch for libraries that cannot read UUIDs."""

from __future__ import annotations

from core.schema.settings import CUDA_IDS
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

TITLES = {"uuid": "by UUID", "integer": "by number"}


class NamingForm(FieldGroup):
    """Fields of `RunSpec` itself."""

    def __init__(self) -> None:
        super().__init__("GPUs")
        self._add(
            "Pass &GPUs to CUDA",
            cuda_ids=editors.one_of(
                "cudaIdsBox", "How GPUs are named to CUDA",
                "By UUID, unless a library cannot read it (such as vLLM); the numbers are looked up at the start",
                self.changed.emit, [(TITLES.get(name, name), name) for name in CUDA_IDS],
            ),
        )  # fmt: skip
