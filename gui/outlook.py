"""What would come of pressing Start: a spec that can run, or the sentences on what is in its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import catalog
from core.compose import compose

from .words import gigabytes, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.compose import Choices
    from core.devices.device import Device, Survey
    from core.spec import RunSpec


NOTHING_TICKED = "No device is ticked. Tick one or more in the list of devices."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The answer to a person's choices."""

    spec: RunSpec | None = None
    """None when the choices make none."""
    problems: tuple[str, ...] = ()
    """Sentences; the spec can be started when there are none."""
    busy: tuple[str, ...] = ()
    """Sentences on devices that runs of ours are on already: it is asked before another is started there."""
    arithmetic: str = ""
    ready: str = ""
    """A sentence, when there are no problems."""


def outlook(choices: Choices, survey: Survey, used_by: Mapping[str, str], folder_problem: str | None) -> Outlook:
    """Judge the choices. `used_by`: by device id, the run that is on it. `folder_problem`: why no run can be kept."""
    folder = (folder_problem,) if folder_problem else ()
    try:
        spec = compose(choices, survey.devices)
    except ValueError as error:
        return Outlook(problems=(*folder, str(error)))
    chosen = [device for device in survey.devices if device.id in spec.devices]
    problems = (
        *folder,
        *_plain(catalog.problems(spec, survey.devices), spec),
        *lost(chosen, survey, "Untick it."),
    )
    busy = tuple(used(chosen, used_by, "Start asks before it puts another run beside it."))
    ready = "" if problems or busy else _ready(chosen, survey)
    return Outlook(spec=spec, problems=problems, busy=busy, arithmetic=catalog.batch_arithmetic(spec), ready=ready)


def second_run(result: Outlook, survey: Survey, used_by: Mapping[str, str]) -> tuple[str, str]:
    """The question before a run is started on devices that runs are on; both are named."""
    assert result.spec is not None
    busy = [device for device in survey.devices if device.id in result.spec.devices and device.id in used_by]
    where = listed([device.label for device in busy])
    who = listed(list(dict.fromkeys(used_by[device.id] for device in busy)))
    words = (
        f"{who} {'is' if len({used_by[device.id] for device in busy}) == 1 else 'are'} on {where} and "
        f"would share memory and time with {result.spec.name}: both take longer, and either may run out of memory."
    )
    return f"Start {result.spec.name} beside {who}?", words


def _plain(problems: Sequence[str], spec: RunSpec) -> list[str]:
    """The catalogue's sentences; that no device is chosen, its last one, is told in the words of the window."""
    return list(problems) if spec.devices else [*problems[:-1], NOTHING_TICKED]


def lost(chosen: Sequence[Device], survey: Survey, remedy: str) -> list[str]:
    """Which of these devices no longer answer."""
    gone = {sample.device_id for sample in survey.samples if sample.lost}
    return [f"{device.label} is lost: it no longer answers. {remedy}" for device in chosen if device.id in gone]


def used(chosen: Sequence[Device], used_by: Mapping[str, str], remedy: str) -> list[str]:
    """Which of these devices another run is on. `used_by`: by device id, what to call it."""
    return [f"{device.label} is used by {used_by[device.id]}. {remedy}" for device in chosen if device.id in used_by]


def _ready(chosen: Sequence[Device], survey: Survey) -> str:
    names = listed([device.label for device in chosen]) if len(chosen) <= 3 else f"{len(chosen)} devices"
    verb = "is" if len(chosen) == 1 else "are"
    free = _least_free_bytes(chosen, survey)
    if free is None:
        return f"Ready: {names} {verb} free."
    each = "" if len(chosen) == 1 else " or more each"
    if _somebody_is_on(chosen, survey):
        return f"Ready: {names} {'has' if len(chosen) == 1 else 'have'} {gigabytes(free)} GB{each} free."
    return f"Ready: {names} {verb} free, {gigabytes(free)} GB{each}."


def _somebody_is_on(chosen: Sequence[Device], survey: Survey) -> bool:
    ids = {device.id for device in chosen}
    return any(sample.processes for sample in survey.samples if sample.device_id in ids)


def _least_free_bytes(chosen: Sequence[Device], survey: Survey) -> int | None:
    """None when it is not known of each device. What a CPU device has is shared with all else on the machine."""
    used = {sample.device_id: sample.memory_used_bytes for sample in survey.samples}
    free = []
    for device in chosen:
        taken = used.get(device.id)
        if device.kind == "cpu" or taken is None or device.memory_total_bytes is None:
            return None
        free.append(device.memory_total_bytes - taken)
    return min(free, default=None)
