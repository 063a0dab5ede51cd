"""Where the time of a step goes: the band below the loss, what waits for data as a metric, the verdict in the head."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextDocumentFragment
from PySide6.QtWidgets import QLabel

from core.diagnosis.step_time import PARTS
from core.series.run_series import RunSeries
from core.series.series import STEP
from gui.base.theme import DARK, LIGHT, current_theme
from gui.plots.items.strips import PART_COLOURS
from tests.support.written_runs import BEGAN, values, write_run
from tests.window.driving import show_theme
from tests.window.plotted import START, STEPS, choose, draw, resume_events

SLOW = {"data": 0.05, "forward": 0.02, "backward": 0.02}
FAST = {"forward": 0.04, "backward": 0.05, "optimizer": 0.01}


def step_time(step: int, *, rank: int = 0, seconds: float = 0.1, at: float = START + 2, **parts: float) -> dict:
    """Return the event of a step of the synthetic run, of which there are ten in a second."""
    when = at + step / 10
    return {"t": when, "kind": "step_time", "rank": rank, "step": step, "seconds": seconds, "arrived": when, **parts}


def words(plot) -> str:
    """Return the words below the band."""
    return " ".join(QTextDocumentFragment.fromHtml(plot.band.legend.text()).toPlainText().replace("\u25a0", "").split())


def colour_at(plot, x: float, share: float) -> str:
    """Return the colour of the band at a position of the x axis, this share of its height above its foot."""
    picture, view, canvas = plot.grab().toImage(), plot.canvas.view, plot.canvas
    place = canvas.mapTo(plot, canvas.mapFromScene(view.mapViewToScene(view.viewRect().topLeft())))
    left, right = canvas.x_range
    across = place.x() + (x - left) / (right - left) * view.width()
    height = plot.band.height() - plot.band.legend.height() - 3
    down = plot.band.y() + (1 - share) * height
    scale = picture.devicePixelRatio()
    return picture.pixelColor(round(across * scale), int(down * scale)).name()


def colour_of(part: str) -> str:
    return QColor(current_theme().device_colour(PART_COLOURS[PARTS.index(part)])).name()


def measured(run_series: RunSeries) -> RunSeries:
    """Let both ranks have measured steps of the synthetic run: the first half waits for data."""
    run_series.fold(
        [step_time(step, rank=rank, **(SLOW if step <= STEPS // 2 else FAST))
         for step in range(20, STEPS, 20) for rank in (0, 1)]
    )
    return run_series


def test_band_shows_the_shares_at_the_steps_of_the_loss_and_names_them(loss, run_series) -> None:
    draw(measured(run_series), loss)
    for theme in (DARK, LIGHT):
        show_theme(theme)
        loss.redraw()
        for x in (30, 215):
            assert [colour_at(loss, x, share) for share in (0.1, 0.4, 0.6, 0.8)] == [
                colour_of(part) for part in ("data", "data", "forward", "backward")
            ]
            assert colour_at(loss, x, 0.95) == current_theme().idle, "what the parts leave"
        for x in (250, 435):
            assert [colour_at(loss, x, share) for share in (0.1, 0.6, 0.97)] == [
                colour_of(part) for part in ("forward", "backward", "optimizer")
            ]
        gap = {colour_at(loss, STEPS - 5, share) for share in (0.1, 0.5, 0.9)}
        assert len(gap) == 1, "no step was measured since"
        assert gap.isdisjoint({*map(colour_of, PARTS), current_theme().idle})
    # Of 22 steps, 11 waited for data half of their time.
    assert words(loss) == "data 25 % forward 30 % backward 35 % optimizer 5 % rest 5 %", "copy and wait are not known"
    loss.canvas.view.setXRange(300, 400, padding=0)
    loss.redraw()
    assert words(loss) == "forward 40 % backward 50 % optimizer 10 %"
    assert loss.band._image.width() <= loss.width() / 3, "as many columns as there is room for"
    choose(loss, "axis_box", "training")
    assert colour_at(loss, 10, 0.4) == colour_of("data"), "by time, ten steps in a second"
    assert colour_at(loss, 30, 0.1) == colour_of("forward")


def test_band_shows_the_mean_of_the_ranks(loss, run_series) -> None:
    late = {"data": 0.09, "forward": 0.01}
    run_series.fold([step_time(step, rank=rank, **(late if rank else FAST)) for step in (100, 200) for rank in (0, 1)])
    draw(run_series, loss)
    assert words(loss) == "data 45 % forward 25 % backward 25 % optimizer 5 %"
    np.testing.assert_allclose(run_series.step_times.shares(STEP, 0, 200, 4)[0], 0.45)
    assert run_series.drawn["waiting for data %"].values.tolist() == pytest.approx([45.0, 45.0])


def test_run_without_measured_steps_has_no_band(loss, run_series) -> None:
    draw(run_series, loss)
    assert loss.band.isHidden()
    assert "waiting for data %" not in run_series.drawn
    unknown = RunSeries()
    unknown.fold([step_time(step, **FAST) for step in (20, 40)])
    assert unknown.drawn == {}, "what is not known is not zero"
    height = loss.canvas.height()
    draw(measured(RunSeries()), loss)
    assert loss.band.isHidden(), "without a loss there is no axis"
    least = loss.minimumHeight()
    draw(measured(run_series), loss)
    assert not loss.band.isHidden()
    assert loss.minimumHeight() == least + loss.band.sizeHint().height(), "no room is taken from the curve"
    draw(None, loss)
    assert loss.band.isHidden()
    assert loss.minimumHeight() == least
    other = RunSeries()
    other.fold([{"t": START, "kind": "metrics", "since": START, "first": 1, "values": {"loss": [2.0, 1.0]}}])
    draw(other, loss)
    assert loss.band.isHidden()
    assert loss.canvas.height() == height


def test_steps_that_a_resumed_run_trains_again_replace_the_others(loss, run_series) -> None:
    measured(run_series)
    run_series.fold([*resume_events(230), *(step_time(240, rank=rank, at=START + 80, **SLOW) for rank in (0, 1))])
    draw(run_series, loss)
    assert words(loss) == "data 50 % forward 20 % backward 20 % rest 10 %"
    assert run_series.drawn["waiting for data %"].steps.tolist() == [*range(20, 241, 20)]


def test_damaged_events_are_left_out(run_series) -> None:
    good = step_time(20, **SLOW)
    run_series.fold([{**good, "step": 40, **damage} for damage in ({"data": "x"}, {"rank": None}, {"seconds": []})])
    assert len(run_series.step_times.table) == 1
    run_series.fold([good])
    np.testing.assert_allclose(run_series.step_times.shares(STEP, 0, 20, 1)[:, 0], [0.5, 0, 0.2, 0.2, 0, 0, 0.1])


def test_head_says_why_the_run_is_slow_and_a_click_gives_the_numbers(assemble, runs_root) -> None:
    losses = values(1, 1, 60, loss=[1.0] * 600)
    for name, parts in (("3-waits", SLOW), ("2-computes", FAST), ("1-unknown", None)):
        steps = range(20, 600, 20) if parts else ()
        write_run(runs_root, f"20260101-00000{name}", [losses, *(step_time(step, at=BEGAN, **parts) for step in steps)])
    panel = assemble("run")
    head = panel.window.findChild(QLabel, "descriptionLabel")
    panel.open_run(0, of=3)
    panel.until(lambda: head.text().startswith("· Waiting for data takes 50 % of a step · PyTorch"), "the verdict")
    assert head.property("tone") == "warn"
    panel.qtbot.mouseClick(head, Qt.MouseButton.LeftButton)
    said = panel.message("messageStrip")
    assert said.startswith("Waiting for data takes 50 % of a step. Missing: "), "copy and optimizer are not known"
    assert said.endswith(" A step takes 100 ms: data 50 ms, forward 20 ms, backward 20 ms.")
    panel.open_run(1, of=3)
    panel.until(lambda: "Computing takes 100 % of a step" in head.text(), "the verdict")
    assert head.text().startswith("· PyTorch")
    assert not head.property("tone")
    panel.open_run(2, of=3)
    panel.until(lambda: "of a step" not in head.text(), "no verdict")
    panel.qtbot.mouseClick(head, Qt.MouseButton.LeftButton)
    assert panel.message("messageStrip") == ""
