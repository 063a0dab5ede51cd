"""Every sentence that users read can be translated: it is passed through a function of `core.language`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TWO_WORDS = re.compile(r"[A-Za-z]{2,}[,;:.]? +[A-Za-z]{2,}")
TRANSLATING = {"tr", "tr_noop", "tr_plural"}
MATCHING = {"compile", "search", "match", "fullmatch", "sub", "split", "has", "found", "startswith", "removeprefix"}
LOGGING = {"debug", "info", "warning", "error", "exception", "critical"}
STYLING = {"setStyleSheet"}

PROGRAM = "a program, or a file that one reads"
NAME = "the name of a device or an interpreter, by which runs and users know it"
WORDS_OF_A_PROGRAM = "compared with what another program says"
MARKUP = "HTML or a style sheet"
IDENTIFIER = "a value that is stored and compared, and translated where it is shown"
EXEMPT = {
    "core/catalog/installed.py": dict.fromkeys(
        ("import sys; ", "import torch; ", "import importlib.metadata"), PROGRAM
    ),
    "core/diagnosis/causes.py": {"Root Cause (first": WORDS_OF_A_PROGRAM},
    "core/check/trainings.py": {"\nimport time, torch\n": PROGRAM},
    "core/check/gpu_probe.py": {"Last error:": WORDS_OF_A_PROGRAM},
    "core/catalog/recipes.py": {"# A": PROGRAM, "# They are": PROGRAM},
    "core/cli/commands/desktop.py": {"[Desktop Entry]": PROGRAM, "GenericName=": PROGRAM, "Comment=": PROGRAM},
    "core/cli/commands/machine.py": {"held by": "the heading of a column, as in `--json`"},
    "core/worker/pytorch/deferred.py": {".*copying from a non-meta": "a warning of PyTorch"},
    "core/devices/device.py": {
        "hardware slowdown": IDENTIFIER, "too hot": IDENTIFIER, "far too hot": IDENTIFIER, "power supply": IDENTIFIER,
    },
    "core/devices/nvidia/nvml.py": {"no memory of its own": IDENTIFIER, "numa node": IDENTIFIER},
    "core/devices/nvidia/card.py": {"GPU at {}": NAME, "NVIDIA GPU": NAME},
    "core/hosts/ray/driver.py": dict.fromkeys(
        ("Version mismatch", "No Raylet found", "node to connect", "This node has an IP address"), WORDS_OF_A_PROGRAM,
    ),
    "core/hosts/connection.py": {"timedatectl ": PROGRAM},
    "core/hosts/inquiry.py": {"not reachable": IDENTIFIER},
    "core/hosts/protocol.py": {"trainyard agent": IDENTIFIER},
    "core/launchers/loopback.py": {"{} cannot be started: {}": "printed by a program without our packages"},
    "core/launchers/program.py": {
        "it has no cells": "printed by a program without our packages",
        "code cell ": "printed by a program without our packages",
        "{}, cell {}: left out {}": "printed by a program without our packages",
    },
    "core/metrics/reading.py": {
        "\n    batch ": PROGRAM, "\n    loss ": PROGRAM,
        "in this epoch": IDENTIFIER, "in this validation": IDENTIFIER, "of a bar beside it": IDENTIFIER,
    },
    "core/metrics/files/trackers.py": {"SELECT ": PROGRAM},
    "core/metrics/rules.py": {"no metric": IDENTIFIER, "{metric loss}": IDENTIFIER},
    "core/pythons/discovery.py": {"mise or asdf": NAME},
    "core/pythons/python_info.py": {
        "import sys\n": PROGRAM, "{} -m pip install {}": PROGRAM, "uv pip install --python {} {}": PROGRAM,
    },
    "core/results/page.py": {"\n:root{": MARKUP, "width=device-width": MARKUP, "<!doctype html>": MARKUP},
    "core/results/chart.py": {".head{": MARKUP, "<?xml ": MARKUP},
    "core/history/summary_cache.py": dict.fromkeys(
        ("BEGIN ", "DROP ", "CREATE ", "PRAGMA user", "INSERT ", "DELETE ", "SELECT "), PROGRAM,
    ),
    "core/diagnosis/program_output.py": {
        "Traceback (most recent call last):": WORDS_OF_A_PROGRAM,
    },
    "core/scripts/launch_signs.py": {"accelerate launch": NAME},
    "core/supervisor/watches.py": {"power supply": IDENTIFIER},
    "core/supervisor/software_record.py": {"import os, sys\n": PROGRAM},
    "core/system/terminate.py": {"from multiprocessing.": PROGRAM},
    "core/worker/boot.py": {"dead-man switch": "the name of a thread"},
    "core/worker/keras/export.py": {'"""Load the trained model': PROGRAM},
    "core/worker/pytorch/export.py": {'"""Rebuild and load the trained model': PROGRAM},
    "gui/runs/run_list.py": {
        "list of runs": "the name of a thread", "index of runs": "the name of a thread",
    },
    "gui/runs/verdicts.py": {"sudo ": PROGRAM},
    "gui/features/help/controller.py": {"Last error of the window:": "read by those who maintain the program"},
    "gui/widgets/fields.py": {"\nQSpinBox::up-button": MARKUP},
    "gui/widgets/plain_text.py": {"{}<table ": MARKUP, "<td ": MARKUP, "<span ": MARKUP},
}
"""By module: the beginnings of texts that stay English, each with the reason."""
DIALECTS = "core/metrics/dialects/"
"""Its modules have no sentences of ours: they compare what they read with what other programs print."""


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def _is_shown_to_nobody(node: ast.AST, parent: ast.AST) -> bool:
    """Return whether a text in `node` is a docstring, a pattern, or only compared, or is translated."""
    if isinstance(parent, ast.Call):
        name = parent.func.id if isinstance(parent.func, ast.Name) else getattr(parent.func, "attr", "")
        return node in parent.args and name in TRANSLATING | MATCHING | LOGGING | STYLING
    if isinstance(parent, ast.ClassDef):  # the values of an enumeration
        return isinstance(node, ast.Assign) and any(getattr(base, "id", "") == "Enum" for base in parent.bases)
    is_docstring = isinstance(parent, ast.Expr) and isinstance(node, ast.Constant)
    return is_docstring or isinstance(parent, ast.Compare) or (isinstance(parent, ast.Assert) and node is parent.msg)


def _untranslated(source: str) -> Iterator[tuple[int, str]]:
    """Return the texts that look like sentences and are not translated, with their lines."""
    lines = source.splitlines()

    def visit(node: ast.AST, parent: ast.AST) -> Iterator[tuple[int, str]]:
        if _is_shown_to_nobody(node, parent):
            return
        children = ast.iter_child_nodes(node)
        if isinstance(node, ast.expr) and (text := _text(node)) is not None:
            is_raw = lines[node.lineno - 1].encode()[node.col_offset :].startswith(b"r")  # a pattern
            if TWO_WORDS.search(text) and not is_raw:
                yield node.lineno, text
            children = (child for child in children if not isinstance(child, ast.Constant))
        for child in children:
            yield from visit(child, node)

    tree = ast.parse(source)
    yield from visit(tree, tree)


@pytest.mark.slow
def test_every_sentence_is_translated():
    found, used = [], set()
    for path in sorted(path for folder in ("core", "gui") for path in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(DIALECTS):
            continue
        exempt = EXEMPT.get(name, {})
        for line, text in _untranslated(path.read_text(encoding="utf-8")):
            beginning = next((each for each in exempt if text.startswith(each)), None)
            used.add((name, beginning))
            if beginning is None:
                found.append(f"{name}:{line}: {text[:80]!r}")
    assert not found, "Pass these through `tr`, or exempt them with a reason:\n" + "\n".join(found)
    unused = {(name, each) for name, texts in EXEMPT.items() for each in texts} - used
    assert not unused, "These exemptions are no longer needed"


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("def f(): return 'The run is over.'", True),
        ("def f(name): return f'{name} is over, try again'", True),
        ("def f(): raise ValueError('The run is over.')", True),
        ("def f(): say('The run is over.')", True),
        ('def f(name, one): return f\'{name}{"" if one else " and several others"}\'', True),
        ("TABLE = {'key': 'The run is over.'}", True),
        ("def f(): return tr('The run is over.')", False),
        ("def f(name): return tr('{name} is over already.', name=name)", False),
        ("def f(): 'Return what there is.'", False),
        ("def f(text): return 'out of memory' in text", False),
        ("def f(log): log.info('The run is over.')", False),
        ("def f(name): return tr('{name} ended.', name='a run of others')", True),
    ],
)
def test_sentences_are_told_from_other_texts(source, is_found):
    assert bool([*_untranslated(source)]) is is_found
