"""Analyse a program without importing it: what it needs, and how to launch it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.language import tr
from core.pythons.python_info import PythonProbe
from core.scripts.launch_signs import (
    LAUNCHER_MODULES,
    Launch,
    leaves_devices_to_lightning,
    meets_by_tf_config,
    propose_launch,
    replicates,
    trains_together,
)
from core.scripts.source import OwnModules, SourceFile, follow, is_file, lines_left_out, read, source_of
from core.scripts.syntax import DeviceNumber
from core.text import first_names, join_names, one_line

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax")
INCLUDED = {
    "accelerate": ("torch",), "deepspeed": ("torch",), "fastai": ("torch",), "lightning": ("torch",),
    "lightning_fabric": ("torch",), "pytorch_lightning": ("torch",), "timm": ("torch",), "torchvision": ("torch",),
    "tf_keras": ("tensorflow", "keras"), "flax": ("jax",), "optax": ("jax",),
}
"""Frameworks that a package uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnalysis:
    """The facts in a program's source."""

    name: str
    """The name to show: `train.py`, or `package.module`."""
    file: str
    """The file that is executed; "" for a module without source."""
    folder: str
    """The first entry of its `sys.path`: the script's folder, or the working folder for a module."""
    launch: Launch
    why: str
    """A sentence that says why `launch` is proposed."""
    frameworks: tuple[str, ...] = ()
    """The frameworks of `FRAMEWORKS` that it or its own modules import."""
    imports: tuple[str, ...] = ()
    """The packages without which it fails at once, except its own modules and the standard library."""
    modules: tuple[str, ...] = ()
    """All modules without which it fails, except its own. Another Python may lack one of the standard library."""
    files: tuple[str, ...] = ()
    """The script and those of its own modules that are always executed."""
    own_files: tuple[str, ...] = ()
    """The script and all of its own modules that it imports anywhere."""
    why_alone: str = ""
    """A sentence that says why one process is proposed on one device, where `launch` is `per-device`; else ""."""
    device_number: DeviceNumber | None = None
    """The largest number of a device in it or its own modules."""
    device_file: str = ""
    """The file with that number, for showing."""
    sets_visible_devices: bool = False
    """Whether it sets CUDA_VISIBLE_DEVICES itself."""
    trains_together: bool = True
    """Whether it uses what lets several processes train one model, or may do so."""
    leaves_devices_to_lightning: bool = False
    replicates: str = ""
    """What makes a replica on each GPU that one process sees; "" without it."""
    meets_by_tf_config: bool = False
    """Whether its processes find each other by TF_CONFIG."""
    left_out: tuple[str, ...] = ()
    """The lines of a notebook that only IPython understands."""
    chooses_port: bool = False
    """Whether it or its own modules name the port or the address at which PyTorch's ranks meet, or may do so."""
    takes_local_rank: bool = False
    """Whether it has an argument `--local_rank`."""
    finds_more: bool = False
    """Whether it changes `sys.path` or installs packages: then missing packages are unknown before it runs."""


def analyse_script(
    path: str, *, module: str | None = None, cwd: str, python: str, variables: Mapping[str, str] | None = None
) -> ScriptAnalysis:
    """Analyse a script, a folder with a `__main__.py`, or a module, as `python path` and `python -m module` run them.

    `path` is relative to the working folder `cwd`. For a module outside of it, a subprocess of `python` finds the file,
    with `variables` added to this process's environment. Raises `ValueError` with a sentence if it cannot be run.
    """
    working = _expanded(cwd).absolute()
    if module is not None:
        return _analyse_module(module, working, python, dict(variables or {}))
    script = Path(os.path.normpath(working / _expanded(path)))
    file = _file_of(path, script)
    # The first entry of `sys.path` is the folder itself, or the folder of the file that a link points to.
    folder = script if script != file else file.resolve().parent
    return _analyse(file, name=script.name, own=OwnModules(folder), package=())


def _expanded(text: str) -> Path:
    """Return a path with `~` expanded."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 (Path.expanduser raises for an unknown user)


def _file_of(text: str, script: Path) -> Path:
    """Return the file that is executed. Raises `ValueError` with a sentence."""
    if not text.strip() or "\0" in text:
        raise ValueError(tr("No script is given. Name a Python program."))
    try:
        if script.is_dir():
            if (script / "__main__.py").is_file():
                return script / "__main__.py"
            raise ValueError(
                tr("{script} is a folder without a __main__.py. Name the script in it to run.", script=script)
            )
        if not script.exists():
            raise ValueError(tr("There is no script {script}. Check the path and the working folder.", script=script))
    except OSError as error:
        raise ValueError(
            tr("{script} cannot be read: {strerror}. Check the path.", script=script, strerror=error.strerror)
        ) from error
    return script


def _analyse_module(module: str, working: Path, python: str, variables: dict[str, str]) -> ScriptAnalysis:
    parts = tuple(module.split("."))
    if not all(part.isidentifier() for part in parts):
        raise ValueError(
            tr("{module!r} is not a module name. Write it as for python -m: package.module.", module=module)
        )
    if module in LAUNCHER_MODULES:
        why = tr("{module} starts the processes itself.", module=module)
        return ScriptAnalysis(name=module, file="", folder=str(working), launch="one", why=why, modules=(parts[0],))
    inside = working.joinpath(*parts)
    main, alone = inside / "__main__.py", inside.with_name(f"{parts[-1]}.py")
    if not is_file(main) and is_file(inside / "__init__.py"):
        raise ValueError(_no_main(module))
    file = main if is_file(main) else alone
    if is_file(file):
        package = parts if file.name == "__main__.py" and parts[-1] != "__main__" else parts[:-1]
        return _analyse(file, name=module, own=OwnModules(working), package=package)
    answer = PythonProbe(python, {"folder": str(working), "programs": [module]}, variables=variables).wait()
    found = answer.get("programs", {}).get(module, {"found": False})
    if not found.get("found"):
        raise ValueError(
            tr("There is no module {module}, neither in the working folder {working} nor in {python}. "
               "Check its name, use the folder that contains its package as working folder, or choose another Python.",
               module=module, working=working, python=python)
        )
    if found.get("package"):
        raise ValueError(_no_main(module))
    if not found.get("file"):
        why = tr("Its source cannot be read: one process sees all devices.")
        return ScriptAnalysis(name=module, file="", folder=str(working), launch="one", why=why, modules=(parts[0],))
    file = Path(found["file"])
    package = parts if file.name == "__main__.py" else parts[:-1]
    own = OwnModules(file.parents[len(package)], only=parts[0])  # the folder contains all packages of that Python
    return _analyse(file, name=module, own=own, package=package, path=working)


def _no_main(module: str) -> str:
    return tr("{module} is a package without a __main__.py, so python -m cannot run it. Name one of its modules.",
              module=module)


def _analyse(
    file: Path, *, name: str, own: OwnModules, package: tuple[str, ...], path: Path | None = None
) -> ScriptAnalysis:
    """Analyse a file. `path`: the first entry of its `sys.path`, if that is not the folder of its own modules."""
    first = str(path or own.folder)
    try:
        script = source_of(file, package, needed=True)
    except SyntaxError as error:
        return _unparsed(error, ScriptAnalysis(name=name, file=str(file), folder=first, launch="one", why=""))
    sources = follow(script, own)
    modules, frameworks = _needed(sources, own), _frameworks(sources, own)
    usages = {own.display_name(source.path): source.usage for source in sources}
    launch, why, why_alone = propose_launch(usages, frameworks)
    numbers = [(each, shown) for shown, usage in usages.items() for each in usage.device_numbers]
    largest, where = max(numbers, default=(None, ""))
    return ScriptAnalysis(
        name=name, file=str(file), folder=first, launch=launch, why=why, frameworks=frameworks, modules=modules,
        imports=tuple(each for each in modules if each not in sys.stdlib_module_names and not own.is_folder(each)),
        files=tuple(str(source.path) for source in sources if source.needed),
        own_files=tuple(str(source.path) for source in sources),
        left_out=lines_left_out(file),
        why_alone=why_alone,
        device_number=largest, device_file=where,
        sets_visible_devices=any("CUDA_VISIBLE_DEVICES" in usage.set for usage in usages.values()),
        trains_together=any(map(trains_together, usages.values())),
        leaves_devices_to_lightning=any(map(leaves_devices_to_lightning, usages.values())),
        replicates=next(filter(None, map(replicates, usages.values())), ""),
        meets_by_tf_config=any(map(meets_by_tf_config, usages.values())),
        chooses_port=any(source.usage.chooses_port for source in sources),
        takes_local_rank=any(source.usage.takes_local_rank for source in sources),
        finds_more=any(map(_finds_more, sources)),
    )


def _unparsed(error: SyntaxError, script: ScriptAnalysis) -> ScriptAnalysis:
    """Return the analysis of a file that this application's Python cannot parse: the chosen Python may be able to."""
    first_line = read(Path(script.file)).partition(b"\n")[0].decode(errors="replace").strip()
    if first_line.startswith("#!") and "python" not in first_line:
        raise ValueError(
            tr("{script} is not a Python program: it is for {first_line}. Name the Python program that it starts.",
               script=script.name, first_line=first_line.removeprefix("#!").strip())
        ) from error
    ours = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if error.lineno:
        why = tr("It could not be analysed: {python}, this application's, cannot parse line {line}.",
                 python=ours, line=error.lineno)
    else:
        why = tr("It could not be analysed: {python}, this application's, cannot parse it.", python=ours)
    return replace(script, why=why, files=(script.file,), own_files=(script.file,), chooses_port=True)


def _needed(sources: Sequence[SourceFile], own: OwnModules) -> tuple[str, ...]:
    """Return the top-level modules that are always imported, except the program's own."""
    imports = (each for source in sources if source.needed for each in source.imports)
    names = [each.module.partition(".")[0] for each in imports if each.needed and not each.level]
    return tuple(name for name in dict.fromkeys(names) if name != "__future__" and not own.has(name))


def _frameworks(sources: Sequence[SourceFile], own: OwnModules) -> tuple[str, ...]:
    """Return the frameworks that are imported anywhere, or that an imported package uses."""
    names = {each.module.partition(".")[0] for source in sources for each in source.imports if not each.level}
    seen = {name for name in names if not own.has(name)}
    seen |= {framework for name in seen for framework in INCLUDED.get(name, ())}
    if any(name.startswith("tensorflow.keras") for source in sources for name in source.usage.used):
        seen.add("keras")
    return tuple(name for name in FRAMEWORKS if name in seen)


ROOT_FINDERS = frozenset({"rootutils", "pyrootutils", "autoroot", "autorootcwd"})
"""Packages that put the folder of the project on the module path."""


def _finds_more(source: SourceFile) -> bool:
    """Return whether a file changes the module path, or installs packages."""
    usage = source.usage
    if any(each.module.partition(".")[0] in ROOT_FINDERS for each in source.imports):
        return True
    changes = any(f"{name}.".startswith(("sys.path.", "sys.meta_path.", "site.addsitedir.")) for name in usage.used)
    return changes or {"pip", "install"} <= usage.started()


MAX_LINE = 60
"""Characters that are shown of a line."""


def cautions(
    script: ScriptAnalysis, launch: Launch | str, devices: int, *, on_cpu: bool, argument: tuple[str, int] | None = None
) -> list[str]:
    """Return sentences about this launch on so many devices. `on_cpu`: whether they are CPU devices.

    `argument`: see `core.diagnosis.device_argument`.
    """
    found = [*_numbers(script, devices, on_cpu=on_cpu, argument=argument)]
    if script.left_out:
        lines = join_names(first_names([one_line(line, MAX_LINE) for line in script.left_out]))
        found.append(
            tr("{name} is run without these lines, which need IPython: {lines}.", name=script.name, lines=lines)
        )
    if devices > 1 and launch == "per-device":
        found += _alone(script, devices, on_cpu=on_cpu)
    if devices > 1 and launch == "one" and on_cpu and script.replicates:
        found.append(
            tr("{what} makes a replica on each GPU. On CPU devices it makes one, on the cores of all.",
               what=script.replicates)
        )
    return found


def _numbers(
    script: ScriptAnalysis, devices: int, *, on_cpu: bool, argument: tuple[str, int] | None
) -> list[str]:
    """Return sentences on numbers of GPUs, in the source and the arguments, other than the program sees."""
    found, number = [], script.device_number
    if script.sets_visible_devices and not on_cpu:
        found.append(
            tr("{name} sets CUDA_VISIBLE_DEVICES itself, so it may use other GPUs. Remove that line.",
               name=script.name)
        )
    if number is not None and devices and not on_cpu and number.number >= devices:
        found.append(
            tr("{file} names GPU {number} in line {line}. Inside a run numbers begin at 0, and the last one here is "
               "{last}. Change that number, or choose more devices.",
               file=script.device_file, number=number.number, line=number.line, last=devices - 1)
        )
    if argument is not None and devices and not on_cpu and argument[1] >= devices:
        found.append(
            tr("The argument {argument} names GPU {number}. Inside a run numbers begin at 0, and the last one here is "
               "{last}. Change that number, or choose more devices.",
               argument=argument[0], number=argument[1], last=devices - 1)
        )
    return found


def _alone(script: ScriptAnalysis, devices: int, *, on_cpu: bool) -> list[str]:
    """Return a sentence if each process would train everything alone."""
    if script.leaves_devices_to_lightning and on_cpu:
        return [
            tr("On CPU devices Lightning trains the same thing in each of the {count} processes. Choose one device, "
               'or give its Trainer devices={count} and strategy="ddp".',
               count=devices)
        ]
    if script.launch == "one" and not script.trains_together:
        return [
            tr("Nothing in {name} joins its processes, so each of the {count} would train the same thing. Choose one "
               "process, or one device.", name=script.name, count=devices)
        ]
    return []
