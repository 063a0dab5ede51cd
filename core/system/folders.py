"""The user's folders, for window and command line alike: settings, runs, presets, and the cache.

Those that the user has chosen for runs and presets are in `folders.json` beside the settings of the window. Whatever is
in it, the default folders can be used.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

import platformdirs

from core.errors import RunError
from core.language import tr
from core.schema import files
from core.schema.files import PRIVATE_FOLDER, make_folder, make_private_folder, not_written

CONFIG_VARIABLE = "TRAINYARD_CONFIG_DIR"
CACHE_VARIABLE = "TRAINYARD_CACHE_DIR"
FOLDERS = ("runs", "presets")
HOSTS_FILE = "hosts.json"
"""In the folder of settings, the other machines that the user has added: see `core.hosts.host_list`."""
MAX_BYTES = 64 * 1024


def config_folder() -> Path:
    """Return the folder of the user's settings, unless TRAINYARD_CONFIG_DIR names another."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else platformdirs.user_config_path("trainyard")


def cache_folder() -> Path:
    """Return the folder of what can be made again, unless TRAINYARD_CACHE_DIR names another."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else platformdirs.user_cache_path("trainyard")


def cache_of_run(run_dir: Path) -> Path:
    """Return the folder of what was made of a run and can be made again. It is removed with the run."""
    import hashlib  # here, since most processes do not need it, and it loads OpenSSL

    return cache_folder() / "runs" / hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:32]


def make_cache_folder(folder: Path) -> None:
    """Make the cache's folder, or one in it, for this user alone. Raises `OSError`."""
    if CACHE_VARIABLE in os.environ:  # its permissions are the user's
        make_folder(folder, PRIVATE_FOLDER)
    else:
        make_private_folder(folder)


def runs_folder() -> Path:
    """Return where runs are kept: the chosen folder, otherwise one in the user's data folder."""
    return chosen("runs") or platformdirs.user_data_path("trainyard") / "runs"


def presets_folder() -> Path:
    """Return where presets are kept: the chosen folder, otherwise one in the folder of the user's settings."""
    return chosen("presets") or config_folder() / "setups"


def chosen(name: str) -> Path | None:
    """Return the folder that the user has chosen for this; None for the default. Damaged choices do not count."""
    value = _read().get(name)
    return Path(value) if isinstance(value, str) and value.startswith("/") and value.isprintable() else None


def choose(name: str, folder: Path | None) -> None:
    """Keep runs or presets in this folder from the next start on; None for the default. Raises `RunError`."""
    kept = {**_read(), name: str(folder.absolute()) if folder else None}
    save_in_config_folder(
        "folders.json", json.dumps({key: value for key, value in kept.items() if value is not None}, indent=1)
    )


@contextlib.contextmanager
def writing(path: Path, otherwise: str, *, if_full: str = "") -> Iterator[None]:
    """Raise `RunError` if the path cannot be written inside of this. `otherwise`, `if_full`: see `not_written`."""
    try:
        yield
    except OSError as error:
        sentence = not_written(path, error, if_full=if_full or tr("Free some space."), otherwise=otherwise)
        raise RunError(sentence) from error


def save_in_config_folder(name: str, text: str) -> None:
    """Write a private file of settings, as a whole. Raises `RunError` with a sentence."""
    path = config_folder() / name
    with writing(path, tr("Check its permissions.")):
        make_config_folder()
        files.write_whole(Path(os.path.realpath(path)), text)  # a link stays: some users keep such files elsewhere


def make_config_folder() -> None:
    """Make the folder of the user's settings. Raises `OSError`."""
    if CONFIG_VARIABLE in os.environ:  # its permissions are the user's
        make_folder(config_folder(), PRIVATE_FOLDER)
    else:
        make_private_folder(config_folder())


@contextlib.contextmanager
def config_folder_locked() -> Iterator[None]:
    """Keep other processes from changing the user's settings meanwhile, where the file system has locks."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # what cannot be written is said when it is written
            make_config_folder()
            handle = files.open_folder(config_folder())
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _read() -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        found = files.parse_json(files.read_whole(config_folder() / "folders.json", MAX_BYTES, follow_link=True))
        if isinstance(found, dict):
            return found
    return {}
