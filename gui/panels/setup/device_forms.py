"""The groups of fields for recipes and scripts alike: GPU names, stop timeouts, and the memory check after the end."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from core.config.choices import INTERRUPT_S
from core.language import tr, tr_noop
from core.schema.settings import CUDA_IDS, ReleaseWatch, StopTimeouts
from gui.widgets.forms import editors
from gui.widgets.forms.field_group import FieldGroup

if TYPE_CHECKING:
    from core.schema.spec import RunSpec

TITLES = {"uuid": tr_noop("by UUID"), "integer": tr_noop("by number")}


class GpuNamesForm(FieldGroup):
    """How GPUs are named to CUDA: `cuda_ids` of `RunSpec`."""

    def __init__(self) -> None:
        super().__init__(tr("GPUs"))
        self._add(
            tr("GPU names"),
            cuda_ids=editors.one_of(
                "cudaIdsBox", tr("How GPUs are named to CUDA"),
                tr("Use numbers if a library (such as vLLM) cannot read UUIDs; they are looked up at the start"),
                self.changed.emit, [(tr(TITLES.get(name, name)), name) for name in CUDA_IDS],
            ),
        )  # fmt: skip
        self.set_defaults({"cuda_ids": CUDA_IDS[0]})


class StopForm(FieldGroup):
    """How long each step of a stop may take: fields of `StopTimeouts`. An empty field means its default."""

    def __init__(self) -> None:
        super().__init__(tr("Stop, in seconds"))
        changed, usual = self.changed.emit, StopTimeouts()
        self._add(
            tr("Request"),
            ask_s=editors.number(
                "askTimeoutEdit", tr("Time for the request to stop, in seconds"),
                tr("Seconds from the request to stop until SIGINT"), changed, empty=f"{usual.ask_s:g} s",
            ),
        )  # fmt: skip
        self._add(
            "SIGINT",
            interrupt_s=editors.number(
                "interruptTimeoutEdit", tr("Time for SIGINT, in seconds"),
                tr("Seconds from SIGINT until SIGTERM. Many programs save when they get SIGINT"), changed,
                empty=tr("{recipe_s:g} s; script {script_s:g} s", recipe_s=usual.interrupt_s, script_s=INTERRUPT_S),
            ),
        )  # fmt: skip
        self._add(
            "SIGTERM",
            terminate_s=editors.number(
                "terminateTimeoutEdit", tr("Time for SIGTERM, in seconds"),
                tr("Seconds from SIGTERM until SIGKILL"), changed, empty=f"{usual.terminate_s:g} s",
            ),
        )  # fmt: skip
        self.set_defaults(dict.fromkeys(asdict(usual), None))

    def chosen(self) -> dict[str, object]:
        """Return the values of the fields that are not empty."""
        return {name: value for name, value in self.values().items() if value is not None}

    def fill_from(self, spec: RunSpec) -> None:
        """Fill in the timeouts of a run or a preset that are not the usual ones."""
        usual = StopTimeouts() if spec.script is None else StopTimeouts(interrupt_s=INTERRUPT_S)
        names = [item.name for item in fields(StopTimeouts)]
        values = {name: getattr(spec.stop_timeouts, name) for name in names}
        self.fill({name: None if value == getattr(usual, name) else value for name, value in values.items()})

    def show_workload(self, *, is_script: bool) -> None:
        """Show the fields of a script, which gets SIGINT at once, or of a recipe."""
        self._show_row("ask_s", shown=not is_script)


class MemoryCheckForm(FieldGroup):
    """How memory is checked after training: fields of `ReleaseWatch`."""

    def __init__(self) -> None:
        super().__init__(tr("Memory after the end"))
        changed = self.changed.emit
        self._add(
            tr("Tolerance"),
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
                empty=f"{ReleaseWatch().wait_s:g} s",
            ),
        )  # fmt: skip
        self.set_defaults(asdict(ReleaseWatch()))

    def chosen(self) -> dict[str, object]:
        """Return the values; an empty field means its default."""
        return {name: self.defaults[name] if value is None else value for name, value in self.values().items()}
