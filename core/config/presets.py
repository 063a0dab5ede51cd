"""Specs saved as files under a name, to be started again: `trainyard keep`, `trainyard run --setup`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.language import tr
from core.schema.files import make_private, make_private_folder, parse_json, read_whole, write_whole
from core.schema.spec import RunSpec
from core.system.folders import presets_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

SUFFIX = ".json"
PATHS = (("python",), ("working_dir",), ("recipe", "path"), ("script", "path"))
"""The paths in a spec. Paths inside the preset's folder are saved relative to it, so that both can be moved."""

SECRET_NAME = re.compile(
    r"secret|passw(or)?d|passphrase|credential|(api|access|auth)_?(key|token)|(^|_)(key|token|auth|pat)(_|$)",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(r"://[^/\s:@]{0,200}:[^/\s@]{1,200}@")
"""A URL with a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A preset, or a file that cannot be used as one."""

    name: str
    path: Path
    spec: RunSpec | None
    problem: str = ""
    """Why it cannot be used: a sentence."""


def default_root() -> Path:
    """Return the folder of the presets saved by name: the chosen one, or one in the user's configuration folder."""
    return presets_folder()


def path_of(name: str, root: Path) -> Path:
    """Return the file for a name or a path. Raises `ValueError` for an invalid name."""
    if "/" in name or name.endswith(SUFFIX):
        return Path(name).expanduser().absolute()
    if not re.fullmatch(r"[\w][\w .+-]*", name):
        raise ValueError(
            tr(
                "{name!r} is not a valid preset name. Use letters, digits, spaces and . + - _, or give a path.",
                name=name,
            )
        )
    return root / f"{name}{SUFFIX}"


def save(spec: RunSpec, path: Path) -> None:
    """Write the preset, which only this user can read, and replace an existing one. Raises `OSError`."""
    if path.parent == default_root():
        make_private_folder(path.parent.parent)
        make_private_folder(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = _with_paths(spec.to_json(), lambda text: _relative(text, path.parent))
    write_whole(path, json.dumps(document, indent=2) + "\n")


def secret_names(spec: RunSpec) -> list[str]:
    """Return the variables of a script whose names or values look like secrets."""
    variables = spec.script.environment if spec.script else {}
    return [name for name, value in variables.items() if SECRET_NAME.search(name) or SECRET_VALUE.search(value)]


def without_values(spec: RunSpec, names: Collection[str]) -> RunSpec:
    """Return the spec with these variables by name alone: their values are taken from the environment at the start."""
    if spec.script is None:
        return spec
    kept = {name: value for name, value in spec.script.environment.items() if name not in names}
    inherited = tuple(dict.fromkeys([*spec.script.inherited, *names]))
    return replace(spec, script=replace(spec.script, environment=kept, inherited=inherited))


def read(path: Path) -> RunSpec:
    """Return the spec of a preset. Raises `ValueError` with a sentence that names the file."""
    try:
        document = parse_json(read_whole(path, follow_link=True))
        if isinstance(document, dict):
            document = _with_paths(document, lambda text: str(path.parent / text) if text else text)
        return RunSpec.from_json(document)
    except FileNotFoundError:
        raise ValueError(
            tr("There is no preset {path}. `trainyard setups` lists the presets saved by name.", path=path)
        ) from None
    except OSError as error:
        raise ValueError(
            tr("The preset {path} cannot be read: {strerror}.", path=path, strerror=error.strerror)
        ) from error
    except (ValueError, TypeError) as error:
        raise ValueError(tr("{path} is not a valid preset. {error}", path=path, error=error)) from error


def read_all(root: Path) -> list[Preset]:
    """Return all presets in a folder by name, also those that cannot be used.

    Other users lose their permissions on the presets, which may contain secrets: a copied file may be readable by all.
    """
    found = sorted(root.glob(f"*{SUFFIX}"))
    for path in (root, *found):
        make_private(path)
    return [_preset(path) for path in found]


def _preset(path: Path) -> Preset:
    try:
        return Preset(name=path.stem, path=path, spec=read(path))
    except ValueError as error:
        return Preset(name=path.stem, path=path, spec=None, problem=str(error))


def _with_paths(document: dict[str, object], change: Callable[[str], str]) -> dict[str, object]:
    """Return a copy of the document with each of its paths changed."""
    changed = {name: dict(part) if isinstance(part, dict) else part for name, part in document.items()}
    for *into, last in PATHS:
        part: object = changed
        for name in into:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(part.get(last), str):
            part[last] = change(part[last])
    return changed


def _relative(text: str, folder: Path) -> str:
    if not text:
        return text
    within = os.path.relpath(text, folder)
    return text if within.startswith("..") else within
