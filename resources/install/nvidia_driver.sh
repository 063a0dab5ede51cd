#!/bin/sh
# Print 1 if `make run` should install the builds for NVIDIA GPUs, else 0.
#     nvidia_driver.sh [ROOT]
# A driver is present if its module is loaded or the loader knows its library (containers, WSL).
# The variable CUDA (1 or 0) overrides this. ROOT is a prefix of /proc, for tests.
case "${CUDA:-}" in
0 | 1) echo "$CUDA" && exit ;;
esac

# The libraries that CUDA toolkits install for building (stubs) or for newer programs (compat) are not a driver.
libraries() { PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | grep -F libcuda.so.1 | grep -v -e /stubs/ -e /compat/; }

if [ -e "${1:-}/proc/driver/nvidia/version" ] || [ -n "$(libraries)" ]; then echo 1; else echo 0; fi
