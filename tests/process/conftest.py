"""The runs of these tests train with the fake worker: no framework is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module", autouse=True)
def _fake_framework(fake_python: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_PYTHON_PYTORCH", str(fake_python))
        patch.setenv("TRAINYARD_PYTHON_TENSORFLOW", str(fake_python))
        yield
