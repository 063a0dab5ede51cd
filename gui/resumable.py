"""What is in the way of resuming a run: its devices are those it had, and they may be gone by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core import catalog

from .outlook import lost

if TYPE_CHECKING:
    from core.devices.device import Survey
    from core.spec import RunSpec
    from core.state import Facts


def resume_problems(spec: RunSpec, facts: Facts, survey: Survey) -> list[str]:
    """Sentences; the run can be resumed when there are none."""
    present = {device.id for device in survey.devices}
    gone = [_label(device, facts) for device in spec.devices if device not in present]
    if gone:
        return [f"{label} is not there any more. {spec.name} can only go on where it was trained." for label in gone]
    chosen = [device for device in survey.devices if device.id in spec.devices]
    return [
        *catalog.problems(spec, survey.devices),
        *lost(chosen, survey, "This run cannot go on without it."),
    ]


def _label(device: str, facts: Facts) -> str:
    """`GPU 1 (GPU-5a...)`, as the run knew it."""
    label = facts.devices.get(device, {}).get("label")
    return f"{label} ({device})" if label and label != device else device
