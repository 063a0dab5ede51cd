#!/bin/sh
# Says whether `make run` installs the builds that use NVIDIA GPUs: prints 1 or 0.
#     nvidia_driver.sh [ROOT]
# 1 where an NVIDIA driver is present: its module is loaded, or the loader knows its library (containers, WSL).
# The variable CUDA (1 or 0) overrides. ROOT stands before /proc: tests name another.
case "${CUDA:-}" in
0 | 1) echo "$CUDA" && exit ;;
esac

# What toolkits put in the loader's way for building (stubs) or for newer programs (compat) is no driver.
libraries() { PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | grep -F libcuda.so.1 | grep -v -e /stubs/ -e /compat/; }

if [ -e "${1:-}/proc/driver/nvidia/version" ] || [ -n "$(libraries)" ]; then echo 1; else echo 0; fi
