"""The curves of a comparison against numpy: smoothing in columns, groups with their bands, axes, readings."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from core.results.curves import (
    AXES,
    DEVIATION,
    INTERVAL,
    MIN_MAX,
    Member,
    axis_of,
    column_smoothing,
    curve,
    group_curve,
    guide_of,
)
from core.results.measured_run import read_run
from core.series.device_readings import DeviceSeries, ReadingCurve
from core.series.series import STEP, Axis, ExponentialMean, Series
from tests.support.running import make_spec
from tests.support.written_runs import BEGAN, values, write_run


def series_of(numbers: np.ndarray, first: int = 1, step_s: float = 0.5) -> Series:
    series = Series()
    steps = np.arange(first, first + len(numbers), dtype=np.float64)
    series.append(steps, 100.0 + step_s * steps, np.asarray(numbers, dtype=np.float64))
    return series


def exponential_means(numbers: np.ndarray, weight: float) -> np.ndarray:
    mean = ExponentialMean(weight)
    mean.extend(numbers)
    return mean.array


@pytest.mark.parametrize("weight", [0.0, 0.6, 0.99])
def test_a_short_curve_and_a_part_are_the_values_or_their_exponential_mean(weight: float) -> None:
    numbers = np.random.default_rng(0).random(20_000)
    numbers[40:50] = np.nan
    whole = exponential_means(numbers, weight) if weight else numbers
    x, y = curve(series_of(numbers[:300]), STEP, (0, 300), 400, weight)
    assert x.tolist() == list(range(1, 301))
    assert np.allclose(y, whole[:300], equal_nan=True)
    x, y = curve(series_of(numbers), STEP, (15_000, 15_100), 400, weight)
    assert (x[0], x[-1]) == (14_999, 15_101), "one point beyond either end"
    assert np.allclose(y, whole[x.astype(int) - 1], rtol=1e-4)


@pytest.mark.parametrize("weight", [0.6, 0.9, 0.99])
def test_columns_of_a_long_curve_follow_the_exponential_mean(weight: float) -> None:
    at = np.arange(100_000)
    numbers = 2 * np.exp(-at / 2e4) + np.random.default_rng(2).normal(0, 0.1, len(at))
    x, y = curve(series_of(numbers), STEP, (0, 100_000), 500, weight)
    assert 490 <= len(x) <= 504
    whole = exponential_means(numbers, weight)
    ends = x.astype(int)
    expected = np.array([whole[max(end - 200, 0) : end].mean() for end in ends])
    assert np.abs(y - expected).max() < 0.05, "columns are about 200 steps wide, and their means vary by 0.1 / 14"


def test_one_step_a_column_is_the_exponential_mean_and_no_spike_is_lost_without_smoothing() -> None:
    numbers = np.zeros(100_000)
    numbers[[5, 70_001]] = 9.0, -7.0
    _, y = curve(series_of(numbers), STEP, (0, 100_000), 300, 0.0)
    assert (y.max(), y.min()) == (9.0, -7.0)
    numbers = np.array([3.0, 1.0, np.nan, 2.0])
    smoothed = column_smoothing(numbers, np.ones(4), 0.7)
    assert np.allclose(smoothed, [3.0, 2.4, np.nan, 2.28], equal_nan=True)


def members_of(table: Iterable[np.ndarray]) -> list[Member]:
    return [Member(series=series_of(row), axis=STEP) for row in table]


@pytest.mark.parametrize(("band", "half"), [(DEVIATION, 1.0), (INTERVAL, 4.303 / np.sqrt(3))])
def test_a_group_against_numpy(band: str, half: float) -> None:
    table = np.random.default_rng(3).random((3, 50))
    found = group_curve(members_of(table), (0, 50), 400, 0.0, band)
    deviation = table.std(axis=0, ddof=1)
    assert np.allclose(found.mean, table.mean(axis=0))
    assert np.allclose(found.low, table.mean(axis=0) - half * deviation)
    assert np.allclose(found.high, table.mean(axis=0) + half * deviation)
    assert found.rest == ()


def test_a_band_ends_where_fewer_runs_go_on_and_has_gaps_where_one_has() -> None:
    table = [np.arange(10.0), np.arange(10.0) + 2, np.arange(6.0) + 4]
    table[1][3] = np.nan
    found = group_curve(members_of(table), (0, 12), 400, 0.0, MIN_MAX)
    assert found.x.tolist() == list(range(1, 11))
    assert found.mean.tolist()[:3] == [2.0, 3.0, 4.0]
    assert np.isnan(found.mean).tolist() == [False, False, False, True, False, False, True, True, True, True]
    assert (found.low[5], found.high[5]) == (5.0, 9.0)
    (_, first), (_, second), (_, third) = found.rest
    assert np.isfinite(first).tolist() == [False, False, True, True, False, True, True, True, True, True]
    assert np.isfinite(second).tolist()[-4:] == [True] * 4
    assert not np.isfinite(third)[6:].any()


@pytest.mark.parametrize("seed", range(12))
def test_groups_with_own_steps_gaps_and_unequal_lengths_against_numpy(seed: int) -> None:
    """Each run measures every n-th step only, from its own first step on, and some values are NaN or infinite."""
    random = np.random.default_rng(seed)
    tables: list[dict[float, float]] = []
    members = []
    for _ in range(random.integers(2, 6)):
        first, every, count = random.integers(0, 20), random.integers(1, 4), random.integers(1, 60)
        steps = (first + every * np.arange(count)).astype(np.float64)
        numbers = random.normal(size=count)
        numbers[random.random(count) < 0.1] = random.choice([np.nan, np.inf, -np.inf])
        tables.append(dict(zip(steps.tolist(), numbers.tolist(), strict=True)))
        series = Series()
        series.append(steps, 100.0 + steps, numbers)
        members.append(Member(series=series, axis=STEP))
    found = group_curve(members, (0, 300), 400, 0.0, MIN_MAX)
    every_step = sorted({step for table in tables for step in table})
    assert found.x.tolist() == every_step
    whole = np.array([[table.get(step, np.nan) for step in every_step] for table in tables])
    complete = np.isfinite(whole).all(axis=0)
    for drawn, combined in ((found.mean, whole.mean(axis=0)), (found.low, whole.min(axis=0)),
                            (found.high, whole.max(axis=0))):
        assert np.allclose(drawn[complete], combined[complete], rtol=1e-12)
        assert np.isnan(drawn[~complete]).all(), "no value is made up where a run has none"
    for (_, alone), own in zip(found.rest, whole, strict=False):
        seen = np.isfinite(alone)
        assert np.allclose(alone[seen], own[seen])
        assert np.isfinite(alone[~complete & np.isfinite(own)]).all(), "each run is drawn where not all have a value"


def test_long_runs_of_a_group_are_averaged_by_columns_of_steps() -> None:
    at = np.arange(60_000)
    table = [np.exp(-at / 1e4) + offset for offset in (0.0, 0.1, 0.5)]
    found = group_curve(members_of(table), (0, 60_000), 300, 0.6, MIN_MAX)
    assert len(found.x) == 300
    assert np.allclose(found.high - found.low, 0.5, atol=1e-3)
    assert np.allclose(found.mean, np.exp(-(found.x - 100) / 1e4) + 0.2, atol=0.02)


def test_a_band_on_a_logarithmic_scale_stays_above_zero() -> None:
    table = [np.array([1.0, -1.0, 2.0]), np.array([9.0, 3.0, 2.0])]
    found = group_curve(members_of(table), (0, 3), 100, 0.0, DEVIATION, positive=True)
    assert found.low[0] == pytest.approx(0.1)
    assert np.isnan(found.mean[1])


def test_runs_of_a_group_are_compared_by_step_also_over_time() -> None:
    quick, slow = series_of(np.arange(20.0), step_s=1.0), series_of(np.arange(20.0), step_s=3.0)
    members = [Member(series=each, axis=Axis(column="time", origin=100.0)) for each in (quick, slow)]
    found = group_curve(members, (0.0, 60.0), 400, 0.0, MIN_MAX)
    assert found.mean.tolist() == list(range(20))
    assert found.x.tolist() == [2.0 * step for step in range(1, 21)]


def test_axes_of_a_run_with_a_pause(tmp_path: Path) -> None:
    plan = {"t": BEGAN + 1, "kind": "plan", "epochs": 2, "steps_per_epoch": 4, "samples_per_epoch": 100}
    states = ((0, "starting"), (1, "running"), (10, "paused"), (50, "starting"), (51, "running"), (70, "finished"))
    run_dir = write_run(
        tmp_path, "a", [plan, values(1, 2, 9, loss=[4.0] * 8), values(9, 52, 59, loss=[3.0] * 8)], states=states
    )
    run = read_run(run_dir)
    loss = run.series.metrics["loss"]

    def last(name: str) -> float:
        axis = axis_of(run, name, "loss", origin=BEGAN - 10)
        return float(axis.place(loss.steps[-1:] if axis.column == "step" else loss.times[-1:])[0])

    assert {name: last(name) for name in AXES} == {
        "step": 16, "epoch": 4, "samples": 400, "training": pytest.approx(14.0), "wall": pytest.approx(69.0),
    }
    times = guide_of(run).times_of(axis_of(run, "epoch"), np.array([0.25, 2.0, 9.0]))
    assert times[:2].tolist() == pytest.approx([BEGAN + 2, BEGAN + 9])
    assert np.isnan(times[2]), "nothing was trained there"
    plain = read_run(write_run(tmp_path, "b", [values(1, 1, 2, loss=[2.0, 1.0])], spec=make_spec("digits_mlp")))
    assert [name for name in AXES if axis_of(plain, name, "loss") is None] == ["epoch", "samples"], "without a plan"


def test_readings_of_several_devices_as_one_curve() -> None:
    times = np.arange(0.0, 10.0)
    one, other = DeviceSeries(), DeviceSeries()
    one.append(times, times, np.where(times == 4, np.nan, 10.0))
    other.append(times, times, np.where(times == 4, np.nan, times * 10))
    mean = ReadingCurve.of({"a": one, "b": other}, np.nanmean)
    assert mean.means(np.array([0.0, 2.0, 4.0, 5.0, 100.0])).tolist() == pytest.approx(
        [7.5, 17.5, np.nan, 40.0], nan_ok=True
    )
    assert mean.means(np.array([9.5, 9.6, 30.0, 31.0])).tolist()[0] == 50.0, "a reading holds on"
    assert np.isnan(mean.means(np.array([30.0, 31.0]))).all()
    beyond = mean.means(np.array([np.nan, 0.0, 2.0, np.nan, np.nan]))
    assert beyond.tolist() == pytest.approx([np.nan, 7.5, np.nan, np.nan], nan_ok=True), "not those of before and after"
    assert (mean.nearest(2.2), mean.nearest(4.1)) == (15.0, None)
    assert ReadingCurve.of({}, np.nanmean).nearest(0.0) is None
    peak = ReadingCurve.of({"a": one, "b": other}, np.nanmax, scale=10.0)
    assert peak.nearest(9.0) == 9.0


def test_the_best_value_and_the_first_at_a_target_are_found_in_blocks() -> None:
    numbers = np.random.default_rng(5).random(20_000) + 1
    numbers[[4095, 12_000, 12_001]] = np.nan, np.inf, 0.5
    series = series_of(numbers)
    assert series.extreme_index(lowest=True) == 12_001
    assert series.extreme_index(lowest=False) == int(np.nanargmax(np.where(np.isinf(numbers), np.nan, numbers)))
    assert series.first_reaching(0.5, below=True) == 12_001
    assert series.first_reaching(1.9, below=False) == int(np.argmax(np.where(np.isfinite(numbers), numbers, 0) >= 1.9))
    assert series.first_reaching(0.4, below=True) is None
    assert series_of(np.full(9, np.nan)).extreme_index(lowest=True) is None
