"""What names mean in a source file: `mp.spawn` is `torch.multiprocessing.spawn`. Read, never imported."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Loop = (ast.For, ast.AsyncFor, ast.comprehension)


class Names:
    """The imports of a file, wherever they stand in it, and the names that are plainly given to something."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        """Read them from all nodes of a tree, `[*ast.walk(tree)]`."""
        self._aliases: dict[str, str] = {}
        self._texts: dict[str, set[str]] = {}
        for node in nodes:
            self._aliases.update(_imported(node))
        for node in nodes:
            self._assigned(node)

    def full(self, node: ast.AST | None) -> str:
        """The full name of what an expression names, such as `os.environ`; empty for what is not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._aliases:
            return ""
        return ".".join([self._aliases[node.id], *reversed(parts)])

    def texts(self, node: ast.AST | None) -> set[str]:
        """The texts that an expression may stand for, as far as they are written in the file."""
        if isinstance(node, ast.Constant):
            return {node.value} if isinstance(node.value, str) else set()
        return self._texts.get(node.id, set()) if isinstance(node, ast.Name) else set()

    def _assigned(self, node: ast.AST) -> None:
        if isinstance(node, Loop) and isinstance(node.target, ast.Name):
            self._keep(node.target.id, getattr(node.iter, "elts", []))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, full = node.targets[0].id, self.full(node.value)
            self._keep(name, [node.value])
            if full and name not in self._aliases:
                self._aliases[name] = full

    def _keep(self, name: str, values: Sequence[ast.expr]) -> None:
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                self._texts.setdefault(name, set()).add(value.value)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import gives, and what they stand for."""
    if isinstance(node, ast.Import):
        for each in node.names:
            yield (each.asname, each.name) if each.asname else (each.name.partition(".")[0],) * 2
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for each in node.names:
            yield each.asname or each.name, f"{node.module}.{each.name}"
