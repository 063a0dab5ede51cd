"""Directories of runs, as their supervisors and workers would have written them, with fixed times and values."""

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.language import join_sentences, stored, tr
from core.schema.paths import CHECKPOINTS, CONTROL, DEVICE_EVENTS, EVENTS, LOG_FILE, SUPERVISOR_EVENTS, worker_events
from core.schema.settings import Recipe, Training
from core.schema.spec import RunSpec, write_spec
from core.system import processes

from .machine import GB, GPUS, MODELS, wave

PHASES = (("framework", 0.5), ("data", 6.3), ("model", 8.2), ("join", 8.4), ("step", 8.9))
"""What a start does, and after how many seconds it begins."""
FIRST_STEP_S = 9.6
BATCH = 20
"""Steps in one line of measurements. The last of them is measured."""
PARTS = {"data": 0.04, "copy": 0.02, "forward": 0.29, "backward": 0.47, "wait": 0.09, "optimizer": 0.07}
"""Shares of a measured step."""
READ_S = 3.0
"""Seconds between two readings of the devices."""
HOME = "/home/ben/cats"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """One run, as far as it came."""

    name: str
    began: float
    """Unix seconds."""
    gpus: Sequence[int] = (0, 1, 2, 3)
    epochs: int = 30
    steps_per_epoch: int = 400
    steps: int = 0
    """Steps so far."""
    step_s: float = 0.1
    since_s: float | None = None
    """Seconds since the beginning for a run that has not made a step; None for others."""
    end: str = ""
    """The state in which it ended; the empty string for a live run."""
    error: object = ""
    """The JSON of a message."""
    traceback: str = ""
    floor: float = 0.3
    """The loss that it comes near to."""
    learning_rate: float = 0.001
    releases: Sequence[dict[str, Any]] = ()
    loads: Sequence[tuple[int, float]] = ()
    """Utilisation in per cent and share of the memory, by GPU of the machine."""
    hot: tuple[int, float, float] | None = None
    """The GPU that was too hot for a while, from when and until when in seconds since the beginning."""

    @property
    def id(self) -> str:
        """The name of its directory."""
        return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(self.began))}-{self.name}-7c1e"

    def write(self, root: Path) -> Path:
        """Write the directory."""
        run_dir = root / self.id
        for part in (EVENTS, CONTROL, CHECKPOINTS):
            (run_dir / part).mkdir(parents=True)
        self.write_spec(run_dir)
        _write(run_dir / EVENTS / worker_events(0), self._worker())
        _write(run_dir / EVENTS / DEVICE_EVENTS, self._readings())
        _write(run_dir / EVENTS / SUPERVISOR_EVENTS, self._supervisor())
        (run_dir / LOG_FILE).write_text(self.traceback or "Reading 49 920 pictures of cats.\n")
        return run_dir

    def write_spec(self, run_dir: Path) -> None:
        """Write the spec alone."""
        strategy = "ddp" if len(self.gpus) > 1 else "single"
        spec = RunSpec(
            name=self.name, framework="pytorch", strategy=strategy, devices=tuple(GPUS[each] for each in self.gpus),
            recipe=Recipe(name=self.name, path=f"{HOME}/{self.name}.py"), python="/home/ben/cats-env/bin/python",
            training=Training(epochs=self.epochs, batch_size=256, learning_rate=self.learning_rate), working_dir=HOME,
        )
        write_spec(run_dir, spec)

    @property
    def ended(self) -> float:
        """When its training ended, in unix seconds."""
        return self.began + FIRST_STEP_S + self.steps * self.step_s

    def loss(self, step: int) -> float:
        """Return the loss of a step, which falls and has noise."""
        clean = self.floor + (2.35 - self.floor) * math.exp(-step / (1000 + 0.1 * self.steps))
        return round(clean * (1 + 0.16 * wave(step, 1) * wave(step, 2)), 4)

    def _worker(self) -> list[dict[str, Any]]:
        reached = self.since_s if self.since_s is not None else math.inf
        about = {"rank": 0, "python": "3.12.3", "framework": "2.7.1"}
        events = [_event(self.began + at, "phase", name=name, **about) for name, at in PHASES if at <= reached]
        if self.since_s is not None:
            return events
        plan = {"epochs": self.epochs, "steps_per_epoch": self.steps_per_epoch}
        events.append(_event(self.began + 8.9, "plan", **plan, samples_per_epoch=256 * self.steps_per_epoch))
        first_s = self.began + FIRST_STEP_S
        for first in range(1, self.steps + 1, BATCH):
            last = min(first + BATCH - 1, self.steps)
            losses = [self.loss(step) for step in range(first, last + 1)]
            since, until = first_s + (first - 1) * self.step_s, first_s + (last - 1) * self.step_s
            events.append(_event(until, "metrics", since=since, first=first, values={"loss": losses}))
            parts = {**PARTS, "data": PARTS["data"] * (1 + math.sin(last / 700) / 2)}
            shares = {part: share * self.step_s for part, share in parts.items()}
            events.append(_event(until, "step_time", rank=0, step=last, seconds=self.step_s, **shares))
            if last // self.steps_per_epoch > (first - 1) // self.steps_per_epoch:
                events += self._end_of_epoch(last // self.steps_per_epoch * self.steps_per_epoch, until)
        return events

    def _end_of_epoch(self, step: int, at: float) -> list[dict[str, Any]]:
        loss = round(self.floor + 0.03 + (2.3 - self.floor) * math.exp(-step / (1000 + 0.1 * self.steps)), 4)
        accuracy = round(max(0.1, 1.02 - 0.45 * loss), 4)
        values = {"val_loss": [loss], "val_accuracy": [accuracy]}
        found = [_event(at, "metrics", since=at, first=step, values=values)]
        if step // self.steps_per_epoch % 4 == 0:
            about = {"step": step, "name": f"step-{step:08d}", "reason": "epoch", "bytes": 94 * 10**6}
            best = {"metric": "val_loss", "value": loss, "lowest": loss, "kept": loss}
            found.append(_event(at + 0.1, "checkpoint", **about, **best))
        return found

    def _readings(self) -> list[dict[str, Any]]:
        until = self.since_s if self.since_s is not None else self.ended - self.began
        events = []
        for number in range(int(until / READ_S) + 1):
            at = number * READ_S
            for gpu in self.gpus:
                busy, share = self.loads[gpu] if self.loads else (84, 0.72)
                works = at > FIRST_STEP_S
                used = share if at > 8 else 0.03 if at > 1 else 0.01
                reading: dict[str, Any] = {
                    "utilisation_percent": round(max(0.0, busy + 6 * wave(at, gpu)), 1) if works else 0.0,
                    "memory_used_bytes": int(used * MODELS[gpu][1] * GB),
                    "temperature_celsius": 40 + busy // 3, "power_watts": round(MODELS[gpu][2] * busy / 105),
                }
                if self.hot is not None and gpu == self.hot[0] and self.hot[1] <= at < self.hot[2]:
                    reading |= {"temperature_celsius": 91, "slowdowns": ["too hot"]}
                    reading["utilisation_percent"] = 61.0
                events.append(_event(self.began + at, "sample", device=GPUS[gpu], **reading))
        return events

    def _supervisor(self) -> list[dict[str, Any]]:
        me = processes.identify(os.getpid())
        assert me is not None
        us = {"pid": me.pid, "created": me.created} if not self.end else {"pid": 4100, "created": 1.0}
        devices = [
            _event(
                self.began + 0.1, "device", id=GPUS[gpu], device_kind="nvidia", label=f"GPU {gpu}",
                name=MODELS[gpu][0], memory_total_bytes=MODELS[gpu][1] * GB, pci_bus_id=None, cores=[],
            )
            for gpu in self.gpus
        ]
        workers = [
            _event(self.began + 0.4, "worker", rank=rank, **us, devices=[GPUS[gpu]])
            for rank, gpu in enumerate(self.gpus)
        ]
        events = [
            _event(self.began, "supervisor", **us, **asdict(processes.here())),
            _event(self.began, "state", state="starting"), *devices, *workers,
        ]
        if self.since_s is None:
            events.append(_event(self.began + FIRST_STEP_S - 0.5, "state", state="running"))
        if self.hot is not None:
            gpu, since, until = self.hot
            text = [tr("{device} is slowed down: {celsius:.0f} °C.", device=f"GPU {gpu}", celsius=91.0),
                    tr("It holds the others up."), tr("Check its cooling.")]
            events.append(_event(self.began + since, "slowed", device=GPUS[gpu], text=stored(join_sentences(text))))
            over = {"device": GPUS[gpu], "text": "", "seconds": until - since}
            events.append(_event(self.began + until, "slowed", **over))
        return events + (self._ending() if self.end else [])

    def _ending(self) -> list[dict[str, Any]]:
        at = self.ended
        gave_back = [
            {"device": GPUS[gpu], "verdict": "released", "before_bytes": GB // 2, "peak_bytes": int(0.72 * 80 * GB),
             "after_bytes": GB // 2, "seconds": 1.2, "sentence": "", "holders": []}
            for gpu in self.gpus
        ]
        known = {each["device"]: each for each in (*gave_back, *self.releases)}
        asked = [_event(at - 2, "request", asked="pause")] if self.end == "paused" else []
        if self.end == "paused":
            about = {"step": self.steps, "name": f"step-{self.steps:08d}", "reason": "pause", "bytes": 94 * 10**6}
            asked.append(_event(at, "checkpoint", **about))
        error = {"error": self.error, "traceback": self.traceback} if self.error else {}
        return [
            *asked, _event(at + 0.5, "state", state="releasing"),
            *(_event(at + 1.7, "release", **each) for each in known.values()),
            _event(at + 2, "state", state=self.end, **error),
        ]


def _event(at: float, kind: str, **fields: object) -> dict[str, Any]:
    return {"t": at, "kind": kind, **fields}


def _write(path: Path, events: Sequence[dict[str, Any]]) -> None:
    lines = (json.dumps(event, separators=(",", ":")) for event in events)  # as `core.schema.events.metrics_line`
    path.write_text("".join(f"{line}\n" for line in lines))
