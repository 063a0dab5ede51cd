"""Appends its measurements to the file that the environment names, without any import of another's."""

import json
import os

with open(os.environ["TRAINYARD_METRICS"], "a", buffering=1) as file:
    for step in range(1, 21):
        file.write(json.dumps({"step": step, "loss": 1 / step}) + "\n")
        if step % 10 == 0:
            file.write(json.dumps({"step": step, "val_loss": 2 / step}) + "\n")
print("loss: 99.0 (this line would be another curve)")
