"""Fold the events of a run into its facts. `core.runs.facts` has the states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from core.language import Message, join_sentences, tr, tr_noop
from core.runs.facts import TRANSITIONS, RunFacts, RunState, WorkerRecord, state_info, without_present
from core.schema import event_kinds as kinds
from core.schema.codec import decode
from core.schema.events import Event, last_step
from core.system.processes import HostId, ProcessId
from core.text import MAX_NAMES, first_names, join_names

Reader = Callable[[RunFacts, Any], RunFacts]

MAX_COLLECTED = 10_000
"""Events of the kinds in `_COLLECTED` that are folded. Runs have some hundred; a planted file may have millions."""
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
        if kind in _STARTS:  # only their readers use `latest`
            facts = replace(facts, latest=latest)
        if at > latest:  # noqa: PLR1730 (a call takes three times as long, and a long run has 10^5 events)
            latest = at
        if kind == _METRICS:
            step = max(step, last_step(event))
            facts = facts if facts.phase is None else replace(facts, phase=None)
        reader = _READERS.get(kind)
        if reader is None:
            continue
        collected += kind in _COLLECTED
        if kind in _COLLECTED and collected > MAX_COLLECTED:
            if collected == MAX_COLLECTED + 1:
                facts = _with_notice(facts, tr(TOO_MANY, count=MAX_COLLECTED))
            continue
        try:
            facts = reader(facts, kinds.read(event))
            step = facts.step if kind == _REWIND else step
        except (KeyError, TypeError, ValueError, OverflowError):
            facts = _with_notice(facts, tr(DAMAGED, kind=kind))
    # Each `replace` copies all fields, and a run has thousands of batches: what each event changes is set once.
    is_new = (latest, collected, step) != (facts.latest, facts.collected, facts.step)
    return replace(facts, latest=latest, collected=collected, step=step) if is_new else facts


def _state(facts: RunFacts, change: kinds.StateChange) -> RunFacts:
    state = RunState(change.state)
    if (facts.state, state) not in TRANSITIONS:
        raise ValueError(state)
    return replace(
        facts, state=state, history=(*facts.history, (float(change.time), state)),
        error=_cut(change.error or facts.error), traceback=_cut(change.traceback or facts.traceback),
        asked=facts.asked if state_info(state).can_pause else "", waiting=None,
        stalled=None, phase=facts.phase if state_info(state).can_pause else None,
        slowed=facts.slowed if state is RunState.RUNNING else {}, stopped_by_signal=change.by_signal,
    )


def _supervisor(facts: RunFacts, start: kinds.SupervisorStart) -> RunFacts:
    if facts.supervisor is not None or state_info(facts.state).over:
        facts = _resumed(facts)
    guard = decode(ProcessId, start.guard) if start.guard else None
    return replace(facts, supervisor=_process(start), guard=guard, host=_host(start), starts=facts.starts + 1)


def _queued(facts: RunFacts, queued: kinds.Queued) -> RunFacts:
    """Read which process waits in the queue. A run that was training before is queued anew, as after a reboot."""
    if facts.supervisor is not None and facts.state is not RunState.QUEUED:
        facts = _resumed(facts)
    return replace(facts, supervisor=None, guard=None, waiter=_process(queued), host=_host(queued))


def _resumed(facts: RunFacts) -> RunFacts:
    """Reset what concerns the part of the run before a resume. A part without an end was lost."""
    history = facts.history
    if not state_info(facts.state).over:
        history = (*history, (facts.latest, RunState.LOST))
    return replace(
        without_present(facts), state=history[-1][1], history=history, workers={}, plan=None,
        earlier_plan=facts.plan or facts.earlier_plan, stop_steps=(), error=None, traceback=None,
        notices=_ended_sentence(facts.ended_before_resume), unticked_device_uses=(), faults={},
        releases={}, peaks={}, ended_processes=facts.ended_before_resume, ended_before_resume=(),
    )


def _worker(facts: RunFacts, start: kinds.WorkerStart) -> RunFacts:
    worker = WorkerRecord(
        rank=start.rank, process=_process(start), devices=start.devices, role=start.role, host=start.host
    )
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _worker_exit(facts: RunFacts, end: kinds.WorkerExit) -> RunFacts:
    worker = replace(facts.workers[end.rank], exit_code=end.exit_code)
    return replace(facts, workers={**facts.workers, worker.rank: worker})


def _moved(facts: RunFacts, moved: kinds.Moved) -> RunFacts:
    """Forget the devices on which the run trained before."""
    devices = {each: facts.devices[each] for each in moved.devices if each in facts.devices}
    return replace(_with_notice(facts, moved.text), devices=devices, parts={})


def _unticked_device_use(facts: RunFacts, use: kinds.UntickedDeviceUse) -> RunFacts:
    use = replace(use, sentence=str(_cut(use.sentence)))
    known = facts.unticked_device_uses
    if any(each.sentence == use.sentence for each in known):
        return facts
    return replace(facts, unticked_device_uses=(*known, use))


def _slowed(facts: RunFacts, slowed: kinds.Slowed) -> RunFacts:
    if slowed.device_id not in facts.devices:  # so that a planted file cannot name a million
        return facts
    others = {device: text for device, text in facts.slowed.items() if device != slowed.device_id}
    text = str(_cut(slowed.sentence))
    return replace(facts, slowed={**others, slowed.device_id: text} if text else others)


def _fault(facts: RunFacts, fault: kinds.DeviceFault) -> RunFacts:
    if fault.device_id not in facts.devices:  # so that a planted file cannot name a million
        return facts
    return replace(facts, faults={**facts.faults, fault.device_id: str(_cut(fault.sentence))})


def _ended(facts: RunFacts, event: kinds.Ended) -> RunFacts:
    ended = tuple(replace(each, by=event.by) for each in event.processes)
    facts = replace(facts, ended_processes=(*facts.ended_processes, *ended))
    if not event.before_resume:
        return facts
    facts = replace(facts, ended_before_resume=(*facts.ended_before_resume, *ended))
    return replace(facts, notices=(*facts.notices, *_ended_sentence(ended)))


def _parts(facts: RunFacts, part: kinds.ModelPart) -> RunFacts:
    if part.device not in facts.devices:  # so that a planted file cannot name a million
        return facts
    return replace(facts, parts={**facts.parts, part.device: part})


def _peak(facts: RunFacts, peak: kinds.MemoryPeak) -> RunFacts:
    if peak.device not in facts.devices:  # as above
        return facts
    known = [*filter(None, [facts.peaks.get(peak.device)]), peak]  # a worker that coordinates may be on it, too
    left = min((each.left_bytes for each in known if each.left_bytes is not None), default=None)
    total = sum(each.peak_bytes for each in known)
    return replace(facts, peaks={**facts.peaks, peak.device: replace(peak, peak_bytes=total, left_bytes=left)})


def _ended_sentence(ended: tuple[kinds.TerminatedProcess, ...]) -> tuple[str, ...]:
    """Return a notice on processes terminated while resuming; nothing if there were none."""
    if not ended:
        return ()
    names = first_names([f"pid {each.pid} {each.name or ''}".strip() + f" ({each.signal})" for each in ended])
    text = tr(ENDED_BEFORE if len(ended) == 1 else MANY_ENDED_BEFORE, processes=join_names(names))
    return (join_sentences([text, tr(ALL_ENDED) if len(ended) > MAX_NAMES else None]),)


def _cut(text: str | None) -> str | None:
    if text is None or len(text) > MAX_TEXT:
        return text and f"{text[:MAX_TEXT]}…"
    return Message.read(text).within(MAX_TEXT)


def _with_notice(facts: RunFacts, text: str) -> RunFacts:
    """Return the facts with one more notice, unless it is there already."""
    text = str(_cut(text))
    return facts if text in facts.notices else replace(facts, notices=(*facts.notices, text))


def _process(event: kinds.Queued | kinds.WorkerStart) -> ProcessId:
    return ProcessId(pid=event.pid, created=float(event.created))


def _host(event: kinds.Queued) -> HostId:
    return HostId(host=event.host, boot=event.boot, pid_namespace=event.pid_namespace)


def _on(kind: type[kinds.Kind], reader: Callable[[RunFacts, kinds.Kind], RunFacts]) -> tuple[str, Reader]:
    return kind.kind, reader


_READERS: dict[str, Reader] = dict([
    _on(kinds.StateChange, _state),
    _on(kinds.SupervisorStart, _supervisor),
    _on(kinds.Queued, _queued),
    _on(kinds.WorkerStart, _worker),
    _on(kinds.WorkerExit, _worker_exit),
    _on(kinds.RunDevice, lambda facts, device: replace(facts, devices={**facts.devices, device.id: device.fields()})),
    _on(kinds.Phase, lambda facts, phase: replace(facts, phase=phase) if phase.rank == 0 else facts),
    _on(kinds.Plan, lambda facts, plan: replace(facts, plan=plan, earlier_plan=None)),
    _on(kinds.RunProgress, lambda facts, progress: replace(facts, progress=progress)),
    _on(kinds.Rewind, lambda facts, rewind: replace(facts, step=rewind.step)),
    _on(kinds.Checkpoint, lambda facts, checkpoint: replace(facts, checkpoint=checkpoint)),
    _on(kinds.Trace, lambda facts, done: _with_notice(facts, done.why) if done.why else replace(facts, trace=done)),
    _on(kinds.Requested, lambda facts, request: replace(facts, asked=request.asked)),
    _on(kinds.StopStep, lambda facts, step: replace(facts, stop_steps=(*facts.stop_steps, step))),
    _on(kinds.Notice, lambda facts, notice: _with_notice(facts, notice.text)),
    _on(kinds.Moved, _moved),
    _on(kinds.NotFinite, lambda facts, notice: _with_notice(facts, notice.text)),
    _on(kinds.UntickedDeviceUse, _unticked_device_use),
    _on(kinds.Waiting, lambda facts, waiting: replace(facts, waiting=_cut(waiting.text))),
    _on(kinds.Stall, lambda facts, stall: replace(facts, stalled=_cut(stall.text) or None)),
    _on(kinds.Slowed, _slowed),
    _on(kinds.DeviceFault, _fault),
    _on(kinds.Release, lambda facts, release: replace(facts, releases={**facts.releases, release.device_id: release})),
    _on(kinds.Ended, _ended),
    _on(kinds.Software, lambda facts, software: replace(facts, software=software)),
    _on(kinds.Source, lambda facts, source: replace(facts, source=source)),
    _on(kinds.ModelPart, _parts),
    _on(kinds.MemoryPeak, _peak),
])
"""By the name of the kind. Of measurements, `fold` itself takes the last step."""
_METRICS, _REWIND = kinds.Metrics.kind, kinds.Rewind.kind
_STARTS = frozenset({kinds.SupervisorStart.kind, kinds.Queued.kind})
_COLLECTED = frozenset(
    each.kind
    for each in (
        kinds.StateChange, kinds.SupervisorStart, kinds.Queued, kinds.WorkerStart, kinds.WorkerExit, kinds.RunDevice,
        kinds.StopStep, kinds.Notice, kinds.NotFinite, kinds.Moved, kinds.UntickedDeviceUse, kinds.Release, kinds.Ended,
    )
)
"""Kinds of which every event is kept: each makes the facts larger."""
