"""A run is examined when it stalls, and before its stop is forced. Commands show the finding afterwards."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.devices.device import Survey
from core.diagnosis.evidence import examined
from core.doctor import examination, watch
from core.doctor.__main__ import KEPT, main
from core.doctor.examination import examine
from core.doctor.snapshot import snapshots_of
from core.doctor.watch import DoctorWatch
from core.language import Message
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import Notice, StopStep, read_all
from core.schema.paths import DOCTOR
from core.schema.settings import StopTimeouts
from core.system import processes
from gui.features.run.events import failure_view
from tests.support.commands import Call
from tests.support.nccl_reports import Rank, reported, reporting
from tests.support.running import (
    FOREVER,
    Followed,
    at_step,
    kill_tagged,
    make_spec,
    source_spec,
    start,
    write_recipe,
)
from tests.support.waiting import wait_until

STUCK = at_step(3, """import time
while True:
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        pass""")
"""It answers no request, and no interrupt."""
WHERE = "Worker 0: in Python code at recipe.py, line 15, in measure."
SOON = StopTimeouts(ask_s=0.2, interrupt_s=0.2, terminate_s=0.2)


@pytest.fixture
def stuck(tmp_path: Path, runs_root: Path) -> Iterator[Followed]:
    followed = start(make_spec(write_recipe(tmp_path, STUCK), epochs=FOREVER, stop_timeouts=SOON), runs_root)

    def is_stuck() -> bool:
        followed.poll()
        return any(each.place and each.place.function == "measure" for each in snapshots_of(followed.run))

    try:
        wait_until(is_stuck, "that it is stuck")
        yield followed.until(RunState.RUNNING)
    finally:
        kill_tagged(followed.run.id)
        followed.until_left()


def test_stop_that_is_not_answered_is_forced_after_an_examination(stuck: Followed, call: Call) -> None:
    stuck.run.request("stop")
    events = []
    while stuck.state is not RunState.STOPPED:
        events += stuck.run.poll()
    [found] = examined(stuck.run.facts)
    assert Message.read(found).english.startswith(f"Examined at a stall, or before the stop was forced: {WHERE}")
    steps = {each.name: each.time for each in read_all(StopStep, events)}
    told = [each.time for each in read_all(Notice, events) if each.text == found]
    assert steps["asked"] < told[0] <= steps["SIGINT"], "it was examined before anything ended it"
    for command in ("doctor", "show"):
        assert found in call(command, stuck.run.id)[1]
    told = json.loads(call("doctor", stuck.run.id, "--json")[1])
    [kept] = Path(told["folder"]).iterdir()
    document = json.loads(kept.read_text())
    assert (document["why"], document["ranks"][0]["place"]["line"]) == ("force", 15)
    assert "stacks" in document["looked_at"]


def test_stall_is_examined_once_and_told_on_the_card_of_a_later_failure(stuck: Followed, call: Call) -> None:
    (stuck.run.dir / DOCTOR).write_text("Nothing can be kept here.")
    watching = DoctorWatch(stuck.run.dir)
    with contextlib.closing(watching):
        for stalled in (None, "No step.", "No step."):
            watching.watch(Survey(), RunFacts(stalled=stalled))
        wait_until(lambda: stuck.poll() and examined(stuck.run.facts), "what was found")
        assert watching._stalls == 1
    [found] = examined(stuck.run.facts)
    assert Message.read(found).english.startswith(f"Examined at a stall, or before the stop was forced: {WHERE}")
    kill_tagged(stuck.run.id)
    facts = stuck.until_over().run.facts
    view = failure_view(facts, stuck.run.spec(), log_end="", labels={})
    assert view is not None
    assert view.sentence.endswith(found)
    assert json.loads(call("doctor", stuck.run.id, "--json")[1])["folder"] is None


def test_last_examinations_alone_are_kept(stuck: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "INTERVAL_S", 0.1)
    for _ in range(KEPT + 2):
        main(stuck.run.dir, "stall")
    assert len(list((stuck.run.dir / DOCTOR).iterdir())) == KEPT


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([sys.executable, "-c", "import time; time.sleep(1000)"], "it took too long"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "exit status 3"),
        (["/nowhere/python"], "No such file or directory"),
        ([sys.executable, "-c", ""], ""),
    ],
    ids=["hangs", "fails", "cannot start", "is done"],
)
def test_examination_that_hangs_or_fails_holds_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], words: str
) -> None:
    monkeypatch.setattr(watch, "own_command", lambda *_: command)
    monkeypatch.setattr(watch, "FORCE_S", 0.3 if "sleep" in command[-1] else 60.0)
    watching, seen = DoctorWatch(tmp_path), []
    watching.watch(Survey(), RunFacts(stalled="No step."))
    assert not watching.trouble(), "no stop is forced yet"

    def is_over() -> bool:
        if watching._process is not None:
            seen.append(watching._process.pid)
        return not watching.delays_force()

    wait_until(is_over, "that the stop goes on")
    assert not watching.delays_force(), "a stop waits once"
    trouble = watching.trouble()
    assert (bool(trouble), words in trouble, watching.trouble()) == (bool(words), True, "")
    assert not any(map(processes.identify, seen)), "nothing is left of it"


def test_nccl_names_the_rank_of_a_script_that_has_launched_less(
    tmp_path: Path, runs_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All ranks wait at one place, as for their devices."""
    monkeypatch.setattr(examination, "INTERVAL_S", 0.1)
    pids: list[int] = []
    with reporting(lambda: reported([Rank(pid, (0, 0, 0, 0, 9 - bool(at))) for at, pid in enumerate(pids)])) as address:
        source = "import signal\nsignal.pause()\n"
        spec = source_spec(tmp_path, source, devices="cpu:0,cpu:1", launch="per-device",
                           environment={"NCCL_RAS_ADDR": address})
        followed = start(spec, runs_root)
        try:
            followed.until(RunState.RUNNING)
            wait_until(lambda: len(followed.poll().run.facts.workers) == 2, "both ranks")
            wait_until(lambda: all(processes.identify(each.process.pid) and b"train.py" in Path(
                f"/proc/{each.process.pid}/cmdline").read_bytes() for each in followed.run.facts.workers.values()),
                "that they are programs")
            pids += [each.process.pid for _, each in sorted(followed.run.facts.workers.items())]
            found, _ = examine(followed.run)
        finally:
            kill_tagged(followed.run.id)
            followed.until_left()
    assert found.blamed == (1,)
    assert "NCCL reports fewer collectives of Worker 1 than of the others. Worker 1 holds" in found.sentence
    assert found.looked["NCCL"] == ""
    with pytest.raises(ValueError, match="has no workers now"):
        examine(followed.run)
