"""Check a spec before its start: devices, strategy, settings, and what a recipe needs from its Python."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder

from core.catalog.frameworks import FRAMEWORKS, Framework, framework
from core.catalog.installed import has, interpreter
from core.catalog.strategies import LAUNCH_MODES, STRATEGIES, Strategy, find_strategy, strategies_of, strategy_of
from core.config import builds
from core.config.finding import Finding, ProblemKind, batch_cure, cpu_cures, findings_of, python_cure
from core.devices.device import Device, split_name
from core.devices.names import join_labels
from core.diagnosis.causes import BLOCKING
from core.language import tr, tr_noop, tr_plural
from core.launchers import loopback
from core.schema.setting import RECIPE, Setting, settings_of
from core.schema.settings import Training
from core.schema.spec import RunSpec
from core.text import join_names

KIND_NAMES = {"cpu": tr_noop("CPU devices"), "nvidia": tr_noop("NVIDIA GPUs")}


def is_installed(row: Framework) -> bool:
    """Return whether the Python for this framework has it. The framework is not imported."""
    return has(interpreter(row), row.module)


def misfit(strategy: Strategy, devices: Sequence[Device]) -> ProblemKind | None:
    """Return how these devices do not suit a strategy; None if they do, as an empty selection does."""
    if not devices:
        return None
    if not {device.kind for device in devices} <= set(strategy.device_kinds):
        return ProblemKind.OTHER_KIND
    if len(devices) < strategy.min_devices:
        return ProblemKind.TOO_FEW
    if strategy.max_devices is not None and len(devices) > strategy.max_devices:
        return ProblemKind.TOO_MANY
    return None


def obstacle(strategy: Strategy, devices: Sequence[Device]) -> str:
    """Return why the strategy cannot use these devices, or the empty string. It accepts an empty selection."""
    if reason := strategy.unavailable():
        return reason
    match misfit(strategy, devices):
        case ProblemKind.OTHER_KIND:
            return tr("Strategy {strategy} runs on {names} only.", strategy=strategy.name, names=device_kinds(strategy))
        case ProblemKind.TOO_FEW:
            return tr("Strategy {strategy} needs {min_devices} devices or more, but {count} is chosen.",
                      strategy=strategy.name, min_devices=strategy.min_devices, count=len(devices))
        case ProblemKind.TOO_MANY:
            return tr(
                "Strategy {strategy} trains on {max_devices} device, but {count} are chosen "
                "({chosen}). Choose one device, or strategy {others}.",
                strategy=strategy.name, max_devices=strategy.max_devices, count=len(devices),
                chosen=", ".join(device.label for device in devices),
                others=join_names(_fitting(strategy, devices), "or"),
            )
        case _:
            return ""


def device_kinds(strategy: Strategy) -> str:
    """Return the kinds of devices that a strategy runs on, in words."""
    return join_names(tr(KIND_NAMES.get(kind, kind)) for kind in strategy.device_kinds)


def problems(spec: RunSpec, devices: Sequence[Device]) -> list[Finding]:
    """Return what keeps a spec from starting on this machine; an empty list if it can start.

    `devices`: all devices of this machine. Recipe files are checked when they are read (`core.catalog.recipes`), the
    packages that they need by `recipe_problems`, and scripts by `core.config.script_check`.
    """
    try:
        strategy = strategy_of(spec)
        missing = [] if spec.script else _framework_problems(spec, devices)
    except ValueError as error:
        return [Finding(sentence=str(error))]
    if device_problems := _device_problems(spec, strategy, devices):
        return [*missing, *device_problems]
    if spec.script:
        from core.config.script_check import (
            variable_problems,  # not at the start of the window, which checks a recipe first
        )

        own = variable_problems(spec.script, spec.strategy)
    else:
        kinds = {device.kind for device in devices if device.id in spec.devices}
        own = [*_setting_problems(spec, strategy), *_training_problems(spec, kinds)]
        missing += _batch_problems(spec, strategy)
    if spec.cuda_ids == "integer" and any(name.startswith("MIG-") for name in spec.devices):
        own.insert(0, tr("CUDA has no number for a MIG device. Name the GPUs by UUID (--cuda-ids uuid)."))
    return [*missing, *findings_of(own), *port_problems(spec)]


def recipe_problems(spec: RunSpec) -> list[str]:
    """Return why the workers would fail when they load the recipe: sentences with the remedy; none for a script.

    Its Python is too old, does not understand the recipe, or lacks a package. May start that Python, and block for
    seconds, unless it is the one that runs this process and has all packages. A copy of the run is not looked at.
    """
    if spec.recipe is None or spec.recorded:
        return []
    from core.pythons.python_info import MIN_FOR_RECIPES  # not at the start of the window, as for the next two
    from core.scripts.analysis import analyse_script
    from core.scripts.problems import problems as program_problems

    try:
        look = analyse_script(spec.recipe.path, cwd=spec.working_dir, python=spec.python)
    except ValueError as error:
        return [str(error)]
    checked_already = {module for row in FRAMEWORKS for module in row.imports}
    if spec.python == sys.executable and all(map(PathFinder.find_spec, set(look.imports) - checked_already)):
        return []
    look = replace(look, modules=tuple(each for each in look.modules if each not in checked_already))
    return program_problems(look, python=spec.python, cwd=spec.working_dir, min_version=MIN_FOR_RECIPES)


def _framework_problems(spec: RunSpec, devices: Sequence[Device]) -> list[Finding]:
    library = framework(spec.framework)
    if has(spec.python, library.module):
        return []
    gpus = [device for device in devices if device.id in spec.devices and device.kind == "nvidia"]
    other = builds.other_python(library, spec.python, gpus)
    cures = (python_cure(other[0]),) if other else ()
    return [Finding(sentence=missing_sentence(library, spec.python), cures=cures)]


def missing_sentence(library: Framework, python: str) -> str:
    """Return that a Python lacks a framework, and the remedy."""
    remedy = tr("Install it there: {python} -m pip install {extra}", python=python, extra=library.extra)
    return tr("{title} is not installed in {python}. {remedy}", title=library.title, python=python, remedy=remedy)


def _device_problems(spec: RunSpec, strategy: Strategy, devices: Sequence[Device]) -> list[Finding]:
    elsewhere = [name for name in spec.devices if split_name(name)]
    labels = {device.id: device.label for device in devices}
    if elsewhere and (sentence := _not_over_hosts(spec, strategy, [labels.get(name, name) for name in elsewhere])):
        return findings_of([sentence])
    by_id = {device.id: device for device in devices}
    names = ", ".join(device.short_name for device in devices) or tr("none (no device was found)")
    if unknown := [repr(name) for name in spec.devices if name not in by_id]:
        sentence = tr(
            "There is no device {unknown} here. Choose from: {names}.", unknown=join_names(unknown, "or"), names=names
        )
        return [Finding(kind=ProblemKind.UNKNOWN_DEVICE, sentence=sentence)]
    if not spec.devices:
        sentence = tr("No device is chosen. Choose at least one of: {names}.", names=names)
        return [Finding(kind=ProblemKind.NO_DEVICE, sentence=sentence)]
    if len(set(spec.devices)) < len(spec.devices):
        names = ", ".join(spec.devices)
        return findings_of([tr("A device is named twice in {devices}. Name each once.", devices=names)])
    chosen = [by_id[name] for name in spec.devices]
    found = [tr(device.blocked) for device in chosen if device.blocked]
    if len(chosen) > 1 and any(device.is_mig for device in chosen):  # NVIDIA's MIG user guide
        names = ", ".join(device.label for device in chosen)
        found.append(tr("A process can use only one MIG device and no other device. Chosen: {names}. Choose one MIG "
                        "device.", names=names))
    return findings_of(found, cpu_cures(spec, devices)) or _fit_problems(strategy, chosen)


def _not_over_hosts(spec: RunSpec, strategy: Strategy, labels: Sequence[str]) -> str:
    """Return why a run cannot use devices of other machines; the empty string if it can. `labels`: theirs."""
    names = join_labels(labels)
    if len(labels) == len(spec.devices):
        return tr(
            "A run over several machines needs a device of this one, where its checkpoints are kept, besides {names}. "
            "Choose one, or start the run there: trainyard --host {host}",
            names=names, host=(split_name(spec.devices[0]) or ("",))[0],
        )
    if reason := strategy.unavailable():
        return reason
    if not strategy.spans_hosts:
        rows = LAUNCH_MODES if spec.script else strategies_of(spec.framework)
        able = join_names([row.name for row in rows if row.spans_hosts], "or")
        remedy = tr("Choose devices of one machine: trainyard --host HOST is the window on another one.")
        if able:
            remedy = tr("Choose {strategies}, or devices of one machine.", strategies=able)
        return tr(
            "{title} runs on one machine, and {names} is on another. {remedy}",
            title=tr(strategy.title), names=names, remedy=remedy,
        )
    return ""


def _fit_problems(strategy: Strategy, chosen: Sequence[Device]) -> list[Finding]:
    kinds = sorted({device.kind for device in chosen})
    if len(kinds) > 1:
        names = join_names(tr(KIND_NAMES.get(kind, kind)) for kind in kinds)
        labels = ", ".join(device.label for device in chosen)
        return findings_of([tr(
            "{names} cannot be used together ({labels}). A run uses one kind of device: choose one kind.",
            names=names, labels=labels,
        )])
    reason = obstacle(strategy, chosen)
    if not reason:
        return []
    # A strategy for one device names the others itself.
    if strategy.max_devices is None and (others := _fitting(strategy, chosen)):
        reason += tr(" Choose strategy {others}.", others=join_names(others, "or"))
    kind = misfit(strategy, chosen) if not strategy.unavailable() else None
    return [Finding(sentence=reason, kind=kind or ProblemKind.OTHER)]


def _fitting(strategy: Strategy, chosen: Sequence[Device]) -> list[str]:
    """Return the other strategies of the framework that can use these devices."""
    others = (each for each in strategies_of(strategy.framework) if each is not strategy)
    return [each.name for each in others if not obstacle(each, chosen)]


def port_problems(spec: RunSpec) -> list[Finding]:
    """Return why a strategy whose workers listen cannot start on this machine, or why no ports can be allowed."""
    strategy = strategy_of(spec)
    if spec.allow_open_ports and not strategy.needs_addresses:
        opening = join_names(row.name for row in STRATEGIES if row.needs_addresses)
        return findings_of([tr("Strategy {strategy} opens no ports: {allow} is for {opening}. Leave it out.",
                       strategy=strategy.name, allow=loopback.ALLOW, opening=opening)])
    if spec.allow_open_ports or not strategy.needs_addresses:
        return []
    if any(split_name(name) for name in spec.devices):
        reason = loopback.refusal_over_machines(strategy.name)
    else:
        reason = loopback.obstacle(strategy.name)
    return [Finding(sentence=reason, kind=ProblemKind.OPEN_PORTS)] if reason else []


def _setting_problems(spec: RunSpec, strategy: Strategy) -> list[str]:
    found: list[str] = []
    if spec.training.precision == "float16" and strategy.no_float16:
        found.append(tr(
            "Strategy {name} cannot scale the loss for float16, because {reason}. Choose bfloat16 or float32.",
            name=strategy.name, reason=tr(strategy.no_float16),
        ))
    if strategy.has("micro_batches") and (count := spec.training.micro_batches) < len(spec.devices):
        found.append(tr_plural(
            "{count} micro-batch cannot fill a pipeline of {stages} stages. "
            "Choose at least as many micro-batches as devices.",
            "{count} micro-batches cannot fill a pipeline of {stages} stages. "
            "Choose at least as many micro-batches as devices.",
            count, stages=len(spec.devices),
        ))
    if strategy.no_compile and spec.training.compile:
        found.append(tr(strategy.no_compile))
    return found


HARMLESS = ("micro_batches",)
"""Settings that other strategies ignore. A preset keeps its number of micro-batches, whatever strategy it has now."""


def where(row: Setting) -> str:
    """Return what has a setting that not everything has: `PyTorch`, or `strategies ddp and fsdp of PyTorch`."""
    if RECIPE in row.only:
        return tr("recipes")
    frameworks = join_names(dict.fromkeys(framework(each.partition(".")[0]).title for each in row.only))
    strategies = list(dict.fromkeys(each.partition(".")[2] for each in row.only if "." in each))
    if not strategies:
        return frameworks
    return tr_plural("strategy {strategies} of {frameworks}", "strategies {strategies} of {frameworks}",
                     len(strategies), strategies=join_names(strategies), frameworks=frameworks)


def without_meaning(framework_name: str, strategy: str) -> set[str]:
    """Return the names of the settings that others have and this strategy does not."""
    return {name for name, row in settings_of(Training).items() if not row.is_for(framework_name, strategy)}


def _training_problems(spec: RunSpec, kinds: set[str]) -> Iterator[str]:
    """Yield what is wrong with these settings of a recipe's spec: sentences. `kinds`: of the chosen devices."""
    for name, row in settings_of(Training).items():
        is_foreign = not row.is_for(spec.framework, spec.strategy)
        if is_foreign and name not in HARMLESS and getattr(spec.training, name) != row.default:
            yield tr(
                "The setting “{title}” is for {where} only, but {chosen} of {framework} is chosen. Leave it at its "
                "default.",
                title=tr(row.title), where=where(row), chosen=spec.strategy,
                framework=framework(spec.framework).title,
            )
            return
    yield from _conflicts(spec, on_cpu="cpu" in kinds)


def _conflicts(spec: RunSpec, *, on_cpu: bool) -> Iterator[str]:
    """Yield which settings cannot be used together, or with these devices."""
    training = spec.training
    if training.cross_device_ops == "nccl" and on_cpu:
        yield tr(
            "NCCL adds up gradients of GPUs only, and CPU devices are chosen. Choose auto, hierarchical_copy or "
            "one_device."
        )
    if training.gradient_compression == "bfloat16" and on_cpu:
        yield tr(
            "PyTorch compresses gradients to bfloat16 with NCCL only, and CPU devices use Gloo. Choose float16, "
            "powersgd or none."
        )
    if training.output_device >= len(spec.devices):
        yield tr_plural(
            "The output device is number {number}, but the run has {count} device, counted from 0. Choose a smaller "
            "number.",
            "The output device is number {number}, but the run has {count} devices, counted from 0. Choose a smaller "
            "number.",
            len(spec.devices), number=training.output_device,
        )
    if training.meta_device and training.make_on_device:
        yield tr("The model cannot be made on the meta device and on its own device. Choose one of them.")
    if training.gradient_compression == "powersgd" and training.precision == "float16":
        yield tr(
            "PowerSGD keeps errors of gradients for later steps, and float16 scales gradients by a number that "
            "changes. Choose precision bfloat16 or float32, or gradient compression float16 or none."
        )

    if training.rate_scaling != "none" and training.reference_batch is None:
        yield tr(
            "The learning rate cannot be scaled to the batch size: the batch size for which it was chosen is not "
            "known. Give it (--reference-batch N)."
        )
    if training.rate_scaling == "none" and training.reference_batch is not None:
        yield tr(
            "A batch size for the learning rate is given, but nothing scales the rate. Choose linear or sqrt "
            "(--rate-scaling), or leave the batch size out."
        )


def rate_arithmetic(training: Training) -> str:
    """Return the scaled learning rate as a product; the empty string where nothing scales it."""
    if training.rate_scaling == "none" or training.reference_batch is None:
        return ""
    ratio = f"{training.batch_size} / {training.reference_batch}"
    factor = ratio if training.rate_scaling == "linear" else f"√({ratio})"
    if training.learning_rate is None:
        return tr("the recipe's × {factor}", factor=factor)
    return f"{training.learning_rate * training.rate_factor:g} = {training.learning_rate:g} × {factor}"


def _parts(spec: RunSpec, strategy: Strategy) -> list[tuple[int, str]]:
    """Return the divisors of the global batch, outermost first: each number and what it counts."""
    training, devices = spec.training, len(spec.devices)
    split = devices if strategy.splits_batch else 1
    parts = [(split, tr_plural("device", "devices", split))]
    if strategy.has("micro_batches"):
        stages = tr("pipeline of {devices} stages", devices=devices)
        parts = [(1, stages), (training.micro_batches, tr("micro-batches"))]
    elif not strategy.splits_batch and devices > 1:
        model = tr("model on {devices} devices", devices=devices)
        parts = [(1, tr("worker at a time") if strategy.parallel == "data" else model)]
    return [*parts, (training.accumulation, "accumulation")]


def _batch_problems(spec: RunSpec, strategy: Strategy) -> list[Finding]:
    parts = _parts(spec, strategy)
    batch_size, divisor = spec.training.batch_size, _product(parts)
    if batch_size % divisor == 0:
        return []
    lower = batch_size // divisor * divisor
    near = tr("{lower} or {higher}", lower=lower, higher=lower + divisor) if lower else f"{divisor}"
    cures = tuple(batch_cure(each) for each in (lower, lower + divisor) if each)
    *outer, (steps, _) = parts
    counts = [f"{count} {name}" for count, name in outer]
    counts.append(tr_plural("{count} accumulation step", "{count} accumulation steps", steps))
    helps = batch_size % (divisor // steps) == 0  # then it can be split with one accumulation step, at least
    remedy = tr("Choose {near}, or another accumulation.", near=near) if helps else tr("Choose {near}.", near=near)
    sentence = tr("A batch of {batch_size} cannot be split evenly over {counts}.", batch_size=batch_size,
                  counts=join_names(counts))
    return [Finding(sentence=sentence, remedy=remedy, cures=cures)]


def _product(parts: Sequence[tuple[int, str]]) -> int:
    return math.prod(count for count, _ in parts)


def batch_divisor(spec: RunSpec) -> int:
    """Return the number that the global batch of a recipe is divided by: devices and accumulation, for example."""
    return _product(_parts(spec, strategy_of(spec)))


def batch_arithmetic(spec: RunSpec) -> str:
    """Return the global batch as a product of its parts, or the empty string if it cannot be split evenly."""
    parts = _parts(spec, find_strategy(spec.framework, spec.strategy))
    product = _product(parts)
    if not spec.devices or spec.training.batch_size % product:
        return ""
    *outer, (accumulation, _) = parts
    counts = " × ".join(f"{count} {name}" for count, name in outer)
    batch = tr("{batch_size} = {counts} × {each} × {accumulation} accumulation", batch_size=spec.training.batch_size,
               counts=counts, each=spec.training.batch_size // product, accumulation=accumulation)
    scaled = rate_arithmetic(spec.training)
    return tr("{batch}; learning rate {product}", batch=batch, product=scaled) if scaled else batch


OPTION = re.compile(r"(?P<option>-b|-bs|--(?:\w+[-_])*batch(?:[-_]size)?)(?:=(?P<value>\d+))?", re.ASCII)
"""An option of a script that sets its batch size, with or without its value."""


def smaller_batch(spec: RunSpec) -> tuple[RunSpec, str] | None:
    """Return the spec with about half the batch, and the batch in words: `batch 48`, `--batch-size 48`.

    For a recipe the half is divided evenly over the devices. For a script it is the value of its option, which keeps
    its name. None if there is no smaller batch, or if none was given.
    """
    if spec.script is None:
        divisor = batch_divisor(spec)
        half = spec.training.batch_size // 2 // divisor * divisor
        if not half:
            return None
        return replace(spec, training=replace(spec.training, batch_size=half)), tr("batch {size}", size=half)
    arguments = list(spec.script.arguments)
    for number, argument in enumerate(arguments):
        option = OPTION.fullmatch(argument)
        if option is None:
            continue
        name, value = option["option"], option["value"]
        is_apart = value is None and number + 1 < len(arguments)
        text = arguments[number + 1] if is_apart else value or ""
        if not text.isdecimal() or int(text) < 2:
            continue
        half_text = str(int(text) // 2)
        arguments[number + is_apart] = half_text if is_apart else f"{name}={half_text}"
        return replace(spec, script=replace(spec.script, arguments=tuple(arguments))), f"{name} {half_text}"
    return None


def remedies(spec: RunSpec) -> dict[str, tuple[RunSpec, str]]:
    """Return by name the changes of a recipe's settings that may need less memory, and their words."""
    found, training, more = dict[str, tuple[RunSpec, str]](), spec.training, 2 * spec.training.accumulation
    if spec.recipe is None:
        return found
    sharded = {row.name: row for row in strategies_of(spec.framework)}.get("fsdp")
    if sharded is not None and spec.strategy != sharded.name and len(spec.devices) > 1:
        found["fsdp"] = replace(spec, strategy="fsdp"), "fsdp"
    if training.precision == "float32":
        found["bfloat16"] = replace(spec, training=replace(training, precision="bfloat16")), "bfloat16"
    if training.batch_size % (2 * batch_divisor(spec)) == 0:
        words = tr("accumulation {count}", count=more)
        found["accumulation"] = replace(spec, training=replace(training, accumulation=more)), words
    return found


def with_blocking(spec: RunSpec) -> tuple[RunSpec, str] | None:
    """Return the spec of a script with kernels that are launched one by one, and the setting in words.

    An error of a kernel then has the line of its launch. None for a recipe, and where the variable is set.
    """
    if spec.script is None or BLOCKING in spec.script.environment:
        return None
    environment = {**spec.script.environment, BLOCKING: "1"}
    return replace(spec, script=replace(spec.script, environment=environment)), f"{BLOCKING}=1"
