"""Propose how to launch a program: a table of signs in its source; the first sign found decides.

A program that starts its ranks itself is launched once, whatever else it does. A program that reads the variables
of torchrun is launched once per device. For libraries, their behaviour under both launches decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from core.language import tr, tr_noop
from core.scripts.syntax import Usage

Launch = Literal["one", "per-device"]

RANKS = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric", "lightning_pytorch")
LAUNCHERS = {"torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed", "horovodrun"}
LAUNCHER_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner",
)
SPREADING = {"auto", "balanced", "balanced_low_0", "sequential"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """A sign in a source file."""

    launch: Launch
    find: Callable[[Usage], str]
    """Returns the name to show in `why`; "" if the sign is absent."""
    why: str
    """A sentence with `{found}`, and `{where}`: "", or ` in` and the file if that is not the script."""
    plain_alone: bool = False
    """Whether the library starts a plain process on one device, where nothing is wrapped for several."""


def _spawns(usage: Usage) -> str:
    return (
        usage.uses(["torch"], ["spawn", "start_processes", "elastic_launch"])
        or usage.uses(["torch_xla"], ["spawn"])
        or usage.uses(["accelerate"], ["notebook_launcher", "debug_launcher"])
        or next((text for text in _strategies(usage) if text.endswith(("_spawn", "_notebook", "_fork"))), "")
    )


def _strategies(usage: Usage) -> list[str]:
    """Return the strategies in calls of Lightning's classes."""
    calls = usage.called(LIGHTNING, ["Trainer", "Fabric"])
    return sorted(text for call in calls for text in call.keywords.get("strategy", ()))


def _starts_launcher(usage: Usage) -> str:
    words = usage.started()
    return next(iter(sorted(words & LAUNCHERS)), "accelerate launch" if {"accelerate", "launch"} <= words else "")


def _starts_ranks(usage: Usage) -> str:
    """Find processes that join a process group; a program may start others for its data."""
    processes = usage.called(["torch", "multiprocessing"], ["Process"])
    return "Process" if processes and usage.uses(["torch"], ["init_process_group"]) else ""


def trains_without_ranks(usage: Usage) -> bool:
    """Return whether a file that reads the variables of torchrun also trains where they are not set."""
    return bool(usage.optional.intersection(RANKS))


def trains_together(usage: Usage) -> bool:
    """Return whether a file uses what lets several processes train one model."""
    return bool(
        usage.uses(["torch"], ["init_process_group", "init_device_mesh"])
        or usage.uses(["horovod", "deepspeed", "accelerate", *LIGHTNING, "mmengine", "fairseq", "timm"], ["*"])
        or usage.uses(["transformers", "trl"], ["*Trainer", "*TrainingArguments"])
        or usage.uses(["tensorflow"], ["MultiWorkerMirroredStrategy", "ParameterServerStrategy"])
        or usage.uses(["jax"], ["distributed"])
    )


def meets_by_tf_config(usage: Usage) -> bool:
    """Return whether a file has a strategy with several processes, which TF_CONFIG tells each other's addresses."""
    return bool(usage.uses(["tensorflow"], ["MultiWorkerMirroredStrategy"]))


def leaves_devices_to_lightning(usage: Usage) -> bool:
    """Return whether Lightning chooses the devices: on CPUs it trains in each process alone then."""
    calls = usage.called(LIGHTNING, ["Trainer", "Fabric"])
    return any("devices" not in call.keywords or "auto" in call.keywords["devices"] for call in calls)


def replicates(usage: Usage) -> str:
    """Return what makes a replica of the model on each GPU that one process sees; the empty string without it."""
    strategies = ["MirroredStrategy", "CentralStorageStrategy"]
    return _replicates(usage) or next((each for each in strategies if usage.uses(["tensorflow"], [each])), "")


def _spreads(usage: Usage) -> str:
    """Find a model that is split over all devices of one process."""
    values = {text for call in usage.calls for text in call.keywords.get("device_map", ())}
    return next(iter(sorted(values & SPREADING)), "")


def _joins_group(usage: Usage) -> str:
    """Find a process group with ranks from the environment: without `rank` and `world_size`, or with `env://`."""
    for call in usage.called(["torch"], ["init_process_group"]):
        if call.argument(4, "rank") is None or "env://" in (call.argument(1, "init_method") or ()):
            return "init_process_group"
    return usage.uses(["torch"], ["init_device_mesh", "is_torchelastic_launched"])


def _replicates(usage: Usage) -> str:
    """Find a call of `nn.DataParallel`, not just a test with `isinstance`."""
    return "DataParallel" if usage.called(["torch"], ["DataParallel", "data_parallel"]) else ""


SIGNS = (
    Sign(launch="one", find=_spawns, why=tr_noop("It starts its own processes, one per device ({found}{where}).")),
    Sign(launch="one", find=_starts_launcher, why=tr_noop("It starts its own processes, with {found}{where}.")),
    Sign(launch="per-device", find=lambda usage: next((name for name in RANKS if name in usage.read), ""),
         why=tr_noop("It reads {found}{where}, as programs written for torchrun do.")),
    Sign(launch="one", find=_starts_ranks, why=tr_noop("It starts its own processes, one per rank ({found}{where}).")),
    Sign(launch="one", find=lambda usage: next((name for name in RANKS if name in usage.set), ""),
         why=tr_noop("It sets {found} itself{where}, so it is not written for torchrun.")),
    Sign(launch="one", find=_spreads,
         why=tr_noop('It splits its model over all devices that one process sees (device_map="{found}"{where}).')),
    Sign(launch="per-device", find=lambda usage: usage.uses(["accelerate"], ["Accelerator", "PartialState"]),
         plain_alone=True,
         why=tr_noop("It uses Accelerate ({found}{where}), which trains with a process per device.")),
    Sign(launch="per-device", find=lambda usage: usage.uses(["deepspeed"], ["initialize", "init_distributed"]),
         why=tr_noop("It uses DeepSpeed ({found}{where}), which trains with a process per device.")),
    Sign(launch="per-device", find=lambda usage: usage.uses(LIGHTNING, ["Fabric", "Trainer", "LightningCLI"]),
         plain_alone=True,
         why=tr_noop("It uses Lightning's {found}{where}, which joins processes that are already started, "
                     "one per device.")),
    Sign(launch="per-device",
         find=lambda usage: usage.uses(["transformers", "trl"], ["*Trainer", "*TrainingArguments"]), plain_alone=True,
         why=tr_noop("It uses the Hugging Face {found}{where}, which trains with DDP if each device has a process, "
         "and with the slower nn.DataParallel if one process sees all devices.")),
    Sign(launch="per-device", find=_joins_group,
         why=tr_noop("It calls {found}{where} and takes its rank from the environment, as programs "
                     "written for torchrun do.")),
    Sign(launch="one", find=lambda usage: usage.uses(["torch"], ["init_process_group"]),
         why=tr_noop("It calls {found}{where} with a rank of its own, so it is not written for torchrun.")),
    Sign(launch="one", find=_replicates,
         why=tr_noop("It uses nn.{found}{where}, which drives all devices from one process.")),
    Sign(launch="per-device", find=lambda usage: usage.uses(["tensorflow"], ["MultiWorkerMirroredStrategy"]),
         why=tr_noop("It uses TensorFlow's {found}{where}, which trains with a process per device.")),
    Sign(launch="one", find=lambda usage: usage.uses(["tensorflow"], ["*Strategy"]),
         why=tr_noop("It uses TensorFlow's {found}{where}, which drives all devices from one process.")),
)

BY_FRAMEWORK = {
    "keras": tr_noop("It is a Keras program: one process sees all devices."),
    "tensorflow": tr_noop("It is a TensorFlow program: one process sees all devices."),
    "jax": tr_noop("It is a JAX program: one process sees all devices."),
    "torch": tr_noop("Nothing in it is written for several processes: one process sees all devices."),
}
"""The reasons if no sign is found, in this order."""
NO_FRAMEWORK = tr_noop("It imports no known framework: one process sees all devices.")


ALONE = tr_noop("On one device it is started as a plain program: it tests whether torchrun has set RANK.")
ALONE_OF_LIBRARY = tr_noop("On one device it is started as a plain program, as {found} expects it there.")


def propose_launch(usages: Mapping[str, Usage], frameworks: tuple[str, ...]) -> tuple[Launch, str, str]:
    """Return how to launch the program, and why; then why it is one plain process on one device, if it is.

    `usages`: by the display name of each file, the script first.
    """
    script = next(iter(usages), "")
    for sign in SIGNS:
        for name, usage in usages.items():
            if found := sign.find(usage):
                where = "" if name == script else tr(" in {name}", name=name)
                alone = tr(ALONE_OF_LIBRARY, found=found) if sign.plain_alone else ""
                if sign.launch == "per-device" and any(map(trains_without_ranks, usages.values())):
                    alone = tr(ALONE)
                return sign.launch, tr(sign.why, found=found, where=where), alone
    return "one", tr(next((why for name, why in BY_FRAMEWORK.items() if name in frameworks), NO_FRAMEWORK)), ""
