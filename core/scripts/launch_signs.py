"""How a program wants to be launched: one row per sign, the first that is seen decides.

A program that starts its ranks itself is launched once, whatever else it knows; one that reads torchrun's variables is
launched once per device. Between those stand the libraries, each by what it does when it is launched either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.scripts.usage import Usage

Launch = Literal["one", "per-device"]

RANKS = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric", "lightning_pytorch")
LAUNCHERS = {"torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed", "horovodrun"}
LAUNCHER_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner",
)  # fmt: skip
SPREADING = {"auto", "balanced", "balanced_low_0", "sequential"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Something that can be seen in a source file."""

    launch: Launch
    seen: Callable[[Usage], str]
    """What is seen, to stand in `why`; empty when it is not."""
    why: str
    """A sentence with `{seen}`, and `{where}`: empty, or ` in` and the file, if that is not the script."""


def _spawns(evidence: Usage) -> str:
    return (
        evidence.uses(["torch"], ["spawn", "start_processes", "elastic_launch"])
        or evidence.uses(["torch_xla"], ["spawn"])
        or evidence.uses(["accelerate"], ["notebook_launcher", "debug_launcher"])
        or next((text for text in _strategies(evidence) if text.endswith(("_spawn", "_notebook", "_fork"))), "")
    )


def _strategies(evidence: Usage) -> list[str]:
    """The strategies that are written into the calls of Lightning's classes."""
    calls = evidence.called(LIGHTNING, ["Trainer", "Fabric"])
    return sorted(text for call in calls for text in call.keywords.get("strategy", ()))


def _starts_launcher(evidence: Usage) -> str:
    words = evidence.started()
    return next(iter(sorted(words & LAUNCHERS)), "accelerate launch" if {"accelerate", "launch"} <= words else "")


def _reads_rank(evidence: Usage) -> str:
    return next((name for name in RANKS if name in evidence.read), "")


def _starts_ranks(evidence: Usage) -> str:
    """Processes of its own that join a process group; a program may start others for its data."""
    processes = evidence.called(["torch", "multiprocessing"], ["Process"])
    return "Process" if processes and evidence.uses(["torch"], ["init_process_group"]) else ""


def _sets_rank(evidence: Usage) -> str:
    return next((name for name in RANKS if name in evidence.set), "")


def _spreads(evidence: Usage) -> str:
    """A model that is laid over all devices that one process sees."""
    values = {text for call in evidence.calls for text in call.keywords.get("device_map", ())}
    return next(iter(sorted(values & SPREADING)), "")


def _joins_group(evidence: Usage) -> str:
    """A process group whose ranks come from the environment: no `rank` and `world_size`, or `env://`."""
    for call in evidence.called(["torch"], ["init_process_group"]):
        if call.argument(4, "rank") is None or "env://" in (call.argument(1, "init_method") or ()):
            return "init_process_group"
    return evidence.uses(["torch"], ["init_device_mesh", "is_torchelastic_launched"])


def _joins_otherwise(evidence: Usage) -> str:
    return evidence.uses(["torch"], ["init_process_group"])


def _replicates(evidence: Usage) -> str:
    """`nn.DataParallel` called, not only asked for with `isinstance`."""
    return "DataParallel" if evidence.called(["torch"], ["DataParallel", "data_parallel"]) else ""


SIGNS = (
    Sign(launch="one", seen=_spawns, why="It starts its own processes, one per device ({seen}{where})."),
    Sign(launch="one", seen=_starts_launcher, why="It starts its own processes, with {seen}{where}."),
    Sign(launch="per-device", seen=_reads_rank, why="It reads {seen}{where}, as programs written for torchrun do."),
    Sign(launch="one", seen=_starts_ranks, why="It starts its own processes, one per rank ({seen}{where})."),
    Sign(launch="one", seen=_sets_rank, why="It sets {seen} itself{where}, so that it is not one for torchrun."),
    Sign(
        launch="one", seen=_spreads,
        why='It lays its model over all devices that one process sees (device_map="{seen}"{where}).',
    ),
    Sign(
        launch="per-device", seen=lambda seen: seen.uses(["accelerate"], ["Accelerator", "PartialState"]),
        why="It uses Accelerate ({seen}{where}), which trains on several devices with a process for each.",
    ),
    Sign(
        launch="per-device", seen=lambda seen: seen.uses(["deepspeed"], ["initialize", "init_distributed"]),
        why="It uses DeepSpeed ({seen}{where}), which trains with a process per device.",
    ),
    Sign(
        launch="per-device", seen=lambda seen: seen.uses(LIGHTNING, ["Fabric", "Trainer", "LightningCLI"]),
        why="It uses Lightning's {seen}{where}, which joins the processes that it finds started, one per device.",
    ),
    Sign(
        launch="per-device",
        seen=lambda seen: seen.uses(["transformers", "trl"], ["*Trainer", "*TrainingArguments"]),
        why="It uses the Hugging Face {seen}{where}, which trains by DDP where each device has a process, "
        "and by the slower nn.DataParallel where one process sees them all.",
    ),
    Sign(
        launch="per-device", seen=_joins_group,
        why="It calls {seen}{where} and takes its rank from the environment, as programs written for torchrun do.",
    ),
    Sign(
        launch="one", seen=_joins_otherwise,
        why="It calls {seen}{where} with a rank of its own, so that it is not one for torchrun.",
    ),
    Sign(
        launch="one", seen=_replicates,
        why="It uses nn.{seen}{where}, which drives all devices from one process.",
    ),
    Sign(
        launch="one", seen=lambda seen: seen.uses(["tensorflow"], ["*Strategy"]),
        why="It uses TensorFlow's {seen}{where}, which drives all devices from one process.",
    ),
)  # fmt: skip

BY_FRAMEWORK = {
    "keras": "It is a Keras program: one process sees all devices.",
    "tensorflow": "It is a TensorFlow program: one process sees all devices.",
    "jax": "It is a JAX program: one process sees all devices.",
    "torch": "Nothing in it was written for several processes: one process sees all devices.",
}
"""When no sign is seen, in this order."""
NO_FRAMEWORK = "It imports no framework that is known here: one process sees all devices."


def guess(evidence: Mapping[str, Usage], frameworks: tuple[str, ...]) -> tuple[Launch, str]:
    """How to launch the program, and why. `evidence` by what each file is called for people, the script's first."""
    script = next(iter(evidence), "")
    for sign in SIGNS:
        for name, each in evidence.items():
            if seen := sign.seen(each):
                return sign.launch, sign.why.format(seen=seen, where="" if name == script else f" in {name}")
    return "one", next((why for name, why in BY_FRAMEWORK.items() if name in frameworks), NO_FRAMEWORK)
