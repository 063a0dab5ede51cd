"""Fold the events of a run into its facts. `core.runs.facts.states` has the states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from core.language import tr_noop
from core.runs.facts.run_facts import (
    Checkpoint,
    EscalationStep,
    Plan,
    RunFacts,
    RunProgress,
    StartPhase,
    UntickedDeviceUse,
    WorkerRecord,
    read_part,
    read_release,
    read_software,
    read_source,
    without_present,
)
from core.runs.facts.states import TRANSITIONS, RunState, state_info
from core.schema.events import Event, last_step
from core.system.process_info import TerminatedProcess, read_ended, whole_or_none
from core.system.processes import HostId, ProcessId
from core.text import MAX_NAMES, first_names, join_names

MAX_COLLECTED = 10_000
"""Events of the kinds in `_COLLECTED` that are folded. Runs have some hundred; a planted file may have millions."""
# What readers add to the facts is English, as what the run stored, and is translated with it.
TOO_MANY = tr_noop("The run has more than {count} events of its states and processes; the rest is missing.")
DAMAGED = tr_noop("An event of kind {kind!r} could not be read.")
ENDED_BEFORE = tr_noop(
    "A process of the run was still running and was terminated before the run was resumed: {processes}."
)
MANY_ENDED_BEFORE = tr_noop(
    "Processes of the run were still running and were terminated before the run was resumed: {processes}."
)
MAX_TEXT = 20_000
"""Characters of a text that are shown."""
ALL_ENDED = tr_noop("`trainyard show RUN --json` lists all of them.")
"""What follows if a sentence does not name all processes that were terminated."""
ENDED_BY = {"guard": tr_noop("guard"), "supervisor": tr_noop("supervisor")}
"""Words for what ended a process, as in "ended by the guard"."""


def fold(facts: RunFacts, events: Iterable[Event]) -> RunFacts:
    """Return the facts after `events`. Unknown kinds are ignored; an event that cannot be read becomes a notice."""
    latest, collected, step = facts.latest, facts.collected, facts.step
    for event in events:
        kind, at = event["kind"], event["t"]
        if kind in {"supervisor", "queued"}:  # only these readers use `latest`
            facts = replace(facts, latest=latest)
        if at > latest:  # noqa: PLR1730 (a call takes three times as long, and a long run has 10^5 events)
            latest = at
        reader = _READERS.get(kind)
        if reader is None:
            continue
        if step != facts.step and reader is not _metrics:
            facts = replace(facts, step=step)
        if kind in _COLLECTED:
            collected += 1
            if collected > MAX_COLLECTED:
                facts = (
                    _with_notice(facts, TOO_MANY.format(count=MAX_COLLECTED))
                    if collected == MAX_COLLECTED + 1
                    else facts
                )
                continue
        try:
            if reader is _metrics and facts.phase is None:  # only the step changes
                step = max(step, last_step(event))
            else:
                facts = reader(facts, event)
                step = facts.step
        except (KeyError, TypeError, ValueError, OverflowError):
            facts = _with_notice(facts, DAMAGED.format(kind=kind))
    # Each `replace` copies all fields, and a run has thousands of batches: what each event changes is set once.
    is_new = (latest, collected, step) != (facts.latest, facts.collected, facts.step)
    return replace(facts, latest=latest, collected=collected, step=step) if is_new else facts


def _state(facts: RunFacts, event: Event) -> RunFacts:
    state, time = RunState(event["state"]), float(event["t"])
    if (facts.state, state) not in TRANSITIONS:
        raise ValueError(state)
    error, traceback = event.get("error", facts.error), event.get("traceback", facts.traceback)
    if not isinstance(error, (str, type(None))) or not isinstance(traceback, (str, type(None))):
        raise TypeError(event)
    return replace(
        facts, state=state, history=(*facts.history, (time, state)), error=_cut(error),
        traceback=_cut(traceback), asked=facts.asked if state_info(state).can_pause else "", waiting=None,
        stalled=None, phase=facts.phase if state_info(state).can_pause else None,
        slowed=facts.slowed if state is RunState.RUNNING else {}, stopped_by_signal=event.get("by_signal") is True,
    )  # fmt: skip


def _supervisor(facts: RunFacts, event: Event) -> RunFacts:
    if facts.supervisor is not None or state_info(facts.state).over:
        facts = _resumed(facts)
    host = HostId(**{name: str(event.get(name, "")) for name in ("host", "boot", "pid_namespace")})
    guard = _process(event["guard"]) if event.get("guard") else None
    return replace(facts, supervisor=_process(event), guard=guard, host=host, starts=facts.starts + 1)


def _queued(facts: RunFacts, event: Event) -> RunFacts:
    """Read which process waits in the queue. A run that was training before is queued anew, as after a reboot."""
    if facts.supervisor is not None and facts.state is not RunState.QUEUED:
        facts = _resumed(facts)
    host = HostId(**{name: str(event.get(name, "")) for name in ("host", "boot", "pid_namespace")})
    return replace(facts, supervisor=None, guard=None, waiter=_process(event), host=host)


def _resumed(facts: RunFacts) -> RunFacts:
    """Reset what concerns the part of the run before a resume. A part without an end was lost."""
    history = facts.history
    if not state_info(facts.state).over:
        history = (*history, (facts.latest, RunState.LOST))
    return replace(
        without_present(facts), state=history[-1][1], history=history, workers={}, plan=None,
        earlier_plan=facts.plan or facts.earlier_plan, stop_steps=(), error=None, traceback=None,
        notices=_ended_sentence(facts.ended_before_resume), unticked_device_uses=(),
        releases={}, ended_processes=facts.ended_before_resume, ended_before_resume=(),
    )  # fmt: skip


def _worker(facts: RunFacts, event: Event) -> RunFacts:
    worker = WorkerRecord(
        rank=int(event["rank"]), process=_process(event), devices=tuple(event["devices"]),
        role=str(event.get("role", "worker")), host=str(event.get("host", "")),
    )  # fmt: skip
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _worker_exit(facts: RunFacts, event: Event) -> RunFacts:
    worker = replace(facts.workers[int(event["rank"])], exit_code=int(event["exit_code"]))
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _device(facts: RunFacts, event: Event) -> RunFacts:
    known = {name: value for name, value in event.items() if name not in {"t", "kind"}}
    texts = [known.get(name) for name in ("device_kind", "label", "name", "pci_bus_id")]
    cores = known.get("cores") or []
    if not all(isinstance(text, (str, type(None))) for text in texts) or not isinstance(cores, list):
        raise TypeError(event)
    known |= {"memory_total_bytes": whole_or_none(known.get("memory_total_bytes")), "cores": [*map(int, cores)]}
    return replace(facts, devices={**facts.devices, str(event["id"]): known})


def _plan(facts: RunFacts, event: Event) -> RunFacts:
    counts = {name: int(event[name]) for name in ("epochs", "steps_per_epoch", "samples_per_epoch")}
    return replace(facts, plan=Plan(**counts), earlier_plan=None)


def _phase(facts: RunFacts, event: Event) -> RunFacts:
    if event["rank"] != 0:
        return facts
    return replace(facts, phase=StartPhase(name=str(event["name"]), since=float(event["t"])))


def _metrics(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, step=max(facts.step, last_step(event)), phase=None)


def _progress(facts: RunFacts, event: Event) -> RunFacts:
    done, total = float(event["done"]), float(event["total"])
    if not (math.isfinite(done) and math.isfinite(total)):
        raise ValueError(event)
    return replace(facts, progress=RunProgress(done=done, total=total, unit=str(event.get("unit", ""))))


def _rewind(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, step=int(event["step"]))


def _checkpoint(facts: RunFacts, event: Event) -> RunFacts:
    written = Checkpoint(
        step=int(event["step"]), name=str(event["name"]), time=float(event["t"]), reason=str(event["reason"])
    )
    return replace(facts, checkpoint=written)


def _request(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, asked=str(event["asked"]))


def _stop_step(facts: RunFacts, event: Event) -> RunFacts:
    step = EscalationStep(time=float(event["t"]), name=str(event["name"]), grace_s=event.get("grace_s"))
    return replace(facts, stop_steps=(*facts.stop_steps, step))


def _notice(facts: RunFacts, event: Event) -> RunFacts:
    return _with_notice(facts, str(event["text"]))


def _unticked_device_use(facts: RunFacts, event: Event) -> RunFacts:
    pids = tuple(int(pid) for pid in event["pids"])
    use = UntickedDeviceUse(device_id=str(event["device"]), pids=pids, sentence=str(_cut(str(event["text"]))))
    known = facts.unticked_device_uses
    if any(each.sentence == use.sentence for each in known):
        return facts
    return replace(facts, unticked_device_uses=(*known, use))


def _waiting(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, waiting=_cut(str(event["text"])))


def _stall(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, stalled=_cut(str(event.get("text") or "") or None))


def _slowed(facts: RunFacts, event: Event) -> RunFacts:
    if event["device"] not in facts.devices:  # so that a planted file cannot name a million
        return facts
    others = {device: text for device, text in facts.slowed.items() if device != event["device"]}
    text = str(_cut(str(event["text"])))
    return replace(facts, slowed={**others, str(event["device"]): text} if text else others)


def _release(facts: RunFacts, event: Event) -> RunFacts:
    found = read_release(event)
    return replace(facts, releases={**facts.releases, found.device_id: found})


def _ended(facts: RunFacts, event: Event) -> RunFacts:
    ended = read_ended(event)
    facts = replace(facts, ended_processes=(*facts.ended_processes, *ended))
    if event.get("before_resume") is not True:
        return facts
    facts = replace(facts, ended_before_resume=(*facts.ended_before_resume, *ended))
    return replace(facts, notices=(*facts.notices, *_ended_sentence(ended)))


def _ended_sentence(ended: tuple[TerminatedProcess, ...]) -> tuple[str, ...]:
    """Return a notice on processes terminated while resuming; nothing if there were none."""
    if not ended:
        return ()
    names = first_names([f"pid {each.pid} {each.name or ''}".strip() + f" ({each.signal})" for each in ended])
    text = (ENDED_BEFORE if len(ended) == 1 else MANY_ENDED_BEFORE).format(processes=join_names(names))
    return (f"{text} {ALL_ENDED}" if len(ended) > MAX_NAMES else text,)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _with_notice(facts: RunFacts, text: str) -> RunFacts:
    """Return the facts with one more notice, unless it is there already."""
    text = str(_cut(text))
    return facts if text in facts.notices else replace(facts, notices=(*facts.notices, text))


def _software(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, software=read_software(event))


def _source(facts: RunFacts, event: Event) -> RunFacts:
    return replace(facts, source=read_source(event))


def _parts(facts: RunFacts, event: Event) -> RunFacts:
    part = read_part(event)
    if part.device not in facts.devices:  # so that a planted file cannot name a million
        return facts
    return replace(facts, parts={**facts.parts, part.device: part})


def _process(event: Event) -> ProcessId:
    return ProcessId(pid=int(event["pid"]), created=float(event["created"]))


_READERS: dict[str, Callable[[RunFacts, Event], RunFacts]] = {
    "state": _state,
    "supervisor": _supervisor,
    "queued": _queued,
    "worker": _worker,
    "worker_exit": _worker_exit,
    "device": _device,
    "phase": _phase,
    "plan": _plan,
    "metrics": _metrics,
    "progress": _progress,
    "rewind": _rewind,
    "checkpoint": _checkpoint,
    "request": _request,
    "stop_step": _stop_step,
    "notice": _notice,
    "unticked_device": _unticked_device_use,
    "waiting": _waiting,
    "stall": _stall,
    "slowed": _slowed,
    "release": _release,
    "ended": _ended,
    "software": _software,
    "source": _source,
    "parts": _parts,
}
_COLLECTED = frozenset({
    "state", "supervisor", "queued", "worker", "worker_exit", "device", "stop_step", "notice", "unticked_device",
    "release", "ended",
})  # fmt: skip
"""Kinds of which every event is kept: each makes the facts larger."""
