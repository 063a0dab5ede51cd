"""Several ranks are drawn as their mean and a band."""

from __future__ import annotations

import numpy as np
import pytest

from core.series.run_series import RunSeries
from tests.window.plotted import START, choose, draw, smooth


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
def test_ranks_are_drawn_as_mean_and_band(plots, axis) -> None:
    loss = plots["lossPlot"]
    choose(loss, "axis_box", axis)
    smooth(loss, 0)
    draw(ranked([1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [2.0, 3.0, 7.0]), loss)
    assert loss.controls.metric_box.count() == 1
    curves = loss.curves()
    assert set(curves) == {"loss (mean)", "loss (spread)"}
    np.testing.assert_allclose(curves["loss (mean)"][1], [2, 3, 5])
    np.testing.assert_allclose(curves["loss (spread)"][1], [1, 2, 3, 3, 4, 7])
    if axis == "step":
        np.testing.assert_allclose(curves["loss (mean)"][0], [1, 2, 3])


def test_mean_and_band_leave_out_nan_and_ranks_that_lag(plots) -> None:
    loss = plots["lossPlot"]
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


def test_each_rank_is_smoothed_separately(plots) -> None:
    loss = plots["lossPlot"]
    rng = np.random.default_rng(0)
    one, other = rng.normal(1, 0.1, 60), rng.normal(3, 0.1, 60)
    draw(ranked(one.tolist(), other.tolist()), loss)
    _, y = loss.curves()["loss (mean)"]
    alone = []
    for values in (one, other):
        draw(ranked(values.tolist()), loss)
        alone.append(loss.curves()["loss (mean)"][1])
    np.testing.assert_allclose(y, (alone[0] + alone[1]) / 2)


def test_validation_of_several_ranks_has_a_band(plots) -> None:
    loss = plots["lossPlot"]
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


def test_metric_name_with_at_sign_is_not_taken_for_a_rank(plots) -> None:
    loss = plots["lossPlot"]
    series = ranked([1.0, 2.0], [2.0, 3.0])
    series.fold([{"t": START + 3, "kind": "metrics", "first": 1, "values": {"recall@10": [0.5]}}])
    draw(series, loss)
    box = loss.controls.metric_box
    assert [box.itemData(row) for row in range(box.count())] == ["loss", "recall@10"]


def test_hover_reads_mean_and_range_of_ranks(plots) -> None:
    loss = plots["lossPlot"]
    draw(ranked([1.0, 2.0, 3.0], [3.0, 4.0, float("nan")]), loss)
    smooth(loss, 0)
    assert [row.text for row in loss.reading_at(2.1).rows[1:]] == ["train, mean of ranks 3 (2 to 4)"]
    assert [row.value for row in loss.reading_at(3.0).rows[1:]] == ["3", ""]
    assert loss.reading_at(3.0).rows[2].label == "loss of one rank became NaN at step 3"


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["step", "training"])
def test_million_steps_of_ranks_are_reduced_to_a_few_thousand_points(plots, axis) -> None:
    loss = plots["lossPlot"]
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
