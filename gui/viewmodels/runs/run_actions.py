"""Why an action cannot be done with a run, by the name of the action."""

from __future__ import annotations

import os
from collections.abc import Mapping

from core.history.summary import RunSummary
from core.language import tr, tr_noop, tr_plural
from core.runs.facts.states import state_info

NO_RUN = tr_noop("No run is shown. Select one in the list.")
MAX_REASONS = 5
"""Runs of which it is said why something could not be done with them."""
ACTIONS = (
    "folder", "path", "rename", "star", "tags", "note", "archive", "again", "edit", "copy", "keep", "csv",
    "tensorboard", "report", "model", "remove",
)  # fmt: skip


def obstacles(summary: RunSummary | None) -> dict[str, str]:
    """Return for each action why it is impossible for this run: a sentence, or the empty string."""
    if summary is None:
        return dict.fromkeys(ACTIONS, tr(NO_RUN))
    state = state_info(summary.state)
    others = tr("This run belongs to {owner}, who alone can do this.", owner=summary.owner) if summary.owner else ""
    is_root = os.geteuid() == 0  # which may remove any run
    remove = "" if state.over else tr("This run is {state}. Press Stop first.", state=tr(state.label).lower())
    return {
        **dict.fromkeys(ACTIONS, ""),
        **dict.fromkeys(("rename", "star", "tags", "note", "archive"), others),
        "model": tr("A script saves its model itself; look for it where the script writes.")
        if summary.is_script
        else "",
        "remove": remove or ("" if is_root else others),
    }


def not_done(reasons: Mapping[str, str]) -> str:
    """Return a sentence on the runs with which something could not be done. `reasons`: by the name of the run."""
    each = [tr("{name}: {reason}", name=name, reason=reason) for name, reason in reasons.items()]
    return tr_plural(
        "{count} run was left as it was. {reasons}", "{count} runs were left as they were. {reasons}", len(each),
        reasons=" ".join(each[:MAX_REASONS]),
    )  # fmt: skip
