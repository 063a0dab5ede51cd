"""Blocks of `| key | value |`, as reinforcement learning prints them: Stable-Baselines3, Baselines, Spinning Up.

A block is one record: `text.open_table` gathers its lines, and `reading_of` reads them together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.metrics.common.names import canonical, certainty, is_counter
from core.metrics.common.reading import Reading
from core.metrics.dialects.syntax import NUMBER

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE = re.compile(r"\|(?P<indent>\s+)(?P<key>[A-Za-z][\w@/.()%\- ]{0,60}?)\s*\|\s*(?P<value>[^\s|]{0,40})\s*\|")
VALUE = re.compile(NUMBER, re.IGNORECASE)
STEPS = ("total_timesteps", "timesteps", "total_steps", "num_timesteps", "totalenvinteracts", "steps", "step", "epoch")
"""Keys that say where the training is; the first one that a block has counts."""
IGNORED = re.compile(
    r"n_?updates|serial_timesteps|clip_range.*|(?:.*_)?iterations?|ep_?len.*|mean_ep_length|stop_?iter|.*episodes",
    re.IGNORECASE,
)
REWARDS = re.compile(r"(?:.*[_/])?(?:ep_?rew|mean_reward|return|reward)\w*|\w*(?:EpRet|EpRew)\w*", re.IGNORECASE)
MIN_KEYS = 3


def split(line: str) -> tuple[str, str] | None:
    """Return the key and the value of a line, the key of a section with a slash at its end; None for other lines."""
    match = LINE.fullmatch(line)
    return (match["key"], match["value"]) if match else None


def begins(line: str) -> bool:
    """Return whether a line can be the first of a block: a section, or a key with a number."""
    found = split(line)
    return found is not None and (found[0].endswith("/") if not found[1] else VALUE.fullmatch(found[1]) is not None)


def reading_of(block: Mapping[str, str]) -> Reading | None:
    """Return the reading of a whole block: values by keys with their sections. None without a step or a metric."""
    numbers = {key: float(text) for key, text in block.items() if VALUE.fullmatch(text)}
    by_last = {key.rpartition("/")[2].lower(): value for key, value in numbers.items()}
    step = next((by_last[name] for name in STEPS if name in by_last), None)
    if step is None or not step.is_integer() or len(numbers) < MIN_KEYS:
        return None
    values = {canonical(key): value for key, value in numbers.items() if _is_metric(key)}
    known = any(certainty(key) or REWARDS.fullmatch(key) for key in numbers)
    return Reading(values=values, step=int(step)) if known and values else None


def _is_metric(key: str) -> bool:
    section, _, last = key.rpartition("/")
    if section == "time" or last.lower() in STEPS or IGNORED.fullmatch(last):
        return False
    return not is_counter(last) and not is_counter(key)
