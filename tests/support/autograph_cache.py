"""Share what AutoGraph has converted with processes that are forked later.

TensorFlow rewrites every Python function of a step before it traces it. Of our functions these are up to thirty, for
30 ms each, in every worker. So a worker in a pool notes at its end which functions of ours were converted, and the pool
converts them before it forks the next one. A conversion rewrites source text; it starts no thread of TensorFlow.
"""

from __future__ import annotations

import atexit
import marshal
import os
import pickle
import shutil
import sys
import tempfile
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

    Conversion = tuple[CodeType, Any]
    """What was converted, and with which options."""


class AutographCache:
    """The conversions of one pool."""

    def __init__(self) -> None:
        # Not a TemporaryDirectory: each forked process would remove it at its end.
        with patch.object(tempfile, "tempdir", None):  # else workers would not look at TMPDIR any more
            self._folder = Path(tempfile.mkdtemp(prefix="autograph"))
        """For the notes of workers, and for the converted source."""
        self._known: list[Conversion] = []
        """Also keeps the code objects: AutoGraph forgets a conversion with them."""

    def convert(self) -> None:
        """Convert what workers have noted since the last call."""
        from tensorflow.python.autograph.core.converter import ProgramContext
        from tensorflow.python.autograph.impl import api

        ours = {module.__file__: module for module in _ours()}
        for note in self._folder.glob("*.note"):
            for code_bytes, options in pickle.loads(note.read_bytes()):
                code = marshal.loads(code_bytes)
                if (code, options) in self._known:
                    continue
                self._known.append((code, options))
                cells = tuple(CellType() for _ in code.co_freevars)
                function = FunctionType(code, vars(ours[code.co_filename]), closure=cells)
                # Each forked process would remove the file with the converted source at its end.
                with patch.object(atexit, "register"), patch.object(tempfile, "tempdir", str(self._folder)):
                    api._TRANSPILER.transform(function, ProgramContext(options=options))
            note.unlink()

    def note(self) -> None:
        """Write down what this worker has converted, for the pool."""
        from tensorflow.python.autograph.impl import api

        files = {module.__file__ for module in _ours()}
        found = [
            (marshal.dumps(code), options)
            for code, by_options in list(api._TRANSPILER._cache._cache.items())
            if isinstance(code, CodeType) and code.co_filename in files
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


def _ours() -> Iterator[Any]:
    """Yield the modules of a worker that use TensorFlow."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("_trainyard.worker.tensorflow.", "_trainyard.worker.keras.")):
            yield module
