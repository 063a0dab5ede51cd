"""`RunSeries` collects the measurements in the events of a run."""

import json
import tracemalloc

import numpy as np
import pytest

from core.schema.events import metrics_line
from core.series.device_readings import FULL_S, MAX_PENDING, MAX_SPANS, SLACK_S, ReadingCurve
from core.series.run_series import RunSeries
from core.series.series import Axis, Series
from tests.support.recorded import finding
from tests.support.running import folded


def metrics(t: float, first: int, *, since: float | None = None, **values: list[float]) -> dict[str, object]:
    """One metrics event, as read from a log."""
    line = metrics_line(since=t if since is None else since, until=t, first_step=first, values=values)
    event: dict[str, object] = json.loads(line)
    return event


def sample(t: float, device: str, percent: float | None, used_bytes: int | None) -> dict[str, object]:
    return {
        "t": t,
        "kind": "sample",
        "device": device,
        "utilisation_percent": percent,
        "memory_used_bytes": used_bytes,
    }


def test_batches_become_steps_values_and_evenly_spaced_times() -> None:
    run_series = folded(
        metrics(12.0, 1, since=10.0, loss=[np.nan, np.inf, 1.0]), metrics(15.0, 4, since=15.0, loss=[0.5]),
        metrics(15.0, 4, val_loss=[0.7]), metrics(19.0, 8, val_loss=[0.6]),
    )
    for name, steps, times, values in (
        ("loss", [1, 2, 3, 4], [10, 11, 12, 15], [np.nan, np.inf, 1, 0.5]),
        ("val_loss", [4, 8], [15, 19], [0.7, 0.6]),  # at the end of their epoch
    ):
        for column, expected in (("steps", steps), ("times", times), ("values", values)):
            np.testing.assert_array_equal(getattr(run_series.metrics[name], column), expected)


def test_missing_reading_is_nan_and_not_zero() -> None:
    run_series = folded(
        sample(1, "cpu:0", 80.0, None), sample(2, "cpu:0", None, 5), {"t": 3, "kind": "sample", "device": "g"}
    )
    np.testing.assert_array_equal(run_series.utilisation["cpu:0"].values, [80, np.nan])
    np.testing.assert_array_equal(run_series.memory["cpu:0"].values, [np.nan, 5])
    np.testing.assert_array_equal(run_series.utilisation["g"].values, [np.nan])


def test_release_event_adds_the_last_memory_reading() -> None:
    run_series = RunSeries()
    released = {"kind": "release", **finding("cpu:0")}
    del released["after_bytes"]
    run_series.fold([sample(1, "cpu:0", 50.0, 7), {"t": 2, **released, "after_bytes": 3}])
    assert (run_series.memory["cpu:0"].times.tolist(), run_series.memory["cpu:0"].values.tolist()) == ([1, 2], [7, 3])
    assert run_series.utilisation["cpu:0"].times.tolist() == [1]
    ignored = [{"t": 1, "after_bytes": 4}, {"t": 3, "after_bytes": None}, {"t": 3}]
    run_series.fold({**released, **each} for each in [*ignored, {"t": 3, "after_bytes": 4, "device": "cpu:1"}])
    assert (run_series.memory["cpu:0"].values.tolist(), run_series.memory.keys()) == ([7, 3], {"cpu:0"})
    run_series.fold([sample(5, "cpu:0", 20.0, 9)])  # the run was resumed
    assert (run_series.memory["cpu:0"].times.tolist(), run_series.memory["cpu:0"].values.tolist()) == ([1, 5], [7, 9])


def test_run_resumed_from_a_checkpoint_is_one_curve() -> None:
    first = [metrics(10.0, 1, since=1.0, loss=[9.0] * 10), metrics(11.0, 11, loss=[9.0])]
    again = [metrics(25.0, 6, since=20.0, loss=[1.0] * 6)]
    for folds in ([first + again], [first, again]):
        run_series = RunSeries()
        for events in folds:
            run_series.fold(events)
        np.testing.assert_array_equal(run_series.metrics["loss"].steps, np.arange(1, 12))
        np.testing.assert_array_equal(run_series.metrics["loss"].values, [9.0] * 5 + [1.0] * 6)


def test_metric_of_every_eighth_step_is_at_its_steps_and_times() -> None:
    sparse = [{**metrics(10.0, 8, since=6.0, accuracy=[0.1, 0.2, 0.3]), "every": 8}, metrics(11.0, 25, accuracy=[0.4])]
    run_series = folded(*sparse)
    series = run_series.metrics["accuracy"]
    assert (series.steps.tolist(), series.times.tolist()) == ([8, 16, 24, 25], [6, 8, 10, 11])
    run_series.fold([{**metrics(20.0, 16, since=20.0, accuracy=[0.5, 0.6]), "every": 8}])
    assert (series.steps.tolist(), series.values.tolist()) == ([8, 16, 24], [0.1, 0.5, 0.6]), "repeated steps"


def test_plan_adds_an_epoch_axis() -> None:
    run_series = RunSeries()
    assert set(run_series.axes) == {"step", "time", "training"}
    run_series.fold(
        [{"t": 100.0, "kind": "plan", "epochs": 5, "steps_per_epoch": 23, "samples_per_epoch": 9, "new": 1}]
    )
    assert run_series.steps_per_epoch == 23
    assert run_series.axes["epoch"].place(np.array([46.0])) == 2
    assert run_series.axes["time"].place(np.array([107.0])) == 7


def state(at: float, name: str) -> dict:
    return {"t": at, "kind": "state", "state": name}


def test_training_time_leaves_out_start_and_interruptions() -> None:
    run_series = folded(state(100.0, "starting"), metrics(110.0, 1, since=106.0, loss=[9.0] * 5))
    assert run_series.interruptions == ()
    run_series.fold([state(112.0, "releasing"), state(113.0, "paused")])
    run_series.fold([state(120.0, "starting"), state(121.0, "failed"), state(130.0, "starting")])
    run_series.fold([{"t": 131.0, "kind": "rewind", "step": 4}])
    assert run_series.interruptions == (), "nothing was measured since"
    run_series.fold([metrics(142.0, 5, since=140.0, loss=[8.0] * 3)])
    run_series.fold([state(150.0, "starting"), metrics(160.0, 8, loss=[7.0])])
    paused, lost = run_series.interruptions
    assert (paused.since, paused.until, paused.duration_s, paused.state) == (109, 140, 30, "paused")
    assert (lost.since, lost.until, lost.duration_s, lost.state) == (142, 160, 18, "lost")
    axis, series = run_series.axes["training"], run_series.metrics["loss"]
    np.testing.assert_array_equal(axis.place(series.times), [0, 1, 2, 3, 3, 4, 5, 5])
    assert run_series.axes["time"].place(series.times).tolist()[0] == 6


def test_run_that_begins_anew_has_no_interruption() -> None:
    run_series = folded(state(1.0, "starting"), metrics(5.0, 1, since=2.0, loss=[9.0] * 4), state(6.0, "failed"))
    run_series.fold([state(9.0, "starting"), {"t": 9.5, "kind": "rewind", "step": 0}, metrics(12.0, 1, loss=[9.0])])
    assert run_series.interruptions == ()
    assert run_series.axes["training"].origin == 12


def test_the_wait_in_the_queue_is_before_the_start() -> None:
    waited = [state(1.0, "queued"), {"t": 2.0, "kind": "queued", "pid": 1, "created": 1.0}]
    assert folded(*waited).started is None
    run_series = folded(*waited, state(900.0, "starting"), metrics(905.0, 1, since=902.0, loss=[9.0] * 4))
    assert (run_series.started, run_series.axes["time"].origin, run_series.duration_s) == (900.0, 900.0, 5.0)


def test_end_of_training_is_cleared_when_the_run_resumes() -> None:
    run_series = folded(state(1.0, "running"), state(8.0, "releasing"), state(9.0, "paused"))
    assert (run_series.started, run_series.training_ended) == (1.0, 8.0)
    run_series.fold([state(20.0, "running")])
    assert run_series.training_ended is None


def test_unknown_events_are_ignored_and_empty_folds_change_nothing() -> None:
    run_series = folded()
    assert (run_series.version, run_series.started, run_series.duration_s) == (0, None, 0.0)
    run_series.fold([{"t": 5.0, "kind": "from the future", "x": [1]}])
    assert not run_series.metrics
    assert run_series.started == 5.0


@pytest.mark.parametrize("batch", [25, 2500])
def test_a_million_steps_are_appended_at_once(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark bench_reopen measures the time; one append per line would be slow."""
    values = np.random.default_rng(0).random(1_000_000).tolist()
    events = [
        {"t": i + 1.0, "kind": "metrics", "since": float(i), "first": i + 1, "values": {"loss": values[i : i + batch]}}
        for i in range(0, len(values), batch)
    ]
    appended, append = [], Series.append
    monkeypatch.setattr(Series, "append", lambda self, *columns: (appended.append(self), append(self, *columns)))
    run_series = folded(*events)
    assert len(appended) == 1
    assert len(run_series.metrics["loss"]) == 1_000_000
    assert run_series.metrics["loss"].values[-1] == values[-1]


def test_heat_has_series_only_of_devices_that_report_it():
    run_series = RunSeries()
    hot = {"temperature_celsius": 91, "power_watts": 402.5, "sm_clock_mhz": 1200, "slowdowns": ["far too hot"]}
    run_series.fold([
        {**sample(1, "gpu", 80.0, 5), "temperature_celsius": 60, "power_watts": 500},  # as recorded without clocks
        {**sample(2, "gpu", 80.0, 5), **hot},
        sample(2, "cpu:0", 80.0, 5),
        {**sample(3, "gpu", None, None), "lost": "It is gone."},
    ])
    assert run_series.temperature.keys() == run_series.clock.keys() == {"gpu"}
    np.testing.assert_array_equal(run_series.temperature["gpu"].values, [60, 91, np.nan])
    np.testing.assert_array_equal(run_series.power["gpu"].values, [500, 402.5, np.nan])
    np.testing.assert_array_equal(run_series.clock["gpu"].values, [np.nan, 1200, np.nan])
    run_series.fold([{**sample(4, "gpu", 1.0, 1), **hot}, sample(5, "gpu", None, None)])
    assert run_series.temperature["gpu"].times.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_the_readings_of_a_day_take_the_room_of_an_hour():
    """A line keeps its spikes, a strip its means, and the last hour every reading."""
    run_series, hours, day = RunSeries(), [], 24 * 3600
    rng = np.random.default_rng(3)
    busy = rng.uniform(20, 80, day)
    busy[[10_000, 50_000]] = 100.0, 0.0
    busy[60_000:60_300] = np.nan
    times, began = np.arange(day, dtype=float), 1.7e9
    hot = [["hot"] if second % 10 == 0 else [] for second in range(day)]
    tracemalloc.start()
    for hour in range(24):
        for first in range(3600 * hour, 3600 * (hour + 1), 400):
            part = slice(first, first + 400)
            percent = [None if np.isnan(value) else value for value in busy[part].tolist()]
            run_series.fold([{
                "kind": "samples", "t": began + first + 399, "times": (began + times[part]).tolist(),
                "device": ["gpu"] * 400, "utilisation_percent": percent, "memory_used_bytes": [5] * 400,
                "temperature_celsius": [60.0] * 400, "power_watts": [300.0] * 400, "sm_clock_mhz": [1500.0] * 400,
                "slowdowns": hot[part],
            }])
        values = sum(len(series["gpu"]) for series in run_series.every_reading)
        hours.append((values, len(run_series.slowdowns["gpu"]), tracemalloc.get_traced_memory()[0]))
    tracemalloc.stop()
    assert hours[0][0] == 5 * 3600, "the first hour is whole"
    limit = (FULL_S + SLACK_S + 2 * MAX_PENDING + 2 * MAX_SPANS) * 5
    assert max(values for values, *_ in hours) < limit
    assert max(slowed for _, slowed, _ in hours) < limit / 10
    traced = [each for *_, each in hours]
    assert max(traced) < 1.6 * traced[0], "the arrays do not grow after the first hour, but for those of spans"
    series = run_series.utilisation["gpu"]
    assert (series.min, series.max) == (0.0, 100.0)
    assert series.mean == pytest.approx(np.nanmean(busy))
    np.testing.assert_array_equal(series.values[-3600:], busy[-3600:])
    assert series.times[-3600] == began + day - 3600
    borders = began + np.arange(0.0, day + 1, 512)
    expected = [np.nanmean(each) for each in np.split(busy, np.arange(512, day, 512))]
    strip = ReadingCurve(series.times, series.means, series)
    np.testing.assert_allclose(strip.means(borders), expected[:168], rtol=0.01)  # a span with a gap counts in full
    fine = began + np.arange(20_000.0, 20_100.0)
    assert not np.isnan(strip.means(fine)).any(), "a span holds on until its end"
    x, y = series.view(Axis(column="time", origin=began), 0.0, float(day), 500)
    assert {100.0, 0.0} <= set(y.tolist())
    assert x[np.nanargmax(y)] == pytest.approx(10_000, abs=day / 500)
    found = series.mean_within([(began + 3 * 3600, began + 20 * 3600)])
    assert found == pytest.approx(np.nanmean(busy[3 * 3600 : 20 * 3600]), rel=1e-3)


def test_the_reading_after_the_end_is_replaced_when_an_old_run_is_resumed() -> None:
    run_series = RunSeries()
    for at in (0, 7200):
        run_series.fold(sample(second, "gpu", 50.0, second) for second in range(at, at + 5400))
        run_series.fold([{"t": at + 5401.0, "kind": "release", **finding("gpu"), "after_bytes": 7}])
    utilisation, memory = run_series.utilisation["gpu"], run_series.memory["gpu"]
    assert memory.last == 7.0
    assert len(memory) == len(utilisation) + 1
    np.testing.assert_array_equal(memory.times[:-1], utilisation.times)


def test_slowdowns_last_from_the_first_to_the_last_reading_with_these_words():
    run_series = RunSeries()
    said = [(), ("too hot",), ("too hot",), ("far too hot",), (), None, ("too hot",), ("too hot",)]
    run_series.fold(
        {**sample(second, "gpu", 80.0, 5), **({} if words is None else {"slowdowns": list(words)})}
        for second, words in enumerate(said)
    )
    found = [(each.since, each.until, *each.words, each.over) for each in run_series.slowdowns["gpu"]]
    assert found == [(1, 3, "too hot", True), (3, 4, "far too hot", True), (6, 7, "too hot", False)]
    run_series.fold([sample(8, "gpu", None, None)])
    assert (run_series.slowdowns["gpu"][-1].until, run_series.slowdowns["gpu"][-1].over) == (8, True)
    assert sample(9, "cpu:0", 1.0, 1)["device"] not in run_series.slowdowns


def test_training_lasts_from_the_first_measurement_to_its_end_without_pauses():
    run_series = RunSeries()
    assert run_series.trained == []
    run_series.fold([state(0.0, "starting"), metrics(12.0, 1, since=10.0, loss=[3.0, 2.0])])
    assert run_series.trained == [(10.0, float("inf"))]
    run_series.fold([state(20.0, "releasing"), state(21.0, "paused"), state(50.0, "starting")])
    run_series.fold([metrics(62.0, 3, since=60.0, loss=[1.0, 1.0]), state(70.0, "releasing")])
    assert run_series.trained == [(10.0, 12.0), (60.0, 70.0)]
