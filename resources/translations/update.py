"""Bring the translations up to date with the source: collect all sentences, merge them, compile.

    python resources/translations/update.py [--check]

Each language is a folder with `LC_MESSAGES/trainyard.po`, which people edit, and `trainyard.mo`, which is made from it.
New sentences are added without a translation, changed ones are marked as fuzzy, and unused ones are dropped. `--check`
changes nothing; it prints what is missing or out of date, and ends with 1 if there is anything.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = ("core", "gui")
FUNCTIONS = {"tr": 1, "tr_noop": 1, "tr_plural": 2}
"""How many of their arguments are sentences."""
COMMENT = "# Translators:"
COMMANDS = ROOT / "core" / "cli" / "commands"
"""The docstring of a command is its help."""
RECIPES = ROOT / "resources" / "recipes"
"""The first line of a recipe describes it."""
FIELD = re.compile(r"\{(\w+)[^{}]*\}")


def main(arguments: list[str]) -> int:
    """Update or check all languages."""
    source = collect()
    problems = []
    for path in sorted(HERE.glob("*/LC_MESSAGES/trainyard.po")):
        if "--check" in arguments:
            problems += check(path, source)
        else:
            update(path, source)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def collect() -> Catalog:
    """Return all sentences of the source, with where they stand."""
    source = Catalog(project="Trainyard")
    for path in (path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))):
        for line, message, comments in sentences(path.read_text(encoding="utf-8")):
            source.add(message, locations=[(path.relative_to(ROOT).as_posix(), line)], auto_comments=comments)
    for path, line, summary in _commands():
        source.add(summary, locations=[(path, line)])
    for path in sorted(RECIPES.glob("[!_]*/[!_]*.py")):
        if summary := (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]:
            source.add(summary, locations=[(path.relative_to(ROOT).as_posix(), 1)])
    return source


def sentences(text: str) -> Iterator[tuple[int, str | tuple[str, ...], list[str]]]:
    """Return the sentences of a module: the line, the sentence (singular and plural), comments for translators.

    Babel's own extractor finds no call within an f-string or within another call.
    """
    lines = text.splitlines()
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        count = FUNCTIONS.get(call.func.id, 0) if isinstance(call.func, ast.Name) else 0
        found = [each.value for each in call.args[:count] if isinstance(each, ast.Constant)]
        if count and len(found) == count and all(isinstance(each, str) and each for each in found):
            above = lines[call.lineno - 2].strip() if call.lineno > 1 else ""
            comments = [above.removeprefix(COMMENT).strip()] if above.startswith(COMMENT) else []
            yield call.lineno, tuple(found) if count > 1 else found[0], comments


def _commands() -> Iterator[tuple[str, int, str]]:
    for path in [*sorted(COMMANDS.rglob("*.py")), COMMANDS.parent / "__main__.py"]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and _is_command(node) and (summary := ast.get_docstring(node)):
                yield path.relative_to(ROOT).as_posix(), node.lineno, summary.strip()


def _is_command(node: ast.FunctionDef) -> bool:
    """Return whether a public function takes the options of the command line and returns the exit code."""
    takes_options = [each.arg for each in node.args.args] == ["options"]
    is_public = not node.name.startswith("_")
    return is_public and takes_options and isinstance(node.returns, ast.Name) and node.returns.id == "int"


def update(path: Path, source: Catalog) -> None:
    """Merge the sentences of the source into one language, and compile it."""
    catalogue = _read(path)
    catalogue.update(source, no_fuzzy_matching=False, update_creation_date=False)
    catalogue.obsolete.clear()
    with path.open("wb") as file:
        # Without line numbers, a change elsewhere in a file changes no translation.
        write_po(file, catalogue, width=120, include_lineno=False, sort_by_file=True, ignore_obsolete=True)
    path.with_suffix(".mo").write_bytes(compiled(path))


def compiled(path: Path) -> bytes:
    """Return a language as the `gettext` module reads it."""
    file = io.BytesIO()
    write_mo(file, _read(path))
    return file.getvalue()


def check(path: Path, source: Catalog) -> list[str]:
    """Return what is missing, out of date, or wrong in one language, in sentences."""
    catalogue, name = _read(path), path.parents[1].name
    problems = [
        f"{name}: not in the catalogue: {message.id!r}"
        for message in source
        if message.id and message.id not in catalogue
    ]
    for message in catalogue:
        if not message.id:
            continue
        identifiers = [message.id] if isinstance(message.id, str) else list(message.id)
        texts = [message.string] if isinstance(message.string, str) else list(message.string)
        if message.id not in source:
            problems.append(f"{name}: no longer in the source: {identifiers[0]!r}")
        elif not all(texts) or message.fuzzy:
            problems.append(f"{name}: not translated: {identifiers[0]!r}")
        elif any(
            _fields(text) - _fields(*identifiers) or _fields(identifiers[-1]) - _fields(text) - {"count"}
            for text in texts
        ):
            problems.append(f"{name}: other fields than in English: {identifiers[0]!r}")
    binary = path.with_suffix(".mo")
    if not binary.is_file() or _translations(_read_binary(binary)) != _translations(catalogue):
        problems.append(f"{name}: {binary.name} is out of date")
    return problems


def _fields(*texts: str) -> set[str]:
    return {field for text in texts for field in FIELD.findall(text.replace("{{", "").replace("}}", ""))}


def _translations(catalogue: Catalog) -> dict[str, str]:
    """Return what is compiled, without the header, in which each version of Babel names itself."""
    found = {}
    for message in catalogue:
        texts = [message.string] if isinstance(message.string, str) else list(message.string)
        if message.id and texts and all(texts) and not message.fuzzy:
            found["\0".join([message.id] if isinstance(message.id, str) else message.id)] = "\0".join(texts)
    return found


def _read_binary(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_mo(file)


def _read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parents[1].name, domain="trainyard")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
