"""Cases for what this machine has."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def present(cases: Sequence[Any], is_here: Callable[[Any], bool], what: str) -> list[Any]:
    """Return cases for `parametrize`: those that this machine has, and one for all others, which is skipped.

    `what`: what the others lack, for the reason of the skip, such as `Python from pyenv`.
    """
    missing = [each for each in cases if not is_here(each)]
    found = [pytest.param(each, id=_words(each)) for each in cases if each not in missing]
    if not missing:
        return found
    reason = f"this machine has no {what}: {', '.join(map(_words, missing))}"
    return [*found, pytest.param(missing[0], marks=pytest.mark.skip(reason=reason), id="missing")]


def _words(case: object) -> str:
    return ".".join(map(str, case)) if isinstance(case, tuple) else str(case)
