"""A classifier of Ultralytics on generated pictures."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from ultralytics import YOLO

rng = np.random.default_rng(0)
for part in ("train", "val"):
    for name in ("dark", "light"):
        folder = Path("pictures", part, name)
        folder.mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 128, (32, 32, 3)) + (128 if name == "light" else 0)
            Image.fromarray(pixels.astype("uint8")).save(folder / f"{number}.png")
YOLO("yolo11n-cls.yaml").train(
    data=str(Path("pictures").absolute()), epochs=3, imgsz=32, batch=8, workers=0, device="cpu",
    project=str(Path("out").absolute()), plots=False, optimizer="SGD", lr0=0.01, warmup_epochs=0, amp=False,
)
(table,) = Path("out").glob("*/results.csv")
with table.open(newline="") as file:
    rows = [{name.strip(): value for name, value in row.items()} for row in csv.DictReader(file)]
Path(sys.argv[1]).write_text(
    json.dumps(
        {
            ours: {row["epoch"]: float(row[theirs]) for row in rows}
            for ours, theirs in {"loss": "train/loss", "val_loss": "val/loss"}.items()
        }
    )
)
