#!/bin/sh
# Checks that Qt finds the system libraries it draws with. Installs them where that may be done
# without asking (root, with apt-get); elsewhere says in one sentence which packages to install.
#     qt_libraries.sh PYTHON
set -u
packages="libegl1 libgl1 libxkbcommon0 libxkbcommon-x11-0 libfontconfig1 libdbus-1-3 libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0"
check() {
    QT_QPA_PLATFORM=offscreen "$1" -c 'from PySide6.QtWidgets import QApplication; QApplication([])' 2>&1
}

problem=$(check "$1") && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing the system libraries of Qt: $packages fonts-dejavu-core" >&2
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $packages fonts-dejavu-core; } >/dev/null 2>&1
    problem=$(check "$1") && exit 0
fi
echo "Qt lacks a system library ($(echo "$problem" | tail -n 1)): install its packages (Debian, Ubuntu: apt install $packages) and try again." >&2
exit 2
