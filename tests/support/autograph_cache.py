"""Share what AutoGraph has converted with processes that are forked later.

TensorFlow rewrites every Python function of a step before it traces it. Of our functions these are up to thirty, for
30 ms each, in every worker; a recipe has some more, and many recipes of the tests have the same ones. So a worker in a
pool notes at its end which functions were converted, and the pool converts them before it forks the next one.
A conversion rewrites source text; it starts no thread of TensorFlow.

AutoGraph itself takes functions for the same if they have the same code in the same lines, whatever file they are in.
Of two such functions in two recipes, an error would name the file of the first.
"""

from __future__ import annotations

import atexit
import contextlib
import linecache
import marshal
import os
import pickle
import shutil
import sys
import tempfile
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator


class Conversion(NamedTuple):
    """A function that was converted."""

    code: bytes
    options: Any
    source: list[str]
    """The lines of the file of a recipe, which a test may change or remove; empty for a file of ours."""


class AutographCache:
    """The conversions of one pool."""

    def __init__(self) -> None:
        # Not a TemporaryDirectory: each forked process would remove it at its end.
        with patch.object(tempfile, "tempdir", None):  # else workers would not look at TMPDIR any more
            self._folder = Path(tempfile.mkdtemp(prefix="autograph"))
        """For the notes of workers, and for the converted source."""
        self._known: set[tuple[CodeType, Any]] = set()
        """Also keeps the code objects: AutoGraph forgets a conversion with them."""

    def convert(self) -> None:
        """Convert what workers have noted since the last call."""
        from tensorflow.python.autograph.core.converter import ProgramContext
        from tensorflow.python.autograph.impl import api

        ours = {module.__file__: vars(module) for module in _ours()}
        for note in self._folder.glob("*.note"):
            for each in pickle.loads(note.read_bytes()):
                code = marshal.loads(each.code)
                if (code, each.options) in self._known:
                    continue
                self._known.add((code, each.options))
                # AutoGraph avoids the names of the globals for names of its own.
                names = ours.get(code.co_filename) or dict.fromkeys(code.co_names)
                function = FunctionType(code, names, closure=tuple(CellType() for _ in code.co_freevars))
                function.__module__ = __name__  # AutoGraph asks the module for the source of a lambda
                with _reading(code.co_filename, each.source), self._in_our_folder():
                    api._TRANSPILER.transform(function, ProgramContext(options=each.options))
            note.unlink()

    def note(self) -> None:
        """Write down what this worker has converted, for the pool."""
        from tensorflow.python.autograph.impl import api

        ours = {module.__file__ for module in _ours()}
        found = []
        for code, by_options in list(api._TRANSPILER._cache._cache.items()):
            if not isinstance(code, CodeType) or "site-packages" in code.co_filename:
                continue
            is_ours = code.co_filename in ours
            source = [] if is_ours else linecache.getlines(code.co_filename)
            if not is_ours and (not source or "from __future__" in "".join(source)):
                continue  # a future import would change what the code means
            found += [
                Conversion(marshal.dumps(code), options, source)
                for options in by_options
                if (code, options) not in self._known
            ]
        if found and self._folder.is_dir():
            unfinished = self._folder / str(os.getpid())
            unfinished.write_bytes(pickle.dumps(found))
            unfinished.rename(unfinished.with_suffix(".note"))

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder)

    @contextlib.contextmanager
    def _in_our_folder(self) -> Iterator[None]:
        """Keep the files with converted source: each forked process would remove them at its end."""
        with patch.object(atexit, "register"), patch.object(tempfile, "tempdir", str(self._folder)):
            yield


@contextlib.contextmanager
def _reading(file: str, source: list[str]) -> Iterator[None]:
    """Within this context, these are the lines of the file, unless there are none."""
    if source:
        linecache.cache[file] = (sum(map(len, source)), None, source, file)
    yield
    if source:
        del linecache.cache[file]


def _ours() -> Iterator[Any]:
    """Yield the modules of a worker that use TensorFlow."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("_trainyard.worker.tensorflow.", "_trainyard.worker.keras.")):
            yield module
