"""The user's choice whether runs of this machine use direct access between GPUs (peer-to-peer).

On some machines it gives wrong sums or hangs, although the driver allows it: `trainyard check` compares values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from core.language import tr, tr_noop
from core.schema.files import parse_json, read_whole
from core.system.folders import config_folder, save_in_config_folder

FILE = "p2p.json"
MAX_BYTES = 4096
VARIABLES = {"NCCL_P2P_DISABLE": "1"}
"""What switches it off for NCCL, and so for the sums of PyTorch, TensorFlow and JAX."""
IS_OFF = tr_noop("NCCL_P2P_DISABLE=1 is set for runs on this machine. To use direct access between GPUs again: "
                 "trainyard check --p2p on")


def is_off() -> bool:
    """Return whether the user has switched it off. A damaged file counts as no choice."""
    try:
        found = parse_json(read_whole(config_folder() / FILE, MAX_BYTES, follow_link=True))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("p2p") == "off"


def switch(*, on: bool) -> str:
    """Keep the choice for runs that start from now on, and return what it means. Raises `RunError`."""
    save_in_config_folder(FILE, json.dumps({"p2p": "on" if on else "off"}))
    return tr("Runs that start from now on use direct access between GPUs.") if on else tr(IS_OFF)


def variables(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the choice for a run on GPUs, without those that `base` has."""
    return {name: value for name, value in VARIABLES.items() if name not in base} if is_off() else {}
