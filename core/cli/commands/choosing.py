"""Why a spec cannot be started on this machine, for who types: devices by their short names, nothing about others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.config import validation
from core.config.requirements import recipe_problems
from core.config.script_check import ScriptCheckRequest, check_script

if TYPE_CHECKING:
    from core.config.script_check import ScriptCheckResult
    from core.devices.device import Survey
    from core.schema.spec import RunSpec

LISTING = re.compile(r"(?=\bGPU (?:at )?\S+ cannot be listed: )")
"""Where, in what a driver says, the sentences on one more GPU begin."""
NUMBER = re.compile(r"GPU (\d+) cannot")


def refusal(spec: RunSpec, found: Survey, check: ScriptCheckResult | None = None) -> str | None:
    """Return sentences on what keeps a spec from starting; None if it can start.

    `check`: of a script that was checked already.
    """
    there = {device.id for device in found.devices}
    unknown = [name for name in spec.devices if name not in there]
    if unknown or not spec.devices:
        return _no_device(unknown, found)
    here = map(str, validation.problems(spec, found.devices))
    return " ".join([*recipe_problems(spec), *here, *_script_problems(spec, check)]) or None


def _script_problems(spec: RunSpec, check: ScriptCheckResult | None) -> tuple[str, ...]:
    if spec.script is None:
        return ()
    return (check or check_script(ScriptCheckRequest.of_spec(spec))).problems


def _no_device(unknown: list[str], found: Survey) -> str:
    choice = ", ".join(device.short_name for device in found.devices) or "none, since this machine shows no device"
    if not unknown:
        trouble = [found.banner] if found.banner and not found.devices else []
        return " ".join([f"No device is chosen. Choose at least one of: {choice}.", *trouble])
    told = dict.fromkeys(sentence for name in unknown for sentence in _why(name, found))
    absent = [f"There is no device {name!r} here." for name in unknown]
    return " ".join([*absent, *told, f"Choose from: {choice}."])


def _why(name: str, found: Survey) -> list[str]:
    """What the drivers say that may concern a device of this name, which is not listed."""
    if name.startswith("cpu:") and any(device.kind == "cpu" for device in found.devices):
        return []
    general, *listings = (part.strip() for part in LISTING.split(found.banner or ""))
    numbered = re.fullmatch(r"gpu:(\d+)", name.lower())
    if numbered is None:  # such as a UUID: it may be that of any GPU which cannot be listed
        return [sentence for sentence in (general, *listings) if sentence]
    own = [each for each in listings if (match := NUMBER.match(each)) and match[1] == numbered[1]]
    return own or ([general] if general else [])
