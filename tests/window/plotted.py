"""A synthetic run for the plot tests, and helpers that draw it."""

import numpy as np

from core.series.run_series import RunSeries
from gui.plots.run_plot import Plot

STEPS, PER_EPOCH, START = 460, 23, 1000.0
COLOURS = {"cpu:0": "#4d9bff", "cpu:1": "#ff9f45"}
LABELS = {"cpu:0": "CPU 0", "cpu:1": "CPU 1"}


def losses() -> np.ndarray:
    """Return a falling noisy loss with a gap and a negative value, shape (STEPS,)."""
    values = 2 * np.exp(-np.arange(STEPS) / 150) + np.random.default_rng(0).normal(0, 0.02, STEPS) + 0.1
    values[100:110] = np.nan
    values[200] = -1.0
    return values


def events() -> list[dict]:
    """Return the events of a run: STEPS steps at 10 per second, starting after 2 s, and 60 s of samples."""
    found: list[dict] = [
        {"t": START, "kind": "state", "state": "starting"},
        {"t": START, "kind": "plan", "epochs": 3, "steps_per_epoch": PER_EPOCH, "samples_per_epoch": 64},
    ]
    values = losses()
    for first in range(1, STEPS + 1, 10):
        batch = values[first - 1 : first + 9].tolist()
        ended = START + 2 + (first + 9) / 10
        metrics = {"loss": batch, "accuracy": [1 - value for value in batch]}
        found.append({"t": ended, "kind": "metrics", "since": ended - 0.9, "first": first, "values": metrics})
    found += (
        {"t": START + 2 + step / 10, "kind": "metrics", "first": step, "values": {"val_loss": [step / 100]}}
        for step in range(PER_EPOCH, STEPS + 1, PER_EPOCH)
    )
    for second in range(60):
        for device in COLOURS:
            reading = None if device == "cpu:1" and 20 <= second < 30 else 80.0
            found.append(
                {
                    "t": START + second,
                    "kind": "sample",
                    "device": device,
                    "utilisation_percent": reading,
                    "memory_used_bytes": 3 * 2**30,
                }
            )
    found.append({"t": START + 50, "kind": "state", "state": "releasing"})
    return sorted(found, key=lambda event: event["t"])


def resume_events(step: int) -> list[dict]:
    """Return the events of a resume at `step`, 100 s after the start, with losses of 7."""
    resumed = START + 100
    return [
        {"t": START + 51, "kind": "state", "state": "paused"},
        {"t": resumed, "kind": "state", "state": "starting"},
        {"t": resumed + 1, "kind": "plan", "epochs": 3, "steps_per_epoch": PER_EPOCH, "samples_per_epoch": 64},
        {"t": resumed + 1, "kind": "rewind", "step": step},
        {"t": resumed + 4, "kind": "metrics", "since": resumed + 2, "first": step + 1,
         "values": {"loss": [7.0] * 30, "accuracy": [0.5] * 30}},
    ]


def draw(run_series: RunSeries | None, *plots: Plot) -> None:
    """Show the series in the plots, as the window does, and redraw them."""
    for plot in plots:
        plot.show_series(run_series, COLOURS, LABELS)
    for plot in plots:
        plot.redraw()


def choose(plot: Plot, box: str, data: object) -> None:
    """Select the entry with this data in one of the plot's combo boxes."""
    widget = getattr(plot.controls, box)
    widget.setCurrentIndex(widget.findData(data))
    plot.redraw()


def smooth(plot: Plot, weight: float) -> None:
    """Set the smoothing of the loss plot."""
    plot.controls.smoothing_button.set_weight(weight)
    plot.redraw()


def readings(values: dict[str, list[float | None]]) -> RunSeries:
    """Return a run series with one reading per device and second."""
    series = RunSeries()
    for second in range(max(map(len, values.values()))):
        for device, column in values.items():
            series.add_reading(device, START + second, column[second], None)
    return series
