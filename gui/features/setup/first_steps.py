"""Three buttons for a first run, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from core.language import tr
from gui.machine.device_rows import free_devices
from gui.runs.empty_states import EXAMPLE, FIRST_STEPS, FirstStep
from gui.widgets.buttons import compact_button
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import PlainLabel

if TYPE_CHECKING:
    from gui.features.setup.start import StartController


class FirstSteps(QWidget):
    """A heading, and a button with a sentence for each of `FIRST_STEPS`. Hidden until there is a heading."""

    asked = Signal(str)
    """The name of a button that was pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("firstSteps")
        self._heading = PlainLabel(name="firstStepsHeading", role="heading")
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setHorizontalSpacing(12)
        self._layout.setVerticalSpacing(4)
        self._layout.setColumnStretch(1, 1)
        self._layout.addWidget(self._heading, 0, 0, 1, 2)
        for number, step in enumerate(FIRST_STEPS):
            self._add(number + 1, step)
        self.hide()

    def show_heading(self, heading: str) -> None:
        """Show the guidance below a heading; the empty string hides it."""
        self._heading.setText(heading)
        self.setAccessibleName(heading)
        self.setVisible(bool(heading))

    def sizeHint(self) -> QSize:  # noqa: N802 (Qt's name)
        """Return the size in which all sentences are whole."""
        return self._layout.sizeHint()

    def _add(self, line: int, step: FirstStep) -> None:
        button = compact_button(step.name, tr(step.button, example=EXAMPLE))
        button.setAccessibleDescription(tr(step.sentence))
        button.clicked.connect(lambda: self.asked.emit(step.name))
        sentence = ElidedLabel(tr(step.sentence), role="muted")
        self._layout.addWidget(button, line, 0)
        self._layout.addWidget(sentence, line, 1)


class FirstStepsController:
    """`RunController` decides when the guidance is shown."""

    def __init__(self, start: StartController) -> None:
        self._panels, self._start = start.panels, start
        start.panels.first_steps.asked.connect(self._do)

    def _do(self, name: str) -> None:
        match name:
            case "firstTickButton":
                self._tick_free()
            case "firstExampleButton":
                self._train_example()
            case "firstScriptButton":
                self._panels.menu.action("openScript").trigger()

    def _tick_free(self) -> None:
        devices = self._panels.devices
        devices.tick_only(free_devices(devices.table.rows))

    def _train_example(self) -> None:
        """Start the example on the ticked devices, or on the first free one."""
        devices, setup = self._panels.devices, self._panels.setup
        if not devices.ticked():
            devices.tick_only(free_devices(devices.table.rows)[:1])
        setup.choose_built_in(EXAMPLE)
        self._start.check(setup.choices())
        self._start.start()
