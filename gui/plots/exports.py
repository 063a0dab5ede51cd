"""Write what a user exports, on another thread. Each function returns a sentence about it and the sentence's tone."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from core import language
from core.errors import RunError
from core.history.summary import RunSummary
from core.language import tr, tr_noop, tr_plural
from core.launchers.export_model import export_model
from core.scaling.scaling_report import scaling_report
from core.series.report import export_bytes, export_runs
from core.system.helper_process import HelperProcess, clean_environment
from core.system.own_processes import own_command
from gui.base.jobs import reason

if TYPE_CHECKING:
    from core.scaling.scaling_table import ScalingTable


Outcome = tuple[str, str]
KINDS = {
    ".csv": tr_noop("CSV table (*.csv)"), ".md": tr_noop("Markdown table (*.md)"),
    ".html": tr_noop("HTML page (*.html)"), ".png": tr_noop("PNG picture (*.png)"),
    ".svg": tr_noop("SVG drawing (*.svg)"),
}  # fmt: skip
"""Kinds of files by their suffixes, as a dialog offers them."""
PICTURES = (".png", ".svg")


def write_csv(run_dir: Path, path: Path) -> Outcome:
    """Write every step of every metric of a run as CSV."""
    document, said = _by_command("export", [run_dir], "--csv", path, "--force", "--json")
    written = tr("Wrote {count} values to {path}.", count=json.loads(document)["rows"], path=path)
    return f"{written} {said}".rstrip(), "warn" if said else "good"


def write_tensorboard(run_dirs: Sequence[Path], path: Path) -> Outcome:
    """Write every step of every metric of runs as event files of TensorBoard; of several, each in its own folder."""
    # Without --force, as the dialog asks about files and not about folders.
    document, said = _by_command("export", run_dirs, "--tensorboard", path, "--json")
    count = sum(run["values"] for run in json.loads(document)["runs"])
    written = tr("Wrote {count} values to {path}.", count=count, path=path)
    return f"{written} {said}".rstrip(), "warn" if said else "good"


def write_report(run_dirs: Sequence[Path], path: Path, choices: Sequence[str] = ()) -> Outcome:
    """Write a page about runs. `choices`: options of the command, such as what a comparison compares."""
    # Without --json, so that the report speaks the language of the window.
    said = _by_command("report", run_dirs, "--output", path, "--force", *choices)[1]
    return f"{tr('Wrote {path}.', path=path)} {said}".rstrip(), "warn" if said else "good"


def _by_command(command: str, run_dirs: Sequence[Path], option: str, path: Path, *more: str) -> tuple[bytes, str]:
    """Run a command that writes the file, so that the window goes on drawing while it works.

    Returns its standard output, and its standard error as a sentence. Raises `RunError` with that sentence if it fails.
    """
    words = own_command(
        "core.cli", command, *(str(each.absolute()) for each in run_dirs), option, str(path.absolute()), *more
    )
    environment = {**clean_environment(), "LANGUAGE": language.current()}
    with HelperProcess(words, environment=environment, stderr=subprocess.PIPE) as process:
        process.wait()
        failed = process.exit_code() != 0
    lines = process.errors.decode(errors="replace").splitlines()
    said = " ".join(line.removeprefix("trainyard: ") for line in lines)  # with --json it is English
    if failed:
        raise RunError(said or tr("{path} could not be written.", path=path))
    return bytes(process.output), said


def write_table(summaries: Sequence[RunSummary], path: Path) -> Outcome:
    """Write a line for each run; as Markdown if the name ends with `.md`, else as CSV."""
    export_runs(summaries, path)
    return tr_plural("Wrote {count} run to {path}.", "Wrote {count} runs to {path}.", len(summaries), path=path), "good"


def write_model(run_dir: Path, folder: Path, format_name: str | None) -> Outcome:
    """Write the model of the latest checkpoint of a run to a new folder."""
    done = export_model(run_dir, folder, format_name=format_name)
    return tr(
        "Wrote the model of step {step} to {folder}: {files}.",
        step=done.step,
        folder=done.folder,
        files=tr(", ").join(done.files),
    ), "good"


def write_scaling_page(table: ScalingTable, path: Path) -> Outcome:
    """Write a page about a scaling table and its runs."""
    return write_data(scaling_report(table, made=time.time()), path)


def write_data(data: bytes, path: Path) -> Outcome:
    """Write what is in memory."""
    export_bytes(data, path)
    return tr("Wrote {path}.", path=path), "good"


def failure(error: Exception) -> Outcome:
    """Return why nothing was written."""
    why = str(error) if isinstance(error, (RunError, ValueError)) else f"{reason(error)}."
    return tr("Nothing was exported: {reason}", reason=why), "bad"


def picture_work(widget: QWidget, kind: str, path: Path) -> Callable[[], Outcome]:
    """Draw a widget as `.png` or `.svg`, and return what writes it on another thread."""
    from gui.plots.pictures import png, png_bytes, svg

    if kind == ".svg":
        drawing = svg(widget)
        return lambda: write_data(drawing, path)
    image = png(widget)
    return lambda: write_data(png_bytes(image), path)
