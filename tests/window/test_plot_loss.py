"""The plot of the loss or another metric: steps, mean, validation and ranks, its range, and its marks."""

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextDocumentFragment
from PySide6.QtWidgets import QSlider

from core.series.run_series import RunSeries
from core.series.series import STEP, Series
from gui.base.theme import DARK
from gui.plots.ranks import fitting_range
from gui.plots.run_plot import Plot
from tests.support.running import folded
from tests.window.plotted import PER_EPOCH, START, STEPS, choose, draw, losses, resume_events, smooth


def test_loss_plot_draws_steps_mean_and_validation_and_follows(loss, run_series) -> None:
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


def test_mean_follows_the_loss_and_is_called_mean(loss, run_series) -> None:
    """A trailing mean of ten steps lay a tenth above this falling loss."""
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


def test_smoothing_is_set_with_a_slider_beside_which_a_narrow_plot_has_its_boxes(loss, run_series, qtbot) -> None:
    draw(run_series, loss)
    controls, button = loss.controls, loss.controls.smoothing_button
    narrow = loss.minimumSizeHint().width()
    assert narrow < controls.sizeHint().width()
    loss.resize(narrow, 300)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert controls.log_box.window() is button.popup
    qtbot.keyClick(controls.log_box, Qt.Key.Key_Space)
    assert controls.logarithmic
    button.popup.hide()
    loss.resize(900, 300)
    qtbot.waitUntil(lambda: controls.log_box.window() is loss.window())
    assert controls.log_box.isVisible()
    assert controls.logarithmic
    assert button.text() == "smooth 0.6"
    qtbot.keyClick(loss.canvas, Qt.Key.Key_Plus)
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
def test_saved_controls_are_restored(loss, kept, shown) -> None:
    controls = loss.controls
    controls.restore(kept)
    assert (controls.axis, controls.smoothing, controls.ignores_outliers, controls.logarithmic) == shown
    saved = controls.remember()
    controls.restore({"x_axis": "epoch", "weight": 0.5, "ignore_outliers": False, "logarithmic": True})
    controls.restore(saved)
    assert controls.remember() == saved


def test_x_axis_is_steps_time_or_epochs_as_far_as_they_are_known(loss, run_series) -> None:
    draw(run_series, loss)
    assert loss.axis_name() == "step"
    for axis, first, last in (
        ("training", 0, STEPS / 10 - 0.1), ("epoch", 1 / PER_EPOCH, STEPS / PER_EPOCH), ("step", 1, STEPS)
    ):
        choose(loss, "axis_box", axis)
        x, _ = loss.curves()["loss"]
        assert (x[0], x[-1]) == pytest.approx((first, last))
        assert loss.canvas.x_range == pytest.approx((0, last), rel=0.02), "without start-up and memory watch"
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
    bare = measured(loss=[1.0, 2.0])
    choose(loss, "axis_box", "epoch")
    draw(bare, loss)
    assert loss.axis_name() == "epoch"
    assert not loss.controls.axis_box.model().item(2).isEnabled()
    bare.fold([{"t": 2.0, "kind": "plan", "epochs": 3, "steps_per_epoch": 2, "samples_per_epoch": 64}])
    loss.redraw()
    assert loss.controls.axis_box.model().item(2).isEnabled()
    assert loss.curves()["loss"][0].tolist() == [0.5, 1.0]


def test_another_metric_can_be_chosen_in_a_box_as_wide_as_its_name(loss, run_series) -> None:
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
def test_resumed_run_is_drawn_from_its_checkpoint_step(plots, loss, memory, run_series, axis) -> None:
    step = 230
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
    assert memory.end.line.isVisible() is False


def test_pause_is_cut_out_of_the_time_of_training_and_marked(loss, run_series) -> None:
    step = 230
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


@pytest.mark.parametrize(
    ("axis", "place", "text"), [("step", 230, "CPU 1 (ddp)"), ("training", 22.9, "paused 0:54 → CPU 1 (ddp)")]
)
def test_other_devices_are_marked_at_their_step_and_beside_the_pause(loss, run_series, axis, place, text) -> None:
    choose(loss, "axis_box", axis)
    events = resume_events(230)
    rewind = next(number for number, event in enumerate(events) if event["kind"] == "rewind")
    moved = {"kind": "moved", "text": "It moved.", "devices": ["cpu:1"], "where": "CPU 1 (ddp)"}
    run_series.fold([*events[:rewind], {**events[rewind], **moved}, *events[rewind:]])
    draw(run_series, loss)
    draw(run_series, loss)  # a label is not added twice
    (mark,) = [each for each in loss.interruptions.marks if each.line.isVisible() and each.label.isVisible()]
    assert mark.line.value() == pytest.approx(place, abs=0.01)
    assert mark.label.toPlainText() == text


@pytest.mark.parametrize("axis", ["step", "training", "epoch"])
def test_changed_settings_are_marked_at_their_step(loss, run_series, axis) -> None:
    choose(loss, "axis_box", axis)
    for name, old, new in (("epochs", 3, 4), ("checkpoints.unit", "auto", "steps"), ("another", 1, 2)):
        change = {"t": START + 25, "kind": "setting", "step": 230, "name": name, "from": old, "to": new}
        run_series.fold([change])
    draw(run_series, loss)
    (mark,) = [each for each in loss.interruptions.marks if each.line.isVisible()]
    at = {"step": 230, "training": 22.9, "epoch": 230 / PER_EPOCH}[axis]
    assert mark.line.value() == pytest.approx(at, abs=0.2)
    assert mark.label.toPlainText() == "Epochs: 3 → 4, Save checkpoints: automatic → steps"


def test_without_numbers_a_message_or_a_metric_like_the_loss_is_shown(loss, run_series) -> None:
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
    run_series = measured(learning_rate=[0.1, 0.1], accuracy=[0.5, 0.6], loss_d=[3.0, 2.0], val_loss_g=[5.0, 4.0])
    draw(run_series, loss)
    box = loss.controls.metric_box
    assert [box.itemData(row) for row in range(box.count())] == ["loss_d", "loss_g", "accuracy", "learning_rate"]
    assert (box.isVisible(), loss.title.isVisible()) == (True, False)
    assert loss.curves()["loss_d"][1].tolist() == [3.0, 2.0]
    run_series.fold([{"t": START + 2, "kind": "metrics", "first": 1, "values": {"loss": [9.0, 8.0]}}])
    loss.redraw()
    assert loss.curves()["loss"][1].tolist() == [9.0, 8.0]


def test_hover_reads_nearest_step_and_mean_and_range_of_ranks(loss, run_series, qtbot) -> None:
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
    draw(ranked([1.0, 2.0, 3.0], [3.0, 4.0, float("nan")]), loss)
    smooth(loss, 0)
    assert [row.text for row in loss.reading_at(2.1).rows[1:]] == ["train, mean of ranks 3 (2 to 4)"]
    assert [row.value for row in loss.reading_at(3.0).rows[1:]] == ["3", ""]
    assert loss.reading_at(3.0).rows[2].label == "loss of one rank became NaN at step 3"


def test_single_extreme_and_non_positive_values_are_drawn_as_far_as_they_can_be(loss, run_series) -> None:
    smooth(loss, 0)
    draw(measured(loss=[1.0]), loss)
    image = loss.canvas.grab().toImage()
    drawn = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert DARK.train in drawn
    draw(measured(loss=[1.0, -1.7e308, 1.7e308], **{"x" * 500: [2.0]}), loss)
    assert loss.curves()["loss"][1].tolist() == [1.0, -1.7e308, 1.7e308]
    assert loss.minimumSizeHint().width() < 900, "a long name does not widen the plot"
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


@pytest.mark.slow
def test_ten_million_points_are_reduced_to_a_few_thousand(loss) -> None:
    long = measured(loss=[1.0, 2.0])
    series = long.metrics["loss"]
    values = np.ones(10_000_000)
    values[7_654_321] = 50.0
    series.append(np.arange(3.0, 10_000_003), np.linspace(1, 1e5, 10_000_000), values)
    draw(long, loss)
    _, y = loss.curves()["loss"]
    assert len(y) < 4 * loss.canvas.pixels
    assert y.max() == 50.0


# -- marks -----------------------------------------------------------------------------------------


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


BEGUN = (
    2.34, 2.26, 2.25, 2.22, 2.17, 2.14, 2.12, 2.04, 1.99, 1.99, 1.86, 1.86, 1.79, 1.72, 1.58, 1.51, 1.56, 1.47,
    1.34, 1.28, 1.16, 1.19, 1.22, 1.06, 1.01, 0.93, 0.93, 0.88, 0.77, 0.82, 0.77, 0.65, 0.70, 0.66, 0.67, 0.60,
    0.55, 0.54, 0.64, 0.59, 0.56, 0.48, 0.55, 0.53, 0.47, 0.41, 0.52, 0.53, 0.52, 0.35, 0.36, 0.36, 0.37, 0.42,
    0.34, 0.32, 0.42, 0.39, 0.24, 0.41, 0.46, 0.40, 0.37, 0.29, 0.19, 0.28, 0.27, 0.33, 0.36, 0.28, 0.28, 0.23,
    0.33, 0.24, 0.26, 0.26, 0.30, 0.23, 0.20, 0.25, 0.37, 0.26, 0.19, 0.18, 0.20, 0.16, 0.20, 0.22, 0.18, 0.21,
)
"""The first losses of a recorded training of 8 800 steps on the digits, with a large learning rate."""
WENT_ON = (
    0.1921, 0.1135, 0.0431, 0.0823, 0.0395, 0.0190, 0.0616, 0.0126, 0.0088, 0.0069, 0.0096, 0.0078, 0.0031, 0.0075,
    0.0021, 0.0038, 0.0029, 0.0026, 0.0017, 0.0035, 0.0015, 0.0031, 0.0022, 0.0012, 0.0020, 0.0013, 0.0012, 0.0037,
    0.0015, 0.0009, 0.0010, 0.0015, 0.0017, 0.0024, 0.0021, 0.0015, 0.0013, 0.0021, 0.0008, 0.0003, 0.0007, 0.0018,
    0.0016, 0.0023,
)
"""Every 201st of the other ones."""


@pytest.mark.parametrize("pixels", [300, 450, 700, 1200])
@pytest.mark.parametrize(("at", "spike"), [(None, 0.0), (4000, 60.0), (0, 500.0)])
def test_curve_that_falls_into_the_range_is_shown_from_its_beginning(pixels, at, spike) -> None:
    series, values = Series(), np.concatenate([BEGUN, np.repeat(WENT_ON, 201)])
    if at is not None:
        values[at] = spike
    series.append(np.arange(len(values)) + 1.0, START + np.arange(len(values)), values)
    span = 0, len(values)
    lines = [series.view(STEP, *span, pixels)[1], series.smooth(STEP, *span, pixels, 0.6)[1]]
    lo, hi = fitting_range(lines, ignore_outliers=True)
    assert hi < spike or at is None, "a single spike is cut, also as the first value"
    assert hi > 2.3 or at == 0, "the first loss is in sight"
    upwards = fitting_range([-line for line in lines], ignore_outliers=True)
    assert upwards == pytest.approx((-hi, -lo)), "as a curve that rises is"
    flat = np.linspace(0.2, 0.1, 500)
    flat[0] = 1.0
    assert fitting_range([flat], ignore_outliers=True)[1] < 0.3, "nothing leads from a single value to the others"


def test_range_holds_all_but_values_far_away_which_have_arrows(loss) -> None:
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
    values = falling()
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
    values[100:103] = 1e-9
    loss.controls.outliers_box.setChecked(True)
    loss.controls.log_box.setChecked(True)
    draw(trained(values.tolist()), loss)
    assert len(places(loss.arrows.below)) == 1, "arrows do not pile up"
    assert "below the plot 1e-09" in loss.reading_at(102.0).text


@pytest.mark.parametrize("axis", ["step", "training"])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_cross_marks_where_the_loss_became_nan_or_infinite(loss, axis, logarithmic) -> None:
    values = falling()
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


def test_end_of_the_line_is_labelled(loss) -> None:
    series = trained([3.0, 2.0, 1.0])
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


# -- several ranks ---------------------------------------------------------------------------------


def ranked(*ranks: list[float], name: str = "loss", every_s: float = 1.0) -> RunSeries:
    """Return a run series in which each rank reports these values at steps 1, 2, ...; rank n is n / 10 steps late."""
    series = RunSeries()
    series.fold([{"t": START, "kind": "state", "state": "starting"}])
    for rank, values in enumerate(ranks):
        full = f"{name}@{rank}" if rank else name
        begun = START + every_s * (1 + rank / 10)
        ended = begun + every_s * (len(values) - 1)
        series.fold([{"t": ended, "kind": "metrics", "since": begun, "first": 1, "values": {full: values}}])
    return series


@pytest.mark.parametrize("axis", ["step", "training"])
def test_ranks_are_drawn_as_mean_and_band(loss, axis) -> None:
    choose(loss, "axis_box", axis)
    smooth(loss, 0)
    draw(ranked([1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [2.0, 3.0, 7.0]), loss)
    box = loss.controls.metric_box
    assert [box.itemData(row) for row in range(box.count())] == ["loss", "steps/s"]
    curves = loss.curves()
    assert set(curves) == {"loss (mean)", "loss (spread)"}
    np.testing.assert_allclose(curves["loss (mean)"][1], [2, 3, 5])
    np.testing.assert_allclose(curves["loss (spread)"][1], [1, 2, 3, 3, 4, 7])
    if axis == "step":
        np.testing.assert_allclose(curves["loss (mean)"][0], [1, 2, 3])


def test_ranks_are_smoothed_alone_have_bands_also_in_the_validation_and_leave_out_nan_and_laggards(loss) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 0.1, 60), rng.normal(3, 0.1, 60)
    draw(ranked(one.tolist(), other.tolist()), loss)
    _, y = loss.curves()["loss (mean)"]
    alone = []
    for values in (one, other):
        draw(ranked(values.tolist()), loss)
        alone.append(loss.curves()["loss (mean)"][1])
    np.testing.assert_allclose(y, (alone[0] + alone[1]) / 2)
    series = ranked([1.0, 2.0])
    for rank, value in enumerate((5.0, 7.0)):
        name = f"val_loss@{rank}" if rank else "val_loss"
        series.fold([{"t": START + 9, "kind": "metrics", "first": 2, "values": {name: [value]}}])
    draw(series, loss)
    curves = loss.curves()
    np.testing.assert_allclose(curves["val_loss"][1], [6])
    np.testing.assert_allclose(curves["val_loss (spread)"][1], [5, 7])
    np.testing.assert_allclose(curves["loss"][1], [1, 2])
    assert loss.controls.metric_box.count() == 1
    series = ranked([1.0, 2.0], [2.0, 3.0])
    series.fold([{"t": START + 3, "kind": "metrics", "first": 1, "values": {"recall@10": [0.5]}}])
    draw(series, loss)
    box = loss.controls.metric_box
    assert [box.itemData(row) for row in range(box.count())] == ["loss", "recall@10"]
    smooth(loss, 0)
    nan, inf = float("nan"), float("inf")
    draw(ranked([1.0, nan, nan, 1.0, 5.0], [3.0, 4.0, nan, inf, 7.0]), loss)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1], [2, 4, nan, 1, 6])
    np.testing.assert_allclose(loss.curves()["loss (spread)"][1], [1, 4, nan, 1, 5, 3, 4, nan, 1, 7])
    assert len(loss._spread._area.polygons) == 2, "the gap splits the band"
    draw(ranked([4.0] * 9, [8.0] * 5), loss)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1], [6] * 5 + [4] * 4)
    loss.controls.log_box.setChecked(True)
    draw(ranked([1.0, -2.0, 3.0], [3.0, -4.0, 5.0]), loss)
    np.testing.assert_allclose(loss.curves()["loss (mean)"][1], [2, np.nan, 4])
    np.testing.assert_allclose(loss.curves()["loss (spread)"][1], [1, np.nan, 3, 3, np.nan, 5])


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["step", "training"])
def test_million_steps_of_ranks_are_reduced_to_a_few_thousand_points(loss, axis) -> None:
    choose(loss, "axis_box", axis)
    count = 1_000_000
    low, high = np.full(count, 1.0), np.full(count, 3.0)
    low[400_000], high[600_000] = -9.0, 11.0
    draw(ranked(low.tolist(), high.tolist(), every_s=0.01), loss)
    curves = loss.curves()
    x, y = curves["loss (mean)"]
    assert len(x) <= 2 * loss.canvas.pixels + 4
    np.testing.assert_allclose(np.nanmedian(y), 2)
    _, ends = curves["loss (spread)"]
    assert (np.nanmin(ends), np.nanmax(ends)) == (-9, 11), "no spike is lost"
    assert np.isfinite(y).all()
