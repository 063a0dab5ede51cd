"""Recipe files: find them, and read their functions and settings with `ast`, without importing them."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import FRAMEWORKS, Framework
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
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.schema.settings import RECIPE_FUNCTIONS, REQUIRED_FUNCTIONS, RUN_KEYWORDS, Recipe, SettingValue
from core.text import join_names
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BUILT_IN = ROOT / "recipes"
STEP_FUNCTIONS = ("training_step", "validation_step", "collate")
"""Functions of a recipe that a training loop must know."""
STRATEGIES_WITH_STEPS: Mapping[str, tuple[str, ...]] = {
    "pytorch": ("single", "ddp", "fsdp", "placement"),
    "tensorflow": (
        "single", "mirrored", "central_storage", "multi_worker_mirrored", "parameter_server", "towers", "tpu",
        "placement",
    ),
    "keras": ("single", "mirrored", "placement"),
}  # fmt: skip
"""The strategies of each framework that know them."""


CALLBACKS = "callbacks"
"""A function that only Keras' own `fit` has a use for."""
WITHOUT_EPOCH_END = {
    ("pytorch", "fsdp"): tr_noop("each rank has only a part of each parameter"),
    ("pytorch", "pipeline"): tr_noop("no device has the whole model"),
    ("tensorflow", "multi_worker_mirrored"): tr_noop("a call of the model by one worker would wait for the others"),
    ("tensorflow", "parameter_server"): tr_noop("the model is in another process"),
}
"""Why `on_epoch_end(model, metrics, folder)` cannot be called, by framework and strategy."""


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

    def doubt(self, framework: str) -> str:
        """Return what should be known before a start, as the end of a sentence; the empty string if nothing."""
        found = []
        only_keras = [CALLBACKS] if CALLBACKS in self.functions and framework != "keras" else []
        unknown = [*self.unknown_functions, *only_keras]
        if unknown:
            found.append(
                tr_plural(
                    "the function {names} of the recipe is not one that a run calls",
                    "the functions {names} of the recipe are not ones that a run calls",
                    len(unknown),
                    names=join_names(f"{name}()" for name in unknown),
                )
            )
        if only_keras:
            found[-1] = tr(
                "{sentence} ({callbacks}() is for framework keras; on_epoch_end(model, metrics, folder) is called "
                "after each epoch)",
                sentence=found[-1],
                callbacks=CALLBACKS,
            )
        if self.named_device is not None:
            device, line = self.named_device
            found.append(
                tr(
                    "model() of the recipe names the device {device} (line {line}), but the strategy decides where the "
                    "model is: name devices in placed_model(devices), for strategy placement",
                    device=device,
                    line=line,
                )
            )
        return tr("; ").join(found)

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

    def check_schedule(self, framework: str, *, varies: bool) -> None:
        """Raise `ValueError` if the recipe's own schedule cannot be used. `varies`: the run has a schedule, too."""
        if "schedule" not in self.functions:
            return
        if framework != "pytorch":
            raise ValueError(
                tr(
                    "Recipe {name} has schedule(), which works with PyTorch only. Give the optimizer a schedule of "
                    "keras.optimizers.schedules instead.",
                    name=self.name,
                )
            )
        if varies:
            raise ValueError(
                tr(
                    "Recipe {name} has a learning rate schedule of its own. Leave the schedule of the run constant, "
                    "without warm-up steps and without scaling of the rate.",
                    name=self.name,
                )
            )

    def check_steps(self, framework: str, strategy: str) -> None:
        """Raise `ValueError` if the recipe has steps of its own that this strategy cannot train."""
        own = [name for name in STEP_FUNCTIONS if name in self.functions]
        known = STRATEGIES_WITH_STEPS[framework]
        if framework == "keras" and "collate" in own:
            raise ValueError(
                tr(
                    "Recipe {name} has collate(), which Keras' fit does not call. Choose framework tensorflow, whose "
                    "own loop calls it, or let train_data() return arrays or a tf.data.Dataset without collate().",
                    name=self.name,
                )
            )
        if not own or strategy in known:
            return
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
                others=join_names(known, "or"),
            )
        )

    def check_epoch_end(self, framework: str, strategy: str) -> None:
        """Raise `ValueError` if the recipe has an `on_epoch_end` that this strategy cannot give a model."""
        reason = WITHOUT_EPOCH_END.get((framework, strategy))
        if reason is None or "on_epoch_end" not in self.functions:
            return
        raise ValueError(
            tr(
                "Strategy {strategy} cannot call on_epoch_end() of recipe {name}, because {reason}. Choose another "
                "strategy, or remove the function.",
                strategy=strategy,
                name=self.name,
                reason=tr(reason),
            )
        )

    def check_optimizers(self, framework: str, strategy: str) -> None:
        """Raise `ValueError` if the recipe has several optimizers that cannot be trained, or one of a whole model."""
        if framework == "pytorch" and strategy == "pipeline" and (self.optimizer_needs or ("",))[0] == "model":
            raise ValueError(
                tr(
                    "optimizer() of recipe {name} needs the model, but in a pipeline no device has the whole model. "
                    "Let it take the parameters, or choose another strategy.",
                    name=self.name,
                )
            )
        if "optimizers" not in self.functions:
            return
        problem = ""
        if framework != "pytorch":
            problem = tr("it works with PyTorch only. Choose framework pytorch, or give the recipe optimizer() instead")
        elif "training_step" not in self.functions:
            problem = tr("each optimizer needs a loss. Add training_step(model, batch, optimizer)")
        elif "optimizer" in self.functions:
            problem = tr("the recipe has optimizer(), too. Remove one of them")
        elif "val_data" in self.functions and not {"validation_step", "loss", "metrics"} & set(self.functions):
            problem = tr("nothing says how to validate. Add validation_step(model, batch), or remove val_data()")
        if problem:
            raise ValueError(
                tr("optimizers() of recipe {name} cannot be used: {problem}.", name=self.name, problem=problem)
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
        raise ValueError(join_sentences([called, tr("Give each of its other parameters a default.")]))

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
