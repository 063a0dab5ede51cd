"""The plot of the loss or another metric: steps, mean and validation, over steps, time and epochs."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextDocumentFragment
from PySide6.QtWidgets import QSlider

from core.series.run_series import RunSeries
from gui.base.theme import DARK
from gui.plots.run_plot import Plot
from tests.support.running import folded
from tests.window.plotted import PER_EPOCH, START, STEPS, choose, draw, losses, resume_events, smooth


def test_loss_plot_draws_steps_mean_and_validation_and_follows(plots, run_series) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    curves = loss.curves()
    assert set(curves) == {"loss", "loss (mean)", "val_loss"}
    x, y = curves["loss"]
    np.testing.assert_array_equal(x, np.arange(1, STEPS + 1))
    np.testing.assert_array_equal(y, losses())
    x, y = curves["loss (mean)"]
    assert len(y) == STEPS
    np.testing.assert_allclose(curves["val_loss"][1], np.arange(PER_EPOCH, STEPS + 1, PER_EPOCH) / 100)
    more = {"t": START + 99, "kind": "metrics", "since": START + 98, "first": STEPS + 1, "values": {"loss": [7.0, 8.0]}}
    run_series.fold([more])
    loss.redraw()
    x, y = loss.curves()["loss"]
    assert (x[-1], y[-1]) == (STEPS + 2, 8.0)
    assert loss.canvas.x_range == pytest.approx((0, STEPS + 2), rel=0.02)


def measured(**values: list[float]) -> RunSeries:
    """Return the series of a run that has measured this so far, from its first step on."""
    return folded({"t": START, "kind": "metrics", "first": 1, "values": values})


def readout(plot: Plot) -> list[str]:
    """Return the texts beside the title."""
    text = QTextDocumentFragment.fromHtml(plot._values.text()).toPlainText()
    return [" ".join(part.split()) for part in text.split("\u25a0") if part.strip()]


def test_mean_follows_the_loss_and_is_called_mean(plots, run_series) -> None:
    """A trailing mean of ten steps lay a tenth above this falling loss."""
    loss = plots["lossPlot"]
    smooth(loss, 0.6)
    draw(run_series, loss)
    _, y = loss.curves()["loss (mean)"]
    assert y[0] == losses()[0], "the bias is corrected"
    assert y[1] == pytest.approx((0.6 * losses()[0] + losses()[1]) / 1.6)
    assert y[19] == pytest.approx(losses()[18:20].mean(), abs=0.04)
    assert np.isnan(y[100:110]).all()
    assert y[110] == pytest.approx(losses()[110], abs=0.1), "values that are NaN do not change the mean"
    assert readout(loss)[0] == f"train mean {y[-1]:.4g}"
    assert [row.label for row in loss.reading_at(50).rows[1:3]] == ["train", "train mean"]
    smooth(loss, 0)
    assert "loss (mean)" not in loss.curves()
    assert readout(loss)[0] == f"train {losses()[-1]:.4g}"


def test_smoothing_is_set_with_a_slider(plots, run_series, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    button = loss.controls.smoothing_button
    assert button.text() == "smooth 0.6"
    view = loss.canvas
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    slider = button.popup.findChild(QSlider, "smoothingSlider")
    assert slider.isVisible()
    assert slider.value() == 60
    qtbot.keyClick(slider, Qt.Key.Key_Right)
    assert button.text() == "smooth 0.61"
    slider.setValue(slider.maximum())
    assert loss.controls.smoothing == 0.99
    slider.setValue(0)
    assert button.text() == "not smoothed"
    qtbot.keyClick(slider, Qt.Key.Key_Escape)
    assert not button.popup.isVisible()
    assert not loss.follows, "the chosen range stays"


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ({}, ("step", 0.6, True, False)),
        ({"x_axis": "epoch", "weight": 0.96, "logarithmic": True}, ("epoch", 0.96, True, True)),
        ({"weight": 0}, ("step", 0.0, True, False)),
        ({"x_axis": [], "weight": True, "ignore_outliers": 3}, ("step", 0.6, True, False)),
        ({"x_axis": "no", "weight": 1.5, "logarithmic": 1}, ("step", 0.6, True, False)),
        ({"weight": float("nan")}, ("step", 0.6, True, False)),
        ({"x_axis": "training", "weight": 0.25, "ignore_outliers": False}, ("training", 0.25, False, False)),
    ],
)
def test_saved_controls_are_restored(plots, kept, shown) -> None:
    controls = plots["lossPlot"].controls
    controls.restore(kept)
    assert (controls.axis, controls.smoothing, controls.ignores_outliers, controls.logarithmic) == shown
    saved = controls.remember()
    controls.restore({"x_axis": "epoch", "weight": 0.5, "ignore_outliers": False, "logarithmic": True})
    controls.restore(saved)
    assert controls.remember() == saved


def test_x_axis_can_be_steps_time_or_epochs(plots, run_series) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    assert loss.axis_name() == "step"
    for axis, first, last in (
        ("training", 0, STEPS / 10 - 0.1), ("epoch", 1 / PER_EPOCH, STEPS / PER_EPOCH), ("step", 1, STEPS)
    ):
        choose(loss, "axis_box", axis)
        x, _ = loss.curves()["loss"]
        assert (x[0], x[-1]) == pytest.approx((first, last))
        assert loss.canvas.x_range == pytest.approx((0, last), rel=0.02), "without start-up and memory watch"


def test_curve_of_epochs_says_epoch_instead_of_step(plots, run_series) -> None:
    loss = plots["lossPlot"]
    values = {"loss": [3.0, 2.0, 1.0], "val_loss": [3.0, 2.0, 1.5]}
    draw(folded({"t": 9.0, "kind": "metrics", "since": 1.0, "first": 1, "unit": "epoch", "values": values}), loss)
    box = loss.controls.axis_box
    assert box.currentText() == "by epoch"
    assert box.view().isRowHidden(2)
    assert loss.reading_at(2.0).text.splitlines()[0] == "epoch 2 \u00b7 0:04"
    assert loss.reading_at(2.0).text.endswith("at epoch 2")
    draw(run_series, loss)
    assert box.currentText() == "by step"
    assert not box.view().isRowHidden(2)


def test_check_boxes_move_to_the_slider_where_the_plot_is_narrow(plots, run_series, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    controls = loss.controls
    narrow = loss.minimumSizeHint().width()
    assert narrow < controls.sizeHint().width()
    loss.resize(narrow, 300)
    qtbot.mouseClick(controls.smoothing_button, Qt.MouseButton.LeftButton)
    assert controls.log_box.window() is controls.smoothing_button.popup
    qtbot.keyClick(controls.log_box, Qt.Key.Key_Space)
    assert controls.logarithmic
    controls.smoothing_button.popup.hide()
    loss.resize(900, 300)
    qtbot.waitUntil(lambda: controls.log_box.window() is loss.window())
    assert controls.log_box.isVisible()
    assert controls.logarithmic


def test_epoch_axis_stays_selected_before_epochs_are_known(plots) -> None:
    loss, bare = plots["lossPlot"], measured(loss=[1.0, 2.0])
    choose(loss, "axis_box", "epoch")
    draw(bare, loss)
    assert loss.axis_name() == "epoch"
    assert not loss.controls.axis_box.model().item(2).isEnabled()
    bare.fold([{"t": 2.0, "kind": "plan", "epochs": 3, "steps_per_epoch": 2, "samples_per_epoch": 64}])
    loss.redraw()
    assert loss.controls.axis_box.model().item(2).isEnabled()
    assert loss.curves()["loss"][0].tolist() == [0.5, 1.0]


def test_log_scale_shows_non_positive_values_as_gap(plots, run_series) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    loss.controls.log_box.setChecked(True)
    loss.redraw()
    _, y = loss.curves()["loss"]
    assert np.isnan(y[200])
    assert np.isnan(y[100:110]).all()
    np.testing.assert_array_equal(y[111:200], losses()[111:200])
    lo, hi = loss.canvas.view.viewRange()[1]
    assert lo < np.log10(np.nanmin(y))
    assert hi > np.log10(np.nanmax(y))


def test_another_metric_can_be_chosen_in_a_box_as_wide_as_its_name(plots, run_series) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    box = loss.controls.metric_box
    narrow, metrics = box.sizeHint().width(), box.fontMetrics()
    choose(loss, "metric_box", "accuracy")
    more = metrics.horizontalAdvance("ACCURACY") - metrics.horizontalAdvance("LOSS")
    assert box.sizeHint().width() - narrow == more > 0
    np.testing.assert_allclose(loss.curves()["accuracy"][1], 1 - losses())
    assert "val_accuracy" not in loss.curves()
    draw(measured(loss=[1.0]), loss)
    assert set(loss.curves()) == {"loss", "loss (mean)"}
    assert loss.title.isVisible()
    draw(run_series, loss)
    assert set(loss.curves()) == {"accuracy", "accuracy (mean)"}  # the user's choice is kept
    *before, first = resume_events(0)
    run_series.fold(before)
    loss.redraw()
    assert not loss.curves()
    assert loss.empty.isVisible()
    run_series.fold([first])
    loss.redraw()
    np.testing.assert_array_equal(loss.curves()["accuracy"][1], [0.5] * 30)  # also in a run that was restarted
    box.setItemText(1, "X" * 99)
    assert box.sizeHint().width() < narrow + 10 * metrics.horizontalAdvance("X")


@pytest.mark.parametrize("axis", ["step", "training", "epoch"])
def test_resumed_run_is_drawn_from_its_checkpoint_step(plots, run_series, axis) -> None:
    loss, step = plots["lossPlot"], 230
    choose(loss, "axis_box", axis)
    draw(run_series, *plots.values())
    for event in resume_events(step):  # redraw after each event: discarded steps must disappear
        run_series.fold([event])
        for plot in plots.values():
            plot.redraw()
    curves = loss.curves()
    np.testing.assert_array_equal(curves["loss"][1], [*losses()[:step], *[7.0] * 30])
    assert (np.diff(curves["loss"][0]) >= 0).all()
    np.testing.assert_allclose(curves["val_loss"][1], np.arange(PER_EPOCH, step + 1, PER_EPOCH) / 100)
    assert loss.reading_at(loss.canvas.x_range[1]).text.splitlines()[1] == "train 7"
    assert plots["memoryPlot"].end.line.isVisible() is False


def test_pause_is_cut_out_of_the_time_of_training_and_marked(plots, run_series) -> None:
    loss, step = plots["lossPlot"], 230
    choose(loss, "axis_box", "training")
    run_series.fold(resume_events(step))
    draw(run_series, loss)
    x, _ = loss.curves()["loss"]
    assert np.diff(x).max() < 0.11
    assert x[-1] == pytest.approx((step - 1) / 10 + 2, abs=0.01)
    (mark,) = loss.interruptions.marks
    assert mark.line.isVisible()
    assert mark.line.value() == pytest.approx((step - 1) / 10)
    assert mark.label.toPlainText() == "paused 0:54"
    assert loss.time_at(mark.line.value()) == pytest.approx(START + 25)
    choose(loss, "axis_box", "step")
    assert not mark.line.isVisible()


def test_loss_without_numbers_shows_message_instead_of_plot(plots, run_series) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    no_numbers = measured(loss=[float("nan"), float("inf")])
    draw(no_numbers, loss)
    assert loss.empty.isVisible()
    assert loss.empty.text() == "All loss values so far are NaN or infinite"
    no_numbers.fold([{"t": START + 1, "kind": "state", "state": "releasing"}])
    loss.redraw()
    assert loss.empty.text() == "All loss values of this run are NaN or infinite"
    loss.show_empty_words("Nothing was measured.")
    draw(RunSeries(), loss)
    assert loss.empty.text() == "Nothing was measured."
    loss.show_start("loading PyTorch 3 s")
    assert loss.empty.text() == "Loading PyTorch 3 s"
    loss.show_start("")
    assert loss.empty.text() == "Nothing was measured."


def test_hover_reads_nearest_step(plots, run_series, qtbot) -> None:
    loss = plots["lossPlot"]
    draw(run_series, loss)
    reading = loss.reading_at(46.2)
    assert reading is not None
    assert reading.x == 46
    assert reading.text.splitlines() == [
        "step 46 \u00b7 epoch 2.00 \u00b7 0:04",
        f"train {losses()[45]:.5g}",
        f"train mean {loss.curves()['loss (mean)'][1][45]:.5g}",
        "validation 0.46 at step 46",
    ]

    def hover_is_visible() -> bool:
        for x in (440, 450):  # pyqtgraph reports mouse moves only, at a limited rate
            qtbot.mouseMove(loss.canvas.viewport(), QPoint(x, 200))
        return loss.hover.label.isVisible()

    qtbot.waitUntil(hover_is_visible)
    assert "step" in loss.hover.label.text()
    loss.hover.point(None)
    assert not loss.hover.label.isVisible()


def test_single_measurement_is_visible(plots) -> None:
    loss = plots["lossPlot"]
    smooth(loss, 0)
    draw(measured(loss=[1.0]), loss)
    image = loss.canvas.grab().toImage()
    drawn = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert DARK.train in drawn


@pytest.mark.slow
def test_ten_million_points_are_reduced_to_a_few_thousand(plots) -> None:
    loss, long = plots["lossPlot"], measured(loss=[1.0, 2.0])
    series = long.metrics["loss"]
    values = np.ones(10_000_000)
    values[7_654_321] = 50.0
    series.append(np.arange(3.0, 10_000_003), np.linspace(1, 1e5, 10_000_000), values)
    draw(long, loss)
    _, y = loss.curves()["loss"]
    assert len(y) < 4 * loss.canvas.pixels
    assert y.max() == 50.0


def test_extreme_values_and_long_names_are_drawn(plots) -> None:
    loss = plots["lossPlot"]
    draw(measured(loss=[1.0, -1.7e308, 1.7e308], **{"x" * 500: [2.0]}), loss)
    assert loss.curves()["loss"][1].tolist() == [1.0, -1.7e308, 1.7e308]
    assert loss.minimumSizeHint().width() < 900, "a long name does not widen the plot"


def test_loss_like_metric_is_drawn_until_loss_is_measured(plots) -> None:
    loss = plots["lossPlot"]
    run_series = measured(learning_rate=[0.1, 0.1], accuracy=[0.5, 0.6], loss_d=[3.0, 2.0], val_loss_g=[5.0, 4.0])
    draw(run_series, loss)
    box = loss.controls.metric_box
    assert [box.itemData(row) for row in range(box.count())] == ["loss_d", "loss_g", "accuracy", "learning_rate"]
    assert (box.isVisible(), loss.title.isVisible()) == (True, False)
    assert loss.curves()["loss_d"][1].tolist() == [3.0, 2.0]
    run_series.fold([{"t": START + 2, "kind": "metrics", "first": 1, "values": {"loss": [9.0, 8.0]}}])
    loss.redraw()
    assert loss.curves()["loss"][1].tolist() == [9.0, 8.0]
