"""Find the run that a command names, all runs, or the devices of this machine; the exit codes of runs."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from core.cli.shared.output import confirm, is_interactive
from core.devices.device import Survey, devices_here
from core.devices.nvidia.preflight import TIMEOUT_S
from core.devices.sampler import Sampler
from core.history import index
from core.history.summary import RunSummary
from core.language import tr, tr_noop
from core.runs.facts import RunState
from core.runs.foreign import execution_warning
from core.runs.run import Run
from core.schema.spec import RunSpec
from core.text import replace_control_characters

EXIT_CODES = {
    RunState.FINISHED: 0, RunState.FAILED: 1, RunState.STOPPED: 3, RunState.PAUSED: 3, RunState.LOST: 4,
    RunState.HEAD_LOST: 4,
}  # fmt: skip
"""Exit code of a command that followed a run to this state."""

RUN = tr_noop(
    "name of the run or of its folder, the beginning of the folder's name, or a path; `trainyard runs` lists them"
)
"""What names a run, as help for an argument."""


def survey(names: Collection[str] = ()) -> Survey:
    """Return the devices of this machine and their readings, and the devices of hosts that are among `names`.

    Raises `ValueError` or `RunError` with a sentence for a host that cannot be asked.
    """
    with Sampler() as sampler:
        found = sampler.survey(TIMEOUT_S)
    if len(devices_here(names)) == len(names):
        return found
    from core.hosts.inquiry import devices_of  # only where there are hosts

    return replace(found, devices=(*found.devices, *devices_of(names)))


def find(options: Namespace, name: str | None = None) -> Run:
    """Return the run of this name; None: the run that `options.run` names.

    Raises `RunError` or `ValueError` with a sentence.
    """
    found = Run.attach(index.find(options.runs, options.run if name is None else name))
    found.spec()  # raises for a spec of a newer version
    return found


def all_runs(root: Path) -> list[RunSummary]:
    """Return the summaries of all runs, newest first. If that takes long, a terminal shows how many are read."""
    if not sys.stderr.isatty():
        return index.all_runs(root)

    def show(done: int, every: int) -> None:
        text = tr("{done} of {total} runs read", done=done, total=every)
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()

    try:
        return index.all_runs(root, show)
    finally:
        sys.stderr.write("\r\033[K")


def check_owner(options: Namespace, what: str, owner: str | None, spec: RunSpec) -> None:
    """Ask before what another user's run or preset names is executed. Raises `ValueError` unless that is agreed to.

    `what`: such as `Run NAME`. `owner`: the other user; None for one's own.
    """
    if owner is None or options.yes:
        return
    warning = tr(
        "{what} belongs to {owner}. {execution_warning}",
        what=replace_control_characters(what),
        owner=owner,
        execution_warning=execution_warning(owner, spec),
    )
    if options.json or not is_interactive():
        raise ValueError(
            tr("{warning}\nNothing was done: there is no terminal to ask on. Add --yes if you agree.", warning=warning)
        )
    if not confirm(tr("{warning}\nExecute it?", warning=warning)):
        raise ValueError(tr("Nothing was done."))
