"""The command `desktop`: put Trainyard into the desktop's menu of programs, or take it out."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.cli.output import answer
from core.errors import RunError
from core.language import tr
from core.system.installation import COMMAND, own_command
from resources import ROOT

ICON = ROOT / "icons" / f"{COMMAND}.svg"
RESERVED = frozenset(" \t\n\"'\\><~|&;$*?#()`")
"""Characters for which a word of `Exec` must be quoted."""
ESCAPED = '"`$\\'
"""Characters that have a backslash before them in a quoted word."""


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=("install", "remove"), help=tr("write the desktop entry and the icon, or delete them")
    )


def desktop(options: Namespace) -> int:
    """Add Trainyard to the menu of programs of your desktop, or remove it there."""
    if sys.platform in {"darwin", "win32"}:
        raise ValueError(
            tr("This system has no desktop entries; Linux desktops have them. Start the window: trainyard")
        )
    named = os.environ.get("XDG_DATA_HOME", "")  # a relative one is ignored, as specified
    folder = Path(named) if named.startswith("/") else Path.home() / ".local" / "share"
    # The icon first: an entry that is there is whole.
    icon = folder / "icons" / "hicolor" / "scalable" / "apps" / f"{COMMAND}.svg"
    files = {icon: ICON.read_text(encoding="utf-8"), entry_file(folder): entry(own_command())}
    installs = options.what == "install"
    changed = [path for path, text in files.items() if (_write(path, text) if installs else _delete(path))]
    with contextlib.suppress(OSError):  # desktops read an icon folder again when its time has changed
        os.utime(folder / "icons" / "hicolor")
    document = {"installed": installs, "files": list(map(str, files)), "changed": len(changed)}
    return answer(options, document, *_report(changed, folder, installs=installs))


def entry_file(folder: Path) -> Path:
    """Return the path of the desktop entry. Its name is the one that the window gives itself (`app.py`)."""
    return folder / "applications" / f"{COMMAND}.desktop"


def entry(command: Sequence[str]) -> str:
    """Return the desktop entry that starts this command. Raises `ValueError` for a path that an entry cannot have."""
    if "=" in command[0] or any(ord(character) < ord(" ") for word in command for character in word):
        raise ValueError(tr(
            "A desktop entry cannot start {command}: the path has an equals sign or a control character. Install "
            "Trainyard in another folder.", command=repr(command[0]),
        ))
    words = _escaped(" ".join(map(_quoted, command)))
    return "\n".join((
        "[Desktop Entry]",
        "Type=Application",
        "Version=1.0",
        "Name=Trainyard",
        "GenericName=Training on several GPUs",
        "Comment=Train neural networks on the devices you choose, and watch them",
        f"Exec={words}",
        f"TryExec={_escaped(command[0])}",
        f"Icon={COMMAND}",
        "Terminal=false",
        f"StartupWMClass={COMMAND}",
        "Categories=Science;ArtificialIntelligence;",
        "Keywords=PyTorch;TensorFlow;Keras;GPU;CUDA;training;",
        "",
    ))


def _quoted(word: str) -> str:
    """Return a word of `Exec`: percent signs doubled, and quoted if it has reserved characters."""
    word = word.replace("%", "%%")
    if word and not RESERVED.intersection(word):
        return word
    return '"' + "".join(f"\\{each}" if each in ESCAPED else each for each in word) + '"'


def _escaped(value: str) -> str:
    """Return the value of a key: every value doubles its backslashes, after the quoting of `Exec`."""
    return value.replace("\\", "\\\\")


def _write(path: Path, text: str) -> bool:
    """Write a file whole; return False if it has this text already. Raises `RunError` with a sentence."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(tr("{path} cannot be written: {reason}. Trainyard was not added to the menu of programs.",
                          path=path, reason=error.strerror)) from error
    return True


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunError(tr("{path} cannot be deleted: {reason}.", path=path, reason=error.strerror)) from error
    return True


def _report(changed: Sequence[Path], folder: Path, *, installs: bool) -> Iterator[str]:
    for path in changed:
        yield tr("Wrote {path}", path=path) if installs else tr("Deleted {path}", path=path)
    if installs and not changed:
        yield tr("Trainyard is in the menu of programs already: {entry} is up to date.", entry=entry_file(folder))
    elif installs:
        yield tr("Trainyard is in the menu of programs.")
    elif changed:
        yield tr("Trainyard is no longer in the menu of programs.")
    else:
        yield tr("There is no entry of Trainyard below {folder}.", folder=folder)
