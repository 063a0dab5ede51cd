"""What a source file imports, and which of that it cannot do without."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import statement's worth of one module."""

    module: str
    """As it is written, `torch.nn`; empty for `from . import x`."""
    level: int = 0
    """How many dots stand before it."""
    names: tuple[str, ...] = ()
    """What is taken from it: it may be modules, too."""
    needed: bool = False
    """Whether the program ends without it: it is imported when the file is, come what may."""


def imports(tree: ast.Module) -> list[Import]:
    """All of them, those that are needed first. What only a type checker reads is left out."""
    needed = list(_needed(tree.body))
    marked = {id(node) for node in needed}
    others = [node for node in _walk(tree) if id(node) not in marked]
    return [*_each(needed, needed=True), *_each(others, needed=False)]


def _each(nodes: Iterable[ast.Import | ast.ImportFrom], *, needed: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(module=each.name, needed=needed) for each in node.names)
        else:
            names = tuple(each.name for each in node.names)
            yield Import(module=node.module or "", level=node.level, names=names, needed=needed)


def _needed(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that are certainly executed: not those in functions, under a condition, or tried."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.ClassDef, ast.If, ast.With)) and _is_entered(node):
            yield from _needed(node.body)
        elif isinstance(node, ast.Try):
            tried = [] if any(map(_catches, node.handlers)) else [*node.body, *node.orelse]
            yield from _needed([*tried, *node.finalbody])


def _walk(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports but those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and _last_name(child.test) == "TYPE_CHECKING":
            yield from _walk(ast.Module(body=child.orelse, type_ignores=[]))
        else:
            yield from _walk(child)


def _is_entered(node: ast.ClassDef | ast.If | ast.With) -> bool:
    """Whether what stands in it is executed for certain, and what goes wrong there ends the program."""
    if isinstance(node, ast.If):
        return _is_main(node.test)
    return isinstance(node, ast.ClassDef) or not any(map(_suppresses, node.items))


def _is_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and _last_name(test.left) == "__name__" and isinstance(test.ops[0], ast.Eq)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether it is there for a package that is missing, or for anything."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or _last_name(kind) in CAUGHT for kind in kinds)


def _suppresses(item: ast.withitem) -> bool:
    """`with suppress(ImportError):`."""
    call = item.context_expr
    return isinstance(call, ast.Call) and any(_last_name(argument) in CAUGHT for argument in call.args)


def _last_name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
