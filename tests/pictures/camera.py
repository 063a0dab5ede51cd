"""Open the window in the states of `scenes` and write pictures. Run as a process of its own: `take` does that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from core.runs.facts import state_info
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtWidgets import QApplication

    from gui.window.main_window import MainWindow

    from .machine import Machine
    from .references import Shot

SUFFIX = ".bmp"
"""Pictures are not compressed: they are read again at once, and then reduced."""
ROOT = Path(__file__).parents[2]


def take(shots: Sequence[Shot], folder: Path) -> None:
    """Write these pictures, whole, into a folder. Takes about a second of one core for each state.

    No limit of time: each wait in the other process has its own.
    """
    from .machine import environment

    for scale, language in sorted({(shot.scale, shot.language) for shot in shots}):
        work = folder / f"work-{scale}-{language}"
        mine = [shot.name for shot in shots if (shot.scale, shot.language) == (scale, language)]
        command = [sys.executable, "-m", "tests.pictures.camera", str(folder), str(work), json.dumps(mine)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(work, scale, language),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr


def main() -> None:
    """Take the pictures of one scale."""
    from PySide6.QtWidgets import QApplication

    from .machine import Machine
    from .references import Shot

    folder, work = Path(sys.argv[1]), Path(sys.argv[2])
    shots = [Shot.named(name) for name in json.loads(sys.argv[3])]
    time.tzset()
    app = QApplication(["trainyard"])
    app.setCursorFlashTime(0)
    machine = Machine(work)
    for name, group in groupby(sorted(shots, key=lambda shot: shot.scene), lambda shot: shot.scene):
        _take_scene(app, machine, name, list(group), folder, work)
    sys.stdout.flush()
    os._exit(0)  # no thread of a window is waited for


def _take_scene(app: QApplication, machine: Machine, name: str, shots: list[Shot], folder: Path, work: Path) -> None:
    from PySide6.QtCore import QEvent

    from gui.app import create_window
    from gui.base import theme
    from gui.base.settings_file import SettingsFile

    from .scenes import SCENES

    scene = next(scene for scene in SCENES if scene.name == name)
    root = work / name / "runs"
    root.mkdir(parents=True)
    os.environ["TRAINYARD_CONFIG_DIR"] = str(work / name / "config")
    scene.prepare(root, machine)
    theme.apply(app, theme.DARK)  # before the window has widgets, which would all be styled again
    SettingsFile().first_time("window/check_offered")  # the offer is there once, and not in the middle of each picture
    window = create_window(root)
    window.services.poll_timer.stop()  # polled by hand from here on
    window.show()
    _settle(app, window)
    scene.act(window)
    _settle(app, window)
    for shot in sorted(shots, key=lambda shot: shot.theme):
        theme.apply(app, {"dark": theme.DARK, "light": theme.LIGHT}[shot.theme])
        window.resize(*shot.size)
        app.processEvents()
        scene.act(window)  # again: a tab is scrolled to what it is about
        _settle(app, window)
        _draw(app, window)
        assert window.size().toTuple() == shot.size, f"{shot.name}: {window.size()}"
        assert window.grab().save(str(folder / f"{shot.name}{SUFFIX}")), shot.name
    window.close()
    window.deleteLater()
    app.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # else every further theme is applied to it, too


def _settle(app: QApplication, window: MainWindow) -> None:
    """Go on until nothing is under way any more: checks, descriptions of processes, reading. Nothing is drawn."""
    deadline = time.monotonic() + PATIENCE_S
    window.setUpdatesEnabled(False)
    quiet = 0
    while quiet < 3:
        assert time.monotonic() < deadline, "the window does not come to rest"
        window.services.run_list.poll(now=True)
        window.poll()
        app.processEvents()
        quiet = 0 if _is_busy(window) else quiet + 1
        time.sleep(0.04)


def _draw(app: QApplication, window: MainWindow) -> None:
    """Draw the window with its newest readings."""
    window.setUpdatesEnabled(True)
    window.controllers.devices.show()
    window.controllers.start.take_readings()
    seen = [plot for plot in window.panels.plots.plots.values() if plot.isVisible()]
    for plot in seen:
        plot.invalidate()  # the plots of a live run take in new readings only every few seconds
    for plot in seen:
        plot.redraw()
    window.panels.plots.cards._drawn = ()  # likewise
    window.panels.plots.cards.redraw()
    app.processEvents()


def _is_busy(window: MainWindow) -> bool:
    from gui.base.jobs import Jobs

    services, start = window.services, window.controllers.start
    index, log = services.run_list._index, window.panels.details.log.view
    return (
        any(state_info(each.state).over and each.dir.name in index._live for each in services.run_list.summaries)
        or services.run_list.left > 0 or log._loading.isActive() or log.follow()
        or start.current_check is None or services.session.opening is not None or window.panels.plots._turns.busy
        or start._debounce.isActive() or any(jobs.busy for jobs in window.findChildren(Jobs))
    )


if __name__ == "__main__":
    main()
