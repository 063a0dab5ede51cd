"""What a source file does, as far as it tells one way of launching from the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.scripts.names import Names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

ENVIRONMENT = {"os.environ", "os.environb"}
READERS = {"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.environ.__getitem__"}
STARTERS = {"run", "Popen", "call", "check_call", "check_output", "system", "popen", "execv", "execvp", "execvpe"}
TOLD = {"device_map"}
"""Keywords that tell something, whatever is called with them."""

Texts = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Something that is called; of each argument the texts that it may stand for."""

    full: str
    """The full name; empty where it is not imported."""
    positional: tuple[Texts, ...]
    keywords: Mapping[str, Texts]
    words: Texts
    """All words of the texts that stand in the call; of commands that are started only."""

    def argument(self, position: int, keyword: str) -> Texts | None:
        """One that is given by its place or by its name; None when it is not given."""
        return self.positional[position] if position < len(self.positional) else self.keywords.get(keyword)


class Usage:
    """The full names that a file uses and calls, and the environment variables that it reads and sets.

    It keeps nothing of the tree it is made of.
    """

    def __init__(self, tree: ast.Module) -> None:
        nodes = [*ast.walk(tree)]
        names = Names(nodes)
        self.used: set[str] = set()
        """Full names that stand anywhere but in an import."""
        self.calls: list[Call] = []
        self.read: set[str] = set()
        self.set: set[str] = set()
        for node in nodes:
            self._take(node, names)

    def uses(self, packages: Collection[str], names: Collection[str]) -> str:
        """The first of these names that is used and comes from one of these packages; empty for none.

        A name that begins with `*` stands for all that end so.
        """
        return next((found for full in sorted(self.used) if (found := _match(full, packages, names))), "")

    def called(self, packages: Collection[str], names: Collection[str]) -> list[Call]:
        """The calls of these."""
        return [call for call in self.calls if _match(call.full, packages, names)]

    def started(self) -> set[str]:
        """The words of all commands that it starts."""
        return {word for call in self.calls for word in call.words}

    def _take(self, node: ast.AST, names: Names) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            full = names.full(node)
            if full:
                self.used.add(full)
        elif isinstance(node, ast.Call):
            self._take_call(node, names)
        elif isinstance(node, ast.Subscript) and names.full(node.value) in ENVIRONMENT:
            variables = self.set if isinstance(node.ctx, ast.Store) else self.read
            variables.update(names.texts(node.slice))
        elif isinstance(node, ast.Compare) and any(names.full(each) in ENVIRONMENT for each in node.comparators):
            self.read.update(names.texts(node.left))

    def _take_call(self, node: ast.Call, names: Names) -> None:
        full = names.full(node.func)
        keywords = {each.arg: frozenset(names.texts(each.value)) for each in node.keywords if each.arg}
        if not full and not keywords.keys() & TOLD:
            return
        positional = tuple(frozenset(names.texts(each)) for each in node.args)
        starts = _match(full, ("subprocess", "os"), STARTERS)
        self.calls.append(
            Call(full=full, positional=positional, keywords=keywords, words=_words(node) if starts else frozenset())
        )
        if full in READERS and positional:
            self.read.update(positional[0])


def _words(node: ast.Call) -> Texts:
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return frozenset(word for text in texts for word in text.split())


def _match(full: str, packages: Collection[str], names: Collection[str]) -> str:
    """The last part of a full name, if that is one of these names, from one of these packages."""
    if full.partition(".")[0] not in packages:
        return ""
    last = full.rpartition(".")[2]
    fits = any(last.endswith(name[1:]) if name.startswith("*") else last == name for name in names)
    return last if fits else ""
