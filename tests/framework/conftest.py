"""What several modules of tests stand on: every cell of the matrix, trained once."""

from __future__ import annotations

import os

import pytest

from tests.support.cells import CellRuns, spec_of
from tests.support.running import Trained


@pytest.fixture(scope="session")
def cell_runs(tmp_path_factory: pytest.TempPathFactory) -> CellRuns:
    """Finished runs by framework, strategy and accumulation; to be read only."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # by all processes of tests
    return Trained(lambda key: spec_of(*key), shared / "cells")
