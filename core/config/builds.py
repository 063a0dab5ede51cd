"""Whether a framework's build can use the chosen GPUs, which its own errors tell late and not plainly.

A build has code for some architectures. That of `sm_86` runs on GPUs of compute capability 8.6 and later 8.x, that of
`sm_90a` on 9.0 only. `compute_90` adds code from which the driver compiles for any later GPU. Source: NVIDIA's CUDA C++
programming guide, "Binary compatibility" and "PTX compatibility".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from core.catalog.frameworks import FRAMEWORKS, Framework
from core.catalog.installed import torch_architectures
from core.catalog.strategies import strategy_of
from core.config.finding import TICK, Cure, Finding, Mark, cpu_cures, python_cure
from core.devices.device import Device
from core.devices.names import join_labels, short_name
from core.language import join_sentences, tr, tr_noop
from core.schema.spec import RunSpec
from core.text import BYTES_PER_GB

if TYPE_CHECKING:
    from core.pythons.python_info import Package, PythonInfo

ARCHITECTURE = re.compile(r"(?P<kind>sm|compute)_(?P<major>\d+)(?P<minor>\d)(?P<only>a?)f?")
WITH_CUDA = {"torch": "torch", "tensorflow": "'tensorflow[and-cuda]'"}
"""By package, the name for which pip installs a build with CUDA, if pip's own settings do not select another."""
KEY = "architectures"
"""Of the answers about PyTorch, which has to be imported for them."""


def judge(spec: RunSpec, devices: Sequence[Device], packages: Sequence[str] = ()) -> list[Finding]:
    """Judge the builds that a run uses. Blocks for seconds if its Python has to be started and asked.

    `devices`: all devices of this machine. `packages`: those that a script imports (`torch`, `tensorflow`, `keras`).
    """
    chosen = [device for device in devices if device.id in spec.devices and device.kind == "nvidia"]
    used = {row.extra for row in FRAMEWORKS if (row.module in packages if spec.script else row.id == spec.framework)}
    rows = {row.extra: row for row in reversed(FRAMEWORKS) if row.extra in used}  # Keras has the build of TensorFlow
    here, cures = [device for device in chosen if not device.host], cpu_cures(spec, devices)
    verdicts = [judge_build(row, spec.python, here, cures) for row in rows.values()] if here else []
    return [*filter(None, verdicts), *_unlike(spec, chosen)]


def _unlike(spec: RunSpec, chosen: Sequence[Device]) -> Iterator[Finding]:
    """Yield which of the GPUs that train with data parallelism are not like most of them."""
    groups: dict[str, list[Device]] = {}
    for device in chosen:
        kind, memory = short_name(device.name), device.memory_total_bytes
        kind += f", {round(memory / BYTES_PER_GB)} GB" if memory and "GB" not in kind else ""
        groups.setdefault(kind, []).append(device)
    if len(groups) < 2 or (strategy := strategy_of(spec)).parallel != "data" or strategy.is_asynchronous:
        return
    labels = {kind: join_labels([device.label for device in group]) for kind, group in groups.items()}
    most = max(groups, key=lambda kind: len(groups[kind]))
    kinds = [kind for kind in groups if kind != most]
    others = f"{labels[kinds[0]]} ({kinds[0]})" if len(kinds) == 1 else join_labels(
        [device.label for kind in kinds for device in groups[kind]])
    alone = Cure(does=TICK, words=tr("Tick {labels} alone", labels=labels[most]),
                 values=tuple(device.id for device in groups[most]))
    sentence = tr("Unlike: {others} beside {kind}: the slowest and smallest decides.", others=others, kind=most)
    yield Finding(mark=Mark.WARNING, sentence=sentence, cures=(alone,))


def judge_build(
    row: Framework, python: str, chosen: Sequence[Device], cures: tuple[Cure, ...] = ()
) -> Finding | None:
    """Judge a framework's build under a Python for these GPUs; None if it cannot be known.

    `cures`: besides another Python. Blocks for seconds if the Python has to be asked.
    """
    package = None
    with contextlib.suppress(ValueError):
        info, package = _ask(python, row.extra)
    if package is None:
        return None  # other checks say that the Python cannot be started, or lacks the framework
    title = " ".join(filter(None, (row.title, package.version)))
    command = info.install_command(" ".join(("--force-reinstall", WITH_CUDA[row.extra])))
    labels = join_labels([device.label for device in chosen])
    fits = {device: fit(device.compute_capability, package.architectures) for device in chosen}
    foreign, later = ([device for device in chosen if fits[device] == how] for how in ("none", "compiled"))
    mark = Mark.PROBLEM
    if package.cuda is False:
        sentence = tr("{title} in {python} is a build without CUDA and cannot use {labels}.",
                      title=title, python=python, labels=labels)
    elif foreign:
        sentence = tr(
            "{title} in {python} has no code for {labels}. It was built for {architectures}.",
            title=title, python=python, labels=_with_capability(foreign),
            architectures=", ".join(package.architectures),
        )
    elif later:
        mark, sentence = Mark.WARNING, tr(
            "{title} has no finished code for {labels}: the driver compiles it first, which may take half an hour or "
            "fail.", title=title, labels=_with_capability(later),
        )
    elif package.libraries is False:
        mark, sentence = Mark.WARNING, tr(
            "{title} finds no cuDNN and may train on the CPU instead ({command} installs it).",
            title=title, command=command,
        )
    else:
        mark, sentence = Mark.READY, tr("{title} is built for {labels}.", title=title, labels=labels)
    if mark is not Mark.PROBLEM:
        return Finding(mark=mark, sentence=sentence) if mark is Mark.WARNING or "" not in fits.values() else None
    if other := other_python(row, python, chosen):
        remedy = tr("Choose the Python {path}, which has {title} {version} with CUDA (--python {path}).",
                    path=other[0], title=row.title, version=other[1])
        cures = (python_cure(other[0]), *cures)
        return Finding(sentence=sentence, remedy=remedy, cures=cures)
    install = tr("Install another build there: {command}. Or tick other devices.", command=command)
    return Finding(sentence=join_sentences([sentence, install]), cures=cures)


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


def other_python(row: Framework, python: str, gpus: Sequence[Device] = ()) -> tuple[str, str] | None:
    """Return the path of another Python here that has a framework, and its version, as far as it was asked already.

    `gpus`: those that its build has to be for.
    """
    from core.pythons.discovery import find_pythons
    from core.pythons.python_info import ProbeCache, default_file, parse_info

    cache = ProbeCache(default_file())
    for path in (found.path for found in find_pythons()):
        answer = cache.get(path, KEY) or cache.get(path) if path != python else None
        package = answer and parse_info(path, answer).package(row.extra)
        if not answer or not package or (gpus and not package.cuda):
            continue
        known = package.with_architectures(answer.get(KEY)) if row.extra == "torch" else package
        if all(fit(each.compute_capability, known.architectures) != "none" for each in gpus):
            return path, package.version or ""
    return None


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
