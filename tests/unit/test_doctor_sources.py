"""What the doctor reads beside stacks: NCCL's own report, and the kernel's log."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.doctor import sources
from core.doctor.sources import ask, behind, kernel_words, parsed
from core.errors import RunError
from core.runs.facts import RunFacts, RunState
from tests.support.nccl_reports import TEXT, VERSIONS, Rank, reported, reporting

AHEAD, LATE, OTHER = (2, 0, 0, 0, 641), (2, 0, 0, 0, 640), (3, 0, 0, 0, 640)


@pytest.mark.parametrize("version", VERSIONS)
def test_report_of_each_version_with_json_names_the_rank_that_is_behind(version: str) -> None:
    ranks = [Rank(100, AHEAD), Rank(101, LATE), Rank(102, AHEAD), Rank(103)]
    with reporting(lambda: reported(ranks, version)) as address:
        first, last = (parsed(ask(address)) for _ in range(2))
    assert behind(first, last, 4) == {(101, 1), (103, 3)}
    assert behind(first, last, 8) == {(101, -1), (103, -1)}, "the ranks of a part of the run have other numbers"


@pytest.mark.parametrize(
    ("first", "last", "late"),
    [
        ((AHEAD, LATE), (AHEAD, LATE), {1}),
        ((AHEAD, AHEAD), (AHEAD, AHEAD), set()),
        ((LATE, LATE), (AHEAD, LATE), set()),  # it goes on
        ((AHEAD, LATE, LATE), (AHEAD, LATE, LATE), set()),  # most of them
        ((AHEAD, OTHER), (AHEAD, OTHER), set()),  # different ones
        ((AHEAD, AHEAD, ()), (AHEAD, AHEAD, ()), {2}),  # one that does not answer
    ],
)
def test_rank_is_behind_only_if_counts_are_frozen_and_clear(first, last, late) -> None:
    told = [parsed("OK\nOK\n" + reported([Rank(pid, each) for pid, each in enumerate(counts)]))
            for counts in (first, last)]
    assert {rank for _, rank in behind(*told, len(last))} == late
    in_one = [parsed("OK\nOK\n" + reported([Rank(7, each) for each in counts])) for counts in (first, last)]
    assert not behind(*in_one, len(last)), "a process with several GPUs launches for all of them"


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (TEXT, "this NCCL reports without JSON"),
        ("{ garbage", "NCCL's report is damaged"),
        ('{"communicators": [1]}', "NCCL's report is damaged"),
        ('{"communicators": ' + 100_000 * "[", "NCCL's report is damaged"),
        ("", r"nothing answers at 127.0.0.1:\d+ \(timed out\)"),
        ("{" + 400_000 * " " + '"communicators": []}', "NCCL's report is damaged"),  # more than is read
    ],
)
def test_report_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch, report: str, words: str) -> None:
    monkeypatch.setattr(sources, "FIRST_S", 0.1 if not report else 5.0)
    monkeypatch.setattr(sources, "MAX_BYTES", 100_000)
    with reporting(lambda: report) as address, pytest.raises(RunError, match=words):
        parsed(ask(address))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:x", "127.0.0.1:99999999"])
def test_address_at_which_nothing_answers_is_told(address: str) -> None:
    with pytest.raises(RunError, match=f"nothing answers at {address}"):
        ask(address)


def begun(since: float) -> RunFacts:
    """Return the facts of a run on one GPU since a time."""
    devices = {"GPU-1": {"pci_bus_id": "00000000:01:00.0"}, "cpu:0": {"pci_bus_id": None}}
    return RunFacts(history=((since, RunState.STARTING),), devices=devices)


LOG = """\
4,1,{before},-;NVRM: Xid (PCI:0000:01:00): 13, before the run
4,2,{at},-;NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.
4,3,{at},-;NVRM: Xid (PCI:0000:02:00): 43, of another GPU
3,4,{at},-;Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB
 SUBSYSTEM=memory
"""


def test_log_of_the_kernel_has_what_befell_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # without the journal
    with pytest.raises(RunError, match="this user may not read the kernel's log"):
        kernel_words(begun(time.time() - 1000), tmp_path)
    (tmp_path / "dev").mkdir()
    now_us = int(1e6 * time.monotonic())
    (tmp_path / "dev/kmsg").write_text(LOG.format(before=max(now_us - 2_000_000_000, 0), at=now_us - 500_000_000))
    words = "Xid 79 at 0000:01:00, process 4711 (python) was ended for lack of memory"
    assert kernel_words(begun(time.time() - 1000), tmp_path) == words
    assert kernel_words(begun(time.time() + 1000), tmp_path) == ""


def test_journal_is_read_where_the_ring_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = tmp_path / "journalctl"
    journal.write_text('#!/bin/sh\ncase "$*" in *--since=@17*) echo "NVRM: Xid (PCI:0000:01:00): 31, x";; esac\n')
    journal.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert kernel_words(begun(1_700_000_000.0), tmp_path) == "Xid 31 at 0000:01:00"
    with pytest.raises(RunError, match="may not read"):
        kernel_words(begun(5.0), tmp_path)
