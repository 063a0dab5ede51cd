"""Kills of processes of runs that train with the real frameworks; `tests/process/test_chaos.py` says what is judged.

Each start is cold: some ten seconds of a processor.
"""

import os
from pathlib import Path

import pytest

from tests.framework.test_hosts_soak import curve_of_one_device
from tests.process.test_chaos import SAVES, SOON, Chaos, play
from tests.support.running import FOREVER, LONG_PYTORCH, make_spec, write_recipe

HITS = 60
CELLS = {"single": ("pytorch", "cpu:0"), "ddp": ("pytorch", "cpu:0,cpu:1"), "mirrored": ("keras", "cpu:0,cpu:1")}
"""Framework and devices by strategy."""


@pytest.mark.e2e
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("strategy", list(CELLS))
def test_no_kill_of_a_process_of_a_framework_leaves_a_wrong_state_or_number(
    runs_root: Path, tmp_path: Path, strategy: str
) -> None:
    seed = int(os.environ.get("TRAINYARD_TEST_SEED", "38"))
    framework, devices = CELLS[strategy]
    recipe = write_recipe(tmp_path, LONG_PYTORCH) if framework == "pytorch" else "digits_mlp"
    settings = {"framework": framework, "epochs": FOREVER, "stop_timeouts": SOON, "checkpoints": SAVES}
    alone = make_spec(recipe, **settings)
    reference = curve_of_one_device(alone, tmp_path / "reference")
    runs_root.mkdir()
    spec = make_spec(recipe, devices=devices, strategy=strategy, **settings)
    tolerance = 1e-5 if framework == "pytorch" else 1e-3
    play(Chaos(runs_root, {strategy: spec}, seed, lambda *_: reference, tolerance), seed, HITS)
