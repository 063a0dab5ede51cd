"""What a run trains, and what every machine must have for it: the same software, recipe or script, and the data.

A recipe travels, and a script must be there. Each machine says what it has (`core.config.abilities`). The
conclusions are drawn here, and a difference is an error: a run never starts on fewer machines than were chosen.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from core.catalog.frameworks import framework
from core.catalog.installed import installed_version, nccl_version
from core.catalog.recipes import BUILT_IN
from core.catalog.strategies import strategy_of
from core.errors import RunError
from core.hosts.parts.head import UNREADABLE
from core.hosts.parts.part_link import START_S, PartLink, ask_all
from core.language import tr
from core.launchers.script import TF_CONFIG
from core.schema.codec import decode
from core.schema.event_kinds import Preflight, Record
from core.schema.spec import RunSpec
from core.scripts.analysis import ScriptAnalysis, analyse_script
from core.scripts.source import files_hash, hashes, own_files

EQUIPMENT_S = 90.0
"""Longest wait for what a machine trains with: PyTorch is imported there to learn the version of NCCL."""
HASH_DIGITS = 12
"""Digits of a hash that a sentence shows."""
MAX_RECIPE_BYTES = 512 * 1024
"""Bytes of a recipe and its own modules: they travel in one line."""


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
    """By path of the data: the empty string, or why it cannot be read (`core.hosts.parts.head`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Versions:
    """The packages of a script's Python on a machine, by module; empty texts for versions that are not known."""

    versions: Mapping[str, str]


def workload_of(spec: RunSpec) -> Workload:
    """Return what a run trains. Raises `RunError` with a sentence if it cannot train on several machines."""
    return _Recipe(spec) if spec.script is None else _Script(spec)


class Workload(ABC):
    """What a run trains."""

    needs_addresses: bool
    """Whether each rank listens on an address that all others must know."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec

    @abstractmethod
    def check(self, links: Mapping[str, PartLink], *, uses_gpus: bool, write: Callable[[Record], None]) -> None:
        """Check that these machines can train it, and record what they have. Raises `RunError` with a sentence.

        `links`: by the names of the machines. `write`: writes an event.
        """

    def files(self) -> Mapping[str, str]:
        """Return the texts of the files that travel, by their names. Raises `RunError`."""
        return {}


class _Recipe(Workload):
    """A recipe, which travels with its own modules."""

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.needs_addresses = strategy_of(spec).needs_addresses

    def check(self, links: Mapping[str, PartLink], *, uses_gpus: bool, write: Callable[[Record], None]) -> None:
        """See `Workload`. Each machine is asked once."""
        asked = questions(self._spec, uses_gpus=uses_gpus)
        why = tr("It does not say what it trains with.")
        equipment = ask_all(
            links,
            lambda link: link.ask("equipment", partial(decode, Equipment), why, timeout_s=EQUIPMENT_S, **asked),
        )
        compare(self._spec, asked, own_equipment(self._spec, asked), equipment)
        for name, found in equipment.items():
            paths = tuple(found.paths)
            write(Preflight(host=name, version=found.version, nccl=found.nccl, recipe=found.recipe, paths=paths))

    def files(self) -> Mapping[str, str]:
        """See `Workload`. An included recipe does not travel."""
        if is_included(self._spec):
            return {}
        path = Path(self._spec.own_recipe.path)
        try:
            texts = own_files(path)
        except (OSError, SyntaxError, ValueError) as error:
            text = tr("The recipe {path} cannot be sent to other machines: {why}", path=path, why=error)
            raise RunError(text) from error
        if sum(map(len, texts.values())) > MAX_RECIPE_BYTES:
            raise RunError(tr("The recipe {path} and its modules are too large to be sent to other machines: more than "
                              "{limit} bytes.", path=path, limit=MAX_RECIPE_BYTES))
        return texts


class _Script(Workload):
    """A program of the user, which must be the same at the same path, under the same path of a Python."""

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        assert spec.script is not None
        found = _analysis(spec)
        self._frameworks = found.frameworks
        # A script whose processes meet by TF_CONFIG does, unless the user sets that.
        self.needs_addresses = found.meets_by_tf_config and TF_CONFIG not in spec.script.environment
        try:
            self._hashes = hashes(found.own_files)
        except OSError as error:
            raise RunError(tr("{path} cannot be read: {why}.", path=error.filename, why=error.strerror)) from error
        if not self._hashes:
            raise RunError(tr(
                "{name} has no source that could be compared with that on other machines. Choose devices of one "
                "machine.", name=found.name,
            ))

    def check(self, links: Mapping[str, PartLink], *, uses_gpus: bool, write: Callable[[Record], None]) -> None:  # noqa: ARG002 (a script decides what it uses)
        own = {module: installed_version(self._spec.python, module) for module in self._frameworks}
        why = tr("It does not say what it trains with.")
        terms = {"spec": self._spec.to_json(), "hashes": self._hashes, "modules": list(self._frameworks)}
        found = ask_all(
            links, lambda link: link.ask("script", partial(decode, _Versions), why, timeout_s=START_S, **terms)
        )
        for name, each in found.items():
            for module, version in own.items():
                there = each.versions.get(module)
                if version and there and main_part(there) != main_part(version):
                    raise RunError(different_versions(name, module, there, version))
            write(Preflight(host=name, versions=each.versions, files=self._hashes))


def _analysis(spec: RunSpec) -> ScriptAnalysis:
    """Return the facts in the source of a script. Raises `RunError` if it cannot be started on several machines."""
    script = spec.script
    assert script is not None
    if spec.recorded:
        raise RunError(tr(
            "The recorded copy of {name} is on this machine only, so it cannot be started on several. Start the "
            "script itself, or choose devices of this machine.", name=script.name,
        ))
    try:
        return analyse_script(
            script.path, module=script.module or None, cwd=spec.working_dir, python=spec.python,
            variables=script.environment,
        )
    except ValueError as error:
        raise RunError(str(error)) from error


# -- equipment ---------------------------------------------------------------------------------------


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


def compare(spec: RunSpec, asked: Mapping[str, object], own: Equipment, machines: Mapping[str, Equipment]) -> None:
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
            )
        for path, problem in found.paths.items():
            if problem:
                raise RunError(_path_problem(host, path, problem))


def different_versions(host: str, module: str, there: str, here: str) -> str:
    """Return the sentence on a package whose version on a machine does not fit that of this one."""
    return tr("{host} has {module} {version}, and this machine has {own}. Ranks of one run need the same version. "
              "Install it on one of them.", host=host, module=module, version=there, own=here)


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
        )


def _no_nccl(host: str, spec: RunSpec) -> str:
    return tr(
        "The {title} of {host} has no NCCL, with which GPUs of several machines exchange data, or does not tell its "
        "version. Install a build of {title} for CUDA there.", title=framework(spec.framework).title, host=host,
    )


def _path_problem(host: str, path: str, problem: str) -> str:
    if problem == UNREADABLE:
        return tr(
            "{path} cannot be read on {host}, and this run names it in its settings. Change its permissions there "
            "(chmod), or name another path.", path=path, host=host,
        )
    return tr(
        "{path} does not exist on {host}, and this run names it in its settings. Data do not travel: copy them to the "
        "same path there, or mount it.", path=path, host=host,
    )


def main_part(version: str) -> list[str]:
    """Return the first two numbers of a version: 2.13.0+cpu and 2.13.1+cu130 work together."""
    return version.partition("+")[0].split(".")[:2]
