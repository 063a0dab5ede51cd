"""Who imports whom: asked of fresh interpreters, since a test's own has imported everything."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import core

CORE = Path(core.__file__).resolve().parent
LOADED_BY_WORKERS = (
    CORE / "__init__.py", CORE / "language.py", *(CORE / "schema").rglob("*.py"), *(CORE / "worker").rglob("*.py"),
)
HEAVY = ("PySide6", "pyqtgraph", "torch", "tensorflow", "keras", "pynvml")


def loaded_by(statement: str) -> set[str]:
    """The modules that are loaded after a statement in a fresh interpreter, packages of others by their first name."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name if name.startswith(("core.", "gui.")) else name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("module", "not_loaded"),
    [
        ("core.runs.run", HEAVY), ("core.config.validation", HEAVY), ("core.supervisor", HEAVY), ("core.cli", HEAVY),
        ("core.devices.sampler", HEAVY), ("core.cli.__main__", ("numpy",)),
        ("gui.window.main_window, gui.app", ("torch", "tensorflow", "keras", "pynvml")),
    ],
)
def test_neither_qt_nor_a_framework_is_loaded_where_it_is_not_needed(module: str, not_loaded: tuple[str, ...]) -> None:
    assert not loaded_by(f"import {module}") & set(not_loaded)


@pytest.mark.slow
def test_the_first_frame_of_the_window_needs_neither_numpy_nor_pyqtgraph_nor_hosts(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setenv("TRAINYARD_CONFIG_DIR", str(tmp_path / "config"))
    begin = (
        "from pathlib import Path\nfrom PySide6.QtWidgets import QApplication, QTreeView\n"
        "from gui.window.main_window import MainWindow\nfrom gui.machine.machine import Machine\n"
        f"app = QApplication([]); window = MainWindow(Machine(Path({str(tmp_path)!r}) / 'runs'))\n"
    )
    loaded = loaded_by(
        f"{begin}assert window.findChild(QTreeView, 'deviceTable').model().rowCount() > 0\n"
        "window.grab(); window.services.device_monitor.close()"
    )
    assert "PySide6" in loaded
    assert not loaded & {"numpy", "pyqtgraph"}
    assert "gui.machine.host_machine" not in loaded, "it is for the runs of another machine"
    loaded = loaded_by(f"{begin}window.show(); window.poll(); window.close()")
    assert not [name for name in loaded if name.startswith("core.hosts")], "without a host"


def test_a_worker_loads_nothing_but_the_standard_library_before_its_framework() -> None:
    """Also: under a private name, and with our own folders off the path."""
    boot = CORE / "worker" / "boot.py"
    script = (
        f"import runpy; boot = runpy.run_path({str(boot)!r}); boot['_load_privately']({str(CORE)!r})\n"
        "import importlib; importlib.import_module('_trainyard.worker.main')"
    )
    loaded = loaded_by(script)
    assert "_trainyard" in loaded
    assert not loaded & {"core", "gui", "resources", "numpy", "psutil", "platformdirs", *HEAVY}


def test_what_a_worker_loads_is_python_3_10() -> None:
    for path in LOADED_BY_WORKERS:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 10))


def test_what_a_worker_loads_imports_ours_relatively() -> None:
    """It is loaded under a private name, also where `core` is not installed or is another program's."""
    for path in LOADED_BY_WORKERS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not {name.partition(".")[0] for name in names} & {"core", "gui"}, path


def test_every_target_of_a_registry_is_there() -> None:
    from core.catalog.strategies import STRATEGIES
    from core.devices.device import KINDS

    for cell in (each for each in STRATEGIES if each.target or not each.unavailable()):
        assert (CORE / "worker" / f"{cell.target.partition(':')[0].replace('.', '/')}.py").is_file()
    for kind in KINDS:
        assert (CORE.parent / f"{kind.target.replace('.', '/')}.py").is_file()
