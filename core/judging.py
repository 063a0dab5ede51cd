"""What is to be said of one device's memory after a run: the verdict, and a sentence that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.case import Case, ended, enumerated, joined, more, size, waited, when, with_run, with_size
from core.findings import Holder, Verdict
from core.procfs import STUCK

if TYPE_CHECKING:
    from collections.abc import Sequence

Ruling = tuple[Verdict, str]


def judge(case: Case) -> Ruling | None:
    """The verdict on a device; None while it is still to be waited for."""
    if case.own:
        return _held_by_run(case) if case.due else None
    if case.device.kind == "cpu":
        return _cannot(case, f"{case.label}: {_BLIND}") if case.blind else (Verdict.RELEASED, _released_cpu(case))
    if (why := _unreadable(case)) is not None:
        return _cannot(case, why)
    if case.after is None:
        return None
    if case.excess <= case.tolerance_bytes:
        return _fallen(case)
    return _not_fallen(case)


_BLIND = "what is left of the run could not be looked for, since this machine has no /proc."


def _unreadable(case: Case) -> str | None:
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


def _cannot(case: Case, sentence: str) -> Ruling:
    return Verdict.CANNOT_BE_JUDGED, joined(sentence, ended(case), case.trouble)


# -- memory that came back ---------------------------------------------------------------------


def _fallen(case: Case) -> Ruling | None:
    """Less is used than before, or as much. But who held it before may have left since."""
    left = _left(case)
    if case.excess + sum(size_ for _, size_ in left) <= case.tolerance_bytes:
        before = "" if case.before is None else f"{size(case.before)} were used before the run, "
        sentence = (
            f"The memory of {case.label} came back: {before}{size(case.peak)} at most, {size(case.after)} {when(case)}."
        )
        return Verdict.RELEASED, joined(sentence, ended(case), case.trouble if case.blind else None)
    if not case.due:
        return None
    who = enumerated(f"{holder.words}, {size(bytes_)}" for holder, bytes_ in left)
    return _cannot(
        case,
        f"{case.label} uses {size(case.after)}, no more than the {size(case.before)} before the run; but of these some "
        f"were held by others that have let go since ({who}): whether all of this run's memory came back is not known.",
    )


def _left(case: Case) -> list[tuple[Holder, int]]:
    """Who held the device before and holds it no more, or less of it; and how much less."""
    now = {_key(holder): holder for holder in case.holders}
    found = []
    for holder in case.held_before:
        if holder.memory_used_bytes is not None:
            present = now.get(_key(holder))
            still = holder.memory_used_bytes if present and present.memory_used_bytes is None else _used(present)
            if still < holder.memory_used_bytes:
                found.append((holder, holder.memory_used_bytes - still))
    return found


def _released_cpu(case: Case) -> str:
    most = f" It held {size(case.peak)} at most." if case.peak is not None else ""
    return joined(f"Nothing of this run is left on {case.label}: its memory came back.{most}", ended(case))


# -- memory that did not -----------------------------------------------------------------------


def _not_fallen(case: Case) -> Ruling | None:
    known, unknown = _grown(case)
    explained = sum(bytes_ for _, bytes_ in known) + case.tolerance_bytes >= case.excess
    # One that is not known here may be of this run: a pid of another namespace, or a list that is not up to date.
    if explained and (case.due or all(holder.name is not None for holder, _ in known)):
        return _held_by_others(case, [holder for holder, _ in known], sure=True)
    if not case.due:
        return None
    if case.hurried and not explained:
        return _cannot(case, f"{more(case)}, and the waiting was cut short: whether the rest comes back is not known.")
    if explained or unknown:
        return _held_by_others(case, [*(holder for holder, _ in known), *unknown], sure=explained)
    return _unexplained(case, [holder for holder, _ in known])


def _grown(case: Case) -> tuple[list[tuple[Holder, int]], list[Holder]]:
    """Of the others, who holds more than before, and how much more; and those of whom it cannot be known."""
    before = {_key(holder): holder for holder in case.held_before}
    known, unknown = [], []
    for holder in case.holders:
        earlier = before.get(_key(holder))
        if holder.memory_used_bytes is None:
            if earlier is None or holder.listed:  # who had its file open before, and is on no list, has not changed
                unknown.append(holder)
        elif earlier is None or earlier.memory_used_bytes is not None:
            more = holder.memory_used_bytes - _used(earlier)
            if more > 0:
                known.append((holder, more))
        else:
            unknown.append(holder)
    known.sort(key=lambda each: -each[1])
    return known, unknown


def _held_by_others(case: Case, who: Sequence[Holder], *, sure: bool) -> Ruling:
    told = enumerated(with_run(holder) for holder in who)
    alone = "They were left alone; end them yourself where they are not needed"
    if sure:
        sentence = f"{more(case)}, but this run let go of it: others have it: {told}. {alone}."
    else:
        sentence = (
            f"{more(case)}. No process of this run is left; others may have it, how much is not known: {told}. "
            f"{alone}, and see whether the memory comes back."
        )
    return Verdict.HELD_BY_OTHERS, joined(sentence, ended(case), case.trouble)


def _unexplained(case: Case, partly: Sequence[Holder]) -> Ruling:
    what = "all of it" if partly else "it"
    others = f"{enumerated(with_run(holder) for holder in partly)} has a part of it." if partly else None
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


def _held_by_run(case: Case) -> Ruling:
    told = enumerated(with_size(holder) for holder in case.own)
    stuck = [holder for holder in case.own if holder.state == STUCK]
    advice = "Look again in a moment; if it stays, end it by hand (kill -9)."
    if stuck:
        it = "It was" if len(case.own) == 1 else f"{enumerated(f'pid {holder.pid}' for holder in stuck)} was"
        advice = (
            f"{it} sent SIGKILL and waits inside the kernel (state D), where no signal reaches it: "
            "only a driver reload or a reboot helps."
        )
    return Verdict.HELD_BY_RUN, joined(f"{case.label} is still held by this run: {told}.", advice, ended(case))


def waiting(case: Case) -> str:
    """While a device is waited for: what for."""
    if case.own:
        told = enumerated(f"{holder.words}{_doing(holder)}" for holder in case.own)
        return f"{case.label}: {told} outlived its worker and is being ended."
    if case.lost is not None:
        return f"{case.label} does not answer; its memory is read as soon as it does."
    if case.after is None:
        return f"The memory of {case.label} has not been read since the end; it is waited for."
    return f"{more(case)}; it is waited for."


def _doing(holder: Holder) -> str:
    return ", which is reading or writing," if holder.state == STUCK else ""


def _used(holder: Holder | None) -> int:
    return (holder.memory_used_bytes or 0) if holder else 0


def _key(holder: Holder) -> tuple[int, float | None]:
    return holder.pid, holder.created
