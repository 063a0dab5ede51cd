"""The user's choice whether runs of this machine use direct access between GPUs (peer-to-peer).

On some machines it gives wrong sums or hangs, although the driver allows it: `trainyard check` compares values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from core.language import tr, tr_noop
from core.system.folders import config_folder, save_in_config_folder, writing

FILE = "p2p-off"
"""In the folder of settings: there if the user has switched it off."""
VARIABLES = {"NCCL_P2P_DISABLE": "1"}
"""What switches it off for NCCL, and so for the sums of PyTorch, TensorFlow and JAX."""
IS_OFF = tr_noop("NCCL_P2P_DISABLE=1 is set for runs on this machine. To use direct access between GPUs again: "
                 "trainyard check --p2p on")


def is_off() -> bool:
    """Return whether the user has switched it off."""
    return (config_folder() / FILE).exists()


def switch(*, on: bool) -> str:
    """Keep the choice for runs that start from now on, and return what it means. Raises `RunError`."""
    if not on:
        save_in_config_folder(FILE, "")
        return tr(IS_OFF)
    with writing(path := config_folder() / FILE, tr("Check its permissions.")):
        path.unlink(missing_ok=True)
    return tr("Runs that start from now on use direct access between GPUs.")


def variables(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the choice for a run on GPUs, without those that `base` has."""
    return {name: value for name, value in VARIABLES.items() if name not in base} if is_off() else {}
