"""A progress bar of tqdm with the loss behind it."""

import time

from tqdm import tqdm

for epoch in range(2):
    bar = tqdm(range(50), desc=f"Epoch {epoch}", mininterval=0)
    for step in bar:
        time.sleep(0.002)
        bar.set_postfix(loss=f"{1 / (1 + epoch * 50 + step):.6f}")
