"""What every machine must have before a recipe trains there: the same software and recipe, and the data.

Each machine says what it has (`core.config.abilities.equipment`). The conclusions are drawn here, and a difference
is an error: a run never starts on fewer machines than were chosen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import framework, installed_version, nccl_version
from core.catalog.recipes import BUILT_IN
from core.errors import RunError
from core.hosts.parts.head import UNREADABLE
from core.language import tr
from core.scripts.source import files_hash, own_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.schema.spec import RunSpec

HASH_DIGITS = 12
"""Digits of a hash that a sentence shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What a machine trains with."""

    version: str
    """Of the framework; the empty string if it is not known."""
    nccl: str = ""
    """The version of NCCL; the empty string if there is none, or if it was not asked for."""
    recipe: str = ""
    """The hash of the included recipe; the empty string if the recipe is sent."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """By path of the data: the empty string, or why it cannot be read (`core.hosts.parts.part`)."""


def questions(spec: RunSpec, *, uses_gpus: bool) -> dict[str, Any]:
    """Return what to ask the machines of a run for."""
    recipe = spec.own_recipe
    return {
        "framework": spec.framework,
        "recipe": recipe.name if is_included(spec) else "",
        "paths": data_paths(spec),
        # TensorFlow has NCCL built in and does not tell its version: that of TensorFlow is compared.
        "nccl": uses_gpus and spec.framework == "pytorch",
    }


def is_included(spec: RunSpec) -> bool:
    """Return whether the recipe is one of Trainyard's, which every machine has. Others are sent."""
    return Path(spec.own_recipe.path).is_relative_to(BUILT_IN)


def data_paths(spec: RunSpec) -> list[str]:
    """Return the settings of the recipe that name a file or folder of this machine, as absolute paths or with `~`.

    A text counts if it has a slash and something with this name exists here.
    """
    found = []
    for text in (each for each in spec.own_recipe.settings.values() if isinstance(each, str)):
        path = text if text.startswith("~") else os.path.join(spec.working_dir, text)  # noqa: PTH118 (a text)
        if "/" in text and text.isprintable() and os.path.exists(os.path.expanduser(path)):  # noqa: PTH110, PTH111
            found.append(path)
    return found


def own_equipment(spec: RunSpec, asked: Mapping[str, object]) -> Equipment:
    """Return what this machine trains with. `asked`: as `questions` returned. May take seconds."""
    return Equipment(
        version=installed_version(spec.python, framework(spec.framework).module),
        nccl=nccl_version(spec.python) if asked["nccl"] else "",
        recipe=files_hash(own_files(Path(spec.own_recipe.path))) if asked["recipe"] else "",
    )


def check(spec: RunSpec, asked: Mapping[str, object], own: Equipment, machines: Mapping[str, Equipment]) -> None:
    """Compare the machines with this one. Raises `RunError` with the first difference, and what to do."""
    if asked["nccl"] and not own.nccl:
        raise RunError(_no_nccl(tr("this machine"), spec))
    for host, found in machines.items():
        if own.version and main_part(found.version) != main_part(own.version):
            raise RunError(different_versions(host, framework(spec.framework).module, found.version, own.version))
        if asked["nccl"]:
            _check_nccl(spec, host, own, found)
        if asked["recipe"] and own.recipe != found.recipe:
            raise RunError(
                tr(
                    "The included recipe {name} on {host} differs from the one of this machine (SHA-256 {theirs} and "
                    "{own}). Install the same version of Trainyard on both.",
                    name=spec.own_recipe.name, host=host, theirs=found.recipe[:HASH_DIGITS] or "-",
                    own=own.recipe[:HASH_DIGITS],
                )
            )  # fmt: skip
        for path, problem in found.paths.items():
            if problem:
                raise RunError(_path_problem(host, path, problem))


def different_versions(host: str, module: str, there: str, here: str) -> str:
    """Return the sentence on a package whose version on a machine does not fit that of this one."""
    return tr(
        "{host} has {module} {version}, and this machine has {own}. Ranks of one run need the same version. "
        "Install it on one of them.",
        host=host,
        module=module,
        version=there,
        own=here,
    )


def _check_nccl(spec: RunSpec, host: str, own: Equipment, found: Equipment) -> None:
    if not found.nccl:
        raise RunError(_no_nccl(host, spec))
    if found.nccl != own.nccl:
        raise RunError(
            tr(
                "{host} has NCCL {version}, and this machine has {own}. GPUs of one run need the same version of NCCL. "
                "Install the same build of PyTorch on both.",
                host=host, version=found.nccl, own=own.nccl,
            )
        )  # fmt: skip


def _no_nccl(host: str, spec: RunSpec) -> str:
    return tr(
        "The {title} of {host} has no NCCL, with which GPUs of several machines exchange data, or does not tell its "
        "version. Install a build of {title} for CUDA there.",
        title=framework(spec.framework).title,
        host=host,
    )


def _path_problem(host: str, path: str, problem: str) -> str:
    if problem == UNREADABLE:
        return tr(
            "{path} cannot be read on {host}, and this run names it in its settings. Change its permissions there "
            "(chmod), or name another path.",
            path=path,
            host=host,
        )
    return tr(
        "{path} does not exist on {host}, and this run names it in its settings. Data do not travel: copy them to the "
        "same path there, or mount it.",
        path=path,
        host=host,
    )


def main_part(version: str) -> list[str]:
    """Return the first two numbers of a version: 2.13.0+cpu and 2.13.1+cu130 work together."""
    return version.partition("+")[0].split(".")[:2]
