"""The registry of strategies: a row for each strategy of a framework, and for each way to launch a script.

A strategy is a row here and a function in `core.worker`. The row says what the strategy needs and what it cannot do, so
that no other module has to know it by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.catalog.frameworks import framework
from core.language import tr, tr_noop
from core.schema.setting import settings_of
from core.schema.settings import Training
from core.schema.spec import SCRIPT, RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A strategy of a framework, or a launch mode of a script."""

    framework: str
    name: str
    title: str
    summary: str
    target: str
    """The module in `core.worker` whose `train` trains, or, after a colon, another function of it; the empty string for
    launch modes and for strategies that are only explained."""
    parallel: str
    """`one` (a single device), `data` (data parallel) or `device` (the model is spread over devices)."""
    processes: str = "one"
    """`one` process for all devices, one `per_device`, or the roles of a `parameter_server`."""
    min_devices: int = 1
    max_devices: int | None = None
    device_kinds: tuple[str, ...] = ("cpu", "nvidia")
    splits_batch: bool = False
    """Whether the global batch is split over the devices."""
    whole_model: bool = True
    """Whether an optimizer can be made for the whole model."""
    no_float16: str = ""
    """Why it cannot scale the loss, which float16 needs, as the end of a sentence; empty if it can."""
    no_compile: str = ""
    """Why it cannot compile the model, and what to do, as a sentence; empty if it can."""
    no_steps: str = ""
    """Why it cannot train recipes with steps of their own, as the end of a sentence; empty if it can."""
    no_epoch_end: str = ""
    """Why it cannot call `on_epoch_end(model, metrics, folder)`, as the end of a sentence; empty if it can."""
    needs_addresses: bool = False
    """Whether its workers listen on all addresses without a password, to connect to each other. They run in a network
    of their own then (`core.launchers.loopback`)."""
    spans_hosts: bool = False
    """Whether its ranks can be on several machines."""
    unavailable: Callable[[], str] = str
    """Return why it cannot be used on this machine with any device, or the empty string."""

    @property
    def is_asynchronous(self) -> bool:
        """Whether devices train without waiting for each other; the curve then differs from the curve on one device."""
        return self.processes == "parameter_server"

    def has(self, name: str) -> bool:
        """Whether this field of `Training` has a meaning for it."""
        return settings_of(Training)[name].is_for(self.framework, self.name)


def _no_tpu() -> str:
    if "TPU_NAME" in os.environ or any(Path("/dev").glob("accel*")):
        return ""
    return tr("No TPU was found here: there is no /dev/accel*, and TPU_NAME is not set.")


def _no_fit_on_many_workers() -> str:
    return tr(
        "Keras 3's fit fails under MultiWorkerMirroredStrategy (a PerReplica value cannot be converted to a tensor). "
        "TensorFlow's own loop (--framework tensorflow) can use it."
    )


ON_ONE_DEVICE = tr_noop("One process on one device.")
NO_WHOLE_MODEL = tr_noop("no device has the whole model")
NO_COMPILED_PARTS = tr_noop("XLA compiles for one device, but a placed model is on several. Switch compiling off.")
BY_PLACEMENT = tr_noop("Parts of one model on several devices, in one process: branches, or layers in turn.")

STRATEGIES = (
    Strategy(framework="pytorch", name="single", title=tr_noop("One device"), target="pytorch.strategies:single",
         parallel="one", max_devices=1, summary=ON_ONE_DEVICE),
    Strategy(framework="pytorch", name="ddp", title=tr_noop("Data parallel (DDP)"), target="pytorch.ddp",
         parallel="data", processes="per_device", splits_batch=True, spans_hosts=True,
         summary=tr_noop("One process per device; each takes its slice of the global batch, gradients are averaged.")),
    Strategy(framework="pytorch", name="fsdp", title=tr_noop("Data parallel, sharded (FSDP2)"), target="pytorch.fsdp",
         parallel="data", processes="per_device", splits_batch=True, spans_hosts=True,
         no_epoch_end=tr_noop("each rank has only a part of each parameter"),
         summary=tr_noop("Like DDP, but parameters, gradients and optimizer state are sharded: for large models.")),
    Strategy(framework="pytorch", name="data_parallel", title=tr_noop("Data parallel, legacy (nn.DataParallel)"),
         target="pytorch.strategies:data_parallel", parallel="data", splits_batch=True, min_devices=2,
         device_kinds=("nvidia",), no_steps=tr_noop("it divides the batch after collating it"),
         no_compile=tr_noop(
         "nn.DataParallel cannot copy a compiled model. Switch compiling off, or choose strategy ddp."),
         summary=tr_noop("One process, a thread per GPU; slower than DDP, kept for code written for it.")),
    Strategy(framework="pytorch", name="pipeline", title=tr_noop("Pipeline (1F1B)"), target="pytorch.pipeline",
         parallel="device", processes="per_device", min_devices=2, spans_hosts=True, whole_model=False,
         no_steps=NO_WHOLE_MODEL, no_epoch_end=NO_WHOLE_MODEL,
         summary=tr_noop(
         "The model is cut into stages, one process per device; micro-batches flow through all at once.")),
    Strategy(framework="pytorch", name="placement", title=tr_noop("Placement"), target="pytorch.strategies:placement",
         parallel="device", min_devices=2, summary=BY_PLACEMENT),
    Strategy(framework="tensorflow", name="single", title=tr_noop("One device"), target="tensorflow.strategies:single",
         parallel="one", max_devices=1, summary=ON_ONE_DEVICE),
    Strategy(framework="tensorflow", name="mirrored", title=tr_noop("Data parallel (mirrored)"),
         target="tensorflow.strategies:mirrored", parallel="data", splits_batch=True,
         summary=tr_noop("MirroredStrategy: a copy of the model per device, gradients are summed over all.")),
    Strategy(framework="tensorflow", name="central_storage", title=tr_noop("Data parallel (central storage)"),
         target="tensorflow.strategies:central_storage", parallel="data", splits_batch=True,
         summary=tr_noop(
         "CentralStorageStrategy: variables on the CPU, or on the only GPU; every device computes its slice.")),
    Strategy(framework="tensorflow", name="multi_worker_mirrored",
         title=tr_noop("Data parallel (multi-worker mirrored)"), target="tensorflow.strategies:multi_worker_mirrored",
         parallel="data", processes="per_device", splits_batch=True, needs_addresses=True, spans_hosts=True,
         no_epoch_end=tr_noop("a call of the model by one worker would wait for the others"),
         summary=tr_noop(
         "MultiWorkerMirroredStrategy: one process per device. On one machine, these are in a network of "
         "their own.")),
    Strategy(framework="tensorflow", name="parameter_server",
         title=tr_noop("Data parallel, asynchronous (parameter server)"),
         target="tensorflow.strategies:parameter_server", parallel="data", processes="parameter_server",
         needs_addresses=True, spans_hosts=True,
         no_float16=tr_noop("its workers step at the same time, and each would change the scale of the others' losses"),
         no_epoch_end=tr_noop("the model is in another process"),
         summary=tr_noop(
         "A chief, a worker per device and a server. On one machine, these are in a network of their own. "
         "Asynchronous: its curve differs from that of one device.")),
    Strategy(framework="tensorflow", name="towers", title=tr_noop("Data parallel (towers)"),
         target="tensorflow.strategies:towers", parallel="data", splits_batch=True,
         summary=tr_noop("The batch split and the gradients averaged by hand, as before TensorFlow had strategies.")),
    Strategy(framework="tensorflow", name="tpu", title=tr_noop("Data parallel (TPU)"),
         target="tensorflow.strategies:tpu", parallel="data", device_kinds=("cpu",), unavailable=_no_tpu,
         no_float16=tr_noop("a TPU computes with bfloat16 in its place"),
         summary=tr_noop("TPUStrategy: all cores of a TPU; needs one.")),
    Strategy(framework="tensorflow", name="placement", title=tr_noop("Placement"),
         target="tensorflow.strategies:placement", parallel="device", min_devices=2, no_compile=NO_COMPILED_PARTS,
         summary=BY_PLACEMENT),
    Strategy(framework="keras", name="single", title=tr_noop("One device"), target="keras.strategies:single",
         parallel="one", max_devices=1, summary=tr_noop("model.fit in one process on one device.")),
    Strategy(framework="keras", name="mirrored", title=tr_noop("Data parallel (mirrored)"),
         target="keras.strategies:mirrored", parallel="data", splits_batch=True,
         summary=tr_noop(
         "model.fit under MirroredStrategy, which replaces multi_gpu_model: a copy of the model per device.")),
    Strategy(framework="keras", name="multi_worker_mirrored", title=tr_noop("Data parallel (multi-worker mirrored)"),
         target="", parallel="data", processes="per_device", splits_batch=True, unavailable=_no_fit_on_many_workers,
         summary=tr_noop("Does not work with model.fit: see the reason.")),
    Strategy(framework="keras", name="placement", title=tr_noop("Placement"), target="keras.strategies:placement",
         parallel="device", min_devices=2, no_compile=NO_COMPILED_PARTS,
         summary=tr_noop("model.fit on one model whose parts are on several devices.")),
)
"""The order decides the default: see `default_strategy`."""

LAUNCH_MODES = (
    Strategy(framework=SCRIPT, name="one", title=tr_noop("One process"), target="", parallel="device",
         summary=tr_noop(
         "One process sees all chosen devices, numbered from 0: for TensorFlow, Keras, nn.DataParallel and "
         "device_map.")),
    Strategy(framework=SCRIPT, name="per-device", title=tr_noop("One process per device"), target="", parallel="data",
         processes="per_device", spans_hosts=True,
         summary=tr_noop(
         "As torchrun starts it, the devices numbered from 0: for programs written for torchrun, Accelerate, "
         "Lightning, DeepSpeed or TensorFlow's MultiWorkerMirroredStrategy.")),
)
"""The launch modes of a script. They have no module in `core.worker`: the script itself trains."""


def find_strategy(framework_name: str, name: str) -> Strategy:
    """Return a strategy of a framework. Raises `ValueError` with a sentence."""
    title, rows = framework(framework_name).title, strategies_of(framework_name)
    for row in rows:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in rows)
    raise ValueError(
        tr("{title} has no strategy {name!r} here. Choose one of: {known}.", title=title, name=name, known=known)
    )


def find_launch_mode(name: str) -> Strategy:
    """Return a launch mode of a script. Raises `ValueError` with a sentence."""
    for row in LAUNCH_MODES:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in LAUNCH_MODES)
    raise ValueError(tr("{name!r} is not a launch mode of scripts. Choose one of: {known}.", name=name, known=known))


def strategy_of(spec: RunSpec) -> Strategy:
    """Return the strategy of a recipe's run, or the launch mode of a script's. Raises `ValueError` with a sentence."""
    return find_launch_mode(spec.strategy) if spec.script else find_strategy(spec.framework, spec.strategy)


def strategy_title(spec: RunSpec) -> str:
    """Return the title of the strategy of a run; a strategy of another version has its name."""
    try:
        return tr(strategy_of(spec).title)
    except ValueError:
        return spec.strategy


def strategies_of(framework_name: str) -> list[Strategy]:
    return [row for row in STRATEGIES if row.framework == framework_name]


def default_strategy(framework_name: str, devices: int) -> str:
    """Return the name of the framework's first strategy that takes this number of devices."""
    rows = strategies_of(framework_name)
    return next((row.name for row in rows if row.max_devices is None or devices <= row.max_devices), rows[0].name)
