"""Check the structure of the code, and what the documentation says about it."""

from __future__ import annotations

import ast
import collections
import functools
import re
from pathlib import Path

import pytest
import tomllib

import core
from core.catalog.strategies import STRATEGIES

ROOT = Path(core.__file__).resolve().parents[1]
CODE = [path for name in ("core", "gui") for path in sorted((ROOT / name).rglob("*.py"))]
RUN_FILES = re.compile(
    r"^(spec\.json|(supervisor|guard|collector|devices|worker-.*)\.jsonl|rendezvous|control|reserve|log(\..*)?\.txt)$"
)


def module_name(path: Path) -> str:
    """Return the dotted name of a module of this project."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a module, for the tests that follow each other in one process (see `tests/conftest.py`)."""
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


def imported(path: Path) -> list[tuple[str, str, ast.ImportFrom]]:
    """Return (module, name, statement) of each `from ... import ...` of our own code in a module."""
    package = path.parent.relative_to(ROOT).parts
    found = []
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], node.module or ""]).rstrip(".")
            module = base if node.level else node.module or ""
            found += [(module, alias.name, node) for alias in node.names if module.split(".")[0] in {"core", "gui"}]
    return found


@pytest.mark.slow
def test_no_module_imports_a_private_name_of_another() -> None:
    modules = {module_name(path) for path in CODE}
    private = [
        f"{module_name(path)}: {module}.{name}"
        for path in CODE
        for module, name, _ in imported(path)
        if name.startswith("_") and f"{module}.{name}" not in modules
    ]
    assert private == []


@functools.cache
def edges() -> dict[str, set[str]]:
    """Return what each module imports, also inside functions. Imports for type checkers do not count."""
    modules = {module_name(path) for path in CODE}
    found: dict[str, set[str]] = {}
    for path in CODE:
        skipped = {
            child.lineno
            for node in nodes(path)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for child in ast.walk(node)
            if isinstance(child, ast.ImportFrom)
        }
        found[module_name(path)] = {
            f"{module}.{name}" if f"{module}.{name}" in modules else module
            for module, name, node in imported(path)
            if node.lineno not in skipped
        }
    return found


def test_there_is_no_import_circle() -> None:
    assert _circle(edges()) == []


KERNEL_LINES = 15_000
STARTS = ("core.supervisor.__main__", "core.worker.")
BEYOND = ("core.companions", "core.queue.", "core.worker.pytorch", "core.worker.tensorflow", "core.worker.keras")


def test_the_kernel_stays_small() -> None:
    """The kernel is what a run loads without its companions, and without what is specific to a framework."""
    waiting = [name for name in edges() if name.startswith(STARTS) and not name.startswith(BEYOND)]
    kernel: set[str] = set()
    while waiting:
        name = waiting.pop()
        parents = {name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)}
        kernel |= {name, *parents}
        waiting += [each for each in edges()[name] if each not in kernel and not each.startswith(BEYOND)]
    lines = {module_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in CODE}
    total = sum(lines[name] for name in kernel)
    print(f"The kernel has {total} lines in {len(kernel)} modules.")
    assert total <= KERNEL_LINES


def test_the_window_names_no_feature() -> None:
    """Only the list of features does, and what makes their panels and what they share."""
    named = [module for module, _, _ in imported(ROOT / "gui" / "window" / "main_window.py")]
    assert [module for module in named if module.startswith("gui.features")] == []


def test_file_names_of_the_run_directory_stand_in_one_module() -> None:
    literal = [
        f"{module_name(path)}:{node.lineno} {node.value!r}"
        for path in CODE
        if module_name(path) != "core.schema.paths"
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and RUN_FILES.match(node.value)
    ]
    assert literal == []


def test_every_package_has_a_table_of_contents() -> None:
    """The docstring of a package names its modules. The files of strategies are rows of the catalog instead."""
    missing: list[str] = []
    gone: list[str] = []
    for init in (path for path in CODE if path.name == "__init__.py"):
        text = init.read_text(encoding="utf-8")
        modules = {path.stem for path in init.parent.glob("*.py") if path.stem not in {"__init__", "__main__"}}
        if init.parent.parent.name == "worker":
            modules -= {strategy.name for strategy in STRATEGIES}
        missing += [f"{module_name(init)}: {name}" for name in sorted(modules) if f"`{name}`" not in text]
        listed = re.findall(r"^- (`\w+`(?:, `\w+`)*):", text, re.MULTILINE)
        gone += [
            f"{module_name(init)}: {name}"
            for name in re.findall(r"\w+", " ".join(listed))
            if name not in modules | {"__main__"} and not (init.parent / name).is_dir()
        ]
    assert missing == []
    assert gone == []


def test_packages_are_small() -> None:
    modules = [module_name(path) for path in CODE if path.stem not in {"__init__", "__main__"}]
    packages = collections.Counter(module.rpartition(".")[0] for module in modules)
    assert {name: count for name, count in packages.items() if count > 12} == {}


def test_strategies_are_not_told_apart_by_name() -> None:
    """What a strategy can and cannot do is in its row, so that a new one needs no search through the code."""
    names = {strategy.name for strategy in STRATEGIES}
    named = [
        f"{module_name(path)}:{node.lineno}: {ast.unparse(node)}"
        for path in CODE
        if "worker" not in path.parts and path.name != "strategies.py"  # a worker runs one strategy
        for node in nodes(path)
        if isinstance(node, ast.Compare)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and constant.value in names
    ]
    assert named == []


def test_documentation_has_the_layers_of_import_linter_and_the_folders_of_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for package in ("core", "gui"):
        contracts = project["tool"]["importlinter"]["contracts"]
        (layers,) = [each["layers"] for each in contracts if each.get("containers") == [package]]
        table = page.split(f"| `{package}`, from top to bottom |")[1].split("\n\n")[0]
        rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
        assert rows == [layer.split(" | ") for layer in layers]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "_."}
    assert set(re.findall(r"^\| `tests/(\w+)` \|", page, re.MULTILINE)) == folders


def _circle(edges: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle; an empty list if there is none."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str]:
        if name in way:
            return way[way.index(name) :]
        if name in done:
            return []
        for following in sorted(edges.get(name, ())):
            if circle := visit(following, [*way, name]):
                return circle
        done.add(name)
        return []

    return next((circle for name in sorted(edges) if (circle := visit(name, []))), [])


OPENERS = {"open", "read_text", "read_bytes", "write_text", "write_bytes"}
OPEN_OTHER_FILES = {
    "core.schema.files": "the one place that opens files of a run",
    "core.catalog.recipes": "recipes",
    "core.cli.__main__": "/dev/null",
    "core.cli.commands.desktop": "the desktop entry and the icon",
    "core.config.presets": "presets",
    "core.devices.cpu": "/proc",
    "core.devices.nvidia.card": "/sys and /proc",
    "core.hosts.agent.server": "/dev/null",
    "core.hosts.ray.node": "/proc, and the folder into which it unpacks our code",
    "core.language": "the translations",
    "core.notifications.channels": "addresses of services",
    "core.launchers.export_model": "an answer in a temporary folder",
    "core.launchers.loopback": "/proc",
    "core.launchers.program": "notebooks, and a copy that the run itself has made",
    "core.launchers.torch_store": "the version of PyTorch",
    "core.pythons.python_info": "programs",
    "core.pythons.discovery": "conda's list of environments",
    "core.pythons.probe": "programs",
    "core.queue.folder": "the folder of one's own tickets, to lock it",
    "core.queue.line": "tickets and claims of all users, and small files of one's own",
    "core.queue.waiter": "events and the lock of a run, in a process that loads little",
    "core.results.chart": "drawings in a temporary folder",
    "core.runs.lock": "folders",
    "core.history.removal": "folders",
    "core.scripts.source": "scripts",
    "core.series.report": "the files that a user exports",
    "core.system.installation": "the version and the documents of the installation",
    "core.system.procfs": "/proc",
    "core.system.processes": "/proc",
    "core.worker.boot": "/dev/null",
    "core.worker.context": "/proc",
    "core.doctor.sources": "the kernel's log",
    "core.doctor.stacks": "a file in the memory of a worker",
    "core.check": "a lock in the cache folder, and its own folder",
    "core.worker.export": "the exported model",
    "core.worker.keras": "files of a checkpoint, in a worker of the run",
    "core.worker.pytorch": "files of a checkpoint, in a worker of the run",
    "core.worker.tensorflow": "files of a checkpoint, in a worker of the run",
    "gui.plots.exports": "a buffer in memory",
    "gui.features.run.outputs": "a buffer in memory",
    "core.supervisor.disturbances": "counters of the kernel",
    "gui.base.theme": "the style sheet",
}
"""Modules and packages that open files, and which: none of them is a file of a run that others may have planted."""
WITHIN_CHECKPOINTS = {
    "core.schema.checkpoint": {"write", "sync"},
    "core.runs.directory": {"launch"},
    "core.worker.training.checkpoints": {"_pieces_of", "_write"},
}
"""Functions that write what `core.schema.files` has opened, or files of a checkpoint in a worker of the run."""


def test_only_one_module_opens_files_of_a_run() -> None:
    found = []
    for path in CODE:
        module = module_name(path)
        if any(module == known or module.startswith(f"{known}.") for known in OPEN_OTHER_FILES):
            continue
        for function in nodes(path):
            if not isinstance(function, ast.FunctionDef) or function.name in WITHIN_CHECKPOINTS.get(module, ()):
                continue
            found += [
                f"{module}.{function.name}: {ast.unparse(call)}" for call in ast.walk(function) if _opens_a_file(call)
            ]
    assert found == []


def _opens_a_file(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "touch" and isinstance(node.func, ast.Attribute):
        return True
    # A call without arguments opens a dialog.
    return name in OPENERS and bool(node.args or name in {"read_text", "read_bytes"})
