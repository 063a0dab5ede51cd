"""This installation of Trainyard: its version, the command that starts it, and its documents."""

from __future__ import annotations

import sys
from pathlib import Path

from core.language import tr
from core.system import own_processes

ROOT = Path(__file__).resolve().parents[2]
"""The folder with the packages `core`, `gui` and `resources`."""
COMMAND = "trainyard"


def version() -> str:
    """Return the version of the installed distribution, or that of the source tree when none is installed.

    The name of a folder says it in most installations. Each supervisor asks, and `importlib.metadata`, which reads a
    file in that folder, takes a quarter as long to be imported as all else that a supervisor imports.
    """
    for folder in sys.path:
        if found := next(Path(folder or ".").glob(f"{COMMAND}-*.dist-info"), None):
            return found.name.removeprefix(f"{COMMAND}-").removesuffix(".dist-info")
    from importlib import metadata

    import tomllib

    try:
        return metadata.version(COMMAND)
    except metadata.PackageNotFoundError:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        number: str = project["project"]["version"]
        return number


def own_command() -> tuple[str, ...]:
    """Return the words of a command that opens the window from any folder: absolute, without a shell's help."""
    beside = Path(sys.executable).with_name(COMMAND)
    if beside.is_file():
        return (str(beside),)
    return tuple(own_processes.own_command("core.cli"))


def documents() -> dict[str, Path]:
    """Return the documents that are installed, by title, the readme first; none where only the packages are."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CHANGELOG.md"]
    return {_title(path): path for path in found if path.is_file()}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().lstrip("# ").strip() or path.stem


def document_text(path: Path) -> str:
    """Return the text of a document, or a sentence why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return tr("{path} cannot be read: {reason}.", path=path, reason=error.strerror)
