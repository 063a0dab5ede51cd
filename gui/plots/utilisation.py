"""The plot of the utilisation: lines, or strips where there are many devices or hours."""

from __future__ import annotations

import math
from collections.abc import Mapping

from core.language import tr, tr_noop
from core.series.device_readings import DeviceSeries
from core.series.run_series import RunSeries
from gui.plots.card import Span
from gui.plots.devices import LINES, READOUTS_UP_TO, STRIPS, DevicePlot
from gui.plots.items.hover import HoverRow
from gui.widgets.buttons import compact_button
from gui.widgets.plain_text import named

OTHER = {LINES: STRIPS, STRIPS: LINES}
LINES_UP_TO, LINES_UP_TO_S = 4, 3600.0
"""Devices, and seconds of a run, above which strips are drawn unless the user chose lines."""
TRAINED, NOW = tr_noop("mean while training"), tr_noop("mean now")


class UtilisationPlot(DevicePlot):
    """Percent over time.

    Lines: the y axis always shows 0 to 100, so that an idle device looks idle. Strips: one row a device, with its mean
    while it trained at the right, or its newest reading while no run is shown.
    """

    quantity, unit = "utilisation", "%"

    def __init__(self, *, name: str, title: str) -> None:
        super().__init__(name=name, title=title)
        self.form_button = compact_button("stripsButton", "", role="flat", does=self._choose_other)
        self.form_button.hide()
        self.header.insertWidget(3, self.form_button)

    def format_reading(self, value: float) -> str:
        """Return `82 %`."""
        return f"{value:.0f}\u2009%"

    def choose(self, form: object) -> None:
        """Always draw `LINES` or `STRIPS`; anything else: what suits the devices and the run."""
        self.chosen = form if isinstance(form, str) and form in OTHER else None
        self.invalidate()
        self.redraw()

    def usual_form(self, run_series: RunSeries) -> str:
        """Return the form that suits the devices and the length of the run."""
        is_long = self.present or run_series.duration_s > LINES_UP_TO_S
        return STRIPS if is_long or len(self.shown(run_series)) > LINES_UP_TO else LINES

    def _choose_other(self) -> None:
        wanted = OTHER[self.form]
        usual = self.usual_form(self.run_series) if self.run_series else LINES
        self.choose(None if wanted == usual else wanted)

    def _values_beside(self, shown: Mapping[str, DeviceSeries]) -> dict[str, float | None]:
        """Return the mean of each device while it trained; of the present readings, the newest ones."""
        if self.present:
            return super()._values_beside(shown)
        return {device: series.mean_within(self._shown.trained) for device, series in shown.items()}

    def _set_form(self, form: str) -> None:
        super()._set_form(form)
        self.form_button.show()
        text = tr("Strips") if form == LINES else tr("Lines")
        if text != self.form_button.text():
            self.form_button.setText(text)
            tip = tr("Draw one strip for each device") if form == LINES else tr("Draw one line for each device")
            named(self.form_button, spoken=tip, tip=tip)

    def _show_empty(self) -> None:
        self.form_button.hide()
        super()._show_empty()

    def readout(self) -> list[HoverRow]:
        """Return the newest values, or the means while the run trained."""
        is_live = self._shown.training_ended is None
        mean_words = tr(TRAINED) if self._shown.metrics or is_live else tr("mean")  # it is not known when it trained
        if self.form == LINES and is_live:
            return super().readout()
        if self.form == LINES:  # the newest readings are those of idle devices
            shown = self.shown(self._shown)
            if len(shown) > READOUTS_UP_TO:
                return []
            means = self._values_beside(shown)
            return [HoverRow(label=mean_words), *(self._row(device, mean) for device, mean in means.items())]
        found = [mean for mean in self._beside.values() if mean is not None and math.isfinite(mean)]
        mean = self.said("", sum(found) / len(found) if found else None)
        return [HoverRow(label=tr(NOW) if self.present else mean_words, value=mean)]

    def _line_span(self) -> Span:
        return -2.0, 104.0  # so that a line at 0 or at 100 is fully visible
