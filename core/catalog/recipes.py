"""Recipe files: find and copy them, and read their functions and settings with `ast`, without importing them."""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.frameworks import framework as framework_row
from core.language import tr, tr_noop
from core.schema.settings import RECIPE_FUNCTIONS, REQUIRED_FUNCTIONS, RUN_KEYWORDS, Recipe, SettingValue
from core.text import join_names
from resources import ROOT

PLAIN = (bool, int, float, str, type(None))
"""What a default must be to be a setting."""
DEVICE = re.compile(r"(/device:|/)?(gpu|cpu|cuda|xpu):\d+", re.IGNORECASE)
"""A device by its number, as PyTorch and TensorFlow write it."""
_CALLED_WITHOUT_ARGUMENTS = frozenset({"model", "train_data", "val_data", "loss", "metrics", "callbacks"})
_MUST_RETURN = {"loss": tr_noop("the loss function"), "metrics": tr_noop("a dict of functions")}
"""What a function must return that is often written as the thing itself."""


def _check_signature(path: Path, node: ast.FunctionDef, *, several: bool) -> None:
    """Raise `ValueError` if a function needs arguments that it is not called with.

    `several`: the recipe has several optimizers.
    """
    needs = _required_parameters(node)
    if node.name in _CALLED_WITH and not node.decorator_list:
        _check_parameters(path, node, needs, several=several)
        return
    if node.name == "callbacks" and needs[:1] == ["folder"]:
        needs = needs[1:]
    if node.name not in _CALLED_WITHOUT_ARGUMENTS or set(needs) <= set(RUN_KEYWORDS):
        return
    if node.name in _MUST_RETURN:
        raise ValueError(
            tr("{function}() in {path}, line {line}, must return {returned}; it was written as the function itself, "
               "which needs {names}. Put that function inside {function}() and return it.",
               function=node.name, path=path, line=node.lineno, returned=tr(_MUST_RETURN[node.name]),
               names=join_names(needs))
        )
    raise ValueError(
        tr("{function}() in {path}, line {line}, needs {names}, but it is called without arguments. "
           "Give each of its parameters a default.",
           function=node.name, path=path, line=node.lineno, names=join_names(needs))
    )


_CALLED_WITH = {
    "training_step": ("model", "batch"), "validation_step": ("model", "batch"), "collate": ("items",),
    "schedule": ("optimizer", "steps"), "optimizers": ("model",), "on_epoch_end": ("model", "metrics", "folder"),
    "probe_data": ("items",),
}
"""What functions are called with that need arguments, other than `optimizer`."""
_CALLED_WITH_NAME = {
    "training_step": ("model", "batch", "optimizer"), "schedule": ("optimizer", "steps", "name"),
}
"""What these functions are called with in a recipe of several optimizers: the last argument is the name of one."""


def _check_parameters(path: Path, node: ast.FunctionDef, needs: Sequence[str], *, several: bool) -> None:
    gets = _CALLED_WITH[node.name]
    takes = [*node.args.posonlyargs, *node.args.args]
    if several and (node.name == "training_step" or len(needs) > len(gets)):  # schedule() may leave the name out
        gets = _CALLED_WITH_NAME.get(node.name, gets)
    if len(needs) <= len(gets) and (len(gets) <= len(takes) or node.args.vararg is not None):
        return
    raise ValueError(
        tr("{function}() in {path}, line {line}, is called with {gets}, but it takes {takes}. Write "
           "def {function}({gets}), and give each further parameter a default.",
           function=node.name, path=path, line=node.lineno, gets=", ".join(gets),
           takes=", ".join(each.arg for each in takes) or tr("no arguments"))
    )


def _check_loss(path: Path, tree: ast.Module) -> None:
    """Raise `ValueError` if the loss is an object, such as `loss = nn.CrossEntropyLoss()`, and not a function."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        made = node.value.func
        name = made.attr if isinstance(made, ast.Attribute) else made.id if isinstance(made, ast.Name) else ""
        if name[:1].isupper() and any(isinstance(each, ast.Name) and each.id == "loss" for each in node.targets):
            raise ValueError(
                tr("loss in {path}, line {line}, is a {kind} and not a function. Write: def loss(): return {code}",
                   path=path, line=node.lineno, kind=name, code=ast.unparse(node.value))
            )


def _required_parameters(node: ast.FunctionDef) -> list[str]:
    """Return the parameters of a function without a default; none for one with a decorator, which may change them."""
    if node.decorator_list:
        return []
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    needed += [each for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    return [each.arg for each in needed]


def _plain_defaults(node: ast.FunctionDef) -> dict[str, SettingValue]:
    """Return the arguments of a function that have a plain value as default. Positional-only ones are left out."""
    arguments = node.args
    defaults = arguments.defaults[-len(arguments.args) :] if arguments.args else []
    pairs = [*zip(arguments.args[len(arguments.args) - len(defaults) :], defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    values = {}
    for argument, default in pairs:
        with contextlib.suppress(ValueError, TypeError, SyntaxError):
            value = ast.literal_eval(default)
            if isinstance(value, PLAIN):
                values[argument.arg] = value
    return values


def _merged_defaults(path: Path, functions: Mapping[str, ast.FunctionDef]) -> dict[str, SettingValue]:
    """Return the keyword arguments of all functions. Raises `ValueError` if one has two different defaults."""
    merged: dict[str, SettingValue] = {}
    for node in functions.values():
        for name, default in _plain_defaults(node).items():
            if name in merged and merged[name] != default and name not in RUN_KEYWORDS:
                raise ValueError(
                    tr("Recipe {path} gives its setting {name!r} two defaults, {merged!r} and {default!r} "
                       "(in {node}(), line {lineno}). Give both the same, or rename one.",
                       path=path, name=name, merged=merged[name], default=default, node=node.name, lineno=node.lineno)
                )
            merged[name] = default
    return merged


def _unknown_functions(tree: ast.Module) -> tuple[str, ...]:
    """Return the public functions of a recipe that no run calls: not a recipe's, and used nowhere in the file."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    candidates = [node.name for node in functions if node.name[0] != "_" and node.name not in RECIPE_FUNCTIONS]
    if not candidates:
        return ()
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    used |= {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return tuple(name for name in candidates if name not in used)


def _named_device(model: ast.FunctionDef) -> tuple[str, int] | None:
    """Return the first device that `model` names by number, such as `/gpu:1`, and its line; None if it names none."""
    texts = (node for node in ast.walk(model) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    found = sorted((node.lineno, node.value) for node in texts if DEVICE.fullmatch(str(node.value)))
    return (str(found[0][1]), found[0][0]) if found else None


BUILT_IN = ROOT / "recipes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A keyword argument of a recipe's functions whose default is a number, a text, a boolean or None."""

    name: str
    default: SettingValue


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFile:
    """The functions and settings of a recipe file."""

    name: str
    path: Path
    summary: str
    """The first line of the file's docstring."""
    functions: tuple[str, ...]
    settings: tuple[Setting, ...]
    learning_rate: float | None
    """The default of the optimizer's keyword argument `learning_rate`; None if it has none."""
    imports: frozenset[str] = frozenset()
    """The top-level packages that the file imports."""
    optimizer_needs: tuple[str, ...] | None = None
    """The parameters of its optimizer without a default; None if it has no optimizer, or if they are not known."""
    unknown_functions: tuple[str, ...] = ()
    """Its functions that no run calls, such as a misspelt one."""
    named_device: tuple[str, int] | None = None
    """A device that `model` names by its number, and the line; None if it names none, or if `placed_model` places."""

    def with_settings(self, texts: Mapping[str, SettingValue]) -> Recipe:
        """Return the recipe with these settings. A text is converted to the type of the setting's default.

        Raises `ValueError` with a sentence for an unknown setting or a value of another type.
        """
        values = {setting.name: setting.default for setting in self.settings}
        for name, value in texts.items():
            if name not in values:
                known = (
                    tr("Its settings are: {settings}.", settings=", ".join(setting.name for setting in self.settings))
                    if self.settings
                    else tr("It has no settings: its functions have no keyword arguments with plain defaults.")
                )
                raise ValueError(
                    tr("Recipe {recipe} has no setting {name!r}. {known_settings}",
                       recipe=self.name, name=name, known_settings=known)
                )
            values[name] = _convert(name, value, values[name])
        return Recipe(name=self.name, path=str(self.path), settings=values)


def built_in(framework: str) -> list[RecipeFile]:
    """Return the built-in recipes of a framework, by name."""
    return [read(path) for path in _built_in_files(framework)]


def built_in_summaries(framework: str) -> dict[str, str]:
    """Return the first line of the docstring of each built-in recipe by its name; nothing else is parsed."""
    summaries = {}
    for path in _built_in_files(framework):
        with path.open(encoding="utf-8") as file:
            summaries[path.stem] = file.readline().strip().removeprefix('"""').removesuffix('"""')
    return summaries


def _built_in_files(framework: str) -> list[Path]:
    return sorted((BUILT_IN / framework_row(framework).recipes).glob("[!_]*.py"))


def is_file(path: Path) -> bool:
    """Return whether the path is a file; False also if it cannot be looked up."""
    return os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises for a name that is too long)


def find(reference: str, framework: str) -> RecipeFile:
    """Return the recipe with a built-in name or at a path.

    Raises `ValueError` with a sentence if there is none, or the file is not a recipe.
    """
    files = {path.stem: path for path in _built_in_files(framework)}
    if reference in files:
        return read(files[reference])
    path = Path(reference)
    if is_file(path):
        return read(path)
    if path.suffix == ".py" or "/" in reference:
        raise ValueError(tr("There is no recipe file {reference}. Check the path.", reference=reference))
    others = [row.id for row in FRAMEWORKS if any(each.stem == reference for each in _built_in_files(row.id))]
    if others:
        raise ValueError(
            tr("Recipe {reference!r} is built in for {others}, not for {framework}. Add --framework {choices}.",
               reference=reference, others=join_names(others), framework=framework, choices=join_names(others, "or"))
        )
    known = (
        tr("Built in for {framework}: {names}.", framework=framework, names=", ".join(files))
        if files
        else tr("None is built in for {framework}.", framework=framework)
    )
    raise ValueError(
        tr("There is no recipe {reference!r}. {known} Or give the path of a Python file.",
           reference=reference, known=known)
    )


def read(path: Path) -> RecipeFile:
    """Read a recipe file. Raises `ValueError` with a sentence if it cannot be read or lacks a function."""
    try:
        stat = path.stat()
    except OSError:
        return _read(path, None)
    return _read(path, (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))


@functools.lru_cache(maxsize=64)
def _read(path: Path, changed: tuple[int, int, int] | None) -> RecipeFile:
    """Read a recipe file once for each state of it: `changed` is its times and its size."""
    del changed
    tree = _parse(path)
    functions = {
        node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in RECIPE_FUNCTIONS
    }
    missing = [name for name in REQUIRED_FUNCTIONS if name not in functions]
    if missing:
        raise ValueError(
            tr("Recipe {path} has no function {missing}. "
               "A recipe needs {required_functions}. "
               "If it is a program that trains by itself, run it as it is: trainyard run --script {path}",
               path=path, missing=tr(" and no function ").join(f"{name}()" for name in missing),
               required_functions=tr(" and ").join(f"{name}()" for name in REQUIRED_FUNCTIONS))
        )
    for node in functions.values():
        _check_signature(path, node, several="optimizers" in functions)
    _check_loss(path, tree)
    keywords = _merged_defaults(path, functions)
    optimizer = functions.get("optimizer") or functions.get("optimizers")
    rate = _plain_defaults(optimizer).get("learning_rate") if optimizer is not None else None
    return RecipeFile(
        name=path.stem,
        path=path.resolve(),
        summary=(ast.get_docstring(tree) or "").split("\n")[0],
        functions=tuple(functions),
        settings=tuple(
            Setting(name=name, default=value) for name, value in keywords.items() if name not in RUN_KEYWORDS
        ),
        learning_rate=float(rate) if isinstance(rate, (int, float)) else None,
        imports=frozenset(_imports(tree)),
        unknown_functions=_unknown_functions(tree),
        named_device=None if "placed_model" in functions else _named_device(functions["model"]),
        optimizer_needs=tuple(_required_parameters(functions["optimizer"])) if "optimizer" in functions else None,
    )


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise ValueError(
            tr("Recipe {path} could not be read: {strerror}. Check the path and its permissions.",
               path=path, strerror=error.strerror)
        ) from error
    except SyntaxError as error:
        where = tr(", line {lineno}", lineno=error.lineno) if error.lineno else ""
        raise ValueError(
            tr("Recipe {path} is not valid Python: {msg}{where}. Correct it there.",
               path=path, msg=error.msg, where=where)
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(tr("Recipe {path} is not a Python text file: {error}.", path=path, error=error)) from error


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level packages that are imported anywhere in the file."""
    statements: list[ast.AST] = list(tree.body)
    for node in statements:  # not `ast.walk`, which spends most of its time in expressions
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements.extend(getattr(node, block, ()))


def _convert(name: str, value: SettingValue, default: SettingValue) -> SettingValue:
    """Return `value` with the type of `default`. Raises `ValueError` with a sentence if it cannot be converted."""
    kind = type(default)
    if default is None or (not isinstance(value, str) and type(value) is kind):
        return _guess(value)
    if kind is int and isinstance(value, float) and not value.is_integer():
        value = str(value)  # int() would truncate a float, but rejects its text
    words = {bool: tr("true or false"), int: tr("a whole number"), float: tr("a number"), str: tr("a text")}
    try:
        return _CASTS[kind](value)
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            tr("Setting {name!r} is {value!r}. Give {words}, such as {default!r}.",
               name=name, value=value, words=words[kind], default=default)
        ) from None


def _guess(value: SettingValue) -> SettingValue:
    """Return the Python literal that a text stands for, else the text: for a setting whose default is None."""
    if not isinstance(value, str):
        return value
    try:
        guess = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return value
    return guess if isinstance(guess, PLAIN) else value


_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_CASTS: dict[type, Callable[[Any], SettingValue]] = {
    bool: lambda value: _BOOLEANS[str(value).lower()], int: int, float: float, str: str,
}


INSTALLED = "Path(__file__).resolve().parent.parent.parent"
"""How the included recipes name the folder `resources`, from which they read data."""


def check_copy(recipe: RecipeFile, target: Path) -> None:
    """Raise `ValueError` with a sentence if the recipe cannot be copied, or not to this file because of its name."""
    check_source(recipe)
    if target.suffix != ".py":
        raise ValueError(tr("{path} is not the name of a Python file. Name a file that ends with .py.", path=target))


def check_source(recipe: RecipeFile) -> None:
    """Raise `ValueError` with a sentence if the recipe is not one that comes with Trainyard."""
    if not recipe.path.is_relative_to(BUILT_IN):
        raise ValueError(
            tr("{path} is a file of your own, which you can change as it is. Choose a built-in workload to copy.",
               path=recipe.path)
        )


def standalone(recipe: RecipeFile) -> str:
    """Return the source of an included recipe for a file elsewhere, with comments about how to change it."""
    source = recipe.path.read_text(encoding="utf-8").replace(INSTALLED, f"Path({json.dumps(str(ROOT))})")
    lines, docstring = source.splitlines(), ast.parse(source).body[0]
    others = [name for name in RECIPE_FUNCTIONS if name not in recipe.functions]
    how_to_change = [
        f"# A copy of Trainyard's recipe {recipe.name}, to be changed.",
        "# Arguments with plain defaults are settings: a field in the window, --set NAME=VALUE on the command line.",
        f"# A run would also call these functions: {', '.join(others)}.",
        "# They are described in Trainyard's documents, in the menu Help.",
    ]
    return "\n".join([*lines[: docstring.end_lineno], "", *how_to_change, *lines[docstring.end_lineno :], ""])
