"""Unchanged programs that log to Weights & Biases offline, to trackio and to MLflow, with the real libraries."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from core.metrics.reread import reread
from core.runs.facts import RunState
from tests.support.patient_supervisor import start_patiently
from tests.support.running import script_spec

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "tracked.py"
PYTHON = os.environ.get("TRAINYARD_TEST_TRACKERS_PYTHON", sys.executable)
"""Another Python that has the libraries."""


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("library", ["wandb", "trackio", "mlflow"])
def test_program_with_a_tracker_is_plotted_unchanged(library: str, tmp_path: Path) -> None:
    if sys.executable == PYTHON and find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install trainyard[trackers]")
    environment = {"MLFLOW_ALLOW_FILE_STORE": "1", "TRACKIO_DIR": str(tmp_path / "elsewhere")}
    spec = script_spec(SCRIPT, library, cwd=tmp_path, python=PYTHON, environment=environment)
    followed = start_patiently(spec, tmp_path / "runs").until_over()
    assert followed.state is RunState.FINISHED, followed.run.log_end()
    for name, scale, every in (("loss", 1, 1), ("val_loss", 2, 5)):
        series = followed.run_series.metrics[name]
        assert series.steps.tolist() == list(range(every, 21, every))
        assert series.values.tolist() == pytest.approx([scale / step for step in range(every, 21, every)])
    assert followed.run.facts.notices == ()
    result = reread(followed.run.dir)
    assert (result.before, result.kept) == (result.after, ())
