"""Stands for the supervisors of the trainings of a check: writes what they come to, and nothing is trained."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any

from core.runs.requests import REQUESTS
from core.schema.event_kinds import Plan, Release, StateChange, SupervisorStart, Verdict, WorkerStart
from core.schema.events import metrics_line
from core.schema.paths import CONTROL, EVENTS, LOG_FILE
from core.schema.spec import read_spec
from core.system.processes import TAG, ProcessId, here, identify
from tests.support.waiting import wait_until

Sleeper = subprocess.Popen[bytes]
STEPS = 100
HELD = "GPU 0: 1.0 GB of this run have not come back."


class ActedTrainings:
    """Starts trainings in the place of `core.runs.directory.launch_supervisor`.

    `acts`: of each training in the order of their start, also of a resumed one: `loss` (of the last of its `steps`),
    the `state` in which it ends, its `error`, `held` (its memory does not come back), its `log`. One that `waits` ends
    when it is asked to, or when its worker is killed; it has processes of its own, of which one may be `left`.
    """

    def __init__(self, acts: Sequence[Mapping[str, Any]]) -> None:
        self._acts = iter(acts)
        self._processes: list[Sleeper] = []
        self._threads: list[Thread] = []
        self.launched: list[tuple[Path, Mapping[str, str]]] = []
        """The folders of the trainings, and the changes to their environments."""

    def launch(self, run_dir: Path, *_: str, **variables: str) -> ProcessId | None:
        self.launched.append((run_dir, variables))
        act = {"loss": 0.5, "steps": STEPS, "state": "finished", **next(self._acts, {})}
        waits = act.get("waits", False)
        supervisor, guard, worker = (self._sleeper() for _ in range(3))  # a check kills them
        if act.get("left"):
            self._sleeper(**{TAG: run_dir.name})
        started = {name: asdict(identify(each.pid)) for name, each in (("guard", guard), ("worker", worker))}
        own = identify(supervisor.pid)
        start = SupervisorStart(**asdict(own), **asdict(here()), guard=started["guard"])
        records = [start, StateChange(state="starting"), StateChange(state="running")]
        if waits:
            records.append(WorkerStart(rank=0, devices=(), **started["worker"]))
        _write(run_dir, "supervisor", [record.event() for record in records])
        now = time.time()
        line = metrics_line(since=now, until=now, first_step=act["steps"], values={"loss": [act["loss"]]})
        plan = Plan(epochs=1, steps_per_epoch=STEPS, samples_per_epoch=STEPS).event()
        _write(run_dir, "worker-0", [plan, json.loads(line)])
        with (run_dir / LOG_FILE).open("a") as log:
            log.write(act.get("log", ""))
        if waits:
            self._threads.append(Thread(daemon=True, target=_end_when_asked, args=(run_dir, supervisor, worker, act)))
            self._threads[-1].start()
        else:
            _end(run_dir, act)
        return own

    def close(self) -> None:
        """End what it has started."""
        for process in self._processes:
            process.kill()
            process.wait()
        for thread in self._threads:
            thread.join()

    def _sleeper(self, **variables: str) -> Sleeper:
        process = subprocess.Popen(["sleep", "600"], env={**os.environ, **variables}, stdout=subprocess.DEVNULL)
        self._processes.append(process)
        return process


def _end_when_asked(run_dir: Path, supervisor: Sleeper, worker: Sleeper, act: Mapping[str, Any]) -> None:
    def is_asked() -> bool:
        ended = [each.poll() is not None for each in (worker, supervisor)]  # which reaps them, too
        return any(ended) or any((run_dir / CONTROL / each).exists() for each in REQUESTS)

    wait_until(is_asked, "a request")
    if supervisor.poll() is None:
        _end(run_dir, act)


def _end(run_dir: Path, act: Mapping[str, Any]) -> None:
    releases = [
        Release(device_id=device, verdict=Verdict.HELD_BY_RUN, before_bytes=0, peak_bytes=1 << 30, after_bytes=1 << 30,
                seconds=1.0, sentence=HELD)
        for device in read_spec(run_dir).devices if act.get("held")
    ]
    records = [StateChange(state="releasing"), *releases, StateChange(state=act["state"], error=act.get("error"))]
    _write(run_dir, "supervisor", [record.event() for record in records])


def _write(run_dir: Path, name: str, events: Sequence[Mapping[str, Any]]) -> None:
    with (run_dir / EVENTS / f"{name}.jsonl").open("a") as file:
        file.write("".join(f"{json.dumps(event)}\n" for event in events))
