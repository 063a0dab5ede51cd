"""Say what should be known of a program before its start, although it keeps it from nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.language import tr
from core.text import first_names, join_names

if TYPE_CHECKING:
    from core.scripts.analysis import ScriptAnalysis
    from core.scripts.launch_signs import Launch

MAX_LINE = 60


def cautions(script: ScriptAnalysis, launch: Launch | str, devices: int, *, on_cpu: bool) -> list[str]:
    """Return sentences about this launch on so many devices. `on_cpu`: whether they are CPU devices."""
    found = [*_numbers(script, devices, on_cpu=on_cpu)]
    if script.left_out:
        lines = join_names(first_names([_shorten(line) for line in script.left_out]))
        found.append(
            tr("{name} is run without these lines, which need IPython: {lines}.", name=script.name, lines=lines)
        )
    if devices > 1 and launch == "per-device":
        found += _alone(script, devices, on_cpu=on_cpu)
    if devices > 1 and launch == "one" and on_cpu and script.replicates:
        found.append(
            tr(
                "{what} makes a replica on each GPU. On CPU devices it makes one, on the cores of all.",
                what=script.replicates,
            )
        )
    return found


def _shorten(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def _numbers(script: ScriptAnalysis, devices: int, *, on_cpu: bool) -> list[str]:
    """Return a sentence on numbers of GPUs in the source that do not fit those that the program sees."""
    found, number = [], script.device_number
    if script.sets_visible_devices and not on_cpu:
        found.append(
            tr(
                "{name} sets CUDA_VISIBLE_DEVICES itself, so it may use other GPUs. Remove that line.",
                name=script.name,
            )
        )
    if number is not None and devices and not on_cpu and number.number >= devices:
        found.append(
            tr(
                "{file} names GPU {number} in line {line}. Inside a run numbers begin at 0, and the last one here is "
                "{last}. Change that number, or choose more devices.",
                file=script.device_file,
                number=number.number,
                line=number.line,
                last=devices - 1,
            )
        )
    return found


def _alone(script: ScriptAnalysis, devices: int, *, on_cpu: bool) -> list[str]:
    """Return a sentence if each process would train everything alone."""
    if script.leaves_devices_to_lightning and on_cpu:
        return [
            tr(
                "On CPU devices Lightning trains the same thing in each of the {count} processes. Choose one device, "
                'or give its Trainer devices={count} and strategy="ddp".',
                count=devices,
            )
        ]
    if script.launch == "one" and not script.trains_together:
        return [
            tr(
                "Nothing in {name} joins its processes, so each of the {count} would train the same thing. Choose one "
                "process, or one device.",
                name=script.name,
                count=devices,
            )
        ]
    return []
