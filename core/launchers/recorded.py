"""Run a script from a copy of its file, as if that were the file, which has changed meanwhile.

    PYTHON recorded.py COPY SCRIPT [ARGUMENT ...]

This file is run by its path, under the user's Python: standard library and Python 3.8 only.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


def main(copy: str, path: str) -> None:
    """Run the copy in place of this module, under the path of the script."""
    import linecache
    import types

    with open(copy, encoding="utf-8") as file:  # noqa: PTH123 (quick)
        text = file.read()
    sys.argv = sys.argv[2:]
    here = __file__.rpartition("/")[0]
    if sys.path and sys.path[0] == here:
        sys.path[0] = path.rpartition("/")[0]
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.excepthook = _print_exception
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 (the user's program)


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception with the lines of the copy, and without the frames of this file."""
    import traceback

    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    main(*sys.argv[1:3])
