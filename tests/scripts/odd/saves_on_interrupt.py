"""Saves when it is interrupted, and then ends well."""

import time
from pathlib import Path

try:
    print("step 1 loss 0.5", flush=True)
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    Path("saved.txt").write_text("saved\n")
    print("saved", flush=True)
