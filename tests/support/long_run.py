"""Write the directory of a long run as its worker and its supervisor would have written it."""

import json
from pathlib import Path

import numpy as np

from core.schema.events import metrics_line
from core.schema.paths import CHECKPOINTS, CONTROL, DEVICE_EVENTS, EVENTS, LOG_FILE, SUPERVISOR_EVENTS, worker_events
from core.schema.spec import write_spec
from tests.support.running import make_spec

BEGAN = 1_760_000_000.0
EPOCHS = 20


def write_long_run(
    root: Path, *, steps: int = 1_000_000, hours: float = 10.0, lines: int = 20_000, devices: int = 8,
    rounds: int = 18_000, name: str = "20260101-000000-long-0000",
) -> Path:
    """Write a finished run of `steps` in `lines` batches, with `rounds` readings of each device; return its folder."""
    run_dir = root / name
    for part in (EVENTS, CONTROL, CHECKPOINTS):
        (run_dir / part).mkdir(parents=True)
    ids = [f"GPU-{number:08x}-0000-4000-8000-000000000000" for number in range(devices)]
    (run_dir / LOG_FILE).touch()
    seconds = hours * 3600
    _write_worker(run_dir / EVENTS / worker_events(0), steps, lines, seconds)
    _write_devices(run_dir / EVENTS / DEVICE_EVENTS, ids, rounds, seconds)
    _write_supervisor(run_dir / EVENTS / SUPERVISOR_EVENTS, ids, seconds)
    write_spec(run_dir, make_spec("digits_cnn", epochs=EPOCHS))
    return run_dir


def _write_worker(path: Path, steps: int, lines: int, seconds: float) -> None:
    per_epoch, batch, step_s = steps // EPOCHS, steps // lines, seconds / steps
    noise = np.random.default_rng(0).random(steps)
    loss = (2.3 * np.exp(-np.arange(steps) / (steps / 5)) + 0.1 * noise).astype(np.float32)
    plan = {"epochs": EPOCHS, "steps_per_epoch": per_epoch, "samples_per_epoch": 64 * per_epoch}
    with path.open("w") as file:
        file.write(json.dumps({"t": BEGAN + 1, "kind": "plan", **plan}) + "\n")
        for first in range(0, steps, batch):
            since, until = BEGAN + 2 + first * step_s, BEGAN + 2 + (first + batch) * step_s
            values = {"loss": loss[first : first + batch].tolist()}
            file.write(metrics_line(since=since, until=until, first_step=first + 1, values=values) + "\n")
            last = first + batch
            if last % per_epoch == 0:
                values = {"val_loss": [float(loss[first]) + 0.05], "learning_rate": [0.001]}
                file.write(metrics_line(since=until, until=until, first_step=last, values=values) + "\n")
                written = {"step": last, "name": f"step-{last:08d}", "reason": "epoch"}
                file.write(json.dumps({"t": until, "kind": "checkpoint", **written}) + "\n")


def _write_devices(path: Path, ids: list[str], rounds: int, seconds: float) -> None:
    random = np.random.default_rng(1)
    with path.open("w") as file:
        for number in range(rounds):
            at = BEGAN + number * seconds / rounds
            for device in ids:
                used = int(58e9 + 1e9 * random.random())
                reading = {"utilisation_percent": round(75 + 20 * random.random(), 1), "memory_used_bytes": used}
                more = {"temperature_celsius": 67.0, "power_watts": 561.3}
                file.write(json.dumps({"t": at, "kind": "sample", "device": device, **reading, **more}) + "\n")


def _write_supervisor(path: Path, ids: list[str], seconds: float) -> None:
    end = BEGAN + seconds
    host = {"host": "elsewhere", "boot": "0", "pid_namespace": "0"}
    events: list[dict[str, object]] = [
        {"t": BEGAN, "kind": "supervisor", "pid": 999_999, "created": 1.0, **host},
        {"t": BEGAN, "kind": "state", "state": "starting"},
        *(
            {
                "t": BEGAN, "kind": "device", "id": device, "device_kind": "nvidia", "label": f"GPU {number}",
                "name": "NVIDIA H100 80GB HBM3", "memory_total_bytes": 80 << 30, "pci_bus_id": None, "cores": [],
            }
            for number, device in enumerate(ids)
        ),
        {"t": BEGAN + 1, "kind": "worker", "rank": 0, "pid": 999_998, "created": 1.0, "devices": ids},
        {"t": BEGAN + 1.5, "kind": "state", "state": "running"},
        {"t": end + 2, "kind": "worker_exit", "rank": 0, "exit_code": 0},
        {"t": end + 2, "kind": "state", "state": "releasing"},
        {"t": end + 3, "kind": "state", "state": "finished"},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
