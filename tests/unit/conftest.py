"""Fixtures of several modules of unit tests."""

from __future__ import annotations

import pytest

from tests.support.fake_machine import FakeMachine


@pytest.fixture
def machine() -> FakeMachine:
    """A machine with a GPU and a CPU device, for the memory watch."""
    return FakeMachine()
