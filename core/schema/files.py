"""Open the files of a run safely, write files whole, and word why a path could not be written.

A folder of runs may be shared, so a run directory is not trusted: a name in it may be a link to a device, a pipe that
blocks its reader, or a file without an end. Every file in a run directory is opened here. Only regular files are
opened, a link in the place of a file is not followed, and a file that is read whole has a maximum size. Links to
folders are followed: a user may keep the runs, one run, or its checkpoints on another disk.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any

from ..language import tr

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The error numbers of a write to a full disk, or beyond a quota."""
TEMPORARY = ".tmp"
"""How the names of temporary files end; one that a killed process has left can be deleted."""
PRIVATE = 0o600
PRIVATE_FOLDER = 0o700
MAX_JSON_BYTES = 4 * 1024 * 1024
"""Largest size of a JSON file that is read whole."""
MAX_DEPTH = 100
"""JSON that is nested deeper is refused: code that walks through it would exceed Python's recursion limit."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# Without O_NONBLOCK, opening a pipe waits for its other end. Systems without one of these flags lack the danger, too.
_SAFELY = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))


def open_to_read(path: str | Path, *, follow_link: bool = False) -> BinaryIO:
    """Open a regular file for reading. Never blocks. Raises `OSError`, also for a link, a pipe, a device or a folder.

    `follow_link`: whether a link to a regular file is followed; for files that a user's own program has named.
    """
    # Looking first leaves pipes and devices untouched: opening some of them has effects.
    _check_regular(os.stat(path) if follow_link else os.lstat(path), path)  # noqa: PTH116 (several times a second)
    handle = os.open(path, os.O_RDONLY | _SAFELY | (0 if follow_link else _NO_LINK))
    return os.fdopen(_checked(handle, path), "rb")


def open_to_append(path: str | Path) -> int:
    """Return a descriptor that appends to a regular file; a new file is private. Raises `OSError` as `open_to_read`."""
    with contextlib.suppress(FileNotFoundError):
        _check_regular(os.lstat(path), path)
    return _checked(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFELY | _NO_LINK, PRIVATE), path)


def open_folder(path: str | Path) -> int:
    """Return a descriptor of a folder, which stays that folder's when it is renamed. Raises `OSError`."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def touch(path: Path) -> None:
    """Make an empty private file unless there is a file. Raises `OSError`."""
    os.close(open_to_append(path))


def write_within(folder: Path, name: str, text: str) -> None:
    """Replace a private file in a folder, which must not be a link, as `write_whole` does. Raises `OSError`."""
    temporary = f".{name}.{os.getpid()}{TEMPORARY}"
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | _NO_LINK)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFELY | _NO_LINK
        with os.fdopen(_checked(os.open(temporary, flags, PRIVATE, dir_fd=handle), folder / name), "w") as file:
            file.write(text)
        os.replace(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
    finally:
        os.close(handle)


def is_regular(path: str | Path) -> bool:
    """Return whether a path is a regular file, and no link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def read_whole(path: str | Path, max_bytes: int = MAX_JSON_BYTES, *, follow_link: bool = False) -> bytes:
    """Return the content of a regular file. Raises `OSError`, also for a file of more than `max_bytes`."""
    with open_to_read(path, follow_link=follow_link) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, tr("it has more than {limit} bytes", limit=max_bytes), str(path))
    return data


def last_lines(path: Path, max_bytes: int) -> str:
    """Return the last whole lines of a file; of a single longer line, its end. The empty string if there is no file."""
    try:
        with open_to_read(path) as file:
            begin = max(0, file.seek(0, 2) - max_bytes)
            file.seek(max(0, begin - 1))  # with the byte before: if it is a newline, a whole line follows
            text = file.read(max_bytes + 1)
    except OSError:
        return ""
    if begin:
        _, newline, rest = text.partition(b"\n")
        text = rest if newline and rest.strip() else text[1:]
    return text.decode(errors="replace")


def read_json(path: str | Path, max_bytes: int = MAX_JSON_BYTES) -> Any:  # noqa: ANN401 (JSON)
    """Return the content of a JSON file. Raises `OSError` as `read_whole`, and `ValueError` as `parse_json`."""
    return parse_json(read_whole(path, max_bytes))


def parse_json(data: bytes) -> Any:  # noqa: ANN401 (JSON)
    """Return a JSON text as Python values. Raises `ValueError` with a sentence, also for one that is nested too deeply.

    Halves of characters (lone surrogates), which cannot be printed, become question marks.
    """
    try:
        value = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError(tr("It is not text in UTF-8.")) from None
    except json.JSONDecodeError:
        raise ValueError(tr("It is damaged: it is not JSON.")) from None
    except RecursionError:
        raise ValueError(_too_deep()) from None
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_too_deep(value):
        raise ValueError(_too_deep())
    if b"\\" in data and b"\\ud" in data.lower():  # the first search takes a thirtieth of the time of the second
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def _too_deep() -> str:
    return tr("It is nested deeper than {count} levels.", count=MAX_DEPTH)


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inside = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list))]
        level = [child for each in inside for child in each if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def _checked(handle: int, path: str | Path) -> int:
    """Return the descriptor if it is that of a regular file: since the look at the path, it may have been replaced."""
    try:
        _check_regular(os.fstat(handle), path)
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(handle, True)  # programs that inherit it expect an ordinary file
    except OSError:
        os.close(handle)
        raise
    return handle


def _check_regular(found: os.stat_result, path: str | Path) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(
            errno.ELOOP, tr("it is a link, and links in the place of a run's files are not followed"), str(path)
        )
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, tr("it is not a regular file"), str(path))


# -- write ---------------------------------------------------------------------------------------


def write_whole(path: Path, text: str) -> None:
    """Replace a file by way of a temporary one, so that readers see the old text or the new. Raises `OSError`.

    The file is private, whatever the umask and the permissions of the old one are.
    """
    write_parts(path, [text.encode()])


def write_parts(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Replace a file by these parts, put together, as `write_whole` does. Raises `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    temporary.unlink(missing_ok=True)  # left by an earlier process with this pid
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY | _NO_LINK, PRIVATE)
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder and its missing parents with at most these permissions, whatever the umask. Raises `OSError`."""
    if not folder.is_dir():
        if folder.parent != folder:
            make_folder(folder.parent, mode)
        folder.mkdir(mode, exist_ok=True)


def make_private_folder(folder: Path) -> None:
    """Make a folder of this program that no other user can enter; narrow the permissions of an existing one.

    Raises `OSError` when it cannot be made.
    """
    make_folder(folder, PRIVATE_FOLDER)
    make_private(folder)


def make_private(path: Path) -> None:
    """Take the permissions of group and others from a file or folder of this user, if there is one; not from a link."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o077:
            path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)


def disk_full(path: Path, remedy: str) -> str:
    """Return the sentences for a disk that is full. `remedy`: a sentence on what to do."""
    return tr("The disk is full: {path} could not be written. {remedy}", path=path, remedy=remedy)


def not_written(path: Path, error: OSError, *, if_full: str, otherwise: str) -> str:
    """Return why a path could not be written, with what to do: `if_full` when the disk is full, else `otherwise`."""
    if error.errno in FULL:
        return disk_full(path, if_full)
    return tr(
        "{path} could not be written: {strerror}. {otherwise}", path=path, strerror=error.strerror, otherwise=otherwise
    )
