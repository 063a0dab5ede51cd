"""What to do about a driver that fails, where nothing better is known: the one sentence of all that ask it."""

from __future__ import annotations

KERNEL_LOG = "Look into the kernel's log (dmesg) for NVRM and Xid; a reboot often helps."
