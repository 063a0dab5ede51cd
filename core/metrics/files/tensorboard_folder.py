"""Write the curves of a run into a folder for TensorBoard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import RunError
from core.language import tr
from core.metrics.files.tensorboard_writer import ScalarCurve, event_file
from core.schema.files import not_written
from core.series.report import export_file

if TYPE_CHECKING:
    from pathlib import Path

    from core.series.run_series import RunSeries

SUFFIX = ".trainyard"
"""How the names of event files end that Trainyard has written."""


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise `ValueError` with a sentence if the folder has event files, unless they may be replaced and are ours.

    TensorBoard shows all event files of one folder as one run, and would mix their curves.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(tr("{path} is a file. Name a folder for the event files.", path=folder))
    found = event_files(folder)
    if foreign := next((each for each in found if each.suffix != SUFFIX), None):
        raise ValueError(
            tr(
                "{folder} has the event file {name} of another program, and TensorBoard would mix their curves. "
                "Name another folder.",
                folder=folder,
                name=foreign.name,
            )
        )
    if found and not force:
        raise ValueError(
            tr(
                "{folder} has event files of an earlier export. Name another folder, or add --force to replace them.",
                folder=folder,
            )
        )


def event_files(folder: Path) -> list[Path]:
    """Return the event files in a folder; none if it is missing or cannot be read."""
    try:
        return sorted(each for each in folder.iterdir() if "tfevents" in each.name)
    except OSError:
        return []


def write_folder(run_series: RunSeries, folder: Path) -> list[ScalarCurve]:
    """Write all metrics as scalars, and return them. Earlier event files of Trainyard in the folder are deleted.

    Raises `RunError` with a sentence, and then leaves the folder as it was.
    """
    curves = [ScalarCurve.of(name, series) for name, series in sorted(run_series.metrics.items()) if len(series)]
    began = run_series.started or 0.0
    path = folder / f"events.out.tfevents.{int(began):010d}{SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            not_written(folder, error, if_full=tr("Free some space."), otherwise=tr("Name another folder."))
        ) from error
    with export_file(path) as file:
        file.writelines(event_file(curves, began))
    for old in event_files(folder):
        if old.suffix == SUFFIX and old != path:
            old.unlink(missing_ok=True)
    return curves
