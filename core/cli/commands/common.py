"""What several commands do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.sampler import Sampler
from core.runs import index
from core.runs.run import Run

if TYPE_CHECKING:
    from argparse import Namespace

    from core.devices.device import Survey


def survey() -> Survey:
    """The devices of this machine, and their readings."""
    with Sampler() as sampler:
        return sampler.survey(TIMEOUT_S)


def find(options: Namespace) -> Run:
    """The run that is meant. Raises `RunError` or `ValueError` with a sentence."""
    found = Run.attach(index.find(options.runs, options.run))
    found.spec()  # a spec of a newer version is told now, in a sentence
    return found
