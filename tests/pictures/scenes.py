"""The ten states of the window that pictures show. Each writes its runs, sets up the devices and opens the window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.language import join_sentences, stored, tr_plural
from core.schema.event_kinds import WorkerError
from core.schema.events import Tail
from core.schema.paths import EVENTS, worker_events
from core.schema.spec import RankAssignment
from core.supervisor.workers import Worker, describe
from tests.support.long_run import write_long_run

from .hosts import add_hosts
from .machine import BLENDER, GB, GPUS, HOUR_S, IDLE, NOW, Load
from .runs import PlayedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gui.window.main_window import MainWindow

    from .machine import Machine

MINUTE_S = 60
TOO_HOT = 0x40
"""NVML's bit for a slowdown by the hardware's heat protection."""
LONG_STEPS = 1_000_000
EARLIER = (
    PlayedRun(name="char_gpt", began=NOW - 50 * MINUTE_S, gpus=(5,), steps=800, end="stopped", floor=1.4),
    PlayedRun(name="resnet_cats", began=NOW - 96 * MINUTE_S, steps=1200, epochs=3, end="finished", learning_rate=0.003),
    PlayedRun(name="two_branch", began=NOW - 185 * MINUTE_S, gpus=(6, 7), steps=1600, end="paused", floor=0.6),
    PlayedRun(name="resnet_cats", began=NOW - 1150 * MINUTE_S, steps=1200, epochs=3, end="finished", floor=0.42),
    PlayedRun(name="nightly", began=NOW - 1230 * MINUTE_S, gpus=(4,), steps=800, epochs=2, end="finished", floor=0.8),
)
BUSY = ((84, 0.72), (79, 0.72), (78, 0.72), (83, 0.72), (92, 0.81), (90, 0.81), (88, 0.79), (97, 0.86))
"""Utilisation in per cent and share of the memory of each GPU while all of them train."""
WATTS, HEAT = (561, 574, 522, 558, 388, 392, 331, 69), (67, 69, 82, 66, 71, 70, 74, 78)
TRAINING = tuple(
    Load(busy, share, HEAT[gpu], WATTS[gpu], 1980, processes=((4101 + gpu, share - 0.01),))
    for gpu, (busy, share) in enumerate(BUSY)
)
LIVE = PlayedRun(
    name="resnet_cats", began=NOW - 507 * 1.0, gpus=range(8), steps=4900, loads=BUSY,
    hot=(2, 430.0, 470.0),
)
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ben/cats/resnet_cats.py", line 41, in loss
    return functional.cross_entropy(model(pictures), kinds)
  File "/home/ben/cats/resnet_cats.py", line 23, in forward
    features = self.blocks(self.stem(pictures))
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
WITH_BLENDER = tuple(
    replace(load, utilisation=3, memory=0.73, temperature=41, watts=38, processes=((BLENDER, 0.72),))
    if gpu == 4 else load for gpu, load in enumerate(IDLE)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One state of the window."""

    name: str
    prepare: Callable[[Path, Machine], None]
    """Write the runs and set up the devices, before the window is opened."""
    act: Callable[[MainWindow], None] = lambda _: None
    """Do what the user does, once the window is open."""


def _first_run(_: Path, machine: Machine) -> None:
    machine.set_up(IDLE)


def _ready(root: Path, machine: Machine) -> None:
    _write(root, EARLIER)
    machine.set_up(IDLE)


def _tick_four(window: MainWindow) -> None:
    window.panels.devices.chosen.tick(GPUS[:4])


def _tick_all(window: MainWindow) -> None:
    window.panels.devices.chosen.tick(GPUS)


def _starting(root: Path, machine: Machine) -> None:
    run = replace(LIVE, began=NOW - 8, since_s=8.0, steps=0, hot=None)
    _write(root, [*EARLIER, run])
    loads = [replace(load, memory=0.03, clock_mhz=1400, processes=((4101 + gpu, 0.02),))
             for gpu, load in enumerate(IDLE)]
    machine.set_up(loads, run.id)


def _running(root: Path, machine: Machine) -> None:
    _write(root, [*EARLIER, LIVE])
    machine.set_up(TRAINING, LIVE.id)


def _paused(root: Path, machine: Machine) -> None:
    paused = replace(LIVE, began=NOW - 11 * MINUTE_S, gpus=(0, 1, 2, 3), steps=2800, end="paused", hot=None)
    _write(root, [*EARLIER, paused])
    machine.set_up(IDLE)


def _failed(root: Path, machine: Machine) -> None:
    assignment = RankAssignment(
        rank=0, world_size=1, devices=(GPUS[4],), own=(GPUS[4],), kind="nvidia", cores=(), target="pytorch.single"
    )
    raised = WorkerError(type_name="OutOfMemoryError", message="CUDA out of memory. Tried to allocate 2.00 GiB.")
    error = stored(describe(Worker(assignment, None, None, Tail(root), error=raised)))
    release = {
        "device": GPUS[4], "verdict": "released", "before_bytes": GB // 4, "peak_bytes": int(23.6 * GB),
        "after_bytes": GB // 4, "seconds": 0.8, "sentence": "", "holders": [],
    }
    run = replace(LIVE, began=NOW - 4 * MINUTE_S, gpus=(4,), steps=214, end="failed", error=error, hot=None,
                  traceback=TRACEBACK, releases=[release])
    _write(root, [*EARLIER, run])
    machine.set_up(IDLE)


def _held(root: Path, machine: Machine) -> None:
    holder = {"pid": BLENDER, "name": "blender", "user": "anna", "command": "blender -b scene.blend -a",
              "memory_used_bytes": int(17.28 * GB), "age_s": 1500.0, "listed": True}
    what = tr_plural(
        "This run released its memory on {label}. Another process took {size} meanwhile: {names}.",
        "This run released its memory on {label}. Other processes took {size} meanwhile: {names}.",
        1,
        label="GPU 4",
        size="17.3 GB",
        names=f"pid {BLENDER} blender (anna), 17.3 GB",
    )
    yours = tr_plural(
        "Trainyard did not end it; end it yourself if it is not needed.",
        "Trainyard did not end them; end them yourself if they are not needed.",
        1,
    )
    sentence = stored(join_sentences([what, yours]))
    release = {
        "device": GPUS[4], "verdict": "held by others", "before_bytes": GB // 4, "peak_bytes": int(19.4 * GB),
        "after_bytes": int(17.5 * GB), "seconds": 60.0, "sentence": sentence, "holders": [holder],
    }
    run = replace(LIVE, began=NOW - 5 * MINUTE_S, gpus=(4, 5), epochs=3, steps=1200, end="finished", hot=None,
                  releases=[release])
    _write(root, [*EARLIER, run])
    machine.set_up(WITH_BLENDER)


def _long(root: Path, machine: Machine) -> None:
    _write(root, EARLIER)
    run_dir = write_long_run(root, steps=LONG_STEPS, lines=4000, rounds=1200, name="20260304-070000-nightly-7c1e")
    replace(EARLIER[-1], epochs=20, gpus=range(8)).write_spec(run_dir)
    machine.set_up(IDLE)


def _this_machine(root: Path, machine: Machine) -> None:
    run = replace(LIVE, gpus=(0, 1, 2, 3), hot=None)
    _write(root, [*EARLIER, run])
    hot = replace(TRAINING[2], utilisation=61, temperature=91, watts=402, clock_mhz=1200, reasons=TOO_HOT)
    machine.set_up((*TRAINING[:2], hot, TRAINING[3], *WITH_BLENDER[4:]), run.id, past_s=HOUR_S)


def _hosts(root: Path, machine: Machine) -> None:
    _write(root, EARLIER)
    machine.set_up(IDLE[4:6])
    add_hosts()


def _tick_host(window: MainWindow) -> None:
    window.controllers.run.show_machine()
    window.panels.devices.chosen.tick([GPUS[0], GPUS[1], "node2/GPU-a3"])


def _leave_run(window: MainWindow) -> None:
    window.controllers.run.show_machine()


def _open_newest(window: MainWindow) -> None:
    window.controllers.run.attach_to(str(window.services.run_list.summaries[0].dir))


def _open_longest(window: MainWindow) -> None:
    found = max(window.services.run_list.summaries, key=lambda each: each.step)
    window.controllers.run.attach_to(str(found.dir))


def _open_memory(window: MainWindow) -> None:
    _open_newest(window)
    window.panels.details.raise_memory()


SCENES = (
    Scene(name="first-run", prepare=_first_run),
    Scene(name="ready", prepare=_ready, act=_tick_four),
    Scene(name="starting", prepare=_starting, act=_tick_all),
    Scene(name="running", prepare=_running, act=_tick_all),
    Scene(name="paused", prepare=_paused, act=_open_newest),
    Scene(name="failed", prepare=_failed, act=_open_newest),
    Scene(name="memory-held", prepare=_held, act=_open_memory),
    Scene(name="long-run", prepare=_long, act=_open_longest),
    Scene(name="machine", prepare=_this_machine, act=_leave_run),
    Scene(name="hosts", prepare=_hosts, act=_tick_host),
)


def _write(root: Path, runs: Sequence[PlayedRun]) -> None:
    for run in runs:
        run.write(root)
        assert not run.steps or (root / run.id / EVENTS / worker_events(0)).stat().st_size
