"""Read the files of MLflow's file store: `mlruns/EXPERIMENT/RUN/metrics/NAME` has a line for each value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from core.metrics.files.record_logs import LineFile, reading_of

if TYPE_CHECKING:
    from core.metrics.common.reading import Reading

FOLDER = "metrics"
ABOUT = "meta.yaml"
"""The file beside the folder of the metrics that every run of MLflow has."""
WITHIN = f"{os.sep}{FOLDER}{os.sep}"


def metric_name(path: str) -> str:
    """Return the name of the metric in a file of MLflow; the empty string if it is no such file."""
    folder, within, name = path.rpartition(WITHIN)
    return name.replace(os.sep, "/") if within and Path(folder, ABOUT).is_file() else ""


class MlflowMetricFile(LineFile):
    """The values of one metric: `timestamp value step` in each line, the time in milliseconds."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: the end of a line; the lines before it were there before the run."""
        super().__init__(path, offset)
        self._name = metric_name(str(path))

    def _read(self, line: bytes) -> Reading | None:
        if self._is_repeated(line):
            return None
        try:
            when, value, *step = [float(word) for word in line.split()[:3]]
        except ValueError:
            return None
        numbers = {self._name: value, "timestamp": when / 1000}
        return reading_of(numbers | {"step": step[0]} if step else numbers)
