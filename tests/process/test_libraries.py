"""Programs of real training libraries, run unchanged: their curves, step by step, against what the library recorded.

These libraries are in the extra `libraries`, not in `test`: together they are gigabytes. A program whose library is not
installed is skipped. Those of Lightning, Accelerate and transformers are in `test_script_metrics.py`. The trackers are
Weights & Biases offline, trackio and MLflow.
"""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from core.metrics.reread import reread
from core.runs.facts import RunState
from tests.process.test_script_metrics import points
from tests.support.patient_supervisor import start_patiently
from tests.support.present import present
from tests.support.running import script_spec, train

PROGRAMS = Path(__file__).resolve().parents[1] / "scripts" / "libraries"
MODULES = {
    "ignite_run": "ignite",
    "lightgbm_train": "lightgbm",
    "sklearn_boosting": "sklearn",
    "sklearn_mlp": "sklearn",
    "skorch_fit": "skorch",
    "stable_baselines3_ppo": "stable_baselines3",
    "timm_train": "timm",
    "ultralytics_classify": "ultralytics",
    "xgboost_train": "xgboost",
}
DIGITS = 2e-2
"""Relative. The programs print three digits or more."""


def is_installed(name: str) -> bool:
    """Return whether the library that a program is written for is installed."""
    return find_spec(MODULES[name]) is not None


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("name", present(sorted(MODULES), is_installed, "extra library"))
def test_program_of_a_library_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    record = tmp_path / "record.json"

    followed = train(script_spec(PROGRAMS / f"{name}.py", str(record), cwd=tmp_path), tmp_path / "runs")

    assert followed.state is RunState.FINISHED, followed.run.log_end()
    for metric, recorded in json.loads(record.read_text()).items():
        wanted = {int(step): value for step, value in recorded.items()}
        assert points(followed.run_series.metrics[metric]) == pytest.approx(wanted, rel=DIGITS, abs=1e-3), metric


def test_every_program_has_its_row() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(MODULES)


# -- trackers --------------------------------------------------------------------------------------


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
