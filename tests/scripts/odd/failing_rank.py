"""Rank 0 ends well, the other does not."""

import os

print("step 1 loss 0.5", flush=True)
if os.environ["RANK"] != "0":
    raise RuntimeError("the data of this rank are missing")
