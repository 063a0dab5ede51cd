"""What a run trains, and what other machines need for it: a recipe travels there, and a script must be there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.catalog.frameworks import installed_version
from core.catalog.strategies import strategy_of
from core.errors import RunError
from core.hosts.parts import preflight
from core.hosts.parts.part_link import ask_all
from core.language import tr
from core.launchers.script import TF_CONFIG
from core.schema.event_kinds import Preflight, Record
from core.scripts import source
from core.scripts.analysis import analyse_script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.hosts.parts.part_link import PartLink
    from core.schema.spec import RunSpec
    from core.scripts.analysis import ScriptAnalysis

MAX_RECIPE_BYTES = 512 * 1024
"""Bytes of a recipe and its own modules: they travel in one line."""


def workload_of(spec: RunSpec) -> Workload:
    """Return what a run trains. Raises `RunError` with a sentence if it cannot train on several machines."""
    return _Recipe(spec) if spec.script is None else _Script(spec)


class Workload(ABC):
    """What a run trains."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec

    @abstractmethod
    def check(self, links: Mapping[str, PartLink], *, uses_gpus: bool, write: Callable[[Record], None]) -> None:
        """Check that these machines can train it, and record what they have. Raises `RunError` with a sentence.

        `links`: by the names of the machines. `write`: writes an event of a kind, with its fields.
        """

    @property
    @abstractmethod
    def needs_addresses(self) -> bool:
        """Whether each rank listens on an address that all others must know."""

    def files(self) -> Mapping[str, str]:
        """Return the texts of the files that travel, by their names. Raises `RunError`."""
        return {}


class _Recipe(Workload):
    """A recipe, which travels with its own modules."""

    @property
    def needs_addresses(self) -> bool:
        """See `Workload`."""
        return strategy_of(self._spec).needs_addresses

    def check(self, links: Mapping[str, PartLink], *, uses_gpus: bool, write: Callable[[Record], None]) -> None:
        """See `Workload`. Each machine is asked once."""
        asked = preflight.questions(self._spec, uses_gpus=uses_gpus)
        equipment = ask_all(links, lambda link: link.equipment(asked))
        preflight.check(self._spec, asked, preflight.own_equipment(self._spec, asked), equipment)
        for name, found in equipment.items():
            paths = tuple(found.paths)
            write(Preflight(host=name, version=found.version, nccl=found.nccl, recipe=found.recipe, paths=paths))

    def files(self) -> Mapping[str, str]:
        """See `Workload`. An included recipe does not travel."""
        if preflight.is_included(self._spec):
            return {}
        path = Path(self._spec.own_recipe.path)
        try:
            texts = source.own_files(path)
        except (OSError, SyntaxError, ValueError) as error:
            text = tr("The recipe {path} cannot be sent to other machines: {why}", path=path, why=error)
            raise RunError(text) from error
        if sum(map(len, texts.values())) > MAX_RECIPE_BYTES:
            raise RunError(tr("The recipe {path} and its modules are too large to be sent to other machines: more than "
                              "{limit} bytes.", path=path, limit=MAX_RECIPE_BYTES))  # fmt: skip
        return texts


class _Script(Workload):
    """A program of the user, which must be the same at the same path, under the same path of a Python."""

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        assert spec.script is not None
        found = _analysis(spec)
        self._frameworks = found.frameworks
        self._needs_addresses = found.meets_by_tf_config and TF_CONFIG not in spec.script.environment
        try:
            self._hashes = source.hashes(found.own_files)
        except OSError as error:
            raise RunError(tr("{path} cannot be read: {why}.", path=error.filename, why=error.strerror)) from error
        if not self._hashes:
            raise RunError(
                tr(
                    "{name} has no source that could be compared with that on other machines. Choose devices of one "
                    "machine.",
                    name=found.name,
                )
            )

    @property
    def needs_addresses(self) -> bool:
        """See `Workload`. A script whose processes meet by TF_CONFIG does, unless the user sets that."""
        return self._needs_addresses

    def check(self, links: Mapping[str, PartLink], *, uses_gpus: bool, write: Callable[[Record], None]) -> None:  # noqa: ARG002 (a script decides what it uses)
        """See `Workload`."""
        own = {module: installed_version(self._spec.python, module) for module in self._frameworks}
        found = ask_all(links, lambda link: link.check_script(self._spec, self._hashes, self._frameworks))
        for name, versions in found.items():
            _check_versions(name, versions, own)
            write(Preflight(host=name, versions=versions, files=self._hashes))


def _analysis(spec: RunSpec) -> ScriptAnalysis:
    """Return the facts in the source of a script. Raises `RunError` if it cannot be started on several machines."""
    script = spec.script
    assert script is not None
    if spec.recorded:
        raise RunError(
            tr(
                "The recorded copy of {name} is on this machine only, so it cannot be started on several. Start the "
                "script itself, or choose devices of this machine.",
                name=script.name,
            )
        )
    try:
        return analyse_script(
            script.path, module=script.module or None, cwd=spec.working_dir, python=spec.python,
            variables=script.environment,
        )  # fmt: skip
    except ValueError as error:
        raise RunError(str(error)) from error


def _check_versions(host: str, there: Mapping[str, Any], own: Mapping[str, str]) -> None:
    """Check the versions of packages. Raises `RunError`; one that is not known is not compared."""
    for module, version in own.items():
        found = there.get(module)
        if not version or not isinstance(found, str) or not found:
            continue
        if preflight.main_part(found) != preflight.main_part(version):
            raise RunError(preflight.different_versions(host, module, found, version))
