"""Three buttons for a first run, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QWidget

from core.language import tr, tr_noop
from gui.machine.device_rows import free_devices
from gui.widgets.buttons import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.layouts import grid
from gui.widgets.plain_text import PlainLabel

if TYPE_CHECKING:
    from gui.features.setup.start import StartController


EXAMPLE = "digits_cnn"
"""The workload for a first run: its data are included and it trains in seconds."""
FIRST_STEPS = {
    "firstTickButton": (tr_noop("Tick the free devices"), tr_noop("Choose where to train; nothing uses them.")),
    "firstExampleButton": (tr_noop("Train {example}"), tr_noop("Train a small example network in seconds.")),
    "firstScriptButton": (tr_noop("Open a script…"), tr_noop("Train a program of your own, unchanged.")),
}
"""By name, the text of a button and what it does. `{example}` stands for `EXAMPLE`."""


class FirstSteps(QWidget):
    """A heading, and the buttons with their sentences. Hidden until there is a heading."""

    asked = Signal(str)
    """The name of a button that was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("firstSteps")
        self._heading = PlainLabel(name="firstStepsHeading", role="heading")
        self._layout = grid(self, gap=12, line_gap=4)
        self._layout.addWidget(self._heading, 0, 0, 1, 2)
        for line, (name, (text, sentence)) in enumerate(FIRST_STEPS.items(), 1):
            button = compact_button(name, tr(text, example=EXAMPLE))
            button.setAccessibleDescription(tr(sentence))
            button.clicked.connect(lambda _, name=name: self.asked.emit(name))
            self._layout.addWidget(button, line, 0)
            self._layout.addWidget(ElidedLabel(tr(sentence), role="muted"), line, 1)
        self.hide()

    def show_heading(self, heading: str) -> None:
        """Show the guidance below a heading; the empty string hides it."""
        self._heading.setText(heading)
        self.setAccessibleName(heading)
        self.setVisible(bool(heading))

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size in which all sentences are whole."""
        return self._layout.sizeHint()


class FirstStepsController:
    """`RunController` decides when the guidance is shown."""

    def __init__(self, start: StartController) -> None:
        self._panels, self._start = start.panels, start
        start.panels.first_steps.asked.connect(self._do)

    def _do(self, name: str) -> None:
        devices = self._panels.devices
        match name:
            case "firstTickButton":
                devices.chosen.tick_only(free_devices(devices.chosen.rows_of()))
            case "firstExampleButton":
                self._train_example()
            case "firstScriptButton":
                self._panels.menu.action("openScript").trigger()

    def _train_example(self) -> None:
        """Start the example on the ticked devices, or on the first free one."""
        chosen, setup = self._panels.devices.chosen, self._panels.setup
        if not chosen.ticked:
            chosen.tick_only(free_devices(chosen.rows_of())[:1])
        setup.choose_built_in(EXAMPLE)
        self._start.check(setup.choices())
        self._start.start()
