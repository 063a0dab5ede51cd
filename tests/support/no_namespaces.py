"""Run a command where the kernel allows no new network namespace: python no_namespaces.py COMMAND...

A user namespace has limits of its own, which its owner may set to 0. The refusal is the kernel's.
"""

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CANNOT = 77
"""The exit code if the command was not run, since this machine allows no user namespace either."""

if __name__ == "__main__":
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None).unshare(CLONE_NEWUSER):
        sys.exit(CANNOT)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/sys/user/max_net_namespaces").write_text("0")
    os.execv(sys.argv[1], sys.argv[1:])
