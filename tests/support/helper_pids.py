"""Find the helper processes that read devices."""

import psutil

from core.system.own_processes import HELPER


def helper_pids() -> list[int]:
    """Return the running helpers that this process started."""
    return [child.pid for child in psutil.Process().children() if _is_helper(child)]


def _is_helper(process: psutil.Process) -> bool:
    try:
        return HELPER in process.cmdline()
    except psutil.Error:  # it has ended
        return False
