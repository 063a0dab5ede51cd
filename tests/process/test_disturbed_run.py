"""A real run beside a pressure that is made up: the sentence in the run, on the command line and in the head."""

import threading
from pathlib import Path

import pytest

from core.companions import companions_of
from core.devices.sampler import Sampler
from core.queue.claims import Claims
from core.runs.directory import new_directory
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.spec import write_spec
from core.supervisor import disturbances
from core.supervisor.disturbances import Disturbances, Reading
from core.supervisor.jobs import RecipeJob
from core.supervisor.supervisor import Supervisor
from gui.runs.verdicts import run_message
from tests.support.running import FOREVER, LONG, Followed, make_spec, write_recipe
from tests.support.waiting import wait_until


def test_disturbed_run_says_so_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[Reading] = []

    def read(now: float, _: Path) -> Reading:
        readings.append(Reading(now, {"io": int(0.41e6 * now)}, ()))
        return readings[-1]

    for name, value in (("MIN_S", 0.0), ("PROCESSES_S", 0.0), ("read", read)):
        monkeypatch.setattr(disturbances, name, value)
    spec = make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER)
    run_dir = new_directory(tmp_path / "runs", "disturbed")
    write_spec(run_dir, spec)
    claims = Claims.take(run_dir, spec)
    (companion,) = [each for each in companions_of(run_dir, spec, claims) if isinstance(each, Disturbances)]
    claims.release()
    supervised = Supervisor(run_dir, spec, Sampler.for_run(spec.devices), RecipeJob(spec, run_dir),
                            companions=[companion])
    thread = threading.Thread(target=supervised.run)
    thread.start()
    try:
        followed = Followed(Run.attach(run_dir)).until_trained(1)
        wait_until(lambda: len(readings) > 2, "some readings")
        assert followed.run.facts.notices == (), "it is judged by all of its time"
        assert followed.stop().state is RunState.STOPPED
    finally:
        supervised.stop()
        thread.join()
    sentence = "The run may have been slowed down: processes waited for a disk 41 % of the time, perhaps its own."
    assert followed.run.facts.notices == (sentence,)
    assert run_message(followed.run.facts, None, 0.0).text == sentence
