"""A run whose curves were imported, in the window: it is shown, and it is not started."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QScrollArea

from core.cli import __main__
from tests.support.recorded_events import PYTORCH


def test_an_imported_run_is_shown_and_refuses_to_start(assemble, runs_root, tmp_path, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events.out.tfevents.1700000000.host.1").write_bytes(PYTORCH)
    assert __main__.main(["import", "--runs", str(runs_root), str(tmp_path / "logs")]) == 0
    driver = assemble("run", "start", "history")
    driver.until(lambda: driver.runs.count() == 1, "the run")
    (run_dir,) = runs_root.iterdir()
    driver.window.controllers.run.attach_to(str(run_dir))
    session = driver.window.services.session
    driver.until(lambda: session.run_series is not None and "val_loss" in session.run_series.metrics, "its curves")
    menu = driver.window.panels.header.again.run_menu
    before = sorted(runs_root.iterdir())
    for action in ("again", "edit", "copy", "keep"):
        menu.action(action).trigger()
        assert f"Run logs was imported from {tmp_path / 'logs'}: " in driver.message("messageStrip")
    assert sorted(runs_root.iterdir()) == before
    view = driver.window.findChild(QScrollArea, "settingsView")
    driver.open_tab("Settings")
    texts = [label.text() for label in view.findChildren(QLabel)]
    assert {"Imported from", str(tmp_path / "logs"), str(run_dir)} <= set(texts)
    assert not any("trainyard run" in text for text in texts)
