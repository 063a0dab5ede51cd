"""Another Python than ours, of another version, in which nothing of ours is installed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core import cli
from core.pythons import LEAST_FOR_RECIPES, ask, find
from core.state import RunState
from tests.running import make_spec, script_spec, train

if TYPE_CHECKING:
    from pathlib import Path

    from core.pythons import Facts, Found

TELLS = """\
import json, sys
for step in range(1, 4):
    print(f"step {step}: loss {1 / step:.3f}")
try:
    import core
except ImportError:
    core = None
json.dump({"version": sys.version_info[:2], "ours": core is not None, "path": sys.path}, open(sys.argv[1], "w"))
"""


@pytest.fixture(scope="module")
def foreign() -> str:
    """The oldest other Python of this machine under which recipes may run, without PyTorch."""
    found = sorted((facts.version, facts.path) for facts in map(_facts, find(None)) if facts and _is_foreign(facts))
    if not found:
        pytest.skip("This machine has no Python of another version from 3.10 on.")
    return found[0][1]


def _facts(found: Found) -> Facts | None:
    try:
        return ask(found.path)
    except ValueError:  # it does not answer: another one may
        return None


def _is_foreign(facts: Facts) -> bool:
    is_ours = facts.version[:2] == sys.version_info[:2]
    return facts.too_old(LEAST_FOR_RECIPES) is None and not is_ours and facts.torch is None


def test_a_script_runs_under_it_and_is_measured(tmp_path: Path, runs_root: Path, foreign: str) -> None:
    (tmp_path / "tells.py").write_text(TELLS)

    ended = train(script_spec("tells.py", "told.json", cwd=tmp_path, python=foreign), runs_root)

    assert ended.state is RunState.FINISHED, ended.run.log_end()
    assert ended.losses() == [1.0, 0.5, 0.333]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["version"] != list(sys.version_info[:2])
    assert told["ours"] is False


def test_a_worker_comes_up_under_it_and_asks_for_its_framework_alone(runs_root: Path, foreign: str) -> None:
    """All that a worker loads before its framework is the standard library and ours, in words that it understands."""
    spec = replace(make_spec("digits_mlp"), python=foreign)

    ended = train(spec, runs_root)

    assert ended.state is RunState.FAILED
    assert f"pytorch could not be imported by {foreign}: ModuleNotFoundError: No module named 'torch'" in str(
        ended.run.facts.error
    )  # fmt: skip


def test_a_recipe_is_refused_where_its_framework_is_missing(
    runs_root: Path, foreign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--runs", str(runs_root), "run", "digits_mlp", "--devices", "cpu:0", "--python", foreign]
    assert cli.main(words) == 2
    assert f"PyTorch is not installed in {foreign}. Install it there" in capsys.readouterr().err
