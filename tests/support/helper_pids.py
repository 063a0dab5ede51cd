"""The helper processes that read devices, found as anything outside the product would find them."""

from __future__ import annotations

import psutil

from core.system.own_processes import HELPER


def helper_pids() -> list[int]:
    """The helpers that this process has started and that run now."""
    return [child.pid for child in psutil.Process().children() if _is_helper(child)]


def _is_helper(process: psutil.Process) -> bool:
    try:
        return HELPER in process.cmdline()
    except psutil.Error:  # it has ended
        return False
