"""Rank 0 ends well, and then the other does not."""

import os
import time
from pathlib import Path

done = Path("rank-0-is-done")
print("step 1 loss 0.5", flush=True)
if os.environ["RANK"] == "0":
    done.touch()
else:
    while not done.exists():
        time.sleep(0.01)
    raise RuntimeError("the data of this rank are missing")
