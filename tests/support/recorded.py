"""Write directories of finished runs as a supervisor would, without training, to be shown in a window."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.schema.spec import write_spec
from tests.support.running import make_spec

GB = 2**30
BEGAN = 1_750_000_000.0
TRAINED_S = 60
ENDED = BEGAN + TRAINED_S


def finding(device: str = "cpu:0", verdict: str = "released", **known: Any) -> dict[str, Any]:
    """Return the fields of a release event."""
    usual = {
        "before_bytes": 0, "peak_bytes": 2 * GB, "after_bytes": 0, "seconds": 1.2,
        "sentence": "All memory is back.", "holders": [],
    }
    return {"device": device, "verdict": verdict, **usual, **known}


def recorded(
    runs_root: Path, *, findings: Sequence[dict[str, Any]] = (), more: Sequence[dict[str, Any]] = (),
    last: str = "finished", devices: str = "cpu:0",
) -> Path:
    """Write a run of one minute whose memory was watched for five seconds. Return its folder."""
    run_dir = runs_root / "20250615-150000-digits_mlp-0001"
    (run_dir / "events").mkdir(parents=True)
    write_spec(run_dir, make_spec("digits_mlp", devices=devices))
    events: list[dict[str, Any]] = [
        {"t": BEGAN, "kind": "supervisor", "pid": 1, "created": 0.0},
        {"t": BEGAN, "kind": "state", "state": "starting"},
        *(
            {"t": BEGAN, "kind": "device", "id": each, "device_kind": "cpu", "label": each.upper().replace(":", " ")}
            for each in devices.split(",")
        ),
        {"t": BEGAN + 1, "kind": "state", "state": "running"},
        {"t": ENDED, "kind": "state", "state": "releasing"},
        *({"t": ENDED + 1, "kind": "release", **each} for each in findings),
        *({"t": ENDED + 1, **each} for each in more),
    ]
    if last:
        events.append({"t": ENDED + 5, "kind": "state", "state": last})
    samples = [
        {"t": BEGAN + second, "kind": "sample", "device": each, "utilisation_percent": 90.0 * (second < TRAINED_S),
         "memory_used_bytes": 2 * GB * (second <= TRAINED_S)}
        for second in range(TRAINED_S + 5)
        for each in devices.split(",")
    ]
    losses = [
        {"t": BEGAN, "kind": "plan", "epochs": 1, "steps_per_epoch": 50, "samples_per_epoch": 3200},
        *(
            {"t": BEGAN + step, "kind": "metrics", "first": step, "values": {"loss": [1 / step]}}
            for step in range(1, 51)
        ),
    ]
    for name, lines in (("supervisor", events), ("devices", samples), ("worker-0", losses)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (run_dir / "events" / f"{name}.jsonl").write_text(text)
    (run_dir / "log.txt").write_text("")
    return run_dir
