"""Read one source file's syntax tree: its imports, and the names, calls and environment variables that it uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

CAUGHT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}

ENVIRONMENT = {"os.environ", "os.environb"}
READERS = {"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault", "os.environ.__getitem__"}
STARTERS = {"run", "Popen", "call", "check_call", "check_output", "system", "popen", "execv", "execvp", "execvpe"}
KEYWORDS = {"device_map"}
"""Keywords that are a sign in every call."""
OPTIONAL_READERS = {"os.getenv", "os.environ.get"}
NOT_SET = {"-1", "None", "''"}
"""Defaults of a variable that stand for its absence, as in nanoGPT: `int(os.environ.get("RANK", -1)) != -1`."""
NUMBERED = {"device_ids", "gpu_ids", "gpus", "devices", "output_device"}
"""Keywords whose numbers are those of devices; a list for `gpus` and `devices`, where a number is a count."""
COUNTS = {"gpus", "devices"}
DEVICE_NAME = re.compile(r"/?(?:\S*/)?(?:device:)?(?:gpu|cuda):(\d{1,3})", re.IGNORECASE)
LOOPS = (ast.For, ast.AsyncFor, ast.comprehension)

Texts = frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """The import of one module."""

    module: str
    """As written, `torch.nn`; "" for `from . import x`."""
    level: int = 0
    """The number of leading dots."""
    names: tuple[str, ...] = ()
    """The imported names, which may be modules."""
    needed: bool = False
    """Whether the program fails without it: it is imported whenever the file is, and its error is not caught."""


def imports(tree: ast.Module) -> list[Import]:
    """Return all imports except those for type checkers, the needed ones first."""
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
    """Yield the imports that are always executed: not those in functions, under a condition, or in a try."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.ClassDef, ast.If, ast.With)) and _is_entered(node):
            yield from _needed(node.body)
        elif isinstance(node, ast.Try):
            tried = [] if any(map(_catches, node.handlers)) else [*node.body, *node.orelse]
            yield from _needed([*tried, *node.finalbody])


def _walk(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield all imports except those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and _last_name(child.test) == "TYPE_CHECKING":
            yield from _walk(ast.Module(body=child.orelse, type_ignores=[]))
        else:
            yield from _walk(child)


def _is_entered(node: ast.ClassDef | ast.If | ast.With) -> bool:
    """Return whether the body is always executed and its errors are not suppressed."""
    if isinstance(node, ast.If):  # `if __name__ == "__main__":`
        test = node.test
        return isinstance(test, ast.Compare) and _last_name(test.left) == "__name__" and isinstance(test.ops[0], ast.Eq)
    return isinstance(node, ast.ClassDef) or not any(map(_suppresses, node.items))


def _catches(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler catches the error of a missing package."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call. Each argument is the set of strings that it may be."""

    full: str
    """The full name; "" if it is not imported."""
    positional: tuple[Texts, ...]
    keywords: Mapping[str, Texts]
    words: Texts
    """All words of the strings in the call, if it starts a command."""

    def argument(self, position: int, keyword: str) -> Texts | None:
        """Return an argument by its position or its name; None if it is missing."""
        return self.positional[position] if position < len(self.positional) else self.keywords.get(keyword)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DeviceNumber:
    """A device that the source names by its number."""

    number: int
    line: int


class Usage:
    """The full names that a file uses and calls, and the environment variables that it reads and sets.

    It keeps no reference to the tree.
    """

    def __init__(self, tree: ast.Module) -> None:
        nodes = [*ast.walk(tree)]
        names = _Names(nodes)
        self.used: set[str] = set()
        """Full names, except those in imports."""
        self.calls: list[Call] = []
        self.read: set[str] = set()
        self.set: set[str] = set()
        self.optional: set[str] = set()
        """Variables that need not be set: the file tests whether they are, or reads them with -1 or None as default."""
        self.device_numbers: set[DeviceNumber] = set()
        self.chooses_port = False
        """Whether a text in it names the port or the address at which PyTorch's ranks meet."""
        self.takes_local_rank = False
        for node in nodes:
            self._add(node, names)

    def uses(self, packages: Collection[str], names: Collection[str]) -> str:
        """Return the first used name that is one of `names` and comes from one of `packages`; "" if there is none.

        A name that begins with `*` matches all names that end like it.
        """
        return next((found for full in sorted(self.used) if (found := _match(full, packages, names))), "")

    def called(self, packages: Collection[str], names: Collection[str]) -> list[Call]:
        """Return the calls of these names from these packages."""
        return [call for call in self.calls if _match(call.full, packages, names)]

    def started(self) -> set[str]:
        """Return the words of all commands that the file starts."""
        return {word for call in self.calls for word in call.words}

    def _add(self, node: ast.AST, names: _Names) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            full = names.full(node)
            if full:
                self.used.add(full)
        elif isinstance(node, ast.Call):
            self._add_call(node, names)
        elif isinstance(node, ast.Subscript) and names.full(node.value) in ENVIRONMENT:
            variables = self.set if isinstance(node.ctx, ast.Store) else self.read
            variables.update(names.texts(node.slice))
        elif isinstance(node, ast.Compare) and any(names.full(each) in ENVIRONMENT for each in node.comparators):
            self.read.update(names.texts(node.left))
            self.optional.update(names.texts(node.left))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.chooses_port |= "MASTER_PORT" in node.value or "tcp://" in node.value
            self.takes_local_rank |= node.value in {"--local_rank", "--local-rank"}
            if found := DEVICE_NAME.fullmatch(node.value):
                self.device_numbers.add(DeviceNumber(number=int(found[1]), line=node.lineno))

    def _add_call(self, node: ast.Call, names: _Names) -> None:
        full = names.full(node.func)
        self.device_numbers.update(_device_numbers(node))
        keywords = {each.arg: frozenset(names.texts(each.value)) for each in node.keywords if each.arg}
        if not full and not keywords.keys() & KEYWORDS:
            return
        positional = tuple(frozenset(names.texts(each)) for each in node.args)
        starts = _match(full, ("subprocess", "os"), STARTERS)
        self.calls.append(
            Call(full=full, positional=positional, keywords=keywords, words=_words(node) if starts else frozenset())
        )
        if full in READERS and positional:
            self.read.update(positional[0])
        if full in OPTIONAL_READERS and positional and all(ast.unparse(each) in NOT_SET for each in node.args[1:]):
            self.optional.update(positional[0])


def _device_numbers(node: ast.Call) -> Iterator[DeviceNumber]:
    """Yield the devices in `device_ids=[2, 3]`, `torch.cuda.set_device(1)` and `model.cuda(1)`."""
    given = [
        each.value
        for each in node.keywords
        if each.arg in NUMBERED and (each.arg not in COUNTS or isinstance(each.value, (ast.List, ast.Tuple)))
    ]
    if _last_name(node.func) in {"cuda", "set_device"}:
        given += node.args[:1]
    for each in given:
        for value in each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each]:
            if isinstance(value, ast.Constant) and type(value.value) is int:
                yield DeviceNumber(number=value.value, line=node.lineno)


def _words(node: ast.Call) -> Texts:
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return frozenset(word for text in texts for word in text.split())


def _match(full: str, packages: Collection[str], names: Collection[str]) -> str:
    """Return the last part of a full name, if it is one of `names` and comes from one of `packages`; else ""."""
    if full.partition(".")[0] not in packages:
        return ""
    last = full.rpartition(".")[2]
    fits = any(last.endswith(name[1:]) if name.startswith("*") else last == name for name in names)
    return last if fits else ""


class _Names:
    """The meaning of names in a file: `mp.spawn` is `torch.multiprocessing.spawn`. From imports and assignments."""

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        """Read all nodes of a tree, `[*ast.walk(tree)]`."""
        self._aliases: dict[str, str] = {}
        self._texts: dict[str, set[str]] = {}
        for node in nodes:
            self._aliases.update(_imported(node))
        for node in nodes:
            self._add_assignment(node)

    def full(self, node: ast.AST | None) -> str:
        """Return the full name of an expression, such as `os.environ`; "" if it is not imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._aliases:
            return ""
        return ".".join([self._aliases[node.id], *reversed(parts)])

    def texts(self, node: ast.AST | None) -> set[str]:
        """Return the strings in the file that an expression may be."""
        if isinstance(node, ast.Constant):
            return {node.value} if isinstance(node.value, str) else set()
        return self._texts.get(node.id, set()) if isinstance(node, ast.Name) else set()

    def _add_assignment(self, node: ast.AST) -> None:
        if isinstance(node, LOOPS) and isinstance(node.target, ast.Name):
            self._add_texts(node.target.id, getattr(node.iter, "elts", []))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, full = node.targets[0].id, self.full(node.value)
            self._add_texts(name, [node.value])
            if full and name not in self._aliases:
                self._aliases[name] = full

    def _add_texts(self, name: str, values: Sequence[ast.expr]) -> None:
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                self._texts.setdefault(name, set()).add(value.value)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the names that an import defines, and their full names."""
    if isinstance(node, ast.Import):
        for each in node.names:
            yield (each.asname, each.name) if each.asname else (each.name.partition(".")[0],) * 2
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for each in node.names:
            yield each.asname or each.name, f"{node.module}.{each.name}"
