"""Run what Python cannot run by its path: the code cells of a notebook, or a copy in place of a changed script.

    PYTHON program.py NOTEBOOK [ARGUMENT ...]         its cells in order, without magics and shell lines
    PYTHON program.py COPY SCRIPT [ARGUMENT ...]      the copy as if it were the file of the script

This file is run by its path, under the user's Python: standard library and Python 3.8 only.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

SUFFIX = ".ipynb"
CO_COROUTINE = 0x80
"""The flag of code that awaits: see `inspect.CO_COROUTINE`."""
MAGIC = re.compile(
    r"^(?P<indent>\s*)(?:[\w.\[\], ]+=\s*)?(?:%{1,2}[A-Za-z]\w*|!{1,2}\S|\?{1,2}\w).*$"
    r"|^(?P<help>\s*)[\w.]+\?{1,2}\s*$"
)
"""A line that only IPython understands: `%matplotlib inline`, `!pip install x`, `files = !ls`, `torch.nn?`."""
OF_PYTHON = {"%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python3", "%%memit"}
"""Magics of a cell whose other lines are Python."""


class Cell(NamedTuple):
    number: int
    """Counted from 1 among the code cells."""
    source: str
    """Python; a line that is left out became `pass`."""
    left_out: tuple[str, ...]


def code_cells(text: str) -> list[Cell]:
    """Return the code cells of a notebook. Raises `ValueError` if it is none."""
    document = json.loads(text)
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells")  # noqa: TRY004 (as the errors of JSON)
    code = [each for each in cells if isinstance(each, dict) and each.get("cell_type") == "code"]
    sources = [each.get("source", "") for each in code]
    parts = [source if isinstance(source, list) else [source] for source in sources]
    for number, lines in enumerate(parts, 1):
        if not all(isinstance(each, str) for each in lines):
            raise ValueError(f"code cell {number} has no text")
    return [_cell(number, "".join(lines)) for number, lines in enumerate(parts, 1)]


def _cell(number: int, source: str) -> Cell:
    first = source.lstrip().split("\n", 1)[0].strip()
    if first.startswith("%%") and first.split()[0] not in OF_PYTHON:
        return Cell(number, "", (first,))
    if not first.startswith("%%") and _is_python(source):
        return Cell(number, source, ())
    lines, left_out = [], []
    for line in source.split("\n"):
        found = MAGIC.match(line)
        if found:
            left_out.append(line.strip())
        lines.append(f"{found['indent'] or found['help'] or ''}pass" if found else line)
    return Cell(number, "\n".join(lines), tuple(left_out))


def _is_python(source: str) -> bool:
    try:
        compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def main(source: str, path: str) -> None:
    """Run the code cells of a notebook, or the copy of a script, in one namespace, as the program with this path."""
    import contextlib
    import importlib
    import linecache
    import os
    import types

    with open(source, encoding="utf-8") as file:  # noqa: PTH123 (quick)
        text = file.read()
    module = types.ModuleType("__main__")
    if source.endswith(SUFFIX):
        cells = code_cells(text)
        for cell in cells:
            for line in cell.left_out:
                print(f"{os.path.basename(path)}, cell {cell.number}: left out {line}", file=sys.stderr)  # noqa: PTH119, T201
        os.environ.setdefault("MPLBACKEND", "agg")
        module.__dict__.update(display=print, get_ipython=lambda: None)
        if "tqdm" in text:
            with contextlib.suppress(ImportError):  # which the program will say
                _draw_as_text(importlib.import_module("tqdm"))
        parts = [(f"{path}, cell {cell.number}", cell.source) for cell in cells]
    else:
        module.__dict__.update(__file__=path, __builtins__=__builtins__)
        parts = [(path, text)]
    sys.modules["__main__"] = module
    sys.excepthook = _print_exception
    flags, loop = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if source.endswith(SUFFIX) else 0, None
    for name, code in parts:
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        compiled = compile(code, name, "exec", flags, dont_inherit=True)
        if not compiled.co_flags & CO_COROUTINE:
            exec(compiled, module.__dict__)  # noqa: S102 (the user's program)
            continue
        import asyncio  # imported here: few notebooks need it

        loop = loop or asyncio.new_event_loop()  # one for all cells, as in Jupyter
        asyncio.set_event_loop(loop)
        loop.run_until_complete(eval(compiled, module.__dict__))  # noqa: S307 (likewise)


def _draw_as_text(tqdm: ModuleType) -> None:
    """Let the bars of `tqdm.notebook`, which are widgets of Jupyter, be drawn as in a terminal."""
    bars = tqdm.__dict__["notebook"] = sys.modules["tqdm.notebook"] = type(tqdm)("tqdm.notebook")
    bars.__dict__.update(tqdm=tqdm.tqdm, tqdm_notebook=tqdm.tqdm, trange=tqdm.trange, tnrange=tqdm.trange)


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception with the lines that were run, and without the frames of this file."""
    import traceback

    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    here, first = __file__.rpartition("/")[0], sys.argv[1]
    del sys.argv[: 1 if first.endswith(SUFFIX) else 2]
    if sys.path and sys.path[0] == here:
        sys.path[0] = sys.argv[0].rpartition("/")[0]
    main(first, sys.argv[0])
