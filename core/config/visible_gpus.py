"""Ask the CUDA driver before a start whether it would show a run its GPUs, and remember the answer for a while."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from core.catalog.strategies import strategy_of
from core.devices.nvidia import preflight
from core.errors import RunError
from core.launchers import local
from core.launchers.ranks import assign_ranks
from core.system.processes import TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.devices.device import Device
    from core.schema.spec import RunSpec

GOOD_S, BAD_S = 600.0, 5.0
"""Seconds for which a good and a bad answer is remembered: a library that was missing may be installed meanwhile."""
NVIDIA = "nvidia"


class GpuCheck:
    """Asks the same as a run at its start (`core.launchers.local`), once for the same GPUs and the same Python."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[object, tuple[float, str]] = {}
        """By what was asked: until when the answer holds, and the problem."""

    def problem(self, spec: RunSpec, devices: Sequence[Device]) -> str:
        """Return why the GPUs of a spec cannot be used, a sentence, or the empty string. May block for seconds.

        `devices`: all devices of this machine, the chosen ones among them.
        """
        by_id = {device.id: device for device in devices}
        chosen = [by_id[each] for each in spec.devices if each in by_id]
        if not chosen or any(device.kind != NVIDIA for device in chosen):
            return ""
        assignments = assign_ranks(chosen, strategy_of(spec))
        groups = tuple(dict.fromkeys(filter(None, map(local.visible_ids, assignments))))
        asked = (groups, spec.cuda_ids, spec.python)
        until, known = self._answers.get(asked, (0.0, ""))
        if self._clock() < until:
            return known
        found = ""
        try:
            names = local.cuda_names(assignments, spec.cuda_ids, spec.python)
            for group in groups:
                assignment = next(each for each in assignments if local.visible_ids(each) == group)
                environment = local.environment(os.environ, "", assignment, names)
                del environment[TAG]  # it is no process of a run
                preflight.check(group, environment, python=spec.python)
        except RunError as error:
            found = str(error)
        self._answers[asked] = (self._clock() + (BAD_S if found else GOOD_S), found)
        return found
