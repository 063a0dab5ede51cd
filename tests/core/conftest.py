"""What several modules of tests stand on: every cell of the matrix, trained once."""

from __future__ import annotations

import pytest

from tests.core.cells import CellRuns, spec_of
from tests.running import Trained


@pytest.fixture(scope="session")
def cell_runs(tmp_path_factory: pytest.TempPathFactory) -> CellRuns:
    """Finished runs by framework, strategy and accumulation; to be read only."""
    return Trained(lambda key: spec_of(*key), tmp_path_factory.mktemp("cells"))
