"""What can be done with a run, or with several: a row for each action, from which all menus are made.

Controllers say what an action does, and how it stands with a run: `RunActions.provide` and `RunActions.judge`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from core.history.summary import RunSummary
from core.language import tr, tr_noop, tr_plural
from core.runs.facts import state_info
from core.runs.requests import UNANSWERED
from core.schema.paths import SCALING_SUFFIX, SET, TRACE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAction:
    """How menus show an action. A line separates the sections."""

    name: str
    section: str
    text: str = ""
    """The empty string: there is no such action for one run."""
    tip: str = ""
    of_several: tuple[str, str] | None = None
    """Text and explanation of the action for several runs; None if there is none."""
    key: str = ""
    """The key in the menu of the shown run; the menu of another run has none."""
    of_queued: bool = False
    """Whether only a queued run has it."""
    of_tables: bool = False
    """Whether a scaling table has it, too."""


ACTIONS = (
    RunAction(
        name="up", section="queue", of_queued=True, text=tr_noop("Move up in the queue"),
        tip=tr_noop("Let it start before the run above it"),
    ),
    RunAction(
        name="down", section="queue", of_queued=True, text=tr_noop("Move down in the queue"),
        tip=tr_noop("Let the run below it start first"),
    ),
    RunAction(
        name="hold", section="queue", of_queued=True, text=tr_noop("Hold"),
        tip=tr_noop("Keep it from starting until it is released"),
        of_several=(tr_noop("Hold or release"), tr_noop("Keep those that wait from starting, or release all")),
    ),
    RunAction(
        name="startNow", section="queue", of_queued=True, text=tr_noop("Start now…"),
        tip=tr_noop("Start it beside the runs that use its devices"),
    ),
    RunAction(
        name="unqueue", section="queue", of_queued=True, text=tr_noop("Remove from the queue…"),
        tip=tr_noop("End it without having started it"),
        of_several=(tr_noop("Remove from the queue…"), tr_noop("End those that wait without having started them")),
    ),
    RunAction(
        name="folder", section="name", text=tr_noop("Open folder"), tip=tr_noop("Show its folder in the file manager"),
    ),
    RunAction(
        name="path", section="name", of_tables=True, text=tr_noop("Copy path"),
        tip=tr_noop("Copy the path of its folder"),
    ),
    RunAction(
        name="rename", section="name", key="F2", text=tr_noop("Rename…"),
        tip=tr_noop("Give it another name; its folder keeps its own"),
    ),
    RunAction(
        name="doctor", section="live", text=tr_noop("Why does it hang?"),
        tip=tr_noop("Say where each worker is, and which of them holds the others up. It trains on meanwhile"),
    ),
    RunAction(
        name="set", section="live", text=tr_noop("Change settings…"),
        tip=tr_noop("Other epochs, learning rate or checkpoints for the rest of the training"),
    ),
    RunAction(
        name="finish", section="live", text=tr_noop("Finish after this epoch"),
        tip=tr_noop("End the training after the current epoch, with its results"),
    ),
    RunAction(
        name="trace", section="live", text=tr_noop("Trace 20 steps"),
        tip=tr_noop("Record what rank 0 does in its next steps, for Perfetto. It trains on"),
    ),
    RunAction(
        name="star", section="marks", text=tr_noop("Star"),
        tip=tr_noop("Mark it, or take the mark away; star:yes finds it"),
    ),
    RunAction(
        name="compare", section="marks",
        of_several=(tr_noop("Compare"), tr_noop("Show their curves in one plot, and what differs between them")),
    ),
    RunAction(
        name="tags", section="marks", text=tr_noop("Tags…"), tip=tr_noop("Give it words by which it is found"),
        of_several=(tr_noop("Tags…"), tr_noop("Give them words by which they are found, or take them away")),
    ),
    RunAction(
        name="note", section="marks", text=tr_noop("Add note…"),
        tip=tr_noop("Keep a note in its folder; show lists the notes"),
    ),
    RunAction(
        name="archive", section="marks", text=tr_noop("Archive"),
        tip=tr_noop("Leave it out of the list, or list it again; nothing is deleted"),
        of_several=(tr_noop("Archive"), tr_noop("Leave them out of the list; nothing is deleted")),
    ),
    RunAction(
        name="list", section="marks",
        of_several=(tr_noop("Unarchive"), tr_noop("List them again if they are archived")),
    ),
    RunAction(
        name="again", section="settings", text=tr_noop("Run again"),
        tip=tr_noop("Start a new run with the same settings and devices"),
    ),
    RunAction(
        name="resumeOn", section="settings", text=tr_noop("Resume on ticked devices…"),
        tip=tr_noop("Continue from its last checkpoint on the devices that are ticked, of any number"),
    ),
    RunAction(
        name="edit", section="settings", text=tr_noop("Duplicate and edit"),
        tip=tr_noop("Copy its settings into the training card and tick its devices"),
    ),
    RunAction(
        name="copy", section="settings", text=tr_noop("Copy as command"),
        tip=tr_noop("Copy the shell command that starts the same run"),
    ),
    RunAction(
        name="keep", section="settings", text=tr_noop("Save as preset…"), tip=tr_noop("Save its settings under a name"),
    ),
    RunAction(
        name="csv", section="exports", key="Ctrl+E", text=tr_noop("Export measurements…"),
        tip=tr_noop("Write every step of every metric to a CSV file"),
    ),
    RunAction(
        name="tensorboard", section="exports", text=tr_noop("Export for TensorBoard…"),
        tip=tr_noop("Write every step of every metric as an event file"),
        of_several=(
            tr_noop("Export for TensorBoard…"), tr_noop("Write every step of every metric as event files"),
        ),
    ),
    RunAction(
        name="report", section="exports", of_tables=True, text=tr_noop("Export report…"),
        tip=tr_noop("Write curves, settings, environment and events to an HTML file"),
        of_several=(
            tr_noop("Export report…"), tr_noop("Write one page with their curves, settings and what differs (HTML)"),
        ),
    ),
    RunAction(
        name="model", section="exports", text=tr_noop("Export model…"),
        tip=tr_noop("Write the model of its latest checkpoint to a folder"),
    ),
    RunAction(
        name="remove", section="removal", of_tables=True, text=tr_noop("Delete…"),
        tip=tr_noop("Delete its folder, after a question; only if the run has ended"),
        of_several=(
            tr_noop("Delete…"), tr_noop("Delete their folders, after a question; only of runs that have ended"),
        ),
    ),
)
"""In the order of the menus."""
NO_RUN = tr_noop("No run is shown. Select one in the list.")
MAX_REASONS = 5
"""Runs of which it is said why something could not be done with them."""


@dataclass(slots=True)
class ActionState:
    """How an action stands with one run."""

    text: str
    why_not: str = ""
    """Why it cannot be done now: a sentence, or the empty string."""
    shown: bool = True


class RunActions:
    """What the controllers do with runs. A menu asks here, and does not know them."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, bool], Callable[[Sequence[str]], object]] = {}
        self._judges: list[Callable[[str, Mapping[str, ActionState]], None]] = []

    def provide(self, *, tables: bool = False, **handlers: Callable[[Sequence[str]], object]) -> None:
        """Set what is done with the folders of runs, or with the file of a scaling table, by the names of actions."""
        self._handlers |= {(name, tables): handler for name, handler in handlers.items()}

    def judge(self, judge: Callable[[str, Mapping[str, ActionState]], None]) -> None:
        """Let this change the states of the actions of a run, which are given by its folder."""
        self._judges.append(judge)

    def do(self, name: str, run_dirs: Sequence[str]) -> None:
        """Do something with these runs, which may be none by now, or with this scaling table."""
        self._handlers[name, any(map(is_table, run_dirs))](run_dirs)

    def states(self, run_dir: str) -> dict[str, ActionState]:
        """Return how the actions of a run stand, by their names; the empty string for no run."""
        none = "" if run_dir else tr(NO_RUN)
        states = {
            row.name: ActionState(tr(row.text), why_not=none, shown=not row.of_queued) for row in ACTIONS if row.text
        }
        for judge in self._judges if run_dir else ():
            judge(run_dir, states)
        return states


def is_table(run_dir: str) -> bool:
    """Return whether a row of the list is a scaling table, and no run."""
    return run_dir.endswith(SCALING_SUFFIX)


def table_obstacles() -> dict[str, str]:
    """Return why actions cannot be done with a scaling table, by their names."""
    why_not = tr("This row is a scaling table. Click it, and choose one of its runs below.")
    return {row.name: why_not for row in ACTIONS if row.text and not row.of_queued and not row.of_tables}


def obstacles(summary: RunSummary | None) -> dict[str, str]:
    """Return for each action why it is impossible for this run: a sentence, or the empty string."""
    of_runs = [row.name for row in ACTIONS if row.text and not row.of_queued]
    if summary is None:
        return dict.fromkeys(of_runs, tr(NO_RUN))
    state = state_info(summary.state)
    others = tr("This run belongs to {owner}, who alone can do this.", owner=summary.owner) if summary.owner else ""
    remove = "" if state.over else tr("This run is {state}. Press Stop first.", state=tr(state.label).lower())
    is_root = os.geteuid() == 0  # which may look at any run, and remove it
    idle = "" if state.live else tr("Only a run that trains can be asked. This one is {state}.",
                                    state=tr(state.label).lower())
    resume = "" if state.can_resume else tr("Only a run that has ended before its last epoch can be resumed.")
    resume = tr("Trainyard cannot resume a script.") if summary.is_script else resume
    model = tr("A script saves its model itself; look for it where the script writes.") if summary.is_script else ""
    answers = "" if state.can_save else tr("Only a run that trains can be asked. This one is {state}.",
                                           state=tr(state.label).lower())
    set_, trace = (tr(UNANSWERED[name]) if summary.is_script else answers or others for name in (SET, TRACE))
    return {
        **dict.fromkeys(of_runs, ""),
        **dict.fromkeys(("rename", "star", "tags", "note", "archive"), others),
        "model": model,
        "set": set_,
        "finish": set_,
        "trace": trace,
        "resumeOn": resume or others,
        "doctor": idle or ("" if is_root else others),
        "remove": remove or ("" if is_root else others),
    }


def not_done(reasons: Mapping[str, str]) -> str:
    """Return a sentence on the runs with which something could not be done. `reasons`: by the name of the run."""
    each = [tr("{name}: {reason}", name=name, reason=reason) for name, reason in reasons.items()]
    return tr_plural(
        "{count} run was left as it was. {reasons}", "{count} runs were left as they were. {reasons}", len(each),
        reasons=" ".join(each[:MAX_REASONS]),
    )
