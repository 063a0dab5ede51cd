"""The warning before something of another user is executed."""

from pathlib import Path

from core.runs.owners import MAX_VARIABLES, execution_warning
from tests.support.running import script_spec


def test_warning_lists_variables_that_load_code_before_others(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    harmless = {f"A{number}": "1" for number in range(MAX_VARIABLES)}
    spec = script_spec(script, cwd=tmp_path, environment={**harmless, "LD_PRELOAD": "/evil.so", "PYTHONPATH": "/evil"})
    lines = execution_warning("mallory", spec).splitlines()
    variables = [line for line in lines if line.startswith("Variable: ")]
    assert variables[:2] == ["Variable: LD_PRELOAD=/evil.so", "Variable: PYTHONPATH=/evil"]
    assert "Continue only if you trust mallory." in lines
