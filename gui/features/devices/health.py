"""The health of a GPU in a dialog, read when it is opened; the traffic on its link when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from core.check.check import State
from core.check.gpu_health import HealthLine, look
from core.devices.device import Device
from core.language import tr
from gui.base.jobs import Jobs, sentence
from gui.widgets.dialogs import InfoDialog
from gui.widgets.plain_text import PlainLabel, named

TONES, WIDTH = {State.PROBLEM: "bad", State.COULD_NOT: "warn"}, 96
"""The colours of words, and the width in characters."""


class HealthDialog(InfoDialog):
    """Asks on a thread: a driver may take long, or hang."""

    def __init__(self, parent: QWidget, device: Device, told: str) -> None:
        """`told`: what the driver has reported of the device during a run."""
        super().__init__(parent, name="healthDialog", heading=tr("Health of {label}", label=device.label))
        self._jobs, self._look = Jobs(self, "health"), partial(look, device, told)
        self._form = self.add_form(device.name)
        tip = tr("It keeps the driver busy for some 20 ms a way, so it is not measured all the time.")
        measure = partial(self._ask, traffic=True)
        self._button = self.add_button("trafficButton", tr("Measure PCIe traffic"), measure, tip)
        self.resize(self.characters(WIDTH), 0)
        self._show([("", State.PASS, tr("Asking the driver…"))])
        self._ask(traffic=False)

    def _ask(self, *, traffic: bool) -> None:
        self._button.setEnabled(False)
        self._jobs.add(partial(self._look, traffic=traffic), self._show,
                       lambda error: self._show([("", State.COULD_NOT, sentence(error))]))

    def _show(self, lines: Sequence[HealthLine]) -> None:
        while self._form.rowCount() > 1:
            self._form.removeRow(1)
        for title, state, words in lines:
            label = named(PlainLabel(words, wraps=True, selectable=True), tone=TONES.get(state, "text"))
            self._form.addRow(self.row_label(title), label)
        self._button.setEnabled(True)
        QTimer.singleShot(0, self, self._fit_screen)  # Qt shows new labels later, and only then knows their height
