"""Print which framework build an environment has and whether it sees GPUs: one sentence, shown by `make run`.

    python resources/install/gpu_builds.py torch
    python resources/install/gpu_builds.py tensorflow

Never fails: a build that cannot use the GPUs still trains on CPU devices, and the window still opens.
"""
# ruff: noqa: INP001 - a script, in no package

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def torch_build(torch: ModuleType) -> tuple[str, int]:
    """Return the CUDA version PyTorch was built for (or the empty string) and the number of GPUs it sees."""
    return torch.version.cuda or "", torch.cuda.device_count() if torch.cuda.is_available() else 0


def tensorflow_build(tensorflow: ModuleType) -> tuple[str, int]:
    """Return the CUDA version TensorFlow was built for (or the empty string) and the number of GPUs it sees."""
    info = tensorflow.sysconfig.get_build_info()
    return info.get("cuda_version", ""), len(tensorflow.config.list_physical_devices("GPU"))


BUILDS = {"torch": ("PyTorch", torch_build), "tensorflow": ("TensorFlow", tensorflow_build)}


def driver_is_here() -> bool:
    """Return True if an NVIDIA driver is present, regardless of the variable CUDA."""
    script = Path(__file__).with_name("nvidia_driver.sh")
    variables = {name: value for name, value in os.environ.items() if name != "CUDA"}
    done = subprocess.run(["/bin/sh", script], check=False, env=variables, capture_output=True, text=True)
    return done.stdout.strip() == "1"


def sentence(module: str) -> str:
    """Return what the installed build can do, with the remedy if it cannot use a GPU."""
    title, ask = BUILDS[module]
    where = sys.prefix
    try:
        library = importlib.import_module(module)
        cuda, gpus = ask(library)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a framework becomes the sentence
        return f"{title} in {where} does not start: {type(error).__name__}: {error}"
    build = f"{title} {library.__version__} in {where}"
    if not cuda:
        return (
            f"{build} is a build without CUDA, which pip's own settings selected. It trains on CPU devices only. "
            "docs/installing.md describes how to install another build."
        )
    if not gpus and not driver_is_here():
        return f"{build} is built for CUDA {cuda}. No NVIDIA driver was found, so it trains on CPU devices."
    if not gpus:
        return (
            f"{build} is built for CUDA {cuda} and sees no GPU: is the driver new enough for CUDA {cuda}? "
            "nvidia-smi shows the newest CUDA version that the driver supports."
        )
    return f"{build} is built for CUDA {cuda} and sees {gpus} GPU{'s' if gpus > 1 else ''}."


if __name__ == "__main__":
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hide the frameworks' own log messages; the sentence is enough
    print(sentence(sys.argv[1]))  # noqa: T201
