"""Export the comparison that is open: as a page, a table or a picture, or to the clipboard."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.comparison.comparison_table import text_table
from core.language import tr
from gui.controllers.runs.export_controller import KINDS, PICTURES, ExportController, picture_work
from gui.controllers.window.dock_layout import MainPanels
from gui.services import exports
from gui.services.exports import Outcome

if TYPE_CHECKING:
    from core.comparison.comparison_table import Comparison
    from gui.services.runs.comparison_reader import ComparisonReader

    from .comparison_view import ComparisonView


class ComparisonExport:
    """Writes what is shown: with the metric, the baseline, the target and the groups that the user chose."""

    def __init__(self, panels: MainPanels, export: ExportController, reader: Callable[[], ComparisonReader]) -> None:
        self._panels, self._message, self._export, self._reader = panels, panels.message, export, reader

    def export(self, name: str, target: float | None) -> None:
        """Export it as `file`, which asks for one, or to the clipboard as `markdown` or `csv`.

        `target`: the value of the metric that the table shows the time to; None for none.
        """
        comparison = self._reader().comparison
        if comparison is None:
            self._message.show_message(tr("There is no table yet."), "warn")
        elif name == "file":
            self._export.ask_kind(
                tr("Export comparison"), "comparison", tuple(KINDS), lambda path, kind: self._work(path, kind, target)
            )
        else:
            self._export.copy_table(name, text_table(comparison))

    def copy_values(self) -> None:
        """Copy the values that the plot of the metric shows."""
        view = self._panels.comparison
        if view is not None:
            self._export.copy_values(view.plot.measured(), view.plot.canvas.x_range)

    def _work(self, path: Path, kind: str, target: float | None) -> Callable[[], Outcome]:
        """Return what writes the comparison as a file of this kind on another thread."""
        view, comparison = self._panels.comparison, self._reader().comparison
        if view is None or comparison is None:  # it was closed while the dialog was open
            closed = tr("Nothing was exported, since the comparison was closed. Open it again.")
            return lambda: (closed, "warn")
        if kind in PICTURES:
            return picture_work(view, kind, path)
        if kind != ".html":
            return partial(exports.write_data, text_table(comparison).text(kind).encode(), path)
        run_dirs, choices = [run.dir for run in self._reader().runs], _choices(view, comparison, target)
        return lambda: exports.write_report(run_dirs, path, choices)


def _choices(view: ComparisonView, comparison: Comparison, target: float | None) -> list[str]:
    """Return what the comparison compares, as options of the command that writes a page."""
    baseline = comparison.rows[comparison.baseline].runs[0].dir.absolute()
    return [
        "--metric", comparison.metric, "--baseline", str(baseline),
        *([] if target is None else [f"--target={target!r}"]),
        *([] if view.plot.controls.group_box.isChecked() else ["--no-groups"]),
    ]  # fmt: skip
