"""Repeat a training from the last checkpoint before its loss ceased to be finite, to find what made that."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from core.devices.device import devices_here
from core.errors import RunError
from core.fit.probe import POLL_S
from core.history.summary import ValidationReader
from core.language import tr
from core.runs import directory
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema import checkpoint
from core.schema.event_kinds import WorkerError, read_all
from core.schema.paths import CHECKPOINTS, EVENTS, WORKLOAD_FILE, worker_events
from core.schema.spec import RunSpec
from core.system.processes import ProcessId

NOT_LOCATED = "NotFiniteError"
"""The type of the error that ends a run with “Stop on NaN”, if no layer was found before."""
CHECKED = "CheckNumerics"
"""The traceback has this word if the error comes from a check that TensorFlow adds to each operation (`finds_nan`)."""
BEYOND = 100
"""A repetition ends so many steps after the step at which the run had its first loss that was not finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstNan:
    """What made the loss of a run NaN or infinite."""

    step: int
    """The first step, from 1, whose loss was not finite."""
    checkpoint: str
    """The name of the checkpoint from which the training was repeated; empty if from the beginning."""
    found: bool
    """Whether the place is known."""
    sentence: str

    @property
    def sentences(self) -> list[str]:
        """What was done and found, in sentences."""
        since = tr("checkpoint {name}", name=self.checkpoint) if self.checkpoint else tr("the beginning")
        return [self.sentence,
                tr("The loss of the run is not finite from step {step}; the training was repeated from {since}.",
                   step=self.step, since=since)]


def spec_of_replay(run: Run) -> tuple[RunSpec, int]:
    """Return the spec that repeats the training of a run, and its first step without a finite loss.

    Raises `ValueError` with a sentence if the run cannot be repeated, or has a finite loss at every step.
    """
    spec = run.spec()
    spec.check_startable()
    if spec.script is not None:
        raise ValueError(tr("Run {id} is a script, which Trainyard cannot look into. PyTorch's own search: "
                            "torch.autograd.set_detect_anomaly(True)", id=run.id))
    if len(devices_here(spec.devices)) < len(spec.devices):
        raise ValueError(tr("Run {id} has devices of other machines. Only trainings on this machine are repeated.",
                            id=run.id))
    run.catch_up()
    losses = ValidationReader(foreign=False)
    losses.read(run.dir / EVENTS / worker_events(0))
    if not state_info(run.facts.state).over:
        raise ValueError(tr("Run {id} has not ended, and uses its devices. Stop or pause it first.", id=run.id))
    if losses.nan_step is None:
        raise ValueError(tr("The loss of run {id} is finite at every step.", id=run.id))
    training = replace(spec.training, stop_on_nan=True, compile=False)
    return replace(spec, training=training, finds_nan=True, recorded=(run.dir / WORKLOAD_FILE).exists(), sweep="",
                   time_limit_s=None), losses.nan_step


def find_first_nan(run: Run, spec: RunSpec, step: int, folder: Path) -> FirstNan:
    """Repeat the training of a run in a folder of throwaway runs; see `core.fit.probe.probes`.

    `spec`, `step`: from `spec_of_replay`. Raises `RunError` with a sentence if the repetition fails by something else,
    or cannot be started.
    """
    # The step before may have had a finite loss, and broken gradients.
    before = next((each for each in checkpoint.folders(run.dir) if _step_of(each) < step - 1), None)

    def launch(run_dir: Path) -> ProcessId | None:
        if before is not None:
            shutil.copytree(before, run_dir / CHECKPOINTS / before.name)
        if spec.recorded:
            shutil.copy(run.dir / WORKLOAD_FILE, run_dir / WORKLOAD_FILE)
        return directory.launch_supervisor(run_dir)

    repeated, errors, asked = Run.start(spec, folder, launch), list[WorkerError](), False
    while not state_info(repeated.facts.state).over:
        time.sleep(POLL_S)
        errors += read_all(WorkerError, repeated.poll())
        if not asked and repeated.facts.step > step + BEYOND:
            repeated.request("stop")
            asked = True
    # Of several ranks, the first that knows the place: the others have lost it.
    error = min(errors, key=lambda each: (not _is_located(each), each.time), default=None)
    name = "" if before is None else before.name
    if error is None and repeated.facts.state in {RunState.FINISHED, RunState.STOPPED}:
        said = tr("The loss stayed finite when the training was repeated, so what made it is not known.")
    elif error is not None and error.type_name == NOT_LOCATED:
        said = tr("No layer made it: the outputs and gradients of all layers were finite.")
    elif error is not None and _is_located(error):
        return FirstNan(step=step, checkpoint=name, found=True, sentence=tr(error.message))
    else:
        said = tr(repeated.facts.error or state_info(repeated.facts.state).sentence)
        raise RunError(tr("The training could not be repeated. {error}", error=said))
    return FirstNan(step=step, checkpoint=name, found=False, sentence=said)


def _is_located(error: WorkerError) -> bool:
    return error.type_name == "FirstNotFiniteError" or CHECKED in (error.traceback or "")


def _step_of(folder: Path) -> int:
    try:
        return checkpoint.read(folder).step
    except ValueError:  # damaged
        return 1 << 62
