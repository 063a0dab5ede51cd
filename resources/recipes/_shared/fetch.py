"""Files of public data: fetched once into the user's cache folder, and checked by their SHA-256."""

import hashlib
import os
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path

TIMEOUT_S = 20  # without a sign of life; the whole file may take longer


def folder(name):
    """Where the files of a data set are kept: below $TRAINYARD_DATA, else below the user's cache folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return Path(os.environ.get("TRAINYARD_DATA") or cache / "trainyard" / "data").expanduser() / name


def fetch(target, url, sha256):
    """The file `target`, fetched from `url` if it is not there. Raises `OSError` with a sentence.

    Only what is fetched is checked: a file that somebody put there is theirs, be it an extract or another edition.
    """
    if not target.exists():
        try:
            _fetch(target, url, sha256)
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise OSError(
                f"{target.name} could not be fetched from {url} ({reason}): "
                f"get it elsewhere and put it into the folder {target.parent}, then start again."
            ) from error
    return target


def _fetch(target, url, sha256):
    """Written beside and renamed: two ranks that fetch at once do the work twice, and both have the whole file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            found = _download(url, file)
        if found != sha256:
            raise ValueError(f"what came has the SHA-256 {found} instead of {sha256}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _download(url, file):
    """Copy what is at `url` into the open file; returns its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 (the addresses are ours, in mnist.py)
        while block := answer.read(1 << 20):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
