"""Copy an included recipe into one file that needs nothing else of Trainyard, to be changed by the user.

The included recipes share code, as in `from _data import digits`. A copy contains what it uses of that, below its own
functions. Of the imports at the top of a file, only `from MODULE import NAME` is followed: the included recipes have no
other of shared code. A test copies each of them, and calls its functions.
"""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from core.catalog.recipes import BUILT_IN
from core.language import tr
from core.schema.settings import RECIPE_FUNCTIONS
from resources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from core.catalog.recipes import RecipeFile

INSTALLED = "Path(__file__).resolve().parents[2]"
"""How the shared code names the folder `resources`."""


def check_copy(recipe: RecipeFile, target: Path) -> None:
    """Raise `ValueError` with a sentence if the recipe cannot be copied, or not to this file because of its name."""
    check_source(recipe)
    if target.suffix != ".py":
        raise ValueError(tr("{path} is not the name of a Python file. Name a file that ends with .py.", path=target))


def check_source(recipe: RecipeFile) -> None:
    """Raise `ValueError` with a sentence if the recipe is not one that comes with Trainyard."""
    if not recipe.path.is_relative_to(BUILT_IN):
        raise ValueError(
            tr(
                "{path} is a file of your own, which you can change as it is. Choose a built-in workload to copy.",
                path=recipe.path,
            )
        )


def standalone(recipe: RecipeFile) -> str:
    """Return the source of an included recipe, with what it uses of the shared code."""
    parts = _Parts()
    own = parts.load(recipe.path)
    parts.follow(own, _names(own.tree))
    docstring, *statements = own.tree.body
    last_import = max(node.end_lineno or 0 for node in statements if isinstance(node, (ast.Import, ast.ImportFrom)))
    text = [
        *own.lines[: docstring.end_lineno], "", *_how_to_change(recipe), "", *parts.import_lines(),
        *own.lines[last_import:],
    ]  # fmt: skip
    if segments := list(parts.segments()):
        text += ["", "", "# The rest is what the functions above use of the code that the included recipes share."]
        text += [line for segment in segments for line in ("", "", *segment)]
    return "\n".join(text).replace(INSTALLED, f"Path({json.dumps(str(ROOT))})").rstrip() + "\n"


def _how_to_change(recipe: RecipeFile) -> Iterator[str]:
    """Yield comments for someone who is going to change the file."""
    others = [name for name in RECIPE_FUNCTIONS if name not in recipe.functions]
    yield f"# A copy of Trainyard's recipe {recipe.name}, to be changed."
    yield "# Arguments with plain defaults are settings: a field in the window, --set NAME=VALUE on the command line."
    yield f"# A run would also call these functions: {', '.join(others)}."
    yield "# They are described in Trainyard's documents, in the menu Help."


@dataclass(frozen=True)
class _Module:
    """A file of Python, and what it imports and defines at its top level."""

    path: Path

    @cached_property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse("\n".join(self.lines))

    @cached_property
    def imports(self) -> dict[str, _Import]:
        """By the names that they define here."""
        found: dict[str, _Import] = {}
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                source = ("." * node.level) + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
                for each in node.names:  # `import a.b` defines a
                    name = each.asname or each.name.partition(".")[0]
                    found[name] = _Import(source, each.name, each.asname)
        return found

    @cached_property
    def definitions(self) -> dict[str, int]:
        """The position in the file's body of the statement that defines a name."""
        found = {}
        for number, node in enumerate(self.tree.body):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = number
            elif isinstance(node, ast.Assign):
                found.update({each.id: number for each in ast.walk(node) if _is_target(each)})
        return found

    def neighbour(self, source: str) -> Path | None:
        """Return the included file that a module name means in this file; None for a module from elsewhere."""
        folder, name = self.path.parent, source.removeprefix(".")
        if name.startswith("_shared."):
            folder, name = BUILT_IN / "_shared", name.removeprefix("_shared.")
        file = folder / f"{name}.py"
        return file if name and file.is_file() else None

    def segment(self, number: int) -> list[str]:
        """Return the lines of a statement, with the comments above it and a docstring of the variable below it."""
        node = self.tree.body[number]
        decorators = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        first = min([node.lineno, *(each.lineno for each in decorators)]) - 1
        while first and self.lines[first - 1].startswith("#"):
            first -= 1
        following = self.tree.body[number + 1 : number + 2]
        is_described = isinstance(node, ast.Assign) and following and isinstance(following[0], ast.Expr)
        return self.lines[first : (following[0] if is_described else node).end_lineno]


class _Import(NamedTuple):
    """An imported name. `source`: the module of a `from` statement, else the empty string."""

    source: str
    name: str
    alias: str | None


class _Parts:
    """What a recipe uses of other files: their statements, and the imports of those."""

    def __init__(self) -> None:
        self._modules: dict[Path, _Module] = {}
        """After the modules that they import."""
        self._used: dict[Path, set[int]] = {}
        self._imports: set[_Import] = set()

    def load(self, path: Path) -> _Module:
        """Return a file as a module, after those that it imports."""
        module = _Module(path)
        for neighbour in {module.neighbour(each.source) for each in module.imports.values()} - {None, *self._modules}:
            self.load(neighbour)  # type: ignore[arg-type]  # None was taken away
        return self._modules.setdefault(path, module)

    def follow(self, module: _Module, names: Iterable[str]) -> None:
        """Add what a statement of the module uses by these names."""
        for name in names:
            if name in module.definitions:
                number = module.definitions[name]
                used = self._used.setdefault(module.path, set())
                if number not in used:
                    used.add(number)
                    self.follow(module, _names(module.tree.body[number]))
            elif name in module.imports:
                imported = module.imports[name]
                if (path := module.neighbour(imported.source)) is None:
                    self._imports.add(imported)
                else:
                    self.follow(self._modules[path], [imported.name])

    def import_lines(self) -> Iterator[str]:
        """Yield import statements: first those of Python itself, then those of packages."""
        own = {
            each for each in self._imports if (each.source or each.name).partition(".")[0] in sys.stdlib_module_names
        }
        groups = [group for group in (own, self._imports - own) if group]
        for number, group in enumerate(groups):
            yield from [""] if number else []
            yield from sorted(f"import {_as(each)}" for each in group if not each.source)
            for source in sorted({each.source for each in group if each.source}):
                yield f"from {source} import {', '.join(sorted(_as(each) for each in group if each.source == source))}"

    def segments(self) -> Iterator[list[str]]:
        """Yield the lines of each statement of other files."""
        *others, _ = self._modules.values()  # the last one is the recipe
        for module in others:
            for number in sorted(self._used.get(module.path, ())):
                yield module.segment(number)


def _package(imported: _Import) -> str:
    return (imported.source or imported.name).partition(".")[0]


def _as(imported: _Import) -> str:
    return f"{imported.name} as {imported.alias}" if imported.alias else imported.name


def _names(node: ast.AST) -> list[str]:
    """Return the names that a piece of code reads, in order."""
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]


def _is_target(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
