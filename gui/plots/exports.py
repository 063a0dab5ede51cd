"""Write what a user exports: functions for another thread, plots as pictures and text, and the `Exporter`.

Each function returns a sentence about what it wrote, and the tone of the sentence.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QObject, QPoint, QTimer
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QFileDialog, QWidget

from core import language
from core.arrays import np
from core.errors import RunError
from core.history.summary import RunSummary
from core.language import tr, tr_noop, tr_plural
from core.launchers.export_model import export_model
from core.series.report import export_bytes, export_runs
from core.series.series import Axis, Series
from core.system.helper_process import HelperProcess, clean_environment
from core.system.own_processes import own_command
from core.table import Table
from gui.base.jobs import Jobs, sentence
from gui.widgets.dialogs import FileDialog
from gui.widgets.messages import MessageStrip
from gui.widgets.plain_text import named

Outcome = tuple[str, str]
KINDS = {
    ".csv": tr_noop("CSV table (*.csv)"), ".md": tr_noop("Markdown table (*.md)"),
    ".html": tr_noop("HTML page (*.html)"), ".png": tr_noop("PNG picture (*.png)"),
    ".svg": tr_noop("SVG drawing (*.svg)"),
}
"""Kinds of files by their suffixes, as a dialog offers them."""
PICTURES = (".png", ".svg")
SILENT_MS = 1500
"""Milliseconds of writing after which a message says that it goes on."""
TOO_MANY = tr_noop("The plot shows {count} values, too many for the clipboard. Zoom in, or export the measurements.")
BUSY = tr_noop("Another export is under way. Try again when it has ended.")


def write_csv(run_dir: Path, path: Path) -> Outcome:
    """Write every step of every metric of a run as CSV."""
    document, said = _by_command("export", [run_dir], "--csv", path, "--force", "--json")
    return _written(tr("Wrote {count} values to {path}.", count=json.loads(document)["rows"], path=path), said)


def write_tensorboard(run_dirs: Sequence[Path], path: Path) -> Outcome:
    """Write every step of every metric of runs as event files of TensorBoard; of several, each in its own folder."""
    # Without --force, as the dialog asks about files and not about folders.
    document, said = _by_command("export", run_dirs, "--tensorboard", path, "--json")
    count = sum(run["values"] for run in json.loads(document)["runs"])
    return _written(tr("Wrote {count} values to {path}.", count=count, path=path), said)


def write_report(run_dirs: Sequence[Path], path: Path, choices: Sequence[str] = ()) -> Outcome:
    """Write a page about runs. `choices`: options of the command, such as what a comparison compares."""
    # Without --json, so that the report speaks the language of the window.
    said = _by_command("report", run_dirs, "--output", path, "--force", *choices)[1]
    return _written(tr("Wrote {path}.", path=path), said)


def _written(sentence: str, said: str) -> Outcome:
    return f"{sentence} {said}".rstrip(), "warn" if said else "good"


def _by_command(command: str, run_dirs: Sequence[Path], option: str, path: Path, *more: str) -> tuple[bytes, str]:
    """Run a command that writes the file, so that the window goes on drawing while it works.

    Returns its standard output, and its standard error as a sentence. Raises `RunError` with that sentence if it fails.
    """
    runs = [str(each.absolute()) for each in run_dirs]
    words = own_command("core.cli", command, *runs, option, str(path.absolute()), *more)
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
    files = tr(", ").join(done.files)
    said = tr("Wrote the model of step {step} to {folder}: {files}.", step=done.step, folder=done.folder, files=files)
    return said, "good"


def write_data(data: bytes, path: Path) -> Outcome:
    """Write what is in memory."""
    export_bytes(data, path)
    return tr("Wrote {path}.", path=path), "good"


def failure(error: Exception) -> Outcome:
    """Return why nothing was written."""
    return tr("Nothing was exported: {reason}", reason=sentence(error)), "bad"


def picture_work(widget: QWidget, kind: str, path: Path) -> Callable[[], Outcome]:
    """Draw a widget as `.png` or `.svg`, and return what writes it on another thread."""
    if kind == ".svg":
        drawing = svg(widget)
        return lambda: write_data(drawing, path)
    image = png(widget)
    return lambda: write_data(png_bytes(image), path)


SCALE = 2
"""Dots of a PNG for each dot of the screen, so that it is sharp in print."""
MAX_ROWS = 20_000
"""Values that the clipboard gets: writing more of them would hold the window up."""
HEADING = "name\tstep\ttime\tvalue"


def png(widget: QWidget) -> QImage:
    """Return what a widget shows, with more dots than the screen has. It can be saved on another thread."""
    image = QImage(widget.size() * SCALE, QImage.Format.Format_ARGB32)
    image.setDevicePixelRatio(SCALE)
    image.fill(widget.palette().window().color())
    widget.render(image, QPoint())
    return image


def png_bytes(image: QImage) -> bytes:
    """Return a picture as the content of a PNG file."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # PySide's stub lacks devices
    buffer.close()
    return bytes(data.data())


def svg(widget: QWidget) -> bytes:
    """Return what a widget shows, as lines and text."""
    from PySide6.QtSvg import QSvgGenerator

    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(widget.size())
    generator.setViewBox(widget.rect())
    generator.setResolution(widget.logicalDpiX())
    painter = QPainter(generator)
    painter.fillRect(widget.rect(), widget.palette().window())
    widget.render(painter, QPoint())
    painter.end()
    buffer.close()
    return bytes(data.data())


def values_text(measured: Sequence[tuple[str, Series, Axis]], span: tuple[float, float]) -> tuple[str, int]:
    """Return every measurement between two positions as lines of tab-separated fields, and their number.

    `measured`: names, values and axes. Time is in unix seconds. Without the text if there are more than `MAX_ROWS`.
    """
    parts = []
    for name, series, axis in measured:
        along = axis.place(series.steps if axis.column == "step" else series.times)
        inside = np.flatnonzero((along >= span[0]) & (along <= span[1]))
        parts.append((name, series.steps[inside], series.times[inside], series.values[inside]))
    count = sum(len(steps) for _, steps, _, _ in parts)
    if count > MAX_ROWS:
        return "", count
    lines = [
        f"{name}\t{int(step)}\t{time:.3f}\t{value!r}"
        for name, *columns in parts
        for step, time, value in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return "\n".join([HEADING, *lines]) + "\n", count


class Exporter(QObject):
    """Asks for files and has them written on another thread; copies what is shown."""

    def __init__(self, message: MessageStrip) -> None:
        """`message`: where it says what was written, or why nothing was."""
        super().__init__(message)
        self._message = message
        self._jobs = Jobs(self, "export", guards=True)
        self._writing = ""
        """What to say when writing takes long."""
        self._silence = QTimer(self, singleShot=True)
        self._silence.timeout.connect(lambda: self._message.show_message(self._writing))

    def save_picture(self, widget: QWidget, name: str) -> None:
        """Ask where to save a picture of a widget. `name`: how the name of the file begins."""
        self.ask_kind(tr("Save picture"), name, PICTURES, lambda path, kind: picture_work(widget, kind, path))

    def copy_values(self, measured: Sequence[tuple[str, Series, Axis]], span: tuple[float, float]) -> None:
        """Copy the values of series, with their names and axes, between two positions."""
        text, count = values_text(measured, span)
        if text and count:
            copied = tr("Copied the values that are shown: {count} rows of name, step, time and value.", count=count)
            self._message.copy(text, copied)
        elif count:
            self._message.show_message(tr(TOO_MANY, count=count), "warn")
        else:
            self._message.show_message(tr("The plot shows no values to copy."), "warn")

    def copy_table(self, form: str, table: Table[Any]) -> None:
        """Copy a table as `markdown` or `csv`."""
        rows = len(table.rows)
        copied = tr_plural("Copied the table: {count} row.", "Copied the table: {count} rows.", rows)
        self._message.copy(table.text(form), copied)

    def ask_kind(
        self, title: str, name: str, kinds: Sequence[str], work: Callable[[Path, str], Callable[[], Outcome]]
    ) -> None:
        """Ask for a file of one of these `KINDS`, and have it written.

        `work`: called with the file and its kind in this thread; returns what another thread does.
        """

        def write(path: Path, chosen: str) -> None:
            kind = path.suffix.lower()
            if kind not in kinds:
                kind = next((each for each in kinds if tr(KINDS[each]) == chosen), kinds[0])
            self.write(work(path, kind), path)

        self.ask_where(title, f"{name}{kinds[0]}", {kind: tr(KINDS[kind]) for kind in kinds}, write)

    def ask_where(self, title: str, name: str, kinds: Mapping[str, str], chosen: Callable[[Path, str], object]) -> None:
        """Ask for a file; call `chosen` with it and the filter that is selected. `kinds`: filters by suffix."""
        suffixes = {words: kind for kind, words in kinds.items()}

        def take(path: str) -> None:
            suffix = suffixes.get(dialog.selectedNameFilter(), "")
            # Dialogs of some desktops leave the suffix out.
            chosen(Path(path if Path(path).suffix else f"{path}{suffix}"), dialog.selectedNameFilter())

        def follow(words: str) -> None:
            """Give the file the suffix of the kind that was selected."""
            suffix, before = suffixes.get(words, ""), dialog.selectedFiles()
            dialog.setDefaultSuffix(suffix)
            if before and suffix and Path(before[0]).suffix.lower() in kinds:
                dialog.selectFile(Path(before[0]).with_suffix(suffix).name)

        dialog = named(FileDialog(self._message.window(), title, take, names=";;".join(kinds.values())), "exportDialog")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setFileMode(QFileDialog.FileMode.AnyFile)
        dialog.setDefaultSuffix(next(iter(kinds)))  # so that the dialog asks before a file with it is replaced
        dialog.filterSelected.connect(follow)
        dialog.selectFile(name)
        dialog.open()

    def write(self, work: Callable[[], Outcome], path: Path, said: str = "") -> None:
        """Let another thread write something, and show what it returns, a sentence and its tone.

        `said`: what to show at once; otherwise something is shown if writing takes long.
        """
        if not self._jobs.start(work, self._report, lambda error: self._report(failure(error))):
            self._message.show_message(tr(BUSY), "warn")
        elif said:
            self._message.show_message(said, "good")
        else:
            self._writing = tr("Writing {path} …", path=path)
            self._silence.start(SILENT_MS)

    def _report(self, outcome: Outcome) -> None:
        self._silence.stop()
        self._message.show_message(*outcome)
