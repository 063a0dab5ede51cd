"""Stall detection: when a run with live processes is reported as stalled, the message, and when it is cleared."""

import os
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core.devices.device import Device, Sample, Survey
from core.devices.sampler import Sampler
from core.language import Message
from core.notifications.settings import NotificationSettings, save
from core.notifications.start import Notifier
from core.runs.directory import new_directory
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.runs.run import Run
from core.schema.event_kinds import Record, Stall
from core.schema.spec import write_spec
from core.supervisor import monitor, supervisor
from core.supervisor.jobs import RecipeJob
from core.supervisor.watches import FIRST_PATIENCE_S, PATIENCE_S, PAUSE_FACTOR, DeviceLog, StallWatch
from core.system.terminate import RunProcesses
from gui.runs.verdicts import run_message
from tests.support.running import FOREVER, Followed, at_step, make_spec, write_recipe
from tests.support.waiting import wait_until

GPUS = tuple(Device(id=f"GPU-{number}", kind="nvidia", label=f"GPU {number}", name="RTX") for number in range(3))
SURVEY = Survey(
    devices=GPUS,
    samples=(
        Sample(device_id="GPU-0", time=1.0, utilisation_percent=100.0),
        Sample(device_id="GPU-1", time=1.0, utilisation_percent=0.0),
        Sample(device_id="GPU-2", time=1.0, utilisation_percent=55.0),
    ),
)


def watch() -> StallWatch:
    """Return a watch on a run on two GPUs whose first step ended at 10 s and whose second ended at 11 s."""
    made = StallWatch(["GPU-0", "GPU-1"])
    assert [made.poll(None, SURVEY, 0.0), made.poll(1, SURVEY, 10.0), made.poll(2, SURVEY, 11.0)] == [None, None, None]
    return made


def test_stall_is_reported_once_and_cleared_when_steps_continue() -> None:
    stall = watch()
    assert stall.poll(2, SURVEY, 11.0 + PATIENCE_S - 0.1) is None
    sentence = stall.poll(2, SURVEY, 11.0 + PATIENCE_S)
    assert sentence.startswith("No step has been reported since step 2 at ")
    assert sentence.endswith(
        ", but all processes are running (GPU 0: 100 %, GPU 1: 0 %). A process may be waiting for data or for "
        "another process; a long validation looks the same. If training does not continue, “Why does it hang?” "
        "(trainyard doctor) names the worker that holds the others up."
    )
    assert stall.poll(2, SURVEY, 500.0) is None
    assert stall.poll(3, SURVEY, 501.0) == ""
    assert stall.poll(4, SURVEY, 502.0) is None


def test_first_step_has_a_longer_stall_timeout() -> None:
    stall = StallWatch(["GPU-0"])
    assert stall.poll(None, Survey(), 50.0) is None
    assert stall.poll(None, Survey(), 50.0 + FIRST_PATIENCE_S - 0.1) is None
    sentence = stall.poll(None, Survey(), 50.0 + FIRST_PATIENCE_S)
    assert sentence.startswith("No step has been reported since training began at ")
    assert ", but all processes are running. A process" in sentence


def test_stall_timeout_grows_with_earlier_pauses() -> None:
    stall = watch()
    assert stall.poll(3, SURVEY, 41.0) is None  # a pause of 30 s, such as a validation
    assert stall.poll(3, SURVEY, 41.0 + PAUSE_FACTOR * 30.0 - 0.1) is None
    assert stall.poll(3, SURVEY, 41.0 + PAUSE_FACTOR * 30.0)


def test_stall_warning_is_shown_until_the_run_continues_or_ends() -> None:
    begun = [{"t": 1.0, "kind": "state", "state": state} for state in ("starting", "running")]
    stalled = fold(RunFacts(), [*begun, {"t": 70.0, "kind": "stall", "text": "No step has ended."}])
    message = run_message(stalled, None, 80.0)
    assert (message.text, message.tone) == ("No step has ended.", "warn")
    for last in ({"kind": "stall", "text": ""}, {"kind": "state", "state": "stopping"}):
        assert run_message(fold(stalled, [{"t": 90.0, **last}]), None, 95.0).text == ""


@pytest.mark.parametrize("has_steps", [True, False])
def test_part_of_a_run_whose_steps_are_reported_elsewhere_is_never_stalled(monkeypatch, has_steps: bool) -> None:
    monkeypatch.setattr(monitor, "StallWatch", lambda _: SimpleNamespace(poll=lambda *_: "No step."))
    told: list[Record] = []
    readings = cast("DeviceLog", SimpleNamespace(poll=list, survey=Survey()))
    own = RunProcesses(run_id="run", supervisor=os.getpid(), guard=None)
    made = monitor.RunMonitor(
        own, make_spec("digits_mlp"), [], [], readings=readings, write=told.append,
        has_steps=has_steps,
    )
    made.poll(None, trains=True)
    assert told == [Stall(text="No step.")] * has_steps


def test_stalled_run_reports_the_stall_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is told once, by a command."""
    told = tmp_path / "told"
    save(NotificationSettings(desktop=False, command=f'echo "$NOTIFICATION_TITLE" >> {told}', occasions=("stalled",)))
    gate, hangs = tmp_path / "gate", tmp_path / "hangs"

    class OnlyThere(StallWatch):
        """Looks only until the training has gone on: before and after, a busy machine may make pauses, too."""

        is_over = False

        def poll(self, step: int | None, survey: Survey, now: float) -> str | None:
            if not hangs.exists() or self.is_over:
                return None
            found = super().poll(step, survey, now)
            self.is_over = found == ""
            return found

    monkeypatch.setattr(monitor, "StallWatch", partial(OnlyThere, patience_s=1.0))
    waits = f"""import pathlib, time
while not pathlib.Path({str(gate)!r}).exists():
    pathlib.Path({str(hangs)!r}).touch()
    time.sleep(0.02)"""
    spec = make_spec(write_recipe(tmp_path, at_step(4, waits)), epochs=FOREVER)
    run_dir = new_directory(tmp_path / "runs", "silent")
    write_spec(run_dir, spec)
    supervised = supervisor.Supervisor(
        run_dir, spec, Sampler.for_run(spec.devices), RecipeJob(spec, run_dir), companions=[Notifier(run_dir)]
    )
    thread = threading.Thread(target=supervised.run)
    thread.start()
    try:
        followed = Followed(Run.attach(run_dir))
        wait_until(lambda: followed.poll().run.facts.stalled, "the sentence")
        sentence = str(followed.run.facts.stalled)
        assert sentence.startswith("No step has been reported since step ")
        assert ", but all processes are running (CPU 0: " in sentence
        wait_until(lambda: told.is_file() and told.read_text(), "the notification")
        gate.touch()
        wait_until(lambda: followed.poll().run.facts.stalled is None, "that it goes on")
        assert followed.state is RunState.RUNNING
        followed.stop()
        sentences = [
            Message.read(event["text"]) for event in Run.attach(run_dir).catch_up() if event["kind"] == "stall"
        ]
        assert list(map(bool, sentences)) == [True, False]
        assert told.read_text() == "recipe makes no progress\n"
    finally:
        gate.touch()
        supervised.stop()
        thread.join()
