#!/bin/sh
# Checks that Qt finds the system libraries it draws with. Installs them where that may be done
# without asking (root, with apt-get); elsewhere says in one sentence which packages to install.
#     qt_libraries.sh PYTHON [window]
# With `window`, those of a real window on X11 too: tests draw offscreen and do without.
set -u
check() {
    QT_QPA_PLATFORM=offscreen "$1" -c 'from PySide6.QtWidgets import QApplication; QApplication([])' 2>&1 || return 1
    [ "${2:-}" != window ] || "$1" -m gui.display_check 2>&1
}

problem=$(check "$@") && exit 0
packages=$("$1" -c 'from gui.display_check import PACKAGES; print(PACKAGES)')
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing the system libraries of Qt: $packages fonts-dejavu-core" >&2
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $packages fonts-dejavu-core; } >/dev/null 2>&1
    problem=$(check "$@") && exit 0
fi
echo "Qt lacks a system library ($(echo "$problem" | tail -n 1)): install its packages (Debian, Ubuntu: apt install $packages) and try again." >&2
exit 2
