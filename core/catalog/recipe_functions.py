"""The functions of a recipe file, as its syntax tree has them: their parameters, and whether a run can call them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from core.language import tr, tr_noop
from core.schema.settings import RECIPE_FUNCTIONS, RUN_KEYWORDS
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.schema.settings import SettingValue


DEVICE = re.compile(r"(/device:|/)?(gpu|cpu|cuda|xpu):\d+", re.IGNORECASE)
"""A device by its number, as PyTorch and TensorFlow write it."""
_CALLED_WITHOUT_ARGUMENTS = frozenset({"model", "train_data", "val_data", "loss", "metrics", "callbacks"})
_MUST_RETURN = {"loss": tr_noop("the loss function"), "metrics": tr_noop("a dict of functions")}
"""What a function must return that is often written as the thing itself."""


def check_signature(path: Path, node: ast.FunctionDef, *, several: bool = False) -> None:
    """Raise `ValueError` if a function needs arguments that it is not called with.

    `several`: the recipe has several optimizers.
    """
    needs = required_parameters(node)
    if node.name in _CALLED_WITH and not node.decorator_list:
        _check_parameters(path, node, needs, several=several)
        return
    if node.name == "callbacks" and needs[:1] == ["folder"]:
        needs = needs[1:]
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


_CALLED_WITH = {
    "training_step": ("model", "batch"), "validation_step": ("model", "batch"), "collate": ("items",),
    "schedule": ("optimizer", "steps"), "optimizers": ("model",), "on_epoch_end": ("model", "metrics", "folder"),
}  # fmt: skip
"""What functions are called with that need arguments, other than `optimizer`."""
_CALLED_WITH_NAME = {
    "training_step": ("model", "batch", "optimizer"), "schedule": ("optimizer", "steps", "name"),
}  # fmt: skip
"""What these functions are called with in a recipe of several optimizers: the last argument is the name of one."""


def _check_parameters(path: Path, node: ast.FunctionDef, needs: Sequence[str], *, several: bool) -> None:
    gets = _CALLED_WITH[node.name]
    takes = len(node.args.posonlyargs) + len(node.args.args)
    if several and (node.name == "training_step" or len(needs) > len(gets)):  # schedule() may leave the name out
        gets = _CALLED_WITH_NAME.get(node.name, gets)
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


def check_loss(path: Path, tree: ast.Module) -> None:
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


def required_parameters(node: ast.FunctionDef) -> list[str]:
    """Return the parameters of a function without a default; none for one with a decorator, which may change them."""
    if node.decorator_list:
        return []
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = positional[: len(positional) - len(arguments.defaults)]
    needed += [each for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    return [each.arg for each in needed]


def plain_defaults(node: ast.FunctionDef) -> dict[str, SettingValue]:
    """Return the arguments of a function that have a plain value as default. Positional-only ones are left out."""
    arguments = node.args
    defaults = arguments.defaults[-len(arguments.args) :] if arguments.args else []
    pairs = [*zip(arguments.args[len(arguments.args) - len(defaults) :], defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    values = {argument.arg: _literal(default) for argument, default in pairs}
    return {name: value for name, value in values.items() if not isinstance(value, _NotPlain)}


def merged_defaults(path: Path, functions: Mapping[str, ast.FunctionDef]) -> dict[str, SettingValue]:
    """Return the keyword arguments of all functions. Raises `ValueError` if one has two different defaults."""
    merged: dict[str, SettingValue] = {}
    for node in functions.values():
        for name, default in plain_defaults(node).items():
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


def unknown_functions(tree: ast.Module) -> tuple[str, ...]:
    """Return the public functions of a recipe that no run calls: not a recipe's, and used nowhere in the file."""
    candidates = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.decorator_list
        if node.name not in RECIPE_FUNCTIONS
    ]
    if not candidates:
        return ()
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    used |= {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return tuple(name for name in candidates if name not in used)


def named_device(model: ast.FunctionDef) -> tuple[str, int] | None:
    """Return the first device that `model` names by number, such as `/gpu:1`, and its line; None if it names none."""
    texts = (node for node in ast.walk(model) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    found = sorted((node.lineno, node.value) for node in texts if DEVICE.fullmatch(str(node.value)))
    return (str(found[0][1]), found[0][0]) if found else None


class _NotPlain:
    """A default that is not a plain value, such as a class. It cannot be a setting."""


def _literal(node: ast.expr) -> SettingValue | _NotPlain:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return _NotPlain()
    return value if isinstance(value, (bool, int, float, str, type(None))) else _NotPlain()
