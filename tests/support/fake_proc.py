"""A folder that looks like `/proc`, with the processes that a test wants."""

import os
from collections.abc import Sequence
from pathlib import Path

from core.system.processes import TAG
from core.system.procfs import TICKS_PER_S


def add_process(
    proc: Path, pid: int, *, name: str = "python", uid: int | None = None, open_files: Sequence[str] = (),
    run_id: str | None = None, command: Sequence[str] = ("python", "train.py"), state: str = "S", created: float = 50.0,
    flags: int = 0,
) -> None:
    """One process, as proc(5) describes it; `created` in seconds since the machine's start."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, target in enumerate(("/dev/null", *open_files)):
        (folder / "fd" / str(number)).symlink_to(target)
    environ = ["HOME=/root", *([f"{TAG}={run_id}"] if run_id is not None else [])]
    numbers = [state, "1", "1", "1", "0", "-1", str(flags), *["0"] * 12, str(round(created * TICKS_PER_S)), *["0"] * 30]
    owner = os.getuid() if uid is None else uid
    (folder / "environ").write_bytes(b"\0".join(each.encode() for each in environ) + b"\0")
    (folder / "cmdline").write_bytes(b"\0".join(each.encode() for each in command) + b"\0" * bool(command))
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(numbers)}\n")
    (folder / "status").write_text(f"Name:\t{name}\nUmask:\t0077\nUid:\t{owner}\t{owner}\t{owner}\t{owner}\n")
    (folder / "statm").write_text("1000 500 10 1 0 10 0\n")
