#!/bin/sh
# Check that Qt finds the system libraries it needs. As root with apt-get, install missing ones;
# otherwise print one sentence that names the packages to install.
#     qt_libraries.sh PYTHON [window]
# With `window`, also check the libraries of a real window on X11. Tests draw offscreen and do not need them.
set -u
check() {
    QT_QPA_PLATFORM=offscreen "$1" -c 'from PySide6.QtWidgets import QApplication; QApplication([])' 2>&1 || return 1
    [ "${2:-}" != window ] || "$1" -c 'import sys; from gui.app import missing_library; sys.exit(missing_library())' 2>&1
}

problem=$(check "$@") && exit 0
packages=$("$1" -c 'from gui.app import PACKAGES; print(PACKAGES)')
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing the system libraries of Qt: $packages fonts-dejavu-core" >&2
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $packages fonts-dejavu-core; } >/dev/null 2>&1
    problem=$(check "$@") && exit 0
fi
echo "Qt lacks a system library ($(echo "$problem" | tail -n 1)). Install its packages (Debian, Ubuntu: apt install $packages), then try again." >&2
exit 2
