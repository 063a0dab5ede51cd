"""Write directories of runs with given measurements, as workers and supervisors write them, without training."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.runs.directory import new_directory
from core.schema.event_kinds import StateChange, SupervisorStart
from core.schema.events import Writer, metrics_line
from core.schema.paths import EVENTS, SPEC_FILE, SUPERVISOR_EVENTS
from core.schema.spec import RunSpec, write_spec
from core.system import processes
from tests.support.running import make_spec

BEGAN = 1_750_000_000.0
ONE_PART = ((0.0, "starting"), (0.5, "running"), (9000.0, "releasing"), (9001.0, "finished"))


def values(first: int, since: float, until: float, **metrics: Sequence[float | None]) -> dict[str, Any]:
    """Return a batch of measurements; times are seconds after the beginning of the run."""
    line = metrics_line(since=BEGAN + since, until=BEGAN + until, first_step=first, values=metrics)  # type: ignore[arg-type]
    event: dict[str, Any] = json.loads(line)
    return event


def write_run(
    root: Path, name: str, events: Iterable[dict[str, Any]] = (), *, spec: RunSpec | None = None,
    states: Iterable[tuple[float, str]] = ONE_PART, more: Iterable[dict[str, Any]] = (), file: str = "worker-0",
    devices: Iterable[dict[str, Any]] = (),
) -> Path:
    """Write a run with these events of its worker. `more`: further events of its supervisor; `devices`: readings."""
    run_dir = root / name
    (run_dir / EVENTS).mkdir(parents=True)
    written = [{"t": BEGAN + at, "kind": "state", "state": state} for at, state in states]
    supervisor = sorted([*written, *more], key=lambda event: float(event["t"]))
    for stem, lines in (("supervisor", supervisor), (file, events), ("devices", devices)):
        (run_dir / EVENTS / f"{stem}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run_dir / "log.txt").touch()
    write_spec(run_dir, spec or make_spec("digits_mlp"))
    os.utime(run_dir / SPEC_FILE, (BEGAN, BEGAN))  # a run that was just made could still come up
    return run_dir


def write_state(run_dir: Path, *states: str) -> None:
    """Let a run be in these states, one after the other."""
    writer = Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)
    for state in states:
        writer.write(StateChange(state=state))
    writer.close()


def running_run(root: Path, name: str = "digits") -> Path:
    """Write a run on cpu:0 that trains, whose supervisor is this process."""
    run_dir = new_directory(root, name)
    write_spec(run_dir, make_spec("digits_mlp"))
    identity = processes.identify(os.getpid())
    writer = Writer(run_dir / EVENTS / SUPERVISOR_EVENTS)
    writer.write(SupervisorStart(pid=identity.pid, created=identity.created, **asdict(processes.here())))
    writer.close()
    write_state(run_dir, "starting", "running")
    return run_dir
