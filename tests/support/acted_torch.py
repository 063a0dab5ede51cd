"""Stands for a Python with PyTorch that does the tasks of the check of this machine as a test wants.

    acted_torch.py GPU_PROBE TASK DEVICE TERMS

Run by an interpreter of an environment of the test. `ACTED_TORCH` names a JSON file: by task, what it `says`; `hang`
(says nothing and stays; `hang_of_rank`: that rank does), `memory` (bytes that appear on the stand-in's GPU 0 while it
lives; with a forked process, until that has ended), `kept` (they never go), `p2p` (says this only without
NCCL_P2P_DISABLE), `on` (by UUID, what else holds where that GPU is visible alone). `speed` goes on until its parent has
read enough. Each leaves a file in the folder of temporary ones.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from core.check.gpu_probe import MARK
from tests.nvml.standin import StandIn

POLL_S = 0.01


def say(answer: dict[str, object]) -> None:
    os.write(1, f"{MARK}{json.dumps(answer)}\n".encode())


def give_back_after(pid: int, standin: StandIn, **before: object) -> None:
    """Reset the stand-in when the process has ended, however that happens."""
    leaves, left = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(left, b"l")
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        while os.getppid() == pid:
            time.sleep(POLL_S)
        standin.write(gpu0=before)
        os._exit(0)
    os.read(leaves, 1)  # until then, what kills the group of this process would kill that one


def take_memory(act: dict[str, Any], wait: Callable[[], None], *, forks: bool) -> None:
    """Use memory of GPU 0; a process that is forked waits then, as that of a loader does."""
    standin = StandIn.inherited()
    pid = 1 if act.get("other_namespace") else os.getpid()
    standin.write(gpu0={"memory_used": act["memory"], "compute": f"{pid}:{act['memory']}"})
    waits, watched = os.pipe()
    if forks and (forked := os.fork()):
        act["says"]["forked"] = forked
        os.read(waits, 1)
        return
    if not act.get("kept"):
        give_back_after(os.getpid(), standin, memory_used=0, compute="")
    os.write(watched, b"w")
    if forks:
        wait()


def main() -> None:
    task, terms = sys.argv[2], json.loads(sys.argv[4])
    tempfile.mkstemp()
    acts = json.loads(Path(os.environ["ACTED_TORCH"]).read_text())
    act = acts.get(task, {})
    act |= act.get("on", {}).get(os.environ["CUDA_VISIBLE_DEVICES"], {})
    if "p2p" in act and not terms["variables"]:
        act = act["p2p"]
    read_enough = threading.Event()

    def end() -> None:
        while os.read(0, 1) and task == "speed":
            read_enough.set()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
    if act.get("hang") or act.get("hang_of_rank", -1) == terms.get("rank"):
        time.sleep(600)
    if "memory" in act:
        take_memory(act, end, forks=terms["forks"])
    say(act.get("says", {}))
    if task == "speed":
        read_enough.wait()
        say({"done": True})
    if task == "hold":
        time.sleep(600)


if __name__ == "__main__":
    main()
