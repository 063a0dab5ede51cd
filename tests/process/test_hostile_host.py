"""An agent that plays each message of the protocol wrongly: what follows the host survives, and says why."""

import random
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.hosts.carrier import Failure, HostError
from core.hosts.inquiry import HostWatch, Phase
from core.hosts.mirror import Mirror
from core.system.helper_process import clean_environment
from tests.process.test_hostile_runs import batches
from tests.support.hostile_agent import ABILITIES, HOW
from tests.support.two_users import ROOT
from tests.support.waiting import PATIENCE_S, wait_until

MAX_KIB = 64 * 1024
"""By which this process may grow."""


def host_of(ability: str, how: str, seed: int) -> SimpleNamespace:
    """Return a host with the hostile agent."""
    words = [sys.executable, "-m", "tests.support.hostile_agent", ability, how, str(seed)]

    def ended(*_: object) -> HostError:
        return HostError(Failure.CUT, "It has ended.")

    carrier = SimpleNamespace(
        command_line=lambda _: words, cwd=ROOT, environment=clean_environment, explain_silence=ended,
        explain_cut=ended, explain_start=ended,
    )
    return SimpleNamespace(name="evil", address="evil", command="trainyard", carrier=carrier)


def mirror(host: SimpleNamespace) -> str:
    """Follow the runs of a host until that fails; return why."""
    followed = Mirror(host)
    followed.start()
    try:
        wait_until(lambda: followed.state.failure, f"a failure; {followed.state}")
        return followed.state.why
    finally:
        followed.end()
        followed.join(PATIENCE_S)
        assert not followed.is_alive()


def watch(host: SimpleNamespace) -> str:
    """Follow the devices of a host until that fails; return why."""
    watched = HostWatch(host)
    watched.begin()
    try:
        wait_until(lambda: watched.state.phase is Phase.NOT_REACHABLE, f"a failure; {watched.state}")
        return str(watched.state.error)
    finally:
        watched.end()
        watched.join(PATIENCE_S)


PLAYS = [*product([mirror], ABILITIES, HOW), *product([watch], ["hello", "clock", "readings"], HOW)]


def memory_kib(what: str) -> int:
    return int(Path("/proc/self/status").read_text().partition(f"{what}:")[2].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, pytest.param(None, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_what_follows_a_hostile_host_survives_and_says_why(count: int | None) -> None:
    """Some plays here; all of them again and again in a soak test."""
    for seed in batches(count):
        chosen = [*random.Random(seed).sample(PLAYS, 8), (mirror, "readings", "banners")]
        for play in PLAYS if count is None else chosen:
            judge(*play, seed)


def judge(follow: Callable[[SimpleNamespace], str], ability: str, how: str, seed: int) -> None:
    what = f"{follow.__name__} {ability} {how} {seed}"
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    before = memory_kib("VmRSS")
    why = follow(host_of(ability, how, seed))
    grown = memory_kib("VmHWM") - before
    print(f"{what}: {grown // 1024} MiB: {why[:150]}")
    assert why, what
    assert all(line.isprintable() for line in why.split("\n")), (what, why)
    assert "An error of Trainyard" not in why, (what, why)
    assert len(why) < 2000, (what, why)
    assert grown < MAX_KIB, (what, grown)
