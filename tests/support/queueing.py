"""Put real runs into the queue of a test, and look at the line."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.devices.cpu import cpu_devices
from core.queue import control
from core.queue.folder import own_line
from core.queue.listing import QueuedRun, queue_view
from core.queue.request import QueueRequest
from core.runs.facts import RunState
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.waiting import wait_until

LABELS = {device.id: device.label for device in cpu_devices()}


class Queue:
    """A folder of runs in which runs of a third of a second, or endless ones, are queued."""

    def __init__(self, folder: Path) -> None:
        self.runs_root, self.recipe = folder / "runs", write_recipe(folder, LONG)

    def start(self, devices: str = "cpu:0", **training: Any) -> Followed:
        """Start an endless run at once."""
        return start(self.spec(devices, epochs=FOREVER, **training), self.runs_root).until(RunState.RUNNING)

    def add(self, name: str, devices: str = "cpu:0", *, epochs: int = 5, limit_s: float | None = None,
            recipe: str = "", **request: Any) -> Followed:
        """Queue a run."""
        spec = replace(self.spec(devices, epochs=epochs, recipe=recipe), name=name, time_limit_s=limit_s)
        run = control.enqueue(spec, self.runs_root, QueueRequest(labels=LABELS, **request))
        wait_until(lambda: control.until_waiting(run), f"{name} to be in the line")
        return Followed(run)

    def spec(self, devices: str, *, recipe: str = "", **training: Any) -> Any:
        return make_spec(recipe or self.recipe, devices=devices, **training)

    def rows(self) -> dict[str, QueuedRun]:
        """The queued runs by name, in their order."""
        return {each.run_dir.name.split("-")[2]: each for each in queue_view(self.runs_root).runs}

    def until_reason(self, name: str, words: str) -> QueuedRun:
        """Wait until a run waits for this reason."""
        return wait_until(lambda: (row := self.rows().get(name)) and words in row.reason and row, f"{name}: {words}")


def stop(*runs: Followed) -> None:
    """Stop runs and wait for their ends."""
    for each in runs:
        each.run.request("stop")
    for each in runs:
        each.until_over()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def tickets() -> list[str]:
    """The runs that have a ticket whose process is alive."""
    return [each.run for each in own_line().line.tickets()]


def is_free(device: str) -> bool:
    """Whether nothing claims a device."""
    handle = own_line().line.claim(device)
    if handle is not None:
        os.close(handle)
    return handle is not None
