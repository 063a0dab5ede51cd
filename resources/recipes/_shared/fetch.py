"""Download files of public data once into the user's cache folder, and check their SHA-256."""

import hashlib
import os
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path

TIMEOUT_S = 20  # seconds without any data; the whole file may take longer


def folder(name):
    """Return the folder of a data set: below $TRAINYARD_DATA, else below the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return Path(os.environ.get("TRAINYARD_DATA") or cache / "trainyard" / "data").expanduser() / name


def fetch(target, url, sha256):
    """Return the file `target`, downloaded from `url` if it does not exist. Raises `OSError`.

    Only a downloaded file is checked: a file that the user put there may be an extract or another edition.
    """
    if not target.exists():
        try:
            _fetch(target, url, sha256)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise OSError(
                f"{target.name} could not be downloaded from {url} ({reason}). "
                f"Get it elsewhere, put it into the folder {target.parent}, and start again."
            ) from error
    return target


def _fetch(target, url, sha256):
    """Write a temporary file and rename it: two ranks that download at once both get the whole file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            found = _download(url, file)
        if found != sha256:
            raise ValueError(f"its SHA-256 is {found} instead of {sha256}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _download(url, file):
    """Download `url` into the open file and return its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 (the addresses are ours, in mnist.py)
        while block := answer.read(1 << 20):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
