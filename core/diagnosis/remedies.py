"""What can be tried about memory that was not released: steps with their shell commands, the gentlest first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from core.language import Message, join_sentences, tr, tr_noop
from core.schema.event_kinds import Release, Verdict

MAX_PIDS = 40
LISTED = tr_noop(
    "What you can try, gentlest first: find what uses this GPU (fuser -v /dev/nvidia*, as root) and end it; "
    "reset it (nvidia-smi --gpu-reset -i {device}, as root); reload the driver (modprobe -r, then modprobe); "
    "reboot. Trainyard never does these for you."
)
"""The remedies in the sentences of a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One step."""

    step: str
    """What it does: a sentence."""
    command: str
    """A shell command that does it."""


def remedies(releases: Iterable[Release], devices: Mapping[str, Mapping[str, object]]) -> list[Remedy]:
    """Return the steps for the devices of a run. `devices`: their events by id."""
    found = list(releases)
    steps = []
    for verdict, step in ((Verdict.HELD_BY_OTHERS, SEE_OTHERS), (Verdict.HELD_BY_RUN, END_OWN)):
        pids = [each.pid for release in found if release.verdict is verdict for each in release.holders]
        if pids:
            listed = " ".join(map(str, dict.fromkeys(pids[:MAX_PIDS])))
            steps.append(Remedy(step=tr(step.step), command=step.command.format(pids=listed)))
    unexplained = [each.device_id for each in found if each.verdict is Verdict.UNEXPLAINED]
    if unexplained:
        steps.append(_shown(FIND))
        for device in unexplained:
            known = devices.get(device, {})
            bus = str(known.get("pci_bus_id") or device)
            label = str(known.get("label") or device)
            steps.append(Remedy(step=tr(RESET.step, label=label), command=RESET.command.format(bus=bus)))
        steps += [_shown(RELOAD), _shown(REBOOT)]
    return steps


SEE_OTHERS = Remedy(step=tr_noop("See what these processes are."), command="ps -o pid,user,etime,args -p '{pids}'")
END_OWN = Remedy(step=tr_noop("End the processes of this run that are left."), command="kill -9 {pids}")
FIND = Remedy(step=tr_noop("See which programs use the GPUs, and end those that you do not need."),
              command="sudo fuser -v /dev/nvidia*")  # fmt: skip
RESET = Remedy(
    step=tr_noop("Reset {label}. No program may use it meanwhile."), command="sudo nvidia-smi --gpu-reset -i {bus}"
)
RELOAD = Remedy(
    step=tr_noop("Reload the driver. No program may use a GPU meanwhile, the desktop included."),
    command="sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia_uvm",
)
REBOOT = Remedy(step=tr_noop("Restart the machine."), command="sudo systemctl reboot")


def _shown(remedy: Remedy) -> Remedy:
    return replace(remedy, step=tr(remedy.step))


def without_remedies(sentences: str) -> str:
    """Return the sentences of a verdict without the remedies at their end, in the language in use."""
    return join_sentences(tr(each) for each in Message.read(sentences).sentences if each.say != (LISTED,))
