"""Forks a child that outlives the training, and prints after it."""

import os
import time

if os.fork() == 0:
    time.sleep(3600)
print("step 1 loss 0.5")
