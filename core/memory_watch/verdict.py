"""What is to be said of one device's memory after a run: the verdict, and a sentence that says what to do."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from core.memory_watch.evidence import compare_usage
from core.runs.verdicts import Verdict
from core.system.procfs import STUCK
from core.units import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.memory_watch.evidence import MemoryEvidence, UsageDelta
    from core.system.process_info import ProcessInfo


Judgement = tuple[Verdict, str]


def judge(case: MemoryEvidence) -> Judgement | None:
    """The verdict on a device; None while it is still to be waited for."""
    if case.own:
        return _held_by_run(case) if case.due else None
    if case.device.kind == "cpu":
        return _cannot(case, f"{case.label}: {_BLIND}") if case.blind else (Verdict.RELEASED, _released_cpu(case))
    if (why := _unreadable(case)) is not None:
        return _cannot(case, why)
    if case.after is None:
        return None
    if case.after <= case.tolerance_bytes:
        return _released(case)
    return _weighed(case, compare_usage(case))


_BLIND = "what is left of the run could not be looked for, since this machine has no /proc."


def _unreadable(case: MemoryEvidence) -> str | None:
    """Why the numbers say nothing; None where they do, or may yet."""
    label = case.label
    if case.device.shared_memory:
        return (
            f"{label} shares one memory with the host, and no reading says whose it is. No process of this run is left."
        )
    if case.asleep:
        return (
            f"{label} sleeps, so nothing uses it any more; it was not woken up to read its memory, and whether all of "
            "it came back is not known."
        )
    if case.lost is not None and (case.due or not case.patient):
        return (
            f"{label} has not answered since the run's end, so whether its memory came back is not known. {case.lost}"
        )
    if case.after is None and (case.due or not case.patient):
        wait = waited(case)
        return f"The memory of {label} could not be read after the run's end{wait}: whether it came back is not known."
    if case.after is not None and case.before is None and case.after > case.tolerance_bytes:
        return (
            f"The memory of {label} could not be read before the run: {size(case.after)} are used now, and whether "
            "they were before is not known."
        )
    return None


def _cannot(case: MemoryEvidence, sentence: str) -> Judgement:
    return Verdict.CANNOT_BE_JUDGED, joined(sentence, ended(case), case.trouble)


# -- memory that came back ---------------------------------------------------------------------


def _released(case: MemoryEvidence) -> Judgement:
    before = "" if case.before is None else f"{size(case.before)} were used before the run, "
    sentence = (
        f"The memory of {case.label} came back: {before}{size(case.peak)} at most, {size(case.after)} {when(case)}."
    )
    return Verdict.RELEASED, joined(sentence, ended(case), case.trouble if case.blind else None)


def _released_cpu(case: MemoryEvidence) -> str:
    most = f" It held {size(case.peak)} at most." if case.peak is not None else ""
    return joined(f"Nothing of this run is left on {case.label}: its memory came back.{most}", ended(case))


# -- memory that others came by, or let go of --------------------------------------------------


def _weighed(case: MemoryEvidence, balance: UsageDelta) -> Judgement | None:
    """Whether the device is as it was before but for what is known of others: who came, and who left."""
    if balance.unaccounted <= case.tolerance_bytes and not balance.vanished:
        return _released(case) if case.excess <= case.tolerance_bytes else _held_by_others(case, balance)
    if not case.due:
        return None
    if balance.beyond <= case.tolerance_bytes:
        return _cannot(case, _hidden(case, balance))
    return _missing(case, balance)


def _hidden(case: MemoryEvidence, balance: UsageDelta) -> str:
    """Others explain what is used; but some have left, and what this run may hold still takes their place."""
    left = [*((holder, bytes_) for holder, bytes_ in balance.left), *((holder, None) for holder in balance.vanished)]
    who = enumerated(f"{holder.words}, {size(bytes_)}" for holder, bytes_ in left)
    if case.excess <= case.tolerance_bytes:
        used = f"{case.label} uses {size(case.after)}, no more than the {size(case.before)} before the run"
        what = f"{used}; but of these"
    else:
        took = enumerated(with_run(holder) for holder, _ in balance.grown)
        what = f"{more(case)}, which others have: {took}; but of what was used before"
    return (
        f"{what} some was held by others that hold it no more, as far as can be seen ({who}): whether all of this "
        "run's memory came back is not known."
    )


# -- memory that did not come back -------------------------------------------------------------


def _missing(case: MemoryEvidence, balance: UsageDelta) -> Judgement:
    """More is used than before, and than others that are seen here have taken."""
    if case.hurried:
        return _cannot(case, f"{more(case)}, and the waiting was cut short: whether the rest comes back is not known.")
    if balance.unsure or (balance.strange and balance.beyond_strange <= case.tolerance_bytes):
        return _perhaps_held_by_others(case, balance)
    return _unexplained(case, [holder for holder, _ in (*balance.grown, *balance.strange)])


def _held_by_others(case: MemoryEvidence, balance: UsageDelta) -> Judgement:
    told = enumerated(with_run(holder) for holder, _ in balance.grown)
    sentence = f"{more(case)}, but this run let go of it; others have it: {told}. {_left_alone(len(balance.grown))}."
    return Verdict.HELD_BY_OTHERS, joined(sentence, ended(case), case.trouble)


def _perhaps_held_by_others(case: MemoryEvidence, balance: UsageDelta) -> Judgement:
    others = [*(holder for holder, _ in (*balance.grown, *balance.strange)), *balance.unsure]
    told = enumerated(map(with_run, others))
    sentence = (
        f"{more(case)}. No process of this run is left; others may have it"
        f"{', how much is not known' if balance.unsure else ''}: {told}. {_left_alone(len(others))}, "
        "and see whether the memory comes back."
    )
    strange = (
        "A pid that is not known here may also be one of this run's that has ended, and whose memory the driver has "
        "not taken back."
        if any(holder.name is None for holder in (*(holder for holder, _ in balance.strange), *balance.unsure))
        else None
    )
    return Verdict.HELD_BY_OTHERS, joined(sentence, strange, ended(case), case.trouble)


def _left_alone(count: int) -> str:
    if count == 1:
        return "It was left alone; end it yourself where it is not needed"
    return "They were left alone; end them yourself where they are not needed"


def _unexplained(case: MemoryEvidence, partly: Sequence[ProcessInfo]) -> Judgement:
    what = "all of it" if partly else "it"
    have = "has" if len(partly) == 1 else "have"
    others = f"{enumerated(map(with_run, partly))} {have} a part of it." if partly else None
    dead = enumerated(with_size(holder) for holder in case.gone)
    books = f"The driver books it on {dead}, of this run, which ended." if dead else None
    device = case.device.pci_bus_id or case.device.id
    ladder = (
        "What to do, mildest first: see that nothing uses this GPU (fuser -v /dev/nvidia*, as root) and end what does; "
        f"reset it (nvidia-smi --gpu-reset -i {device}, as root); reload the driver (modprobe -r, then modprobe); "
        "reboot. Trainyard does none of these by itself."
    )
    nothing = f"{more(case)}, and nothing was found that holds {what}."
    return Verdict.UNEXPLAINED, joined(nothing, others, books, ended(case), case.trouble, ladder)


# -- processes of the run that are left ---------------------------------------------------------


def _held_by_run(case: MemoryEvidence) -> Judgement:
    told = enumerated(map(with_size, case.own))
    stuck: dict[str | None, list[ProcessInfo]] = {}
    for holder in case.own:
        if holder.state == STUCK:
            stuck.setdefault(case.sent.get(holder.key), []).append(holder)
    advice = [_on_stuck(case, some, sent) for sent, some in stuck.items()]
    if others := [holder for holder in case.own if holder.state != STUCK]:
        who = "it" if len(case.own) == 1 else _pids(others)
        stays, them = ("stays", "it") if len(others) == 1 else ("stay", "them")
        advice.append(f"Look again in a moment; if {who} {stays}, end {them} by hand (kill -9).")
    return Verdict.HELD_BY_RUN, joined(f"{case.label} is still held by this run: {told}.", *advice, ended(case))


def _on_stuck(case: MemoryEvidence, some: Sequence[ProcessInfo], sent: str | None) -> str:
    """What is to be said of those in state D that were sent this signal last; None: that could not be sent any."""
    who = "It" if len(case.own) == 1 else _pids(some)
    was, waits, them, they_do = ("was", "waits", "it", "it does") if len(some) == 1 else _SEVERAL
    sent_or_not = f"{was} sent {sent}" if sent else "could not be signalled"
    what = f"{who} {sent_or_not} and {waits} inside the kernel (state D), where no signal reaches {them}"
    if case.device.kind == "cpu":
        return f"{what}. If {they_do} not end when a disk or a driver has answered, only a reboot helps."
    if sent == signal.SIGKILL.name:
        return f"{what}: only a driver reload or a reboot helps."
    return f"{what}. If {they_do} not end when the driver is done, only a driver reload or a reboot helps."


_SEVERAL = ("were", "wait", "them", "they do")


def _pids(some: Sequence[ProcessInfo]) -> str:
    return enumerated(f"pid {holder.pid}" for holder in some)


def waiting(case: MemoryEvidence) -> str:
    """While a device is waited for: what for."""
    if case.own:
        told = enumerated(f"{holder.words}{_doing(holder)}" for holder in case.own)
        one = len(case.own) == 1
        return f"{case.label}: {told} outlived {'its worker and is' if one else 'their worker and are'} being ended."
    if case.lost is not None:
        return f"{case.label} does not answer; its memory is read as soon as it does."
    if case.after is None:
        return f"The memory of {case.label} has not been read since the end; it is waited for."
    if case.excess <= case.tolerance_bytes:
        return f"{case.label} uses no more than before the run, but others have let go of it since; it is waited for."
    return f"{more(case)}; it is waited for."


def _doing(holder: ProcessInfo) -> str:
    return ", which is reading or writing," if holder.state == STUCK else ""


def more(case: MemoryEvidence) -> str:
    """How much more the device uses than before the run."""
    return (
        f"{case.label} uses {size(case.excess)} more than before the run ({size(case.before)} before, "
        f"{size(case.peak)} at most, {size(case.after)} {when(case)})"
    )


def when(case: MemoryEvidence) -> str:
    """When the last reading was made."""
    return f"{case.seconds:.0f} s after its end" if case.seconds >= 1.5 else "after its end"


def waited(case: MemoryEvidence) -> str:
    """How long a reading was waited for in vain."""
    if case.hurried:
        return ", as the waiting was cut short"
    return f", in {case.seconds:.0f} s" if case.seconds >= 1.5 else ""


def ended(case: MemoryEvidence) -> str | None:
    """Who outlived their worker, and were ended; None when nobody did."""
    if not case.ended:
        return None
    one = len(case.ended) == 1
    return f"{enumerated(case.ended)} had outlived {'its worker and was' if one else 'their worker and were'} ended."


def with_run(holder: ProcessInfo) -> str:
    """Another's process, with the run of ours that it is of, and what it holds."""
    run = f" of run {holder.run_id}" if holder.run_id and holder.ours else ""
    return f"{holder.words}{run}{_size_of(holder)}"


def with_size(holder: ProcessInfo) -> str:
    """A process of this run, and what it holds."""
    # Of this run, so it was another's namespace in no case: what is not known of it is gone.
    return (holder.words if holder.name else f"pid {holder.pid}") + _size_of(holder)


def _size_of(holder: ProcessInfo) -> str:
    return "" if holder.memory_used_bytes is None else f", {size(holder.memory_used_bytes)}"


def enumerated(words: Iterable[str]) -> str:
    """Several of a kind."""
    return "; ".join(words)


def joined(*sentences: str | None) -> str:
    """Those that there are, one after the other."""
    return " ".join(sentence for sentence in sentences if sentence)
