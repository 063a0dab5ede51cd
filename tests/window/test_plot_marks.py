"""The range of the values, and the marks in the loss plot: arrows, crosses, and the label at the end of the line."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
import pytest

from core.series.run_series import RunSeries
from gui.plots.ranks import fitting_range
from tests.window.plotted import START, choose, draw, smooth

NAN, INF = float("nan"), float("inf")


def trained(values: list[float], **others: list[float]) -> RunSeries:
    """Return the series of a run that measured a loss and other metrics, ten steps a second."""
    series = RunSeries()
    until = START + len(values) / 10
    every = {"loss": values, **others}
    series.fold([{"t": until, "kind": "metrics", "since": START + 0.1, "first": 1, "values": every}])
    return series


def falling(count: int = 500) -> np.ndarray:
    """Return a noisy loss between 0.9 and 2.1, shape (count,)."""
    return 1 + np.exp(-np.arange(count) / 100) + np.random.default_rng(0).uniform(-0.1, 0.1, count)


def places(marks: pg.ScatterPlotItem) -> list[float]:
    """Return the positions of the visible marks on the x axis."""
    return marks.getData()[0].tolist() if marks.isVisible() else []


def test_range_holds_all_but_single_values_far_away() -> None:
    assert fitting_range([falling()], ignore_outliers=True) == fitting_range([falling()], ignore_outliers=False)
    spiked = falling()
    spiked[300], spiked[301] = 60.0, -40.0
    lo, hi = fitting_range([spiked], ignore_outliers=True)
    assert (0.8 < lo < 0.95, 2.0 < hi < 2.3) == (True, True)
    lo, hi = fitting_range([spiked], ignore_outliers=False)
    assert (lo < -40, hi > 60) == (True, True)
    few = [np.array([9.0, 8.0, 7.0]), np.array([np.nan, np.inf])]
    assert fitting_range(few, ignore_outliers=True) == pytest.approx((6.9, 9.1))
    assert fitting_range([np.array([np.nan])], ignore_outliers=True) is None
    lo, hi = fitting_range([falling(), np.array([4.0, 5.0])], ignore_outliers=True)
    assert hi > 5, "the few values of a validation count as much as the many of the training"


def test_outliers_lie_outside_at_arrows_unless_they_are_wanted(plots) -> None:
    loss, values = plots["lossPlot"], falling()
    values[300] = 60.0
    smooth(loss, 0)
    draw(trained(values.tolist()), loss)
    assert loss.canvas.y_range[1] < 2.5
    assert places(loss.arrows.above) == [301]
    assert places(loss.arrows.below) == []
    assert "above the plot 60" in loss.reading_at(301.5).text
    assert "plot" not in loss.reading_at(350.0).text
    loss.canvas.y_moved_by_hand.emit()
    loss.redraw()
    assert places(loss.arrows.above) == [], "the user knows what lies outside"
    loss.set_follow(True)
    loss.controls.outliers_box.setChecked(False)
    loss.redraw()
    assert loss.canvas.y_range[1] > 60
    assert places(loss.arrows.above) == []


def test_arrows_below_a_logarithmic_scale(plots) -> None:
    loss, values = plots["lossPlot"], falling()
    values[100:103] = 1e-9
    loss.controls.log_box.setChecked(True)
    smooth(loss, 0)
    draw(trained(values.tolist()), loss)
    assert len(places(loss.arrows.below)) == 1, "arrows do not pile up"
    assert "below the plot 1e-09" in loss.reading_at(102.0).text


@pytest.mark.parametrize("axis", ["step", "training"])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_cross_marks_where_the_loss_became_nan_or_infinite(plots, axis, logarithmic) -> None:
    loss, values = plots["lossPlot"], falling()
    values[200:220], values[400:] = NAN, INF
    loss.controls.log_box.setChecked(logarithmic)
    choose(loss, "axis_box", axis)
    draw(trained(values.tolist()), loss)
    at = np.array([201.0, 401]) if axis == "step" else np.array([20.0, 40])
    assert places(loss.crosses.marks) == pytest.approx(at)
    heights = loss.crosses.marks.getData()[1]
    before = values[[199, 399]]
    np.testing.assert_allclose(heights, np.log10(before) if logarithmic else before)
    assert "loss became NaN at step 201" in loss.reading_at(at[0]).text
    assert "loss became infinite at step 401" in loss.reading_at(at[1]).text
    assert "became" not in loss.reading_at(at.mean()).text
    assert "infinite" in loss._values.text()
    assert not loss.newest.label.isVisible()


def test_end_of_the_line_is_labelled(plots) -> None:
    loss, series = plots["lossPlot"], trained([3.0, 2.0, 1.0])
    smooth(loss, 0)
    draw(series, loss)
    assert loss.newest.label.toPlainText() == "now 1.00"
    assert places(loss.newest.dot) == [3]
    smooth(loss, 0.5)
    assert loss.newest.label.toPlainText() == "now 1.57", "the mean, where the mean is drawn"
    loss.canvas.view.setXRange(0, 2, padding=0)
    loss.canvas.moved_by_hand.emit()
    loss.redraw()
    assert not loss.newest.label.isVisible()
    loss.set_follow(True)
    series.fold([{"t": START + 9, "kind": "state", "state": "releasing"}])
    loss.redraw()
    assert loss.newest.label.isVisible()
    assert loss.newest.label.toPlainText() == "last 1.57"
    draw(trained([NAN, NAN, 2.0, 1.0]), loss)
    assert places(loss.crosses.marks) == [1], "the first value has a cross, too"
    assert loss.newest.label.toPlainText().startswith("now")
    loss.show_training_end(paused=False, over=True)
    loss.redraw()
    assert loss.newest.label.toPlainText().startswith("last"), "the run was lost"
