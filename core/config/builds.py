"""Whether a framework's build can use the chosen GPUs, which its own errors tell late and not plainly.

A build has code for some architectures. That of `sm_86` runs on GPUs of compute capability 8.6 and later 8.x, that of
`sm_90a` on 9.0 only. `compute_90` adds code from which the driver compiles for any later GPU. Source: NVIDIA's CUDA C++
programming guide, "Binary compatibility" and "PTX compatibility".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.catalog.frameworks import FRAMEWORKS, Framework, torch_architectures
from core.catalog.strategies import strategy_of
from core.devices.device import Device
from core.language import tr, tr_noop
from core.schema.spec import RunSpec
from core.text import join_labels, join_names

if TYPE_CHECKING:
    from core.pythons.python_info import Package, PythonInfo

ARCHITECTURE = re.compile(r"(?P<kind>sm|compute)_(?P<major>\d+)(?P<minor>\d)(?P<only>a?)f?")
WITH_CUDA = {"torch": "torch", "tensorflow": "'tensorflow[and-cuda]'"}
"""By package, the name for which pip installs a build with CUDA, if pip's own settings do not select another."""
KEY = "architectures"
"""Of the answers about PyTorch, which has to be imported for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known before a start. Both are empty if nothing is against it, or if it cannot be known."""

    problems: tuple[str, ...] = ()
    """Why a build cannot use the GPUs: sentences with the remedy."""
    doubts: tuple[str, ...] = ()
    """What should be known of the builds and the GPUs: words for a sentence."""

    @property
    def notes(self) -> list[str]:
        """All of it as sentences."""
        return [*self.problems, *(tr("Please note that {doubt}.", doubt=each) for each in self.doubts)]


def judge(spec: RunSpec, devices: Sequence[Device], packages: Sequence[str] = ()) -> Verdict:
    """Judge the builds that a run uses. Blocks for seconds if its Python has to be started and asked.

    `devices`: all devices of this machine. `packages`: those that a script imports (`torch`, `tensorflow`, `keras`).
    """
    chosen = [device for device in devices if device.id in spec.devices and device.kind == "nvidia"]
    used = {row.extra for row in FRAMEWORKS if (row.module in packages if spec.script else row.id == spec.framework)}
    rows = {row.extra: row for row in reversed(FRAMEWORKS) if row.extra in used}  # Keras has the build of TensorFlow
    here = [device for device in chosen if not device.host]
    verdicts = [judge_build(row, spec.python, here) for row in rows.values()] if here else []
    return Verdict(
        problems=tuple(each for verdict in verdicts for each in verdict.problems),
        doubts=(*(each for verdict in verdicts for each in verdict.doubts), *_unlike(spec, chosen)),
    )


def _unlike(spec: RunSpec, chosen: Sequence[Device]) -> Iterator[str]:
    """Yield what training with data parallelism on GPUs of several models means."""
    if len({device.name for device in chosen}) > 1 and strategy_of(spec).parallel == "data":
        listed = join_names([f"{device.label} ({device.name})" for device in chosen])
        yield tr("{listed} are different models, and each step takes as long as the slowest of them", listed=listed)


def judge_build(row: Framework, python: str, chosen: Sequence[Device]) -> Verdict:
    """Judge a framework's build under a Python for these GPUs. Blocks for seconds if the Python has to be asked."""
    package = None
    with contextlib.suppress(ValueError):
        info, package = _ask(python, row.extra)
    if package is None:
        return Verdict()  # other checks say that the Python cannot be started, or lacks the framework
    title = " ".join(filter(None, (row.title, package.version)))
    command = info.install_command(" ".join(("--force-reinstall", WITH_CUDA[row.extra])))
    if package.cuda is False:
        return Verdict(problems=(tr(
            "{title} in {python} is a build without CUDA and cannot use {labels}. {remedy}",
            title=title, python=python, labels=join_labels([device.label for device in chosen]),
            remedy=_remedy(row, python, command),
        ),))
    fits = {device.label: fit(device.compute_capability, package.architectures) for device in chosen}
    if foreign := [device for device in chosen if fits[device.label] == "none"]:
        return Verdict(problems=(tr(
            "{title} in {python} has no code for {labels}. It was built for {architectures}. {remedy}",
            title=title, python=python, labels=_with_capability(foreign), remedy=_remedy(row, python, command),
            architectures=", ".join(package.architectures),
        ),))
    if later := [device for device in chosen if fits[device.label] == "compiled"]:
        return Verdict(doubts=(tr(
            "{title} has no finished code for {labels}: the driver compiles it first, which may take half an hour or "
            "fail", title=title, labels=_with_capability(later),
        ),))
    if package.libraries is False:
        return Verdict(doubts=(tr(
            "{title} finds no cuDNN and may train on the CPU instead ({command} installs it)",
            title=title, command=command,
        ),))
    return Verdict()


def fit(capability: tuple[int, int] | None, architectures: Sequence[str]) -> str:
    """Return how a build runs on a GPU: `native`, `compiled` by the driver first, or `none`; "" if that is unknown."""
    known = [match for each in architectures if (match := ARCHITECTURE.fullmatch(each))]
    if capability is None or not known:
        return ""
    built = [(match["kind"], (int(match["major"]), int(match["minor"])), bool(match["only"])) for match in known]
    for _, (major, minor), only in built:
        if (major, minor) == capability or (not only and major == capability[0] and minor <= capability[1]):
            return "native"
    return "compiled" if any(kind == "compute" and each <= capability for kind, each, _ in built) else "none"


def _with_capability(devices: Sequence[Device]) -> str:
    words = tr_noop("{label} ({name}, compute capability {major}.{minor})")
    return join_labels([
        tr(words, label=each.label, name=each.name, major=each.compute_capability[0], minor=each.compute_capability[1])
        for each in devices if each.compute_capability
    ])


def _remedy(row: Framework, python: str, command: str) -> str:
    """Return what to do: another Python of this machine with a build for CUDA, as far as it was asked already."""
    from core.pythons.discovery import find_pythons
    from core.pythons.python_info import ProbeCache, default_file, parse_info

    cache = ProbeCache(default_file())
    for path in (found.path for found in find_pythons()):
        answer = cache.get(path) if path != python else None
        package = answer and parse_info(path, answer).package(row.extra)
        if package and package.cuda:
            return tr("Choose the Python {path}, which has {title} {version} with CUDA (--python {path}).",
                      path=path, title=row.title, version=package.version or "")
    return tr("Install another build there: {command}. Or tick other devices.", command=command)


def _ask(python: str, name: str) -> tuple[PythonInfo, Package | None]:
    """Return a Python and a package of it, with the architectures of its build. Raises `ValueError` with a sentence."""
    from core.pythons.python_info import ProbeCache, PythonProbe, default_file, parse_info  # only where there is a GPU

    cache = ProbeCache(default_file())
    answer = cache.get(python)
    if answer is None:
        answer = PythonProbe(python).wait()
        cache.put(python, answer)
    info = parse_info(python, answer)
    package = info.package(name)
    if package is not None and package.cuda and name == "torch":
        more = cache.get(python, KEY)
        if more is None:
            more = {**answer, KEY: torch_architectures(python)}
            cache.put(python, more, KEY)
        package = package.with_architectures(more.get(KEY))
    cache.save()
    return info, package
