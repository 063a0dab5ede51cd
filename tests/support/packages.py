"""What some tests need of the system: packages, and shared memory. As a command, install the missing packages.

python -m tests.support.packages
"""

import collections
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from gui.app import PACKAGES as QT_PACKAGES

ROOT = Path(__file__).resolve().parents[2]
NEEDS = "needs the package "
"""How the reason begins for which a test is skipped without its package."""


def program(*names: str) -> Callable[[], bool]:
    """Return a function that says whether one of these programs is installed."""
    return lambda: any(map(path_of, names))


def path_of(name: str) -> str | None:
    """Return the path of a program, or None. Servers are in folders that only root's path has."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")


@cache
def _qt_opens_on_a_screen() -> bool:
    check = [sys.executable, "-c", "import sys; from gui.app import missing_library; sys.exit(missing_library())"]
    return not subprocess.run(check, cwd=ROOT, capture_output=True, check=False).returncode


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package of Debian and Ubuntu, or several that are needed together."""

    names: str
    is_there: Callable[[], bool]
    """Whether what it provides is there, whichever package that came from."""


needs_shared_memory = pytest.mark.skipif(
    not os.access("/dev/shm", os.W_OK), reason="needs /dev/shm, where data-loader workers keep what they share"
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FONT = Path("/usr/share/fonts/truetype/wqy/wqy-microhei.ttc")
WINDOW_MANAGER = (
    Package(names="xvfb", is_there=program("Xvfb")),
    Package(names="openbox", is_there=program("openbox")),
    Package(names="x11-utils", is_there=program("xprop")),
    Package(names="x11-xserver-utils", is_there=program("xrandr")),
    Package(names=QT_PACKAGES, is_there=_qt_opens_on_a_screen),
)
COMPILER = Package(names="gcc libc6-dev", is_there=program("cc", "gcc"))  # for the stand-in of the NVIDIA driver
SSH = Package(names="openssh-server", is_there=program("sshd"))
BROWSER = Package(names="chromium", is_there=program(*BROWSERS))
CHINESE_FONT = Package(names="fonts-wqy-microhei", is_there=FONT.is_file)
BUS = Package(names="dbus-daemon", is_there=program("dbus-daemon"))
MENU_ENTRY = Package(names="desktop-file-utils", is_there=program("desktop-file-validate"))
NETWORK = Package(names="iproute2", is_there=program("ip"))
GIT = Package(names="git", is_there=program("git"))
SECOND_USER = Package(names="uidmap", is_there=lambda: os.geteuid() == 0 or path_of("newuidmap") is not None)
PACKAGES = (*WINDOW_MANAGER, COMPILER, SSH, BROWSER, CHINESE_FONT, BUS, MENU_ENTRY, NETWORK, GIT, SECOND_USER)


def missing(*packages: Package) -> str:
    """Return the reason to skip a test that needs these packages; the empty string if all are there."""
    names = " ".join(each.names for each in packages if not each.is_there())
    return f"{NEEDS}{names}" if names else ""


def summary(reasons: Iterable[str]) -> str:
    """Return one line on the tests that were skipped because of a package; the empty string if there were none."""
    needed = [match[1] for reason in reasons if (match := re.search(f"{NEEDS}(.+)", reason))]
    counts = (f"{count} without {names.split()[0]}" for names, count in collections.Counter(needed).most_common())
    names = " ".join(dict.fromkeys(" ".join(needed).split()))
    return f"{len(needed)} tests were skipped: {', '.join(counts)}. To run them: apt install {names}" if needed else ""


def main() -> int:
    """Install what is missing. Where that is not possible, print which packages some tests will be skipped without."""
    names = " ".join(each.names for each in PACKAGES if not each.is_there()).split()
    if not names:
        return 0
    why_not = "only root can install packages, with apt-get"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing system packages that some tests need: {' '.join(names)}", flush=True)
        install = ["apt-get", "install", "-qq", "--yes", "--no-install-recommends", *names]
        for command in (["apt-get", "update", "-qq"], install):
            done = subprocess.run(
                command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True,
                check=False,
            )
        if not done.returncode:
            return 0
        why_not = (done.stderr.strip().splitlines() or [f"apt-get ended with {done.returncode}"])[-1]
    print(f"Tests that need these system packages will be skipped ({why_not}): {' '.join(names)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
