#!/bin/sh
# Make a virtual environment.
#     environment.sh FOLDER [PYTHON [SYSTEM]]
# PYTHON: the Python that makes it; if empty, python3, or SYSTEM if that is faster. SYSTEM: /usr/bin/python3, or another.
# Distributions compile Python with profile-guided optimization. pyenv does so only when asked, and a Python without it
# is slower.
folder=$1 python=${2:-python3} system=${3:-/usr/bin/python3}

# SYSTEM may be older, or lack the module venv, or the headers with which PyTorch compiles models.
if [ -z "${2:-}" ] && slow=$("$python" -c '
import sys, sysconfig
if sys.base_prefix == "/usr" or "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")):
    sys.exit(1)
print("%d.%d.%d" % sys.version_info[:3])
' 2>/dev/null) && fast=$("$system" -c '
import ensurepip, os, sys, sysconfig, venv
if sys.version_info < (3, 11) or sys.version_info[:2] < tuple(map(int, sys.argv[1].split(".")[:2])):
    sys.exit(1)
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    sys.exit(1)
print("%d.%d.%d" % sys.version_info[:3])
' "$slow" 2>/dev/null); then
    echo "$folder is made with $system ($fast): $python ($slow) was compiled without optimizations and is slower. To use it, remove $folder and call: make PYTHON=$python ..." >&2
    python=$system
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Trainyard needs Python 3.11 or later, and $python is older or missing. Name another Python: make PYTHON=python3.12 ..." >&2
    exit 2
}
"$python" -m venv "$folder" || {
    rm -rf "$folder"
    echo "$python cannot make a virtual environment. Install its venv module (Debian, Ubuntu: apt install python3-venv)." >&2
    exit 2
}
