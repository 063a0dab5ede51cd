"""The verdicts on memory after a run, what can be tried, and the message about a run, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core import language
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.memory_watch.verdict import LISTED
from core.runs.facts import BADNESS, HELD, RunFacts, RunState, state_info, worst
from core.runs.fold import ALL_ENDED
from core.schema.event_kinds import Release, Verdict
from core.text import MAX_NAMES, first_names, join_names
from gui.base.formatting import fine_gigabytes, moment, seconds

TONES = {
    Verdict.RELEASED: "good",
    Verdict.CANNOT_BE_JUDGED: "muted",
    Verdict.HELD_BY_OTHERS: "warn",
    Verdict.UNEXPLAINED: "bad",
    Verdict.HELD_BY_RUN: "bad",
}
"""Colour names of the theme by verdict."""
SHORT = {
    Verdict.CANNOT_BE_JUDGED: tr_noop("memory cannot be judged"),
    Verdict.HELD_BY_OTHERS: tr_noop("memory used by others"),
    Verdict.UNEXPLAINED: tr_noop("memory not released, cause unknown"),
    Verdict.HELD_BY_RUN: tr_noop("memory not released"),
}
"""Short texts for a run that is over: the state at the end of the memory check."""
ENDED_BY = {
    "supervisor": tr_noop("{name} (pid {pid}, {signal}, by the supervisor)"),
    "guard": tr_noop("{name} (pid {pid}, {signal}, by the guard)"),
}
"""A process that was terminated, by who did it."""
UNEXPLAINED = tr_noop(
    "{labels} use more memory than before the run ({amount}), and no program was found that holds it."
)
WATCHING = tr_noop("checking that the memory is released …")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """The verdict on one device, ready to be shown."""

    label: str
    colour: str
    usage: str
    """`0.4 → 9.1 → 0.4 GB`: before, peak, after."""
    took: str
    """`1.2 s`."""
    verdict: str
    tone: str
    sentence: str


def released_words(facts: RunFacts) -> tuple[str, str]:
    """Return `memory released in 1.2 s` and its tone, once the run is over; empty strings without a verdict."""
    found = worst(facts.releases.values())
    if found is None or not state_info(facts.state).over:
        return "", ""
    if found.verdict is Verdict.RELEASED:
        return tr("memory released in {time}", time=seconds(found.seconds)), TONES[found.verdict]
    return tr(SHORT[found.verdict]), TONES[found.verdict]


def note(facts: RunFacts, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return `✓ released in 1.8 s on both devices` and its tone, for the head of the memory plot."""
    found = worst(facts.releases.values())
    if _is_being_checked(facts):
        return tr(WATCHING), "muted"  # the tab Memory has the details
    if found is None:
        return "", ""
    if found.verdict is Verdict.RELEASED:
        return _released(seconds(found.seconds), len(facts.releases)), "good"
    alike = [each.device_id for each in facts.releases.values() if each.verdict is found.verdict]
    where = [labels.get(each, each) for each in alike]
    return tr("{verdict}: {devices}", verdict=tr(found.verdict.value), devices=join_names(where)), TONES[found.verdict]


def sentences(facts: RunFacts) -> tuple[list[str], str]:
    """Return the sentences about memory that was not released, worst first, and their tone."""
    held = [each for each in facts.releases.values() if each.verdict in HELD]
    found = sorted(held, key=lambda each: BADNESS.index(each.verdict), reverse=True)
    unexplained = [each for each in found if each.verdict is Verdict.UNEXPLAINED]
    texts = [_unexplained(unexplained, facts) if each in unexplained else tr(each.sentence) for each in found]
    return list(dict.fromkeys(texts)), TONES[found[0].verdict] if found else ""


def _unexplained(found: Sequence[Release], facts: RunFacts) -> str:
    """Return one sentence on all devices whose memory no known process holds."""
    if len(found) == 1:
        return without_remedies(found[0].sentence)
    labels = [str(facts.devices.get(each.device_id, {}).get("label") or each.device_id) for each in found]
    extra = [(each.after_bytes or 0) - (each.before_bytes or 0) for each in found]
    least, most = (f"{fine_gigabytes(value)} GB" for value in (min(extra), max(extra)))
    amount = tr("{size} each", size=least) if least == most else tr("{least} to {most} each", least=least, most=most)
    return tr(UNEXPLAINED, labels=join_names(first_names(labels)), amount=amount)


def seen_words(facts: RunFacts, now: float) -> str:
    """Return `as of 18:04`, the time of the verdicts of a run that is over; the empty string before."""
    is_over = state_info(facts.state).over and facts.ended is not None
    return tr("as of {time}", time=moment(facts.ended or 0.0, now)) if is_over else ""


def verdict_rows(facts: RunFacts, labels: Mapping[str, str], colours: Mapping[str, str]) -> list[VerdictRow]:
    """Return the verdicts of a run in the order of its devices."""
    order = [*facts.devices, *(device for device in facts.releases if device not in facts.devices)]
    found = [(each, facts.releases[each]) for each in order if each in facts.releases]
    return [_verdict_row(release, labels.get(each, each), colours.get(each, "")) for each, release in found]


def ended_words(facts: RunFacts) -> str:
    """Return a sentence on the processes that were terminated; the empty string if there were none."""
    ended = []
    for each in facts.ended_processes:
        how = ENDED_BY.get(each.by, "{name} (pid {pid}, {signal})")
        ended.append(tr(how, name=each.name or tr("a process"), pid=each.pid, signal=each.signal))
    if not ended:
        return ""
    names = join_names(first_names(ended))
    sentence = tr_plural(
        "A process left after training was ended: {names}.",
        "Processes left after training were ended: {names}.",
        len(ended),
        names=names,
    )
    return f"{sentence} {tr(ALL_ENDED)}" if len(ended) > MAX_NAMES else sentence


def no_verdict_words(facts: RunFacts, *, shown: bool) -> str:
    """Return why verdicts are missing; the empty string if they are complete."""
    if not shown:
        return tr("No run is shown. The memory check of a run appears here.")
    if _is_being_checked(facts):
        return tr(facts.waiting) if facts.waiting else tr("Training has ended: {what}", what=tr(WATCHING))
    if facts.releases:
        return ""
    if facts.state is RunState.LOST:
        return tr("Memory was not monitored for this run: its supervisor exited first.")
    if state_info(facts.state).over:
        return tr("Memory was not monitored for this run.")
    return tr("After training, Trainyard checks that the memory is released. The result appears here.")


def _is_being_checked(facts: RunFacts) -> bool:
    """True if the check still waits for a device."""
    return facts.state is RunState.RELEASING and (not facts.releases or len(facts.releases) < len(facts.devices))


def _released(time: str, devices: int) -> str:
    if devices == 1:
        return tr("✓ released in {time}", time=time)
    if devices == 2:
        return tr("✓ released in {time} on both devices", time=time)
    return tr("✓ released in {time} on all {devices} devices", time=time, devices=devices)


def _verdict_row(release: Release, label: str, colour: str) -> VerdictRow:
    before, peak, after = map(fine_gigabytes, (release.before_bytes, release.peak_bytes, release.after_bytes))
    return VerdictRow(
        label=label,
        colour=colour,
        usage=f"{before} → {peak} → {after} GB",
        took=seconds(release.seconds),
        verdict=tr(release.verdict.value),
        tone=TONES[release.verdict],
        sentence=without_remedies(release.sentence),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message; the empty string means no message."""

    text: str
    tone: str
    details: bool
    """True if there are details to show."""


def run_message(facts: RunFacts, spec_problem: str | None, now: float) -> Message:
    """Return why the spec cannot be read, the uses of unticked devices and the memory that is not back; then notices.

    Why the run failed is not among them: see `failure_view`.

    `now`: unix seconds.
    """
    held, held_tone = sentences(facts) if state_info(facts.state).over else ([], "")
    seen = seen_words(facts, now)
    since = [tr("{phrase}:", phrase=f"{seen[0].upper()}{seen[1:]}")] if held and seen else []  # it may be long ago
    unticked = [tr(use.sentence) for use in facts.unticked_device_uses]
    stalled = [each for each in (facts.stopped_processes, facts.stalled, *facts.slowed.values()) if each]
    told = map(past_tense if state_info(facts.state).over else tr, facts.notices)
    notices = [] if facts.error or spec_problem else [*map(tr, stalled), *told]
    bad = bool(spec_problem or unticked or held_tone == "bad")
    texts = [*([spec_problem] if spec_problem else []), *unticked, *since, *held, *notices]
    return Message(text=join_sentences(texts), tone="bad" if bad else "warn", details=bool(held))


PAST = {
    tr_noop(
        "The process that reads measurements from the script's output has ended, so the curves are no longer updated. "
        "The script continues, and its log is complete."
    ): tr_noop(
        "The process that reads measurements from the script's output has ended, so the curves end there. "
        "The script went on, and its log is complete."
    ),
    tr_noop(
        "The process at which the script's PyTorch ranks meet has ended. If they wait for each other, stop the run, "
        "and start it again with --env TORCHELASTIC_USE_AGENT_STORE=False, so that rank 0 takes its place."
    ): tr_noop(
        "The process at which the script's PyTorch ranks meet has ended. If they waited for each other, start it with "
        "--env TORCHELASTIC_USE_AGENT_STORE=False, so that rank 0 takes its place."
    ),
    tr_noop("Training is done, but these processes did not exit and are being terminated: pid {pids}."): tr_noop(
        "Training is done, but these processes did not exit and were terminated: pid {pids}."
    ),
    tr_noop(
        "The checkpoint at step {step} could not be written to {folder}: {error}. The next checkpoint is tried when "
        "it is due. Earlier checkpoints are kept."
    ): tr_noop(
        "The checkpoint at step {step} could not be written to {folder}: {error}. Earlier checkpoints are kept."
    ),
}
"""Templates of notices that hold only while a run goes on, and what they are once it is over."""


def past_tense(notice: str) -> str:
    """Return a notice in the past tense, for a run that is over, in the language in use."""
    found = language.Message.read(notice)
    then = PAST.get(found.say[0]) if found.say else None
    if then is None or not isinstance(found.values, dict):
        return tr(notice)
    try:
        return tr(then, **{name: tr(str(each)) for name, each in found.values.items()})
    except LookupError:  # another user's run may have anything
        return tr(notice)


MAX_PIDS = 40


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
    steps: list[tuple[Remedy, dict[str, str]]] = []
    for verdict, step in ((Verdict.HELD_BY_OTHERS, SEE_OTHERS), (Verdict.HELD_BY_RUN, END_OWN)):
        pids = [each.pid for release in found if release.verdict is verdict for each in release.holders]
        if pids:
            steps.append((step, {"pids": " ".join(map(str, dict.fromkeys(pids[:MAX_PIDS])))}))
    unexplained = [each.device_id for each in found if each.verdict is Verdict.UNEXPLAINED]
    if unexplained:
        steps.append((FIND, {}))
        for device in unexplained:
            known = devices.get(device, {})
            bus, label = (str(known.get(name) or device) for name in ("pci_bus_id", "label"))
            steps.append((RESET, {"bus": bus, "label": label}))
        steps += [(RELOAD, {}), (REBOOT, {})]
    return [Remedy(step=tr(step.step, **fields), command=step.command.format(**fields)) for step, fields in steps]


SEE_OTHERS = Remedy(step=tr_noop("See what these processes are."), command="ps -o pid,user,etime,args -p '{pids}'")
END_OWN = Remedy(step=tr_noop("End the processes of this run that are left."), command="kill -9 {pids}")
FIND = Remedy(step=tr_noop("See which programs use the GPUs, and end those that you do not need."),
              command="sudo fuser -v /dev/nvidia*")
RESET = Remedy(
    step=tr_noop("Reset {label}. No program may use it meanwhile."), command="sudo nvidia-smi --gpu-reset -i {bus}"
)
RELOAD = Remedy(
    step=tr_noop("Reload the driver. No program may use a GPU meanwhile, the desktop included."),
    command="sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia_uvm",
)
REBOOT = Remedy(step=tr_noop("Restart the machine."), command="sudo systemctl reboot")


def without_remedies(sentences: str) -> str:
    """Return the sentences of a verdict without the remedies at their end, in the language in use."""
    return join_sentences(tr(each) for each in language.Message.read(sentences).sentences if each.say != (LISTED,))
