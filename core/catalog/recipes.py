"""Recipe files: find them, and read their functions and settings with `ast`, without importing them."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.frameworks import framework as framework_row
from core.catalog.recipe_functions import (
    check_loss,
    check_signature,
    merged_defaults,
    named_device,
    plain_defaults,
    required_parameters,
    unknown_functions,
)
from core.language import tr
from core.schema.settings import RECIPE_FUNCTIONS, REQUIRED_FUNCTIONS, RUN_KEYWORDS, Recipe, SettingValue
from core.text import join_names
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
                raise ValueError(
                    tr(
                        "Recipe {recipe} has no setting {name!r}. {known_settings}",
                        recipe=self.name,
                        name=name,
                        known_settings=self._known_settings(),
                    )
                )
            values[name] = _convert(name, value, values[name])
        return Recipe(name=self.name, path=str(self.path), settings=values)

    def _known_settings(self) -> str:
        if not self.settings:
            return tr("It has no settings: its functions have no keyword arguments with plain defaults.")
        return tr("Its settings are: {settings}.", settings=", ".join(setting.name for setting in self.settings))


def built_in(framework: str) -> list[RecipeFile]:
    """Return the built-in recipes of a framework, by name."""
    return [read(path) for path in _built_in_files(framework)]


def built_in_summaries(framework: str) -> dict[str, str]:
    """Return the first line of the docstring of each built-in recipe by its name; nothing else is parsed."""
    return {path.stem: _first_line(path) for path in _built_in_files(framework)}


def _first_line(path: Path) -> str:
    """Return the first line of the docstring with which a built-in recipe begins."""
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().removeprefix('"""').removesuffix('"""')


def _built_in_files(framework: str) -> list[Path]:
    return sorted((BUILT_IN / framework_row(framework).recipes).glob("[!_]*.py"))


def is_file(path: Path) -> bool:
    """Return whether the path is a file; False also if it cannot be looked up."""
    try:
        return path.is_file()
    except OSError:
        return False  # such as a name that is too long


def find(reference: str, framework: str) -> RecipeFile:
    """Return the recipe with a built-in name or at a path.

    Raises `ValueError` with a sentence if there is none, or the file is not a recipe.
    """
    built_in_files = {path.stem: path for path in _built_in_files(framework)}
    names = list(built_in_files)
    if reference in built_in_files:
        return read(built_in_files[reference])
    path = Path(reference)
    if is_file(path):
        return read(path)
    if path.suffix == ".py" or "/" in reference:
        raise ValueError(tr("There is no recipe file {reference}. Check the path.", reference=reference))
    others = [row.id for row in FRAMEWORKS if any(each.stem == reference for each in _built_in_files(row.id))]
    if others:
        raise ValueError(
            tr(
                "Recipe {reference!r} is built in for {others}, not for {framework}. Add --framework {choices}.",
                reference=reference,
                others=join_names(others),
                framework=framework,
                choices=join_names(others, "or"),
            )
        )
    known = (
        tr("Built in for {framework}: {names}.", framework=framework, names=", ".join(names))
        if names
        else tr("None is built in for {framework}.", framework=framework)
    )
    raise ValueError(
        tr(
            "There is no recipe {reference!r}. {known} Or give the path of a Python file.",
            reference=reference,
            known=known,
        )
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
            tr(
                "Recipe {path} has no function {missing}. "
                "A recipe needs {required_functions}. "
                "If it is a program that trains by itself, run it as it is: trainyard run --script {path}",
                path=path,
                missing=tr(" and no function ").join(f"{name}()" for name in missing),
                required_functions=tr(" and ").join(f"{name}()" for name in REQUIRED_FUNCTIONS),
            )
        )
    for node in functions.values():
        check_signature(path, node, several="optimizers" in functions)
    check_loss(path, tree)
    keywords = merged_defaults(path, functions)
    optimizer = functions.get("optimizer") or functions.get("optimizers")
    rate = plain_defaults(optimizer).get("learning_rate") if optimizer is not None else None
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
        unknown_functions=unknown_functions(tree),
        named_device=None if "placed_model" in functions else named_device(functions["model"]),
        optimizer_needs=tuple(required_parameters(functions["optimizer"])) if "optimizer" in functions else None,
    )


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except OSError as error:
        raise ValueError(
            tr(
                "Recipe {path} could not be read: {strerror}. Check the path and its permissions.",
                path=path,
                strerror=error.strerror,
            )
        ) from error
    except SyntaxError as error:
        where = tr(", line {lineno}", lineno=error.lineno) if error.lineno else ""
        raise ValueError(
            tr(
                "Recipe {path} is not valid Python: {msg}{where}. Correct it there.",
                path=path,
                msg=error.msg,
                where=where,
            )
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
    except (ValueError, TypeError):
        raise ValueError(
            tr(
                "Setting {name!r} is {value!r}. Give {words}, such as {default!r}.",
                name=name,
                value=value,
                words=words[kind],
                default=default,
            )
        ) from None


def _guess(value: SettingValue) -> SettingValue:
    """Return the Python literal that a text stands for, else the text: for a setting whose default is None."""
    if not isinstance(value, str):
        return value
    try:
        guess = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return value
    return guess if isinstance(guess, (bool, int, float, str, type(None))) else value


def _boolean(value: SettingValue) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return words[str(value).lower()]
    except KeyError:
        raise ValueError(value) from None


_CASTS: dict[type, Callable[[Any], SettingValue]] = {bool: _boolean, int: int, float: float, str: str}
