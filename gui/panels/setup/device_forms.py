"""The groups of fields for recipes and scripts alike: GPU names, and the memory check after the end."""

from __future__ import annotations

from dataclasses import asdict

from core.language import tr, tr_noop
from core.schema.settings import CUDA_IDS, ReleaseWatch
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

TITLES = {"uuid": tr_noop("by UUID"), "integer": tr_noop("by number")}


class GpuNamesForm(FieldGroup):
    """How GPUs are named to CUDA: `cuda_ids` of `RunSpec`."""

    def __init__(self) -> None:
        super().__init__("GPUs")
        self._add(
            tr("GPU names"),
            cuda_ids=editors.one_of(
                "cudaIdsBox", tr("How GPUs are named to CUDA"),
                tr("Use numbers if a library (such as vLLM) cannot read UUIDs; they are looked up at the start"),
                self.changed.emit, [(TITLES.get(name, name), name) for name in CUDA_IDS],
            ),
        )  # fmt: skip
        self.set_defaults({"cuda_ids": CUDA_IDS[0]})


class MemoryCheckForm(FieldGroup):
    """How memory is checked after training: fields of `ReleaseWatch`."""

    def __init__(self) -> None:
        super().__init__(tr("Memory after the end"))
        changed = self.changed.emit
        self._add(
            "Tolerance",
            tolerance_mb=editors.integer(
                "releaseToleranceBox", tr("Tolerance of the memory check, in MB"),
                tr("A device counts as released when it uses at most this much more memory than before the run"),
                changed,
                minimum=0, arrows=False, suffix=" MB",
            ),
        )  # fmt: skip
        self._add(
            tr("Wait, in seconds"),
            wait_s=editors.number(
                "releaseWaitEdit", tr("Maximum time of the memory check, in seconds"),
                tr("Maximum seconds to wait for the memory; it is usually released within one"), changed,
                empty=tr("{wait_s:g} s", wait_s=ReleaseWatch().wait_s),
            ),
        )  # fmt: skip
        self.set_defaults(asdict(ReleaseWatch()))

    def chosen(self) -> dict[str, object]:
        """Return the values; an empty field means its default."""
        return {name: self.defaults[name] if value is None else value for name, value in self.values().items()}
