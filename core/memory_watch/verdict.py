"""Judge the memory of one device after a run: choose the verdict, and word its sentence."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from core.language import join_sentences, tr, tr_noop, tr_plural
from core.memory_watch.evidence import MemoryEvidence, UsageDelta, compare_usage
from core.schema.event_kinds import ProcessInfo, Verdict
from core.system.procfs import STUCK
from core.text import enumerated, size

Judgement = tuple[Verdict, str]


def judge(evidence: MemoryEvidence) -> Judgement | None:
    """Return the verdict and its sentence; None while waiting longer is of use."""
    if evidence.own:
        return _held_by_run(evidence) if evidence.due else None
    if evidence.device.kind == "cpu":
        return _judge_cpu(evidence)
    if why := _unreadable(evidence):
        return _cannot(evidence, why)
    if evidence.after is None:
        return None
    if evidence.after <= evidence.tolerance_bytes:
        return _released(evidence)
    return _judge_change(evidence, compare_usage(evidence))


def _unreadable(evidence: MemoryEvidence) -> str:
    """Return why the readings allow no verdict; the empty string where they do, or may later."""
    is_over = evidence.due or not evidence.may_wait
    if evidence.device.shared_memory:
        sentence = tr_noop(
            "{label} shares its memory with the host, so its readings do not show which process uses it. "
            "No process of this run is left."
        )
    elif evidence.asleep:
        sentence = tr_noop(
            "{label} is asleep, so no process uses it any more. It was not woken up to read its memory, so it is not "
            "known whether all of it came back."
        )
    elif evidence.lost is not None and is_over:
        sentence = tr_noop(
            "{label} has not answered since the run's end, so it is not known whether its memory came back."
        )
        return join_sentences([tr(sentence, label=evidence.label), evidence.lost, evidence.fault])
    elif evidence.after is None and is_over:
        sentence = tr_noop("The memory of {label} could not be read {waited}, so it is not known whether it came back.")
    elif evidence.after is not None and evidence.before is None and evidence.after > evidence.tolerance_bytes:
        sentence = tr_noop(
            "The memory of {label} could not be read before the run. {after} are used now, and it is "
            "not known whether they were used before."
        )
    else:
        return ""
    return tr(sentence, label=evidence.label, waited=_waited(evidence), after=size(evidence.after))


def _cannot(evidence: MemoryEvidence, sentence: str) -> Judgement:
    return Verdict.CANNOT_BE_JUDGED, join_sentences([sentence, _ended(evidence), evidence.trouble])


# -- memory that came back ---------------------------------------------------------------------


def _released(evidence: MemoryEvidence) -> Judgement:
    sentence = tr_noop("The memory of {label} came back: {peak} at most, {after} {when}.")
    if evidence.before is not None:
        sentence = tr_noop(
            "The memory of {label} came back: {before} were used before the run, {peak} at most, {after} {when}."
        )
    sentence = tr(sentence, **_sizes(evidence))
    return Verdict.RELEASED, join_sentences([sentence, _ended(evidence), evidence.trouble if evidence.blind else None])


def _judge_cpu(evidence: MemoryEvidence) -> Judgement:
    """Judge a CPU device on which no process of the run can be seen any more."""
    if evidence.blind:
        sentence = tr_noop(
            "{label}: it is not known whether processes of the run are left, since this machine has no /proc."
        )
        return _cannot(evidence, tr(sentence, label=evidence.label))
    sentence = tr("Nothing of this run is left on {label}: its memory came back.", label=evidence.label)
    most = tr("It held {peak} at most.", peak=size(evidence.peak)) if evidence.peak is not None else None
    return Verdict.RELEASED, join_sentences([sentence, most, _ended(evidence)])


# -- memory that others have taken or released -------------------------------------------------


def _judge_change(evidence: MemoryEvidence, delta: UsageDelta) -> Judgement | None:
    """Judge by what other processes have taken or released since before the run."""
    if delta.most_unexplained_bytes <= evidence.tolerance_bytes and not delta.gone_unmeasured:
        return _released(evidence) if evidence.excess <= evidence.tolerance_bytes else _held_by_others(evidence, delta)
    if not evidence.due:
        return None
    if delta.unexplained_bytes <= evidence.tolerance_bytes:
        return _cannot(evidence, _hidden(evidence, delta))
    return _missing(evidence, delta)


def _hidden(evidence: MemoryEvidence, delta: UsageDelta) -> str:
    """Word that others explain the memory in use, but that memory released by others may now be held by this run."""
    released = [*delta.shrunk, *((process, None) for process in delta.gone_unmeasured)]
    names = enumerated(f"{process.words}, {size(amount)}" for process, amount in released)
    if evidence.excess <= evidence.tolerance_bytes:
        used = tr("{label} uses {after}, no more than the {before} before the run.", **_sizes(evidence))
    else:
        took = enumerated(with_run(process) for process, _ in delta.grown)
        used = tr("{excess}, which other processes have: {names}.", excess=excess_words(evidence), names=took)
    unknown = tr(
        "But processes that used memory before the run seem to have released it ({names}), so it is not known "
        "whether all of this run's memory came back.",
        names=names,
    )
    return join_sentences([used, unknown])


# -- memory that did not come back -------------------------------------------------------------


def _missing(evidence: MemoryEvidence, delta: UsageDelta) -> Judgement:
    """Judge a device that uses more than before, and more than visible other processes have taken."""
    if evidence.cut_short:
        skipped = tr("{excess}, and the check was skipped, so it is not known whether the rest is released.",
                     excess=excess_words(evidence))
        return _cannot(evidence, skipped)
    unidentified_explain = delta.grown_unidentified and delta.least_unexplained_bytes <= evidence.tolerance_bytes
    if delta.perhaps_grown or unidentified_explain:
        return _perhaps_held_by_others(evidence, delta)
    return _unexplained(evidence, [process for process, _ in (*delta.grown, *delta.grown_unidentified)])


def _held_by_others(evidence: MemoryEvidence, delta: UsageDelta) -> Judgement:
    names = enumerated(with_run(process) for process, _ in delta.grown)
    sentence = tr_plural(
        "This run released its memory on {label}. Another process took {size} meanwhile: {names}.",
        "This run released its memory on {label}. Other processes took {size} meanwhile: {names}.",
        len(delta.grown),
        label=evidence.label,
        size=size(evidence.excess),
        names=names,
    )
    yours = tr_plural(
        "Trainyard did not end it; end it yourself if it is not needed.",
        "Trainyard did not end them; end them yourself if they are not needed.",
        len(delta.grown),
    )
    return Verdict.HELD_BY_OTHERS, join_sentences([sentence, yours, _ended(evidence), evidence.trouble])


def _perhaps_held_by_others(evidence: MemoryEvidence, delta: UsageDelta) -> Judgement:
    unidentified = [process for process, _ in delta.grown_unidentified]
    others = [*(process for process, _ in delta.grown), *unidentified, *delta.perhaps_grown]
    sentence = tr_noop("{excess}. No process of this run is left; other processes may have it: {names}.")
    if delta.perhaps_grown:
        sentence = tr_noop(
            "{excess}. No process of this run is left; other processes may have it (amount unknown): {names}."
        )
    sentence = tr(sentence, excess=excess_words(evidence), names=enumerated(map(with_run, others)))
    yours = tr_plural(
        "Trainyard did not end it; end it yourself if it is not needed, and see whether the memory comes back.",
        "Trainyard did not end them; end them yourself if they are not needed, and see whether the memory comes back.",
        len(others),
    )
    unknown = (
        tr(
            "An unknown pid may also belong to a process of this run that has exited, but whose memory the driver has "
            "not freed."
        )
        if any(process.name is None for process in (*unidentified, *delta.perhaps_grown))
        else None
    )
    return Verdict.HELD_BY_OTHERS, join_sentences([sentence, yours, unknown, _ended(evidence), evidence.trouble])


def _unexplained(evidence: MemoryEvidence, others: Sequence[ProcessInfo]) -> Judgement:
    names = enumerated(map(with_run, others))
    sharers = tr_plural("{names} has a part of it.", "{names} have a part of it.", len(others), names=names)
    dead = enumerated(with_size(process) for process in evidence.gone)
    owner = tr("The driver attributes it to {names}, of this run, which ended.", names=dead) if dead else None
    device = evidence.device.pci_bus_id or evidence.device.id
    nothing = tr_noop("{excess}, and no program was found that holds it.")
    if others:
        nothing = tr_noop("{excess}, and no program was found that holds all of it.")
    nothing = tr(nothing, excess=excess_words(evidence))
    return Verdict.UNEXPLAINED, join_sentences(
        [nothing, sharers if others else None, owner, _ended(evidence), evidence.trouble, evidence.fault,
         tr(LISTED, device=device)]
    )


# -- processes of the run that are left ---------------------------------------------------------


def _held_by_run(evidence: MemoryEvidence) -> Judgement:
    names = enumerated(map(with_size, evidence.own))
    stuck: dict[str | None, list[ProcessInfo]] = {}
    for process in evidence.own:
        if process.state == STUCK:
            stuck.setdefault(evidence.sent.get(process.key), []).append(process)
    advice = [_on_stuck(evidence, some, sent) for sent, some in stuck.items()]
    if others := [process for process in evidence.own if process.state != STUCK]:
        advice.append(
            tr("Look again in a moment; if it stays, end it by hand (kill -9).")
            if len(evidence.own) == 1
            else tr_plural(
                "Look again in a moment; if {pids} stays, end it by hand (kill -9).",
                "Look again in a moment; if {pids} stay, end them by hand (kill -9).",
                len(others),
                pids=_pids(others),
            )
        )
    sentence = tr("{label} is still held by this run: {names}.", label=evidence.label, names=names)
    return Verdict.HELD_BY_RUN, join_sentences([sentence, *advice, _ended(evidence)])


def _on_stuck(evidence: MemoryEvidence, some: Sequence[ProcessInfo], sent: str | None) -> str:
    """Word the advice for processes in state D. `sent`: the last signal sent to them; None if none could be sent."""
    names = tr("It") if len(evidence.own) == 1 else _pids(some)
    if sent is None:
        what = tr_plural(
            "{names} could not be signalled and waits inside the kernel (state D), where no signal reaches it",
            "{names} could not be signalled and wait inside the kernel (state D), where no signal reaches them",
            len(some),
            names=names,
        )
    else:
        what = tr_plural(
            "{names} was sent {signal} and waits inside the kernel (state D), where no signal reaches it",
            "{names} were sent {signal} and wait inside the kernel (state D), where no signal reaches them",
            len(some),
            names=names,
            signal=sent,
        )
    if evidence.device.kind == "cpu":
        return tr_plural(
            "{what}. If it does not end when a disk or a driver has answered, only a reboot helps.",
            "{what}. If they do not end when a disk or a driver has answered, only a reboot helps.",
            len(some),
            what=what,
        )
    if sent == signal.SIGKILL.name:
        return tr("{what}: only a driver reload or a reboot helps.", what=what)
    return tr_plural(
        "{what}. If it does not end when the driver is done, only a driver reload or a reboot helps.",
        "{what}. If they do not end when the driver is done, only a driver reload or a reboot helps.",
        len(some),
        what=what,
    )


def _pids(some: Sequence[ProcessInfo]) -> str:
    return enumerated(f"pid {process.pid}" for process in some)


# -- parts of sentences ------------------------------------------------------------------------


def _waited(evidence: MemoryEvidence) -> str:
    """Word when the watch tried to read the memory."""
    if evidence.cut_short:
        return tr("after the run's end, as the waiting was cut short")
    if evidence.seconds < 1.5:
        return tr("after the run's end")
    return tr("within {seconds:.0f} s after the run's end", seconds=evidence.seconds)


def _ended(evidence: MemoryEvidence) -> str | None:
    """Word which processes outlived their worker and were terminated; None if there were none."""
    if not evidence.ended:
        return None
    return tr_plural(
        "{names} had outlived its worker and was terminated.",
        "{names} had outlived their worker and were terminated.",
        len(evidence.ended),
        names=enumerated(evidence.ended),
    )


def excess_words(evidence: MemoryEvidence) -> str:
    """Word how much more the device uses than before the run."""
    return tr(
        "{label} uses {excess} more than before the run ({before} before, {peak} at most, {after} {when})",
        **_sizes(evidence), excess=size(evidence.excess),
    )


def _sizes(evidence: MemoryEvidence) -> dict[str, str]:
    """Return the fields of a sentence on the memory of a device; `when`: when the last reading was made."""
    when = tr("{seconds:.0f} s after its end", seconds=evidence.seconds)
    return {
        "label": evidence.label, "before": size(evidence.before), "peak": size(evidence.peak),
        "after": size(evidence.after), "when": tr("after its end") if evidence.seconds < 1.5 else when,
    }


def with_run(process: ProcessInfo) -> str:
    """Word a process of another program: its run, if it belongs to a run of this user, and its memory."""
    run = tr(" of run {run}", run=process.run_id) if process.run_id and process.ours else ""
    return f"{process.words}{run}{_size_of(process)}"


def with_size(process: ProcessInfo) -> str:
    """Word a process of this run and its memory."""
    # A process of this run is in this pid namespace: if it is unknown, it has exited.
    return (process.words if process.name else f"pid {process.pid}") + _size_of(process)


def _size_of(process: ProcessInfo) -> str:
    return "" if process.memory_used_bytes is None else f", {size(process.memory_used_bytes)}"


def awaited(evidence: MemoryEvidence) -> str:
    """Return what the watch waits for on a device, of which `judge` returns None."""
    if evidence.own:
        busy = tr(", which is reading or writing,")
        names = enumerated(f"{each.words}{busy if each.state == STUCK else ''}" for each in evidence.own)
        return tr_plural(
            "{label}: {names} outlived its worker and is being terminated.",
            "{label}: {names} outlived their worker and are being terminated.",
            len(evidence.own),
            label=evidence.label,
            names=names,
        )
    if evidence.lost is not None:
        return tr("{label} does not answer; its memory is read as soon as it does.", label=evidence.label)
    if evidence.after is None:
        return tr("The memory of {label} has not been read since the end; waiting for a reading.", label=evidence.label)
    if evidence.excess <= evidence.tolerance_bytes:
        return tr(
            "{label} uses no more than before the run, but other processes have released memory since; "
            "waiting until this run's memory is released.",
            label=evidence.label,
        )
    return tr("{excess}; waiting until it is released.", excess=excess_words(evidence))


LISTED = tr_noop(
    "What you can try, gentlest first: find what uses this GPU (fuser -v /dev/nvidia*, as root) and end it; "
    "reset it (nvidia-smi --gpu-reset -i {device}, as root); reload the driver (modprobe -r, then modprobe); "
    "reboot. Trainyard never does these for you."
)
"""The remedies in the sentences of a verdict."""
