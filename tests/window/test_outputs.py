"""The tab Outputs: files that functions of a recipe have written."""

import os
import shutil
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QColor, QDesktopServices, QGuiApplication, QImage

from core.schema.paths import OUTPUTS
from gui.features.run import outputs as output_reader
from gui.features.run.outputs import preview
from gui.window.panels import OUTPUTS_TAB
from tests.support.recorded import recorded
from tests.support.tables import cell, cells, middle
from tests.window.driving import choose_in_menu


def painted(path: Path, width: int, height: int = 40) -> None:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor("red"))
    assert image.save(str(path))


@pytest.fixture
def opened(monkeypatch):
    """What was opened in the programs of the desktop."""
    urls: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url) or True)
    return urls


def names(tab) -> list[str]:
    return [row[0] for row in cells(tab.table)]


@pytest.mark.slow
def test_files_are_listed_shown_and_opened(assemble, runs_root, opened, monkeypatch):
    run_dir = recorded(runs_root)
    bare = Path(shutil.copytree(run_dir, run_dir.with_name("20250615-150000-digits_mlp-0002")))
    folder = run_dir / OUTPUTS / "samples"
    folder.mkdir(parents=True)
    painted(folder / "<b>1.png", 600)
    (folder / "words.txt").write_text("hello")
    (folder / "link.png").symlink_to(folder / "<b>1.png")
    for at, name in enumerate(["words.txt", "<b>1.png"]):
        os.utime(folder / name, (at, at))
    panel = assemble("run", "outputs", "export")
    details = panel.window.panels.details
    tab = details.outputs
    panel.until(lambda: panel.runs.count() == 2, "the runs")
    panel.window.controllers.run.attach_to(str(run_dir))
    panel.until(lambda: details.tabs.isTabVisible(OUTPUTS_TAB), "the tab")
    details.tabs.setCurrentIndex(OUTPUTS_TAB)
    assert names(tab) == ["samples/<b>1.png", "samples/words.txt"]
    assert "&lt;b&gt;1.png" in cell(tab.table, 0, 0, Qt.ItemDataRole.ToolTipRole)
    assert not tab.note.isVisible()

    panel.qtbot.mouseClick(tab.table.viewport(), Qt.MouseButton.LeftButton, pos=middle(tab.table, 0))
    panel.until(tab.picture.isVisible, "the picture")
    assert tab.picture.pixmap().toImage().pixelColor(5, 5) == QColor("red")
    panel.qtbot.mouseClick(tab.table.viewport(), Qt.MouseButton.LeftButton, pos=middle(tab.table, 1))
    panel.qtbot.mouseDClick(tab.table.viewport(), Qt.MouseButton.LeftButton, pos=middle(tab.table, 1))
    assert opened == [QUrl.fromLocalFile(str(folder / "words.txt"))]
    assert not tab.picture.isVisible()
    choose_in_menu(tab.table, "Open folder", middle(tab.table, 1))
    assert opened[1:] == [QUrl.fromLocalFile(str(folder))]

    panel.window.controllers.run.attach_to(str(bare))
    panel.until(lambda: not details.tabs.isTabVisible(OUTPUTS_TAB), "the tab to be hidden")
    assert details.currentIndex() != OUTPUTS_TAB

    panel.window.controllers.run.attach_to(str(run_dir))
    panel.until(lambda: len(names(tab)) == 2, "the files")
    monkeypatch.setattr(panel.window.services.session.run, "owner", "mallory")
    tab.table.selectRow(0)
    panel.qtbot.keyClick(tab.table, Qt.Key.Key_Return)
    assert len(opened) == 2
    assert "was not opened, since the run belongs to mallory" in panel.message("messageStrip")
    assert not tab.picture.isVisible()


@pytest.mark.slow
def test_the_table_is_copied_and_saved(assemble, runs_root, tmp_path):
    run_dir = recorded(runs_root)
    (run_dir / OUTPUTS).mkdir()
    (run_dir / OUTPUTS / "=words.txt").write_text("hello")
    panel = assemble("run", "outputs", "export")
    panel.open_run()
    table = panel.window.panels.details.outputs.table
    panel.until(lambda: table.rows, "the file")
    choose_in_menu(table, "Copy table as Markdown")
    assert QGuiApplication.clipboard().text().startswith("| File | Size | Time |\n| --- | --- | --- |\n| =words.txt | ")
    assert panel.message("messageStrip") == "Copied the table: 1 row."
    choose_in_menu(table, "Save table…")
    assert Path(panel.export_dialog().selectedFiles()[0]).name == "outputs.csv"
    assert f"Wrote {tmp_path / 'outputs.csv'}." in panel.exported(tmp_path / "outputs.csv")
    assert (tmp_path / "outputs.csv").read_text().startswith("file,size_bytes,modified\n'=words.txt,5,")


def test_files_of_a_live_run_appear(assemble, runs_root, monkeypatch):
    monkeypatch.setattr(output_reader, "PERIOD_S", 0.0)
    run_dir = recorded(runs_root)
    panel = assemble("run", "outputs", "export")
    monkeypatch.setattr(type(panel.window.services.session), "live", True)
    panel.open_run()
    (run_dir / OUTPUTS).mkdir()
    (run_dir / OUTPUTS / "first.txt").touch()
    tab = panel.window.panels.details.outputs
    panel.until(lambda: names(tab) == ["first.txt"], "the first file")
    tab.table.selectRow(0)
    (run_dir / OUTPUTS / "second.txt").touch()
    panel.until(lambda: len(names(tab)) == 2, "the second file")
    assert tab.table.chosen().name == "first.txt"
    shutil.rmtree(run_dir / OUTPUTS)
    panel.until(lambda: not names(tab), "no file")
    assert tab.table.chosen() is None


def test_only_real_pictures_are_read(tmp_path, monkeypatch):
    painted(tmp_path / "good.png", 40)
    painted(tmp_path / "large.png", 1200)
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "link.png").symlink_to(tmp_path / "good.png")
    good, large = preview(tmp_path / "good.png"), preview(tmp_path / "large.png")
    assert good.width() == 40
    assert large.width() == output_reader.PREVIEW_PX
    assert preview(tmp_path / "bad.png") is None
    (tmp_path / "grey.pgm").write_bytes(b"P5 3 2 255\n" + bytes(6))  # as the recipe `digits_gan` writes it
    grey = preview(tmp_path / "grey.pgm")
    assert (grey.width(), grey.height()) == (3, 2)
    with pytest.raises(OSError, match="link"):
        preview(tmp_path / "link.png")
    monkeypatch.setattr(output_reader, "MAX_SIDE", 100)
    assert preview(tmp_path / "large.png") is None
