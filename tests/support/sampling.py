"""A sampler with short intervals, limits of hours, and a clock that can be put forward by them."""

import time

import psutil

from core.devices.device import KINDS
from core.devices.sampler import HelperTimeouts, Sampler
from tests.nvml.standin import StandIn
from tests.support.helper_pids import helper_pids
from tests.support.waiting import wait_until

HOUR_S = 3600.0
"""More than any test takes: a limit of this length is reached only by putting the clock forward."""
QUICK = HelperTimeouts(
    stale_s=HOUR_S, hang_s=4 * HOUR_S, start_s=4 * HOUR_S, retry_s=0.2, backoff_s=0.05, notice_s=8 * HOUR_S
)
"""A helper that has ended is started again soon. It is not taken for one that hangs, however slow the machine is."""
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


def hang(nvml: StandIn, sampler: Sampler) -> None:
    """Let the next reading of the memory hang for a minute. Return when it does and all earlier readings were taken."""
    nvml.write(**{"slow_ms.nvmlDeviceGetMemoryInfo": 60_000})
    before = nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"]  # its utilisation is read just before its memory
    wait_until(lambda: nvml.calls()["nvmlDeviceGetUtilizationRates gpu0"] > before, "a reading of the utilisation")
    sampler.poll()
    sampler.new_samples()


def all_well(survey) -> bool:
    return bool(survey.samples) and not any(sample.lost for sample in survey.samples)
