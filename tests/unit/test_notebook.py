"""A notebook as a program: its code cells in order, without what only IPython understands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.launchers import program
from core.launchers.program import code_cells
from core.metrics.text.log import LogReader
from core.scripts.analysis import analyse_script


def written(folder: Path, *cells: str) -> Path:
    path = folder / "train.ipynb"
    each = [{"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": []} for source in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# Title"}, *each], "nbformat": 4}))
    return path


@pytest.mark.parametrize(
    ("source", "python", "left_out"),
    [
        ("x = 1\n", "x = 1\n", []),
        ("%matplotlib inline\nx = 1", "pass\nx = 1", ["%matplotlib inline"]),
        ("if True:\n    !pip install torch\nx = 1", "if True:\n    pass\nx = 1", ["!pip install torch"]),
        ("files = !ls\n", "pass\n", ["files = !ls"]),
        ("torch.nn?", "pass", ["torch.nn?"]),
        ("%%time\nx = 1", "pass\nx = 1", ["%%time"]),
        ("%%bash\necho hello", "", ["%%bash"]),
        ("print('%s'\n      % 3)", "print('%s'\n      % 3)", []),
        ("text = '''\n!not a shell line\n'''", "text = '''\n!not a shell line\n'''", []),
    ],
)
def test_lines_for_ipython_are_left_out_and_named(source: str, python: str, left_out: list[str]) -> None:
    (cell,) = code_cells(json.dumps({"cells": [{"cell_type": "code", "source": source}]}))
    assert (cell.source, list(cell.left_out)) == (python, left_out)


def test_cells_run_in_order_in_one_namespace_as_a_program_would(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("rate = 0.5\n")
    path = written(
        tmp_path, "%pip install torch\nimport sys, mine", "print(__name__, sys.argv, mine.rate)",
        "def fit():\n    return 1 / 0", "display('loss: 1')\nfit()",
    )
    done = subprocess.run(
        [sys.executable, program.__file__, str(path), "--lr", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == f"__main__ {[str(path), '--lr', '1']} 0.5\nloss: 1\n"
    first, *trace = done.stderr.splitlines()
    assert first == "train.ipynb, cell 1: left out %pip install torch"
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[1:3] == [f'  File "{path}, cell 4", line 2, in <module>', "    fit()"]
    assert trace[-1] == "ZeroDivisionError: division by zero"


def test_notebook_is_analysed_as_the_program_that_it_becomes(tmp_path: Path) -> None:
    written(tmp_path, "!nvidia-smi\nimport torch", "rank = 0\nmodel = torch.nn.DataParallel(1)")
    found = analyse_script("train.ipynb", cwd=str(tmp_path), python=sys.executable)
    assert (found.name, found.launch, found.frameworks, found.left_out) == (
        "train.ipynb", "one", ("torch",), ("!nvidia-smi",),
    )
    (tmp_path / "train.ipynb").write_text("{}")
    with pytest.raises(ValueError, match=r"train.ipynb is not a notebook: it has no cells. Save it again"):
        analyse_script("train.ipynb", cwd=str(tmp_path), python=sys.executable)


def test_cells_may_await_in_one_loop_as_in_jupyter(tmp_path: Path) -> None:
    path = written(
        tmp_path, "import asyncio\ntask = asyncio.ensure_future(asyncio.sleep(0, 7))\nawait asyncio.sleep(0)\n",
        "value = 1", "print(await task + value)",
    )
    done = subprocess.run([sys.executable, program.__file__, path], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("8\n", "")


@pytest.mark.parametrize(
    "imported",
    ["from tqdm.notebook import tqdm", "import tqdm.notebook as bars\ntqdm = bars.tqdm_notebook",
     "import warnings\nwarnings.simplefilter('ignore')\nfrom tqdm import tqdm_notebook as tqdm"],
)
def test_bars_of_notebooks_are_drawn_as_text_and_read(tmp_path: Path, imported: str) -> None:
    cell = """\
for step in (bar := tqdm(range(4), desc="Epoch 1", mininterval=0)):
    bar.set_postfix(loss=1 / (step + 1))
"""
    done = subprocess.run(
        [sys.executable, program.__file__, written(tmp_path, imported, cell)], capture_output=True, check=True
    )
    reader = LogReader()
    readings = [*reader.take(done.stderr), *reader.end()]
    assert {each.step: each.values["loss"] for each in readings if each.values} == {1: 1.0, 2: 0.5, 3: 0.333, 4: 0.25}
    assert (readings[-1].done, readings[-1].total) == (4, 4)
