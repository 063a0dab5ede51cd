"""Leaves a helper behind, in a session of its own and with nobody's output."""

import os
import subprocess
import sys

helper = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(3600)"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL, start_new_session=True,
)
print("helper", helper.pid)
print("step 1 loss 0.5")
os._exit(0)
