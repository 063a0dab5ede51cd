"""Compare the ticked runs, and export the comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from PySide6.QtCore import QTimer

from core.language import join_sentences, tr, tr_noop
from core.results.comparison import text_table
from core.results.curves import AXES, axis_of
from core.results.measured_run import reasons
from gui.base.jobs import Jobs, reason
from gui.base.theme import current_theme, look
from gui.base.timers import StepQueue
from gui.features.compare.rows import (
    bands_notice,
    comparison_rows,
    empty_words,
    hidden_notice,
    progress_words,
    why_text,
)
from gui.plots import exports
from gui.plots.exports import KINDS, PICTURES, Outcome, picture_work
from gui.window.feature import Feature

if TYPE_CHECKING:
    from core.results.comparison import Comparison
    from gui.features.compare.reader import ComparisonReader, Entry
    from gui.features.compare.view import ComparisonView


READING_S, REST_SHARE = 0.3, 10.0
"""Seconds between two drawings while runs are read, and how many times as long as a drawing they are at least: drawing
holds up the reading."""
TICK_MS = 100
"""Milliseconds between two looks at what was read, while the view is open."""


TOO_MANY = tr_noop("A comparison shows {limit} runs at most. The first {limit} of the {count} ticked runs are shown.")


class ComparisonController(Feature):
    """The view and its reader are made when they are first needed: most windows never compare."""

    def set_up(self) -> None:
        panels = self.panels
        self._reader: ComparisonReader | None = None
        self._baseline: str | None = None
        self._target: float | None = None
        self._entries: tuple[Entry, ...] = ()
        self._hidden: set[Hashable] = set()
        """The first run of each row whose line is hidden."""
        self._unlisted: set[str] = set()
        """Compared runs that are not in the list now."""
        self._is_closing = False
        self._draw_again_at = self._began = 0.0
        self._drawing = StepQueue(self)
        self._is_outdated = False
        """Whether other runs are there than those that are shown."""
        self._why = Jobs(self, "why-differ")
        self._why_of: tuple[object, ...] = ()
        """The runs whose differences are shown."""
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self.draw)
        runs = panels.runs
        panels.actions.provide(compare=lambda _: self.compare(runs.ticked))
        runs.choice_changed.connect(self._follow_choice)
        runs.rows_changed.connect(self._tick_again)
        for left in (panels.machine.clicked, runs.chosen):
            left.connect(lambda _: self.close())
        panels.menu.provide(compare=self._open_or_explain, exportComparison=lambda: self._export("file"))
        panels.menu.file.aboutToShow.connect(self._allow_export)
        look.changed.connect(self._show_colours)

    @property
    def is_open(self) -> bool:
        """Whether the view is shown."""
        return bool(self.services.compared.value)

    @property
    def reader(self) -> ComparisonReader:
        """The reader of the runs, made when it is first asked for."""
        if self._reader is None:
            from gui.features.compare.reader import ComparisonReader

            self._reader = ComparisonReader()
            self._reader.setParent(self)
            self._reader.changed.connect(self._note_change)
            self._reader.table_changed.connect(self._show_table)
        return self._reader

    def compare(self, run_dirs: Sequence[str]) -> None:
        """Compare these runs, also if the list does not show them."""
        if not self.panels.plots.plots or len(run_dirs) < 2:
            return
        view = self._view()
        was_open = self.is_open
        self._choose(run_dirs)
        self._unlisted = set(run_dirs) - self.panels.runs.listed
        if not was_open:
            self.panels.scroll.show_instead(view)
            self.panels.machine.show_chosen(chosen=False)
            self.panels.runs.keeps_ticks = True
            self._timer.start()
        self.draw()

    def close(self) -> bool:
        """Show the plots again, and untick the runs; return whether the view was open."""
        if not self.is_open:
            return False
        if self._view().isAncestorOf(self.panels.window.focusWidget()):
            self.panels.runs.setFocus()  # Qt would move it to any control
        self._is_closing = True
        self._timer.stop()
        self._drawing.stop()
        self.reader.go_on()
        self.panels.scroll.show_instead(None)
        self.reader.close()
        self._view().clear()
        self._entries, self._why_of = (), ()
        self._hidden.clear()
        self.panels.runs.keeps_ticks = False
        self.panels.runs.show_colours({})
        if self.panels.runs.has_several:
            self.panels.runs.tick(())
        run = self.services.session.run
        self.panels.runs.mark_chosen(run.dir if run is not None else None)
        self.panels.machine.show_chosen(chosen=run is None)
        self._is_closing = False
        self.services.compared.set(())
        return True

    leave = close

    def end(self) -> None:
        """End the comparison: nothing is read any more."""
        self.close()

    def carry(self, former: Self) -> None:
        """Compare the same runs, and tick those that are listed: a search may list one of them, and the shown run."""
        compared = former.services.compared.value
        if compared:
            self.panels.runs.tick(compared)
        self.compare(compared)

    def draw(self) -> None:
        """Take in what was read, and draw in steps."""
        self.reader.hold()  # until all is drawn: two threads of Python hold up each other
        self.reader.poll()
        view = self.panels.comparison
        if view is None or not self.is_open:
            self.reader.go_on()
            return
        view.plot.set_note(progress_words(len(self.reader.chosen), self.reader.waiting))
        if self._drawing.busy:
            return
        if self.reader.waiting and time.monotonic() < self._draw_again_at:
            self.reader.go_on()
            return
        self._began = time.monotonic()
        first = [self._show_runs] if self._is_outdated else []
        # The table is begun a turn later, when the last plot is painted.
        steps = (*(plot.redraw for plot in view.plots), self._end_drawing, self.reader.make_table)
        self._drawing.start([*first, *steps])

    def _end_drawing(self) -> None:
        """Let other threads work again: they would hold up a drawing."""
        now = time.monotonic()
        self._draw_again_at = now + READING_S + REST_SHARE * (now - self._began)
        self.reader.go_on()

    def _note_change(self) -> None:
        """Show other runs at once; while runs are read, with the next drawing."""
        self._is_outdated = True
        if not self.reader.waiting:
            self._show_runs()

    # -- the view --------------------------------------------------------------------------------

    def _show_colours(self) -> None:
        """Show the compared runs in the colours of the theme."""
        if self.is_open:
            self._show_runs()
            self._show_table()

    def _view(self) -> ComparisonView:
        panels = self.panels
        if panels.comparison is None:
            from gui.features.compare.view import ComparisonView

            view = panels.comparison = ComparisonView()
            view.plot.controls.restore(panels.comparison_choices)
            view.plot.controls.changed.connect(self._apply_controls)
            view.close_button.clicked.connect(self.close)
            view.picture_asked.connect(lambda plot: self.panels.exporter.save_picture(plot, plot.objectName()))
            copy = panels.exporter.copy_values
            view.values_asked.connect(lambda: copy(view.plot.measured(), view.plot.canvas.x_range))
            view.card.table.chosen_changed.connect(lambda: self._select_row(view.card.table.chosen_number()))
            view.card.baseline_chosen.connect(self._choose_baseline)
            view.card.line_toggled.connect(self._toggle_line)
            view.card.target_chosen.connect(self._choose_target)
            view.card.why_button.toggled.connect(lambda _: self._explain())
            view.card.export_asked.connect(self._export)
        return panels.comparison

    def _open_or_explain(self) -> None:
        if len(self.panels.runs.ticked) < 2:
            how = tr("Tick two or more runs in the list: with their boxes, or with Ctrl or Shift and a click.")
            self.panels.message.show_message(how, "warn")
        self.compare(self.panels.runs.ticked)

    def _follow_choice(self) -> None:
        """Compare the runs that are ticked now, and those that left the list: a search hides them, or they vanished."""
        if not self.is_open or self._is_closing:
            return
        runs = self.panels.runs
        ticked, listed = runs.ticked, runs.listed
        self._unlisted = {str(each) for each in self.reader.chosen} - listed
        wanted = [str(each) for each in self.reader.chosen if str(each) in {*ticked, *self._unlisted}]
        wanted += [each for each in ticked if each not in wanted]
        if len(wanted) < 2:
            self.close()
        else:
            self._choose(wanted)

    def _tick_again(self) -> None:
        """Tick compared runs that are in the list again."""
        if self.is_open and self._unlisted & self.panels.runs.listed:
            self.panels.runs.tick([str(each) for each in self.reader.chosen])

    def _choose(self, run_dirs: Sequence[str]) -> None:
        self._draw_again_at = 0.0
        self.reader.choose([Path(each) for each in run_dirs])
        count = len(self.reader.chosen)
        if len(run_dirs) > count:
            self.panels.message.show_message(tr(TOO_MANY, limit=count, count=len(run_dirs)), "warn")
        self._view().show_count(count)
        self.services.compared.set(tuple(map(str, self.reader.chosen)))

    def _apply_controls(self) -> None:
        plot = self._view().plot
        self.panels.comparison_choices = plot.controls.remember()
        self._show_runs()
        plot.invalidate()
        plot.redraw()

    def _show_runs(self) -> None:
        """Show the runs that are read, and how many are not."""
        from gui.features.compare.plots import origin_of
        from gui.features.compare.reader import entries_of, metrics_of, usual_metric

        view, reader = self.panels.comparison, self._reader
        self._is_outdated = False
        if view is None or reader is None or not reader.chosen:
            return
        runs, controls = reader.runs, view.plot.controls
        numbers = reader.colours.of(reader.chosen)
        colours = {each: current_theme().device_colour(number) for each, number in numbers.items()}
        metrics = metrics_of(runs)
        if controls.has_other_metrics(metrics):
            controls.offer_metrics(metrics, usual_metric(runs, metrics))
        grouped = controls.group_box.isChecked()
        self._entries = entries_of(runs, colours, time.time(), grouped=grouped)
        is_group = len({run.measured.settings.group for run in runs}) < len(runs)
        controls.show_groups(possible=is_group)
        metric = controls.metric_name
        controls.offer_axes([name for name in AXES if any(axis_of(run.measured, name, metric) for run in runs)])
        origin = origin_of(runs) if controls.axis == "wall" else 0.0
        seen = [entry for entry in self._entries if entry.runs[0].dir not in self._hidden]
        view.show_entries(seen, axis_name=controls.axis, origin=origin, metric=metric, version=reader.version)
        hidden = bool(self._entries) and not seen
        view.plot.show_empty_words(empty_words(waiting=bool(reader.waiting), metric=metric, hidden=hidden))
        if not metrics and not reader.waiting:
            view.card.show_problem(empty_words(waiting=False, metric=""))
        own = {str(run_dir): colour for run_dir, colour in colours.items()}
        of_entries = {str(run.dir): entry.colour for entry in self._entries for run in entry.runs}
        self.panels.runs.show_colours({**own, **of_entries})
        self._choose_table()
        self._show_notices()

    # -- the table -------------------------------------------------------------------------------

    def _choose_table(self) -> None:
        view = self.panels.comparison
        if view is not None and view.plot.controls.metric_name:
            metric, grouped = view.plot.controls.metric_name, view.plot.controls.group_box.isChecked()
            self.reader.choose_table(metric=metric, baseline=self._baseline, target=self._target, grouped=grouped)

    def _show_table(self) -> None:
        view, comparison = self.panels.comparison, self.reader.comparison
        if view is None:
            return
        if comparison is None:
            view.card.show_problem(self.reader.table_problem)
        elif (entries := self._entries_of(comparison)) is not None:
            view.card.show_table(entries, comparison_rows(comparison), self._hidden)
        self._show_notices()
        self._explain()

    def _entries_of(self, comparison: Comparison) -> list[Entry] | None:
        """Return the entries of the rows of a table; None if other runs are shown meanwhile."""
        found = {entry.runs[0].dir: entry for entry in self._entries}
        entries = [found.get(row.runs[0].dir) for row in comparison.rows]
        return None if None in entries else [entry for entry in entries if entry is not None]

    def _show_notices(self) -> None:
        view = self.panels.comparison
        if view is not None:
            from gui.features.compare.metric_plot import BOLD_UP_TO

            comparison = self.reader.comparison
            names = {run.dir: entry.name for entry in self._entries for run in entry.runs}
            notices = [*self.reader.problems.values()]
            if comparison is not None:
                notices += comparison.notices_with(lambda row: names.get(row.runs[0].dir, row.runs[0].id))
            notices += bands_notice(view.plot.hidden_bands, BOLD_UP_TO)
            notices += hidden_notice(len(self._entries) - len(view.plot.entries))
            view.card.notices.show_text(join_sentences(notices))

    def _choose_baseline(self, row: int) -> None:
        comparison = self.reader.comparison
        if comparison is not None and row < len(comparison.rows):
            self._baseline = comparison.rows[row].runs[0].id
            self._choose_table()

    def _toggle_line(self, row: int) -> None:
        """Hide the line of a row of the table in the plots, or show it again."""
        self._hidden ^= {self._view().card.table.rows[row].key}
        self._show_colours()

    def _select_row(self, row: int) -> None:
        """Make the line of a row of the table stand out."""
        view, comparison = self.panels.comparison, self.reader.comparison
        if view is not None and comparison is not None and row < len(comparison.rows):
            entries = self._entries_of(comparison) or []
            view.plot.select(entries[row].name if 0 <= row < len(entries) else None)
            self._show_notices()

    def _choose_target(self, target: float | None) -> None:
        self._target = target
        self._choose_table()

    def _explain(self) -> None:
        """Have it found out why the selected row, or the first other one, differs from the baseline."""
        view, comparison = self.panels.comparison, self.reader.comparison
        if view is None or comparison is None or not view.card.why_button.isChecked() or len(comparison.rows) < 2:
            return
        chosen = view.card.table.chosen_number()
        rows = [(at, row.runs[0]) for at, row in enumerate(comparison.rows) if at != comparison.baseline]
        first = comparison.rows[comparison.baseline].runs[0]
        others = [run for at, run in rows if at == chosen] or [run for _, run in rows]
        of = (first.id, *(run.id for run in others))
        if of == self._why_of:
            return

        def work() -> list[str]:
            return [line for run in others for line in [*why_text(first.id, run.id, reasons(first, run)), ""]]

        def show(lines: list[str]) -> None:
            if of == self._why_of:
                view.card.show_why(lines)

        self._why_of = of
        view.card.show_why([tr("Comparing settings, packages and texts …")])
        problem = tr_noop("The runs could not be compared: {reason}.")
        self._why.replace(work, show, lambda error: show([tr(problem, reason=reason(error))]))

    # -- export: with the metric, the baseline, the target and the groups that the user chose ------

    def _export(self, name: str) -> None:
        """Export it as `file`, which asks for one, or to the clipboard as `markdown` or `csv`."""
        comparison, exporter = self.reader.comparison, self.panels.exporter
        if comparison is None:
            self.panels.message.show_message(tr("There is no table yet."), "warn")
        elif name == "file":
            exporter.ask_kind(tr("Export comparison"), "comparison", tuple(KINDS), self._export_work)
        else:
            exporter.copy_table(name, text_table(comparison))

    def _export_work(self, path: Path, kind: str) -> Callable[[], Outcome]:
        """Return what writes the comparison as a file of this kind on another thread."""
        view, comparison, target = self.panels.comparison, self.reader.comparison, self._target
        if view is None or comparison is None:  # it was closed while the dialog was open
            closed = tr("Nothing was exported, since the comparison was closed. Open it again.")
            return lambda: (closed, "warn")
        if kind in PICTURES:
            return picture_work(view, kind, path)
        if kind != ".html":
            return partial(exports.write_data, text_table(comparison).text(kind).encode(), path)
        baseline = comparison.rows[comparison.baseline].runs[0].dir.absolute()
        choices = ["--metric", comparison.metric, "--baseline", str(baseline)]
        choices += [] if target is None else [f"--target={target!r}"]
        choices += [] if view.plot.controls.group_box.isChecked() else ["--no-groups"]
        return partial(exports.write_report, [run.dir for run in self.reader.runs], path, choices)

    def _allow_export(self) -> None:
        """Offer the export while there is a comparison with a table."""
        is_there = self.is_open and self._reader is not None and self._reader.comparison is not None
        self.panels.menu.action("exportComparison").setEnabled(is_there)
