"""A record with named numbers, a row of a table or a JSON object, as a reading."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from core.metrics.common.names import canonical, counts, is_counter
from core.metrics.common.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

SUREST = ("global_step", "trainer_global_step", "train_global_step", "step", "steps")
"""Where several columns count steps, the first of these does; `iter`, say, may begin anew with every epoch."""
TIMES = frozenset({"time", "timestamp", "wall_time", "walltime", "ts"})
FIRST_TIME, LAST_TIME = 1e9, 1e11
"""Between these a time is taken for unix seconds; others count from somewhere else."""
FARTHEST = 2**53
LONGEST_NAME = 200
"""A name of more characters is no name: what was taken for a table or an object of metrics is something else."""


def reading_of(numbers: Mapping[str, float], *, validation: bool = False) -> Reading | None:
    """The numbers of one record by the program's names, step and epoch among them; None when there is no metric.

    With `validation`, the record says of itself that it tells of validation.
    """
    values: dict[str, float] = {}
    steps: dict[str, float] = {}
    epochs: list[float] = []
    times: list[float] = []
    for name, number in numbers.items():
        role, ours = _role(name)
        if role == "metric":
            values[f"val_{ours}" if validation and not ours.startswith("val_") else ours] = number
        elif role == "step":
            steps[ours] = number
        elif role == "epoch":
            epochs.append(number)
        elif role == "time":
            times.append(number)
    if not values:
        return None
    surest = [*(steps[name] for name in SUREST if name in steps), *steps.values()]
    return Reading(
        values=values,
        step=next((int(step) for step in surest if 0 <= step < FARTHEST and step == int(step)), None),
        epoch=next((epoch for epoch in epochs if 0 <= epoch < FARTHEST), None),
        time=next((time for time in times if FIRST_TIME < time < LAST_TIME), None),
    )


@lru_cache(maxsize=4096)
def _role(name: str) -> tuple[Literal["metric", "step", "epoch", "time", "none"], str]:
    """What the numbers under a name are, and our name for it."""
    counted, plain = counts(name), name.strip("_ ").lower().replace(" ", "_").replace("/", "_")
    if counted is not None:
        return counted, plain
    if plain in TIMES:
        return "time", plain
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or is_counter(name):
        return "none", plain
    return "metric", canonical(name)
