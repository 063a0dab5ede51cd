"""A sampler with short intervals and a clock that can be put forward."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from core.devices.kinds import KINDS
from core.devices.source import HelperTimeouts
from tests.nvml.standin import uuid
from tests.support.helper_pids import helper_pids
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from core.devices.sampler import Sampler

QUICK = HelperTimeouts(stale_s=0.3, hang_s=0.6, start_s=5, retry_s=0.2, backoff_s=0.05, notice_s=30)
NVIDIA = [kind for kind in KINDS if kind.name == "nvidia"]


class Clock:
    """Real time that a test can put forward, instead of waiting for it to pass."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    def step(self, seconds: float) -> None:
        self._ahead_s += seconds


def helper(sampler: Sampler) -> psutil.Process:
    (pid,) = wait_until(lambda: sampler.poll() and helper_pids(), "a helper process")
    return psutil.Process(pid)


def wait_for(sampler: Sampler, condition, what: str):
    """Return the first survey for which the condition is true."""
    return wait_until(lambda: (survey := sampler.poll()) and condition(survey) and survey, what)


def fall_silent(sampler: Sampler) -> None:
    """Poll until GPU 0 has sent no reading for six intervals."""
    heard_at = time.monotonic()

    def silent() -> bool:
        nonlocal heard_at
        sampler.poll()
        if any(sample.device_id == uuid(0) for sample in sampler.new_samples()):
            heard_at = time.monotonic()
        return time.monotonic() - heard_at > 0.3

    wait_until(silent, "the readings to stop")


def all_well(survey) -> bool:
    return bool(survey.samples) and not any(sample.lost for sample in survey.samples)
