"""The cards beside the big plot: which there are, where, what they say, how they follow; and the rate of a run."""

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from core.series.run_series import RunSeries
from gui.plots import metric_cards
from gui.plots.area import PlotArea, PlotScroll
from tests.support.running import folded
from tests.window.clipping import clipped
from tests.window.plotted import COLOURS, LABELS, PER_EPOCH, START, STEPS, choose, losses, resume_events
from tests.window.test_plot_devices import settle

WIDE = 1300, 900
STRETCH = {"t": START + 1, "kind": "metrics", "since": START, "first": 1}


@pytest.fixture
def area(hold, run_series, monkeypatch) -> PlotArea:
    """The plots of the synthetic run, with room for cards, which take in new values at once."""
    monkeypatch.setattr(metric_cards, "PAUSE_S", 0.0)
    made = hold(PlotArea(), *WIDE)
    made.create_plots()
    show(made, run_series)
    return made


def show(area: PlotArea, run: RunSeries | None) -> None:
    area.show_series(run, RunSeries(), COLOURS, LABELS, live_devices=run is None, devices=COLOURS)


def seen(area: PlotArea) -> list[QWidget]:
    return [card for card in area.cards.cards if card.isVisible()]


def said(area: PlotArea) -> list[str]:
    """Return what a screen reader says of each card."""
    return [card.accessibleName() for card in seen(area)]


def test_every_other_metric_and_the_rate_have_a_card_with_a_curve_and_words(area, run_series, qtbot) -> None:
    values = {"learning_rate": [0.1, 0.05], "val_accuracy": [0.9, 0.8], "val_loss": [0.5, 0.4]}
    run_series.fold([{**STRETCH, "t": START + 48, "first": STEPS + 1, "values": values}])
    settle(area, qtbot)
    assert said(area) == ["accuracy: 0.8, best 0.9", "learning rate: 0.05", f"samples/s: {10 * 64 / PER_EPOCH:.4g}"]
    card = seen(area)[0]
    assert (card._title.text(), card._value.text(), card._more.text()) == ("ACCURACY", "0.8", "val. · best 0.9")
    x, y = card.curve.lines["train_faint"].x, card.curve.lines["train_faint"].y
    assert (x[0], len(x) < STEPS) == (1, True), "reduced to the pixels of the card"
    assert (np.nanmin(y), np.nanmax(y)) == pytest.approx((np.nanmin(1 - losses()), 2.0)), "with its extremes"
    assert card.curve.lines["validation"].y.tolist() == [0.9, 0.8]
    assert card.curve._span == area.plots["lossPlot"].canvas.x_range
    assert card.curve._ends[1] < 1.9, "the spike lies outside"
    area.plots["lossPlot"].controls.outliers_box.setChecked(False)
    settle(area, qtbot)
    assert card.curve._ends[1] > 2


@pytest.mark.parametrize("by", ["mouse", "Return", "Space"])
def test_a_card_that_is_pressed_changes_places_with_the_big_plot(area, qtbot, by) -> None:
    settle(area, qtbot)
    big, card = area.plots["lossPlot"], seen(area)[0]
    if by == "mouse":
        qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    else:
        card.setFocus()
        qtbot.keyClick(card, getattr(Qt.Key, f"Key_{by}"))
    settle(area, qtbot)
    assert big.controls.metric_name == "accuracy"
    assert "accuracy" in big.curves()
    assert [text.split(":")[0] for text in said(area)] == ["loss", "samples/s"], "the others stay"
    assert said(area)[0].endswith("best 0.23"), "of losses the lowest"
    choose(big, "metric_box", "samples/s")
    settle(area, qtbot)
    assert [each.split(":")[0] for each in said(area)] == ["loss", "accuracy"]
    assert big.curves()["samples/s"][1].tolist() == pytest.approx([10 * 64 / PER_EPOCH] * 46)


@pytest.mark.parametrize(
    ("width", "metrics", "columns"),
    [(880, 1, 0), (1000, 1, 1), (1000, 9, 1), (1130, 9, 2), (1130, 1, 1), (1500, 9, 3), (1500, 2, 1)],
)
def test_as_many_columns_as_are_needed_and_fit_and_the_rest_is_scrolled(
    area, hold, qtbot, width, metrics, columns
) -> None:
    show(area, folded({**STRETCH, "values": {f"m{at}": [1.0, 2.0] for at in range(metrics)} | {"loss": [1.0, 2.0]}}))
    scroll = hold(PlotScroll(area), width, 900)
    settle(area, qtbot)
    cards = seen(area)
    assert len({card.x() for card in cards}) == columns
    assert len(cards) == (metrics if columns else 0)
    assert area.plots["lossPlot"].width() >= width - columns * metric_cards.CARD_PX
    assert all(card.height() >= metric_cards.LEAST_PX for card in cards)
    assert area.cards._area.verticalScrollBar().maximum() == 0 or metrics > 2 * columns
    scroll.resize(800, 900)
    settle(area, qtbot)
    assert not seen(area)
    assert area.plots["lossPlot"].controls.metric_box.isVisible()
    show(area, folded({**STRETCH, "values": {name: [1.0, 2.0] for name in ("loss", "m0", "m1")}}))
    scroll.resize(1500, 900)
    settle(area, qtbot)
    assert [card.width() for card in seen(area)] == [metric_cards.CARD_PX - metric_cards.GAP_PX] * 2, "no empty column"


def test_single_values_have_no_card_and_long_names_are_cut(area, qtbot) -> None:
    long = [f"{at}_{'very_long_' * 20}"[:200] for at in range(7)]
    values = {"loss": [2.0, 1.0], **{name: [-1.5e-7, 123456.0] for name in long}}
    show(area, folded({**STRETCH, "values": values | {f"once_{at}": [1.0] for at in range(5)}}))
    area.resize(1500, 900)
    settle(area, qtbot)
    assert area.cards.names == long
    assert not clipped(area)
    for card in seen(area):
        assert card._value.text() == "123\u2009456"
        parts = [each.geometry() for each in (card._title, card._value, card.curve)]
        assert all(card.rect().contains(each) for each in parts)
        assert not any(one.intersects(other) for one in parts for other in parts if one is not other)
    seen(area)[0].grab()
    assert seen(area)[0]._title.toolTip() == long[0].replace("_", " ").upper()


def test_new_metric_comes_before_the_rates_and_not_while_the_mouse_is_over_the_cards(area, run_series, qtbot) -> None:
    settle(area, qtbot)
    area.cards._area.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)
    run_series.fold([{**STRETCH, "t": START + 49, "first": STEPS + 1, "values": {"bleu": [1.0, 2.0]}}])
    settle(area, qtbot)
    assert area.cards.names == ["accuracy", "samples/s"]
    area.cards._area.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
    settle(area, qtbot)
    assert area.cards.names == ["accuracy", "bleu", "samples/s"]
    run_series.fold(resume_events(0)[:4])
    settle(area, qtbot)
    assert not seen(area), "nothing has a curve any more"


def test_zoom_and_crosshair_follow_the_big_plot(area, qtbot) -> None:
    settle(area, qtbot)
    big, curve = area.plots["lossPlot"], seen(area)[0].curve
    qtbot.keyClick(big.canvas, Qt.Key.Key_Plus)
    settle(area, qtbot)
    assert curve._span == big.canvas.x_range
    assert curve._span[0] > 10
    assert curve.lines["train"].x[0] > 1, "only what is shown is drawn"
    area.plots["memoryPlot"].canvas.pointed.emit(20.0)
    assert curve.crosshair == big.crosshair.value() == pytest.approx(180)
    area.plots["memoryPlot"].canvas.pointed.emit(None)
    assert curve.crosshair is None
    big.canvas.pointed.emit(100.0)
    assert curve.crosshair == 100
    big.set_follow(True)
    settle(area, qtbot)
    assert curve._span == big.canvas.x_range
    assert curve._span[0] == 0


def test_cards_are_drawn_only_when_they_change_and_new_values_wait(area, run_series, qtbot, monkeypatch) -> None:
    settle(area, qtbot)
    drawn = seen(area)[0].curve.lines["train"].x
    settle(area, qtbot)
    assert seen(area)[0].curve.lines["train"].x is drawn
    monkeypatch.setattr(metric_cards, "PAUSE_S", 1e9)
    more = {**STRETCH, "t": START + 49, "first": STEPS + 1, "values": {"loss": [1.0] * 99, "accuracy": [0.1] * 99}}
    run_series.fold([more])
    settle(area, qtbot)
    assert seen(area)[0].curve.lines["train"].x is drawn
    assert area.plots["lossPlot"].curves()["loss"][0][-1] == STEPS + 99, "the big plot does not wait"
    qtbot.keyClick(area.plots["lossPlot"].canvas, Qt.Key.Key_Minus)
    settle(area, qtbot)
    assert seen(area)[0].curve.lines["train"].x[-1] == STEPS + 99, "a range that was chosen is shown at once"


def test_the_machine_and_a_comparison_have_no_cards(area, run_series, qtbot) -> None:
    settle(area, qtbot)
    assert seen(area)
    show(area, None)
    settle(area, qtbot)
    assert not area.cards.isVisible()
    show(area, run_series)
    settle(area, qtbot)
    assert seen(area)
    area.hide()
    assert not area.cards.is_due()


PLAN = {"t": START, "kind": "plan", "epochs": 3, "steps_per_epoch": 10, "samples_per_epoch": 640}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([PLAN], ("samples/s", 640.0, 20)),
        ([], ("steps/s", 10.0, 20)),
        ([{**PLAN, "samples_per_epoch": 0}], ("steps/s", 10.0, 20)),
    ],
)
def test_rate_is_that_of_training_in_samples_where_they_are_known(events, expected) -> None:
    run = folded(*events, {**STRETCH, "t": START + 20, "first": 1, "values": {"loss": [1.0] * 201}})
    name, rate, count = expected
    found = run.drawn[name]
    assert found.values.tolist() == pytest.approx([rate] * count)
    assert found.times[-1] == START + 20
    assert (name in run.metrics, set(run.drawn) - set(run.metrics)) == (False, {name})


def test_rate_leaves_out_pauses_and_stays_small_and_needs_steps(run_series) -> None:
    run_series.fold(resume_events(STEPS))
    found = run_series.drawn["samples/s"]
    assert np.isfinite(found.values[found.steps > STEPS]).all()
    assert found.values[found.steps > STEPS + 1].min() > 20, "the pause of a minute is no training"
    run = folded({**STRETCH, "t": START + 30_000, "first": 1, "values": {"loss": [1.0] * 300_001}})
    found = run.drawn["steps/s"]
    assert 500 < len(found) <= 1025
    assert found.values.tolist() == pytest.approx([10.0] * len(found))
    assert set(folded({**STRETCH, "t": START + 9, "unit": "epoch", "values": {"loss": [1.0] * 9}}).drawn) == {"loss"}
    assert not folded().drawn
    own = folded({**STRETCH, "t": START + 9, "values": {"steps/s": [7.0] * 90}})
    assert own.drawn["steps/s"].values.tolist() == [7.0] * 90, "a metric of the run itself comes first"
