"""Series: views and summaries agree with a computation on every value."""

import numpy as np
import pytest

from core.series.device_readings import DeviceSeries, ReadingCurve
from core.series.series import STEP, Axis, Series

EPOCH = Axis(column="step", unit=23)
TIME = Axis(column="time", origin=1000.0)


def noise(seed: int, count: int, *, gaps: float = 0.05) -> np.ndarray:
    """Random values with some NaN and infinities, shape (count,)."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count)
    values[rng.random(count) < gaps] = np.nan
    values[rng.random(count) < gaps / 5] = np.inf
    return values


def series_of(values: np.ndarray, *, seed: int = 0, largest_batch: int = 700) -> Series:
    """A series filled with these values in batches of random size at uneven times."""
    rng = np.random.default_rng(seed)
    times = 1000 + np.cumsum(rng.random(len(values)))
    series, at = Series(), 0
    while at < len(values):
        end = min(at + int(rng.integers(1, largest_batch)), len(values))
        series.append(np.arange(at + 1.0, end + 1), times[at:end], values[at:end])
        at = end
    return series


def columns(along: np.ndarray, lo: float, hi: float, pixels: int) -> list[np.ndarray]:
    """The indices of the points in each pixel column, computed from every point."""
    column = np.searchsorted(np.linspace(lo, hi, pixels + 1)[1:-1], along, side="right")
    inside = (along >= lo) & (along <= hi)
    return [np.flatnonzero(inside & (column == pixel)) for pixel in range(pixels)]


@pytest.mark.parametrize("seed", range(12))
def test_each_pixel_column_keeps_its_extremes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, pixels = int(rng.integers(300, 30_000)), int(rng.integers(5, 60))
    series = series_of(noise(seed, count), seed=seed)
    axis = TIME if seed % 2 else STEP
    along = axis.place(series.times if axis is TIME else series.steps)
    lo, hi = sorted(rng.uniform(along[0] - 50, along[-1] + 50, 2))

    x, y = series.view(axis, lo, hi, pixels)

    assert len(x) == len(y) <= 2 * pixels + 4
    assert np.all(np.diff(x) >= 0)
    shown = columns(x, lo, hi, pixels)
    for pixel, indices in enumerate(columns(along, lo, hi, pixels)):
        values = series.values[indices]
        values = values[np.isfinite(values)]
        drawn = y[shown[pixel]]
        if len(values):
            assert np.nanmin(drawn) == values.min()
            assert np.nanmax(drawn) == values.max()
        else:
            assert np.isnan(drawn).all()


def test_few_points_are_returned_unchanged() -> None:
    values = noise(3, 200)
    x, y = series_of(values).view(STEP, 0, 300, 400)
    np.testing.assert_array_equal(x, np.arange(1.0, 201))
    np.testing.assert_array_equal(y, np.where(np.isfinite(values), values, np.nan))


@pytest.mark.parametrize("pixels", [10, 5000])
def test_view_includes_one_point_beyond_each_edge(pixels: int) -> None:
    x, _ = series_of(noise(4, 5000)).view(STEP, 1000.5, 3999.5, pixels)
    assert (x[0], x[-1]) == (1000, 4000)


def test_gap_wider_than_a_pixel_stays_a_gap() -> None:
    values = np.ones(100_000)
    values[40_000:60_000] = np.nan
    x, y = series_of(values).view(STEP, 0, 100_000, 100)
    inside = (x > 41_000) & (x < 59_000)
    assert inside.any()
    assert np.isnan(y[inside]).all()
    assert np.isfinite(y[(x < 39_000) | (x > 61_000)]).all()


def test_falling_values_are_drawn_falling() -> None:
    _, y = series_of(-np.arange(10_000.0)).view(STEP, 1, 10_000, 50)
    assert np.all(np.diff(y) <= 0)


def test_logarithmic_scale_draws_only_positive_values() -> None:
    values = noise(5, 20_000)
    values[8000:12_000] = -1.0
    x, y = series_of(values).view(STEP, 0, 20_000, 100, positive=True)
    assert np.nanmin(y) > 0
    assert np.isnan(y[(x > 8300) & (x < 11_700)]).all()
    assert np.nanmax(y) == values[np.isfinite(values)].max()
    _, exact = series_of(np.array([1.0, 0.0, -2.0, 3.0])).view(STEP, 0, 5, 100, positive=True)
    np.testing.assert_array_equal(exact, [1, np.nan, np.nan, 3])


def tensorboard_means(values: np.ndarray, weight: float) -> np.ndarray:
    """Return the means by TensorBoard's formula, value by value."""
    state, count, means = 0.0, 0, []
    for value in values:
        if np.isfinite(value):
            state, count = weight * state + (1 - weight) * value, count + 1
        means.append(state / (1 - weight**count) if np.isfinite(value) else np.nan)
    return np.array(means)


@pytest.mark.parametrize("weight", [0.01, 0.6, 0.99])
def test_mean_is_that_of_tensorboard_and_gaps_do_not_change_it(weight: float) -> None:
    values = noise(6, 4000, gaps=0.2)
    values[500:700] = np.inf
    values[:3] = np.nan
    expected = tensorboard_means(values, weight)
    series = series_of(values)
    x, y = series.smooth(STEP, 0, 4000, 5000, weight)
    np.testing.assert_array_equal(x, np.arange(1, 4001))
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(series.mean_at(4000, weight), expected[-1], rtol=1e-9)
    assert np.isnan(series.mean_at(600, weight) or 0.0)
    assert series.mean_at(4001, weight) is None


def test_mean_of_many_points_is_averaged_in_pixel_columns() -> None:
    values = noise(6, 40_000, gaps=0.2)
    x, y = series_of(values).smooth(STEP, 0, 40_000, 100, 0.9)
    means = tensorboard_means(values, 0.9)
    assert len(x) <= 102
    ends = x.astype(int)[1:-1]
    for begin, end, mean in zip(ends, ends[1:], y[2:-1], strict=False):
        np.testing.assert_allclose(mean, np.nanmean(means[begin:end]), rtol=1e-9)


def test_without_weight_values_are_their_own_means() -> None:
    values = noise(6, 3000, gaps=0.1)
    values[7] = np.inf
    series = series_of(values)
    np.testing.assert_array_equal(
        series.smooth(STEP, 0, 3000, 3000, 0)[1], np.where(np.isfinite(values), values, np.nan)
    )
    assert series.mean_at(3, 0) == values[2]


def test_huge_value_does_not_spoil_later_means() -> None:
    values = np.full(5000, 0.5)
    values[100] = 1e30
    x, y = series_of(values).smooth(STEP, 0, 5000, 5000, 0.6)
    np.testing.assert_allclose(y[x > 300], 0.5)
    series = series_of(np.full(500, 1.7e308))
    assert np.isnan(series.smooth(STEP, 0, 500, 50, 0)[1]).any()  # the sum overflows to a gap without a warning


def test_breaks_are_where_values_stop_being_finite() -> None:
    values = np.ones(50)
    values[[0, 1, 20, 21, 30]] = np.nan
    values[40] = np.inf
    for largest in (2, 3, 50):
        series = series_of(values, largest_batch=largest)
        assert series.breaks(STEP, 0, 100).tolist() == [0, 20, 30, 40]
        assert series.breaks(STEP, 10, 31).tolist() == [20, 30]
    series.append(np.arange(26.0, 41), np.arange(26.0, 41) + 9000, np.ones(15))
    assert series.breaks(STEP, 0, 100).tolist() == [0, 20]
    assert series_of(np.ones(9)).breaks(STEP, 0, 10).tolist() == []


def test_axis_leaves_out_cuts() -> None:
    axis = Axis(column="time", origin=10, cuts=((20, 30), (40, 100)))
    np.testing.assert_array_equal(
        axis.place(np.array([10.0, 20, 25, 30, 35, 40, 60, 100, 101])), [0, 10, 10, 10, 15, 20, 20, 20, 21]
    )
    np.testing.assert_array_equal(axis.locate_all(np.array([0.0, 10, 11, 20, 21])), [10, 20, 31, 40, 101])
    series = Series()
    series.append(np.arange(1.0, 5), np.array([10.0, 20, 30, 40]), np.arange(4.0))
    np.testing.assert_array_equal(series.view(axis, 0, 20, 100)[0], [0, 10, 10, 20])


@pytest.mark.parametrize("axis", [STEP, TIME, EPOCH])
def test_nearest_point_is_found(axis: Axis) -> None:
    series = series_of(noise(7, 3000))
    along = axis.place(series.steps if axis.column == "step" else series.times)
    for position in np.random.default_rng(7).uniform(along[0] - 10, along[-1] + 10, 200):
        point = series.nearest(axis, float(position))
        assert point is not None
        at = int(np.argmin(np.abs(along - position)))
        assert (point.step, point.time) == (series.steps[at], series.times[at])
    assert Series().nearest(axis, 0.0) is None


def test_epochs_are_steps_divided_by_steps_per_epoch() -> None:
    x, y = series_of(np.arange(1.0, 116)).view(EPOCH, 1.0, 5.0, 500)
    np.testing.assert_allclose(x, np.arange(22, 116) / 23)  # from one step before epoch 1 to the end of epoch 5
    assert y[1] == 23


def test_summary_values() -> None:
    series = series_of(np.array([np.inf, 2.0, 0.5, np.nan]))
    assert (series.count, series.first, series.min) == (4, np.inf, 0.5)
    assert series.last is not None
    assert np.isnan(series.last)
    empty = Series()
    assert (len(empty), empty.first, empty.last, empty.min) == (0, None, None, None)
    assert all(len(part) == 0 for part in empty.view(STEP, 0, 1, 100))
    assert all(len(part) == 0 for part in empty.smooth(STEP, 0, 1, 100, 5))


def test_batch_sizes_do_not_change_the_result() -> None:
    values = noise(9, 5000)
    at_once, one_by_one = series_of(values, largest_batch=10**6), series_of(values, largest_batch=2)
    for weight in (0.5, 0.98):
        one_by_one.smooth(STEP, 10, 4900, 33, weight)
        np.testing.assert_allclose(
            at_once.smooth(STEP, 10, 4900, 33, weight)[1], one_by_one.smooth(STEP, 10, 4900, 33, weight)[1]
        )
    np.testing.assert_array_equal(at_once.view(STEP, 10, 4900, 33), one_by_one.view(STEP, 10, 4900, 33))


def test_returned_arrays_do_not_change_when_values_are_appended() -> None:
    series = series_of(np.arange(250.0))
    values = series.values
    series.append(np.arange(251.0, 2001), np.full(1750, 5000.0), np.zeros(1750))
    np.testing.assert_array_equal(values, np.arange(250.0))
    assert len(series) == 2000


def test_repeated_steps_replace_the_earlier_values() -> None:
    series = series_of(np.full(2000, 9.0))
    series.smooth(STEP, 0, 1500, 37, 0.9)
    series.append(np.arange(1001.0, 1501), 9000 + np.arange(500.0), np.full(500, 1.0))
    expected = Series()
    expected.append(np.arange(1.0, 1501), 9000 + np.arange(1500.0), np.repeat([9.0, 1.0], [1000, 500]))
    assert len(series) == 1500
    np.testing.assert_array_equal(series.view(STEP, 0, 1500, 37), expected.view(STEP, 0, 1500, 37))
    np.testing.assert_allclose(series.smooth(STEP, 0, 1500, 37, 0.9)[1], expected.smooth(STEP, 0, 1500, 37, 0.9)[1])


def test_clock_set_back_keeps_times_ascending() -> None:
    series = Series()
    series.append(np.array([1.0, 2.0]), np.array([50.0, 60.0]), np.zeros(2))
    series.append(np.array([3.0, 4.0]), np.array([20.0, 70.0]), np.zeros(2))
    np.testing.assert_array_equal(series.times, [50, 60, 60, 70])


def held_means(series: DeviceSeries, borders: np.ndarray) -> np.ndarray:
    return ReadingCurve(series.times, series.means, series).means(borders)


def test_means_of_readings_hold_on_and_leave_gaps():
    series = DeviceSeries()
    nan = np.nan
    times = np.array([0.0, 1, 2, 3, 10, 11, 12])
    series.append(np.arange(7.0), times, np.array([10.0, 20, nan, nan, 40, 60, nan]))
    borders = np.array([-1.0, 0, 2, 4, 6, 8, 10, 12, 13, 14])
    expected = [nan, 15, nan, nan, nan, nan, 50, nan, nan]
    np.testing.assert_array_equal(held_means(series, borders), expected)
    fine = np.array([10.0, 10.5, 11.0, 11.5, 12.0])
    np.testing.assert_array_equal(held_means(series, fine), [40, 40, 60, 60])
    np.testing.assert_array_equal(held_means(series, np.array([1.0, 1.2, 1.9, 2.1, 3.5])), [20, 20, nan, nan])
    np.testing.assert_array_equal(held_means(series, np.array([14.0, 14.1, 14.3])), [nan] * 2, "nothing was read")
    series.append(np.array([7.0]), np.array([20.0]), np.array([70.0]))
    np.testing.assert_array_equal(held_means(series, np.array([20.0, 21, 22.9, 23.1, 24])), [70, 70, 70, nan])
    np.testing.assert_array_equal(held_means(DeviceSeries(), fine), [nan] * 4)


def test_mean_of_intervals_counts_only_them():
    series = DeviceSeries()
    series.append(np.arange(6.0), np.arange(6.0), np.array([0.0, 80, np.nan, 90, 0, 0]))
    assert series.mean_within([(1.0, 4.0)]) == 85
    assert series.mean_within([(0.0, 2.0), (3.0, float("inf"))]) == 34
    series.append(np.array([6.0]), np.array([6.0]), np.array([100.0]))
    assert series.mean_within([(0.0, 2.0), (3.0, float("inf"))]) == 45
    assert series.mean == 45
    assert series.mean_within([(2.0, 3.0)]) is None
    assert series.mean_within([]) is None
