"""The readings of the last hour, which the next window reads."""

import numpy as np
import pytest

from core.series import recent
from core.series.device_readings import ReadingCurve
from core.series.run_series import RunSeries

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _clock(monkeypatch) -> None:
    monkeypatch.setattr("core.series.recent.time.time", lambda: NOW)


def read_until(now: float, seconds: range) -> RunSeries:
    """Return two readings a second, so many seconds before now, of a GPU and of a CPU device."""
    series = RunSeries()
    for second in seconds:
        for half in (0.0, 0.5):
            slowed = ["too hot"] if 100 <= second < 110 else []
            at = now - second + half
            series.add_reading("far/GPU-1", at, float(second % 7), 2**30, (60.0, 300.0, 1980.0, slowed))
            series.add_reading("cpu:0", at, None if second == 50 else 40.0, None)
    return series


def test_readings_of_the_last_hour_and_slowdowns_come_back_with_a_gap_after_them(tmp_path) -> None:
    path = tmp_path / "cache" / "readings.npz"
    before = read_until(NOW, range(4000, 20, -1))
    recent.save(path, recent.pack(before))
    assert path.stat().st_size < 300_000
    assert path.stat().st_mode & 0o077 == 0, "for this user alone"
    after = recent.load(path)
    assert after is not None
    times = after.utilisation["far/GPU-1"].times
    assert NOW - 3600 <= times[0] <= NOW - 3590, "no more than an hour"
    assert NOW - 30 <= times[-2] <= NOW - 19
    assert np.isnan(after.utilisation["far/GPU-1"].last), "nobody knows what it did since"
    assert np.diff(times).max() < 2 * recent.STEP_S
    np.testing.assert_array_equal(after.power["far/GPU-1"].values[:-1], 300.0)
    assert set(after.temperature) == {"far/GPU-1"}, "a CPU device never had one"
    assert after.memory["cpu:0"].min is None
    (slowdown,) = after.slowdowns["far/GPU-1"]
    assert (slowdown.words, slowdown.over) == (("too hot",), True)
    assert slowdown.until - slowdown.since == pytest.approx(10, abs=1)
    for second in (3, 2, 1):
        after.add_reading("far/GPU-1", NOW - second, 5.0, 2**30, (61.0, 1.0, 2.0, ()))
    used = after.utilisation["far/GPU-1"]
    assert (used.values[-3:] == 5.0).all()
    assert len(used) == len(times) + 3 == len(after.power["far/GPU-1"])
    means = ReadingCurve(used.times, used.means, used).means(np.array([NOW - 16, NOW - 10, NOW - 4]))
    assert np.isnan(means).all(), "a gap stays a gap"
    again = tmp_path / "again.npz"
    recent.save(again, recent.pack(after))
    assert len(recent.load(again).utilisation["cpu:0"]) == pytest.approx(len(after.utilisation["cpu:0"]), abs=2)


@pytest.mark.parametrize("content", [None, b"", b"PK no archive", recent.pack(RunSeries())[:-9]])
def test_file_that_cannot_be_used_is_none(tmp_path, content) -> None:
    path = tmp_path / "readings.npz"
    if content is not None:
        path.write_bytes(content)
    assert recent.load(path) is None


def test_readings_of_a_clock_that_was_ahead_are_left_out(tmp_path) -> None:
    path = tmp_path / "readings.npz"
    recent.save(path, recent.pack(read_until(NOW + 7200, range(60, 20, -1))))
    after = recent.load(path)
    assert after is not None
    assert all(not len(each) for readings in after.every_reading for each in readings.values())
