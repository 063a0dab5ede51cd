"""What can be done with a run: by name of the action, why not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.runs.states import state_info

if TYPE_CHECKING:
    from core.runs.index import RunSummary

NO_RUN = "No run is shown. Select one in the list."
ACTIONS = ("folder", "path", "rename", "again", "edit", "copy", "keep", "csv", "model", "remove")


def obstacles(summary: RunSummary | None) -> dict[str, str]:
    """Return for each action why it is impossible for this run: a sentence, or the empty string."""
    if summary is None:
        return dict.fromkeys(ACTIONS, NO_RUN)
    state = state_info(summary.state)
    belongs = f"This run belongs to {summary.owner}" if summary.owner else ""
    others = belongs and f"{belongs}, who alone can do this."
    is_root = os.geteuid() == 0  # which may remove any run
    remove = "" if state.over else f"This run is {state.label.lower()}. Press Stop first."
    return {
        **dict.fromkeys(ACTIONS, ""),
        "rename": others,
        "model": "A script saves its model itself; look for it where the script writes." if summary.is_script else "",
        "remove": remove or ("" if is_root else others),
    }
