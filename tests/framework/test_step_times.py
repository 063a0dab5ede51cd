"""Where the time of a step goes: measured in real trainings, a sleep in a part of it is named."""

import pytest

from benchmarks.bench_step_time import CASES, measure
from core.catalog import frameworks
from core.config import validation

LEFT_OVER = 0.03
"""The share of a step that its parts may leave over."""
PLANS = {
    "pytorch.ddp": [(0, "none"), (1, "optimizer"), (0, "backward")],
    "tensorflow.single": [(0, "none"), (0, "data"), (0, "backward")],
    "keras.single": [(0, "none"), (0, "forward"), (0, "optimizer")],
}


@pytest.mark.parametrize("name", PLANS)
def test_a_sleep_is_named_with_its_rank_and_part(name: str) -> None:
    assert validation.is_installed(frameworks.framework(name.partition(".")[0]))
    assert name in CASES
    found = measure(name, PLANS[name])
    assert found["judged"] == {phase: int(phase in [each for _, each in PLANS[name][1:]]) for phase in found["judged"]}
    assert found["right"] == found["judged"], found["wrong"]
    assert abs(found["left_over"]) < LEFT_OVER
