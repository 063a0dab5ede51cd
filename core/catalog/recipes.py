"""Recipe files: find them, and read their functions and settings with `ast`, without importing them."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import FRAMEWORKS, Framework
from core.catalog.frameworks import framework as framework_row
from core.language import tr, tr_noop
from core.schema.settings import RECIPE_FUNCTIONS, REQUIRED_FUNCTIONS, RUN_KEYWORDS, Recipe, SettingValue
from core.text import join_names
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BUILT_IN = ROOT / "recipes"
STEP_FUNCTIONS = ("training_step", "validation_step", "collate")
"""Functions of a recipe that a training loop must know."""
STRATEGIES_WITH_STEPS = ("single", "ddp", "fsdp", "placement")
"""The strategies of PyTorch that know them."""


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

    def check_framework(self, row: Framework) -> None:
        """Raise `ValueError` with a sentence if the recipe is for another framework, by its imports or optimizer."""
        self._check_optimizer(row)
        if self.imports & set(row.imports):
            return
        others = [other for other in FRAMEWORKS if self.imports & set(other.imports)]
        if others:
            titles = join_names((other.title for other in others), "or")
            ids = join_names((other.id for other in others), "or")
            package = min(self.imports & set(others[0].imports))
            raise ValueError(
                tr(
                    "Recipe {name} imports {package}: it is for {titles} and cannot be trained with {title}. "
                    "Choose framework {ids}, or another recipe.",
                    name=self.name,
                    package=package,
                    titles=titles,
                    title=row.title,
                    ids=ids,
                )
            )

    def check_steps(self, framework: str, strategy: str) -> None:
        """Raise `ValueError` if the recipe has steps of its own that this strategy cannot train."""
        own = [name for name in STEP_FUNCTIONS if name in self.functions]
        if not own or (framework == "pytorch" and strategy in STRATEGIES_WITH_STEPS):
            return
        if framework != "pytorch":
            raise ValueError(
                tr(
                    "Recipe {name} has {function}(), which works with PyTorch only. Choose framework pytorch, or give "
                    "the recipe loss() and batches of (inputs, target) instead.",
                    name=self.name,
                    function=own[0],
                )
            )
        reason = tr("it divides the batch after collating it")
        if strategy == "pipeline":
            reason = tr("no device has the whole model")
        raise ValueError(
            tr(
                "Strategy {strategy} cannot train recipe {name}, which has {function}(), because {reason}. "
                "Choose strategy {others}.",
                strategy=strategy,
                name=self.name,
                function=own[0],
                reason=reason,
                others=join_names(STRATEGIES_WITH_STEPS, "or"),
            )
        )

    def _check_optimizer(self, row: Framework) -> None:
        """Raise `ValueError` if the optimizer needs something else than the framework gives it."""
        needs = None if self.optimizer_needs is None else [n for n in self.optimizer_needs if n not in RUN_KEYWORDS]
        gets = 1 if row.id == "pytorch" else 0
        if needs is None or len(needs) <= gets or not self.imports & set(row.imports):
            return
        if gets:
            called = tr(
                "optimizer() of {path} needs {names}, but it is called with the parameters of the model.",
                path=self.path,
                names=join_names(needs),
            )
        else:
            called = tr(
                "optimizer() of {path} needs {names}, but it is called without arguments.",
                path=self.path,
                names=join_names(needs),
            )
        raise ValueError(f"{called} {tr('Give each of its other parameters a default.')}")

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
        _check_signature(path, node)
    _check_loss(path, tree)
    keywords = _merged(path, functions)
    optimizer = _keywords(functions["optimizer"]) if "optimizer" in functions else {}
    rate = optimizer.get("learning_rate")
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
        optimizer_needs=tuple(_needed(functions["optimizer"])) if "optimizer" in functions else None,
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


def _keywords(node: ast.FunctionDef) -> dict[str, SettingValue]:
    """Return the arguments of a function that have a plain value as default. Positional-only ones are left out."""
    arguments = node.args
    defaults = arguments.defaults[-len(arguments.args) :] if arguments.args else []
    pairs = [*zip(arguments.args[len(arguments.args) - len(defaults) :], defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    values = {argument.arg: _literal(default) for argument, default in pairs}
    return {name: value for name, value in values.items() if not isinstance(value, _NotPlain)}


def _merged(path: Path, functions: Mapping[str, ast.FunctionDef]) -> dict[str, SettingValue]:
    """Return the keyword arguments of all functions. Raises `ValueError` if one has two different defaults."""
    merged: dict[str, SettingValue] = {}
    for node in functions.values():
        for name, default in _keywords(node).items():
            if name in merged and merged[name] != default and name not in RUN_KEYWORDS:
                raise ValueError(
                    tr(
                        "Recipe {path} gives its setting {name!r} two defaults, {merged!r} and {default!r} "
                        "(in {node}(), line {lineno}). Give both the same, or rename one.",
                        path=path,
                        name=name,
                        merged=merged[name],
                        default=default,
                        node=node.name,
                        lineno=node.lineno,
                    )
                )
            merged[name] = default
    return merged


_CALLED_WITHOUT_ARGUMENTS = frozenset({"model", "train_data", "val_data", "loss", "metrics"})
_MUST_RETURN = {"loss": tr_noop("the loss function"), "metrics": tr_noop("a dict of functions")}
"""What a function must return that is often written as the thing itself."""


def _check_signature(path: Path, node: ast.FunctionDef) -> None:
    """Raise `ValueError` if a function needs arguments that it is not called with."""
    needs = _needed(node)
    if node.name in _CALLED_WITH and not node.decorator_list:
        _check_parameters(path, node, needs)
        return
    if node.name not in _CALLED_WITHOUT_ARGUMENTS or set(needs) <= set(RUN_KEYWORDS):
        return
    if node.name in _MUST_RETURN:
        raise ValueError(
            tr(
                "{function}() in {path}, line {line}, must return {returned}; it was written as the function itself, "
                "which needs {names}. Put that function inside {function}() and return it.",
                function=node.name,
                path=path,
                line=node.lineno,
                returned=tr(_MUST_RETURN[node.name]),
                names=join_names(needs),
            )
        )
    raise ValueError(
        tr(
            "{function}() in {path}, line {line}, needs {names}, but it is called without arguments. "
            "Give each of its parameters a default.",
            function=node.name,
            path=path,
            line=node.lineno,
            names=join_names(needs),
        )
    )


_CALLED_WITH = {"training_step": ("model", "batch"), "validation_step": ("model", "batch"), "collate": ("items",)}
"""What functions are called with that compute a step themselves."""


def _check_parameters(path: Path, node: ast.FunctionDef, needs: Sequence[str]) -> None:
    gets = _CALLED_WITH[node.name]
    takes = len(node.args.posonlyargs) + len(node.args.args)
    if len(needs) <= len(gets) <= takes or (len(needs) <= len(gets) and node.args.vararg is not None):
        return
    raise ValueError(
        tr(
            "{function}() in {path}, line {line}, is called with {gets}, but it takes {takes}. Write "
            "def {function}({gets}), and give each further parameter a default.",
            function=node.name,
            path=path,
            line=node.lineno,
            gets=", ".join(gets),
            takes=", ".join(each.arg for each in [*node.args.posonlyargs, *node.args.args]) or tr("no arguments"),
        )
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
                tr(
                    "loss in {path}, line {line}, is a {kind} and not a function. Write: def loss(): return {code}",
                    path=path,
                    line=node.lineno,
                    kind=name,
                    code=ast.unparse(node.value),
                )
            )


def _needed(node: ast.FunctionDef) -> list[str]:
    """Return the parameters of a function without a default; none for one with a decorator, which may change them."""
    if node.decorator_list:
        return []
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    needed += [each for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    return [each.arg for each in needed]


class _NotPlain:
    """A default that is not a plain value, such as a class. It cannot be a setting."""


def _literal(node: ast.expr) -> SettingValue | _NotPlain:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return _NotPlain()
    return value if isinstance(value, (bool, int, float, str, type(None))) else _NotPlain()


def _convert(name: str, value: SettingValue, default: SettingValue) -> SettingValue:
    """Return `value` with the type of `default`. Raises `ValueError` with a sentence if it cannot be converted."""
    kind = type(default)
    if default is None or (not isinstance(value, str) and type(value) is kind):
        return _guess(value)
    if kind is int and isinstance(value, float) and not value.is_integer():
        value = str(value)  # int() would truncate a float, but rejects its text
    words = {bool: tr("true or false"), int: tr("a whole number"), float: "a number", str: "a text"}
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
    except (ValueError, SyntaxError):
        return value
    return guess if isinstance(guess, (bool, int, float, str, type(None))) else value


def _boolean(value: SettingValue) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return words[str(value).lower()]
    except KeyError:
        raise ValueError(value) from None


_CASTS: dict[type, Callable[[Any], SettingValue]] = {bool: _boolean, int: int, float: float, str: str}
