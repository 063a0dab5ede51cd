"""A program looked at without importing it: what it needs, and how it wants to be launched."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.pythons.probe_process import PythonProbe
from core.scripts.launch_signs import LAUNCHER_MODULES, Launch, guess
from core.scripts.source import OwnModules, follow, is_file, read, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from core.scripts.source import SourceFile
    from core.scripts.usage import Usage

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax")
BROUGHT = {
    "accelerate": ("torch",), "deepspeed": ("torch",), "fastai": ("torch",), "lightning": ("torch",),
    "lightning_fabric": ("torch",), "pytorch_lightning": ("torch",), "timm": ("torch",), "torchvision": ("torch",),
    "tf_keras": ("tensorflow", "keras"), "flax": ("jax",), "optax": ("jax",),
}  # fmt: skip
"""Frameworks that come with a package that is imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnalysis:
    """What a program's source shows."""

    name: str
    """For people: `train.py`, or `package.module`."""
    file: str
    """The file that is executed; empty for a module without a source."""
    folder: str
    """What stands first on its path: the script's folder; for a module, the working folder."""
    launch: Launch
    why: str
    """Why `launch` is proposed: a sentence for people."""
    frameworks: tuple[str, ...] = ()
    """Of `FRAMEWORKS`, those that it or its own modules import."""
    imports: tuple[str, ...] = ()
    """The packages without which it ends at once: neither its own modules nor Python's."""
    modules: tuple[str, ...] = ()
    """All of that kind, Python's own too: a later Python may have, or have lost, one of them."""
    files: tuple[str, ...] = ()
    """The script and those of its own modules that are certainly executed."""
    finds_more: bool = False
    """Whether it changes its own path, or installs packages: what it lacks is not known before it runs."""


def analyse_script(
    path: str, *, module: str | None = None, cwd: str, python: str, variables: Mapping[str, str] | None = None
) -> ScriptAnalysis:
    """Look at a script, a folder with a `__main__.py`, or a module, as `python path` and `python -m module` mean them.

    A path is taken from the working folder `cwd`. A module that is not there is asked of `python`, in a subprocess,
    with `variables` on top of this process's environment. Raises `ValueError` with a sentence for what cannot be run.
    """
    working = _expanded(cwd).absolute()
    if module is not None:
        return _look_at_module(module, working, python, dict(variables or {}))
    script = Path(os.path.normpath(working / _expanded(path)))
    file = _file_of(path, script)
    # The path of a linked script is the folder of what it links to; that of a folder is the folder.
    folder = script if script != file else file.resolve().parent
    return _look(file, name=script.name, own=OwnModules(folder), package=())


def _expanded(text: str) -> Path:
    """A path as a shell would give it."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 (the other one raises for a user who is none)


def _file_of(text: str, script: Path) -> Path:
    """The file that is executed. Raises `ValueError` with a sentence."""
    if not text.strip() or "\0" in text:
        raise ValueError("No script is named. Give the path of a Python program.")
    try:
        if script.is_dir():
            if (script / "__main__.py").is_file():
                return script / "__main__.py"
            raise ValueError(f"{script} is a folder without a __main__.py. Name the script in it that is to be run.")
        if not script.exists():
            raise ValueError(f"There is no script {script}. Check the path and the working folder.")
    except OSError as error:
        raise ValueError(f"{script} cannot be looked at: {error.strerror}. Check the path.") from error
    if script.suffix == ".ipynb":
        raise ValueError(
            f"{script.name} is a notebook, not a program. "
            f"Write its code to one (jupyter nbconvert --to script {script.name})."
        )
    return script


def _look_at_module(module: str, working: Path, python: str, variables: dict[str, str]) -> ScriptAnalysis:
    parts = tuple(module.split("."))
    if not all(part.isidentifier() for part in parts):
        raise ValueError(f"{module!r} is not the name of a module. Write it as for python -m: package.module.")
    if module in LAUNCHER_MODULES:
        why = f"{module} starts the processes itself."
        return ScriptAnalysis(name=module, file="", folder=str(working), launch="one", why=why, modules=(parts[0],))
    file = _local_program(parts, working)
    if file is not None:
        package = parts if file.name == "__main__.py" and parts[-1] != "__main__" else parts[:-1]
        return _look(file, name=module, own=OwnModules(working), package=package)
    told = PythonProbe(python, {"folder": str(working), "programs": [module]}, variables=variables).wait()
    found = told.get("programs", {}).get(module, {"found": False})
    if not found.get("found"):
        raise ValueError(
            f"There is no module {module}, neither in the working folder {working} nor in {python}. "
            "Check its name, make the folder that its package lies in the working folder, or choose another Python."
        )
    if found.get("package"):
        raise ValueError(_no_main(module))
    if not found.get("file"):
        why = "It has no source that could be looked at: one process sees all devices."
        return ScriptAnalysis(name=module, file="", folder=str(working), launch="one", why=why, modules=(parts[0],))
    file = Path(found["file"])
    package = parts if file.name == "__main__.py" else parts[:-1]
    own = OwnModules(file.parents[len(package)], only=parts[0])  # around it lie all the packages of that Python
    return _look(file, name=module, own=own, package=package, path=working)


def _local_program(parts: Sequence[str], working: Path) -> Path | None:
    """The file of a module in the working folder; None when it is not there. Raises `ValueError` with a sentence."""
    inside = working.joinpath(*parts)
    if is_file(inside / "__main__.py"):
        return inside / "__main__.py"
    if is_file(inside / "__init__.py"):
        raise ValueError(_no_main(".".join(parts)))
    file = inside.with_name(f"{inside.name}.py")
    return file if is_file(file) else None


def _no_main(module: str) -> str:
    return f"{module} is a package without a __main__.py, so that python -m cannot run it. Name one of its modules."


def _look(
    file: Path, *, name: str, own: OwnModules, package: tuple[str, ...], path: Path | None = None
) -> ScriptAnalysis:
    """Look at a file; `path` is what stands first on its path, if that is not where its own modules lie."""
    first = str(path or own.folder)
    try:
        script = source_of(file, package, needed=True)
    except SyntaxError as error:
        return _unreadable(error, ScriptAnalysis(name=name, file=str(file), folder=first, launch="one", why=""))
    sources = follow(script, own)
    modules, frameworks = _needed(sources, own), _frameworks(sources, own)
    launch, why = guess({own.called(source.path): source.evidence for source in sources}, frameworks)
    return ScriptAnalysis(
        name=name, file=str(file), folder=first, launch=launch, why=why, frameworks=frameworks, modules=modules,
        imports=tuple(each for each in modules if each not in sys.stdlib_module_names and not own.is_folder(each)),
        files=tuple(str(source.path) for source in sources if source.needed),
        finds_more=any(_finds_more(source.evidence) for source in sources),
    )  # fmt: skip


def _unreadable(error: SyntaxError, look: ScriptAnalysis) -> ScriptAnalysis:
    """What can be said of a file that this application's Python does not understand: the chosen one may."""
    first_line = read(Path(look.file)).partition(b"\n")[0].decode(errors="replace").strip()
    if first_line.startswith("#!") and "python" not in first_line:
        raise ValueError(
            f"{look.name} is no Python program: it is one for {first_line.removeprefix('#!').strip()}. "
            "Name the Python program that it starts."
        ) from error
    line = f"line {error.lineno}" if error.lineno else "it"
    ours = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    why = f"It could not be looked into: {ours}, this application's, does not understand {line}."
    return replace(look, why=why, files=(look.file,))


def _needed(sources: Sequence[SourceFile], own: OwnModules) -> tuple[str, ...]:
    """The top-level modules that are imported for certain, but for the program's own."""
    names = [
        each.module.partition(".")[0]
        for source in sources
        if source.needed
        for each in source.imports
        if each.needed and not each.level
    ]
    return tuple(name for name in dict.fromkeys(names) if name != "__future__" and not own.has(name))


def _frameworks(sources: Sequence[SourceFile], own: OwnModules) -> tuple[str, ...]:
    """Those that are imported anywhere, or come with what is imported."""
    names = {each.module.partition(".")[0] for source in sources for each in source.imports if not each.level}
    seen = {name for name in names if not own.has(name)}
    seen |= {framework for name in seen for framework in BROUGHT.get(name, ())}
    if any(name.startswith("tensorflow.keras") for source in sources for name in source.evidence.used):
        seen.add("keras")
    return tuple(name for name in FRAMEWORKS if name in seen)


def _finds_more(evidence: Usage) -> bool:
    """Whether it changes where modules are looked for, or installs some."""
    changes = any(f"{name}.".startswith(("sys.path.", "sys.meta_path.", "site.addsitedir.")) for name in evidence.used)
    return changes or {"pip", "install"} <= evidence.started()
