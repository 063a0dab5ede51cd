"""The states of a run, what each means to users, and the transitions between them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from core.language import tr_noop


class RunState(Enum):
    """The values are what event logs and `--json` carry."""

    CREATED = "created"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    RELEASING = "releasing"
    FINISHED = "finished"
    STOPPED = "stopped"
    PAUSED = "paused"
    FAILED = "failed"
    LOST = "lost"
    HEAD_LOST = "head_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """What a state means to users, and what they can do in it."""

    state: RunState
    label: str
    sentence: str
    colour: str
    """A role of the theme: `accent`, `good`, `warn`, `bad` or `muted`."""
    can_stop: bool = False
    can_force: bool = False
    forcing: str = ""
    """A sentence on what forcing does; empty where nothing can be forced."""
    can_pause: bool = False
    """Whether a pause can be requested; before training begins it is answered as soon as it does."""
    can_save: bool = False
    can_resume: bool = False
    over: bool = False
    waits: bool = False
    """Whether it waits in the queue: it has neither processes that train nor devices."""

    @property
    def live(self) -> bool:
        """Whether a supervisor has the run, or is about to."""
        return not self.over and not self.waits


STATES = (
    StateInfo(state=RunState.CREATED, label=tr_noop("Created"), colour="muted", can_stop=True,
             sentence=tr_noop("The run is saved and about to start.")),
    StateInfo(state=RunState.QUEUED, label=tr_noop("Queued"), colour="muted", can_stop=True, waits=True,
             sentence=tr_noop("The run waits in the queue until its devices are free.")),
    StateInfo(state=RunState.STARTING, label=tr_noop("Starting"), colour="accent", can_stop=True, can_pause=True,
             can_save=True, sentence=tr_noop("The workers are loading their framework and the recipe.")),
    StateInfo(state=RunState.RUNNING, label=tr_noop("Running"), colour="accent", can_stop=True, can_pause=True,
             can_save=True, sentence=tr_noop("Training is running.")),
    StateInfo(state=RunState.STOPPING, label=tr_noop("Stopping"), colour="warn", can_force=True,
             forcing=tr_noop("Forcing the end of the workers."),
             sentence=tr_noop("The processes were asked to stop. If they do not, they are ended.")),
    StateInfo(state=RunState.RELEASING, label=tr_noop("Freeing memory"), colour="warn", can_force=True,
             forcing=tr_noop("Not waiting any longer for the devices' memory."),
             sentence=tr_noop("Training has ended. The devices are watched until their memory is back.")),
    StateInfo(state=RunState.FINISHED, label=tr_noop("Finished"), colour="good", over=True,
             sentence=tr_noop("Training was completed.")),
    StateInfo(state=RunState.STOPPED, label=tr_noop("Stopped"), colour="warn", over=True, can_resume=True,
             sentence=tr_noop("Training was stopped on request.")),
    StateInfo(state=RunState.PAUSED, label=tr_noop("Paused"), colour="warn", over=True, can_resume=True,
             sentence=tr_noop("Training was saved and its devices are free. Resume continues from there.")),
    StateInfo(state=RunState.FAILED, label=tr_noop("Failed"), colour="bad", over=True, can_resume=True,
             sentence=tr_noop("Training ended with an error.")),
    StateInfo(state=RunState.LOST, label=tr_noop("Lost"), colour="bad", over=True, can_resume=True,
             sentence=tr_noop("The background process of this run disappeared (killed, or the machine went down).")),
    StateInfo(state=RunState.HEAD_LOST, label=tr_noop("Head lost"), colour="bad", over=True,
             sentence=tr_noop("The machine that has this run was lost, so the part of it here was ended. Resume it "
                              "there. This part can be removed.")),
)  # fmt: skip

TRANSITIONS = frozenset({
    (RunState.CREATED, RunState.STARTING),
    (RunState.STARTING, RunState.RUNNING),
    (RunState.STARTING, RunState.STOPPING),
    (RunState.STARTING, RunState.RELEASING),
    (RunState.RUNNING, RunState.STOPPING),
    (RunState.RUNNING, RunState.RELEASING),
    (RunState.STOPPING, RunState.RELEASING),
    (RunState.RELEASING, RunState.FINISHED),
    (RunState.RELEASING, RunState.STOPPED),
    (RunState.RELEASING, RunState.PAUSED),
    (RunState.RELEASING, RunState.FAILED),
    # The part of a run of another machine that was lost.
    (RunState.STARTING, RunState.HEAD_LOST),
    (RunState.RELEASING, RunState.HEAD_LOST),
    # A run whose workers could not be started has nothing to release.
    (RunState.CREATED, RunState.FAILED),
    (RunState.STARTING, RunState.FAILED),
    # Queued. A run that is stopped while it waits, or whose turn never comes, ends without having started.
    (RunState.CREATED, RunState.QUEUED),
    (RunState.QUEUED, RunState.STARTING),
    (RunState.QUEUED, RunState.STOPPED),
    (RunState.QUEUED, RunState.FAILED),
    (RunState.LOST, RunState.QUEUED),
    (RunState.STOPPED, RunState.QUEUED),  # by the shutdown of a machine
    # Resumed.
    (RunState.PAUSED, RunState.STARTING),
    (RunState.STOPPED, RunState.STARTING),
    (RunState.FAILED, RunState.STARTING),
    (RunState.LOST, RunState.STARTING),
})  # fmt: skip
"""Every transition that an event file may hold. Readers conclude LOST; it is never written."""

_ROWS = {row.state: row for row in STATES}


def state_info(state: RunState) -> StateInfo:
    """Return the row of a state."""
    return _ROWS[state]
