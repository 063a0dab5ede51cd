"""Describe the Python that runs this file, as a line of JSON behind a mark. No package is imported.

    PYTHON -c START probe.py QUESTION

`START` is in `core.pythons.python_info`; it prints the version, which is all that a Python before 3.8 reports. This
file runs under any interpreter with the packages of the user's programs: standard library and Python 3.8 only.

QUESTION is JSON: `folder`, the first entry of the program's `sys.path` (its own folder, or the working folder) or null;
`modules` to find, `programs` to find as `python -m` does, `files` to compile.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import json
import os
import site
import sys
import warnings
from pathlib import Path

TYPE_CHECKING = False  # without importing `typing`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly", "intel-tensorflow", "tensorflow-rocm")
CUDNN = ("libcudnn.so.9", "libcudnn.so.8")
"""cuDNN of a system; the packages of `tensorflow[and-cuda]` have their own."""
MAX_BYTES = 16 * 1024 * 1024


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question, and what is reported in any case."""
    result = {
        "executable": sys.executable, "prefix": sys.prefix, "base_prefix": sys.base_prefix,
        "implementation": sys.implementation.name, "pip": find("pip") is not None,
        "torch": torch(), "tensorflow": tensorflow(), "keras": keras(),
    }
    result["folders"] = sorted({str(Path(each).absolute()) for each in [*sys.path, site.getusersitepackages()]})
    if question.get("folder"):
        sys.path.insert(0, question["folder"])
    result["missing"] = [name for name in question.get("modules", []) if name not in sys.modules and find(name) is None]
    result["programs"] = {name: program(name) for name in question.get("programs", [])}
    result["errors"] = {path: error for path in question.get("files", []) for error in [compiled(path)] if error}
    return result


def find(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """Return the spec of a module as an import would find it, without importing its parents; None if there is none."""
    parent, _, _ = name.rpartition(".")
    if parent:
        above = find(parent)
        path = None if above is None else above.submodule_search_locations
        if path is None:
            return None
    for finder in sys.meta_path:
        with contextlib.suppress(Exception):  # a broken import hook; try the next
            found = finder.find_spec(name, path)
            if found is not None:
                return found
    return None


def program(name: str) -> dict[str, Any]:
    """Return what `python -m` would run: `file`, "" without a source; `package` if its `__main__` is missing."""
    found = find(name)
    if found is None:
        return {"found": False}
    if found.submodule_search_locations is not None:
        inside = find(name + ".__main__")
        if inside is None:
            return {"found": True, "package": True}
        found = inside
    has_source = found.has_location and str(found.origin).endswith(".py")
    return {"found": True, "file": found.origin if has_source else ""}


def compiled(path: str) -> dict[str, Any] | None:
    """Return why a file cannot be compiled: `line` and `words`; None if it can, or if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            source = file.read(MAX_BYTES)
        warnings.simplefilter("ignore")
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return {"line": error.lineno, "words": error.msg}
    except (ValueError, RecursionError, MemoryError) as error:
        return {"line": None, "words": str(error) or type(error).__name__}
    except OSError:
        return None
    return None


def torch() -> dict[str, Any] | None:
    """Return PyTorch's version and whether it was built with CUDA, from its `version.py`."""
    folder = package("torch")
    if folder is None:
        return None
    values = assigned(folder / "version.py")
    cuda = values["cuda"] is not None if "cuda" in values else None
    return {"version": values.get("__version__") or version("torch"), "cuda": cuda}


def tensorflow() -> dict[str, Any] | None:
    """Return TensorFlow's version and its build, from its `build_info.py`, and whether it finds cuDNN."""
    folder = package("tensorflow")
    if folder is None:
        return None
    build = pairs(folder / "python" / "platform" / "build_info.py")
    cuda = build.get("is_cuda_build")
    libraries = None if cuda is not True else find("nvidia.cudnn") is not None or any(map(loads, CUDNN))
    return {
        "version": version(*TENSORFLOWS), "cuda": cuda if isinstance(cuda, bool) else None, "libraries": libraries,
        "architectures": build.get("cuda_compute_capabilities"),
    }


def loads(library: str) -> bool:
    """Return whether the loader finds a library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def keras() -> dict[str, Any] | None:
    """Return Keras' version. Its devices depend on the backend."""
    return None if package("keras") is None else {"version": version("keras", "keras-nightly"), "cuda": None}


def package(name: str) -> Path | None:
    """Return the folder of a package; None for a folder without an `__init__.py`, which may be data."""
    found = find(name)
    if found is None or not found.submodule_search_locations or not found.origin:
        return None
    return Path(found.origin).parent


def version(*names: str) -> str | None:
    """Return the version of the first of these distributions that is installed.

    The name of a folder says it in most cases; `importlib.metadata` takes half as long to be imported as all else here.
    """
    for name in names:
        start, end = name.replace("-", "_") + "-", ".dist-info"
        for folder in sys.path:
            for found in entries(folder):
                if found.startswith(start) and found.endswith(end):
                    return found[len(start) : -len(end)]
    import importlib.metadata

    for name in names:
        with contextlib.suppress(Exception):  # not installed, or damaged metadata
            return importlib.metadata.version(name)
    return None


def entries(folder: str) -> list[str]:
    """Return the names in a folder; none if it cannot be read, or is none."""
    try:
        return os.listdir(folder)  # noqa: PTH208 (many thousand names in some, and `Path` makes an object of each)
    except OSError:
        return []


def tree(path: Path) -> ast.AST:
    """Return a parsed source file, empty if it cannot be read or parsed."""
    try:
        with Path(path).open("rb") as file:
            return ast.parse(file.read(MAX_BYTES))
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def assigned(path: Path) -> dict[str, Any]:
    """Return the constants that a file assigns to names."""
    values = {}
    for node in ast.walk(tree(path)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Constant):
            values.update({target.id: value.value for target in targets if isinstance(target, ast.Name)})
    return values


def pairs(path: Path) -> dict[str, Any]:
    """Return the constants, and lists of them, that a file contains as pairs, `('is_cuda_build', True)`, or in
    dictionaries."""
    values: dict[Any, Any] = {}
    for node in ast.walk(tree(path)):
        both: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            both = [(node.elts[0], node.elts[1])]
        elif isinstance(node, ast.Dict):
            both = list(zip(node.keys, node.values))  # noqa: B905 (Python 3.10)
        for key, value in both:
            if isinstance(key, ast.Constant) and isinstance(value, (ast.Constant, ast.List)):
                with contextlib.suppress(ValueError):  # of something else than constants
                    values[key.value] = ast.literal_eval(value)
    return values


if __name__ == "__main__":
    sys.stdout.write("\ntrainyard-answer:" + json.dumps(answer(json.loads(sys.argv[2]))) + "\n")
    sys.stdout.flush()
