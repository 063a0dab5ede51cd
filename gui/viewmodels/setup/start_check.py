"""What would come of pressing Start: a spec that can run, or the sentences on what is in its way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from core.catalog.strategies import find_launch_mode, strategy_of
from core.config import validation
from core.config.build_spec import compose
from core.config.script_check import fill_in
from core.config.validation import ProblemKind
from core.runs.device_use import use_sentences
from core.text import first_names, join_names
from gui.style.formatting import gigabytes, memory, percent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from core.config.choices import RecipeChoices, ScriptChoices
    from core.config.script_check import ScriptCheckResult
    from core.config.validation import Problem
    from core.devices.device import Device, Sample, Survey
    from core.runs.facts import RunFacts
    from core.schema.spec import RunSpec

    HeldBy = Mapping[str, str]


MUCH_SHARE, BUSY_PERCENT = 0.5, 50.0
"""Of a GPU's memory, and of its time: who trains where others have taken as much is told of it."""
MAX_TAKEN = 3
"""Devices that are told of so one by one."""
NOTHING_TICKED = "No device is ticked. Tick one or more in the list of devices."


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConditions:
    """What choices are judged by, whatever they are."""

    survey: Survey
    used_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By device id, what to call the runs that are on it."""
    held_by: HeldBy = field(default_factory=dict)
    """By device id, who else holds a good part of it, see `core.runs.device_use.largest_others`."""
    old_s: Mapping[str, int] = field(default_factory=dict)
    """By device id, the age of readings that are not those of now."""
    folder_problem: str | None = None
    """Why no run can be kept; no text when one can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck:
    """The answer to a person's choices."""

    spec: RunSpec | None = None
    """None when the choices make none."""
    problems: tuple[str, ...] = ()
    """Sentences; the spec can be started when there are none."""
    pending: bool = False
    """Whether there is none yet because something is still being found out."""
    busy: tuple[str, ...] = ()
    """Sentences on devices that runs of ours are on already: it is asked before another is started there."""
    arithmetic: str = ""
    """How the batch is made up; of a script, how it is launched and why so."""
    proposed: str = ""
    """Of a script, the launch that its source proposes, once that is known."""
    why: str = ""
    """Why it does: a sentence."""
    usual_python: str = ""
    """Of a script, the Python that is taken where none is chosen, once that is known."""
    ready: str = ""
    """A sentence, when there are no problems."""
    wary: bool = False
    """Whether that sentence is to be read before Start is pressed."""


def check_start(choices: RecipeChoices, now: StartConditions) -> StartCheck:
    """Judge the choices."""
    try:
        spec = compose(choices, now.survey.devices)
    except ValueError as error:
        return refused(now.folder_problem, str(error))
    return replace(_judged(spec, (), now), arithmetic=validation.batch_arithmetic(spec))


def check_script_start(choices: ScriptChoices, answer: ScriptCheckResult | None, now: StartConditions) -> StartCheck:
    """The same for a script. `answer`: what was found out about it; None while that is under way."""
    if answer is None:
        name = choices.module or PurePath(choices.script).name
        return replace(refused(now.folder_problem, f"Looking at {name} …"), pending=True)
    return replace(_answered(choices, answer, now), usual_python=answer.usual_python)


def _answered(choices: ScriptChoices, answer: ScriptCheckResult, now: StartConditions) -> StartCheck:
    if answer.spec is None:
        return refused(now.folder_problem, *answer.problems)
    try:
        spec = fill_in(answer, choices, now.survey.devices)
    except ValueError as error:
        return refused(now.folder_problem, str(error))
    told = _launch_words(spec, answer, guessed=choices.launch is None)
    judged = _judged(spec, answer.problems, now)
    return replace(judged, arithmetic=told, proposed=answer.proposed, why=answer.why)


def refused(*problems: str | None) -> StartCheck:
    """For choices that make no spec."""
    return StartCheck(problems=tuple(text for text in problems if text))


def _judged(spec: RunSpec, problems: Sequence[str], now: StartConditions) -> StartCheck:
    """Of a spec; `problems`: what is in its way already."""
    survey = now.survey
    chosen = [device for device in survey.devices if device.id in spec.devices]
    found = (
        *([now.folder_problem] if now.folder_problem else []),
        *problems,
        *_sentences(validation.problems(spec, survey.devices)),
        *lost(chosen, survey, "Untick it."),
    )
    busy = tuple(_used(chosen, now.used_by))
    doubts = _doubts(chosen, survey, now.old_s, now.held_by)
    ready = "" if found or busy else f"Ready, but {doubts}." if doubts else _ready(chosen, survey)
    return StartCheck(spec=spec, problems=found, busy=busy, ready=ready, wary=bool(ready and doubts))


def _launch_words(spec: RunSpec, answer: ScriptCheckResult, *, guessed: bool) -> str:
    """`One process. It uses torch.nn.DataParallel.`; with a choice that differs from the source, what that says."""
    per_device = strategy_of(spec).processes == "per_device"
    count = len(spec.devices)
    how = f"{count} processes, one per device" if per_device and count > 1 else "One process"
    if guessed or spec.strategy == answer.proposed:
        return f"{how}. {answer.why}"
    return f"{how}, as you chose; its source looks like {find_launch_mode(answer.proposed).title.lower()}. {answer.why}"


def _sentences(problems: Sequence[Problem]) -> list[str]:
    """Return the sentences; for the problem that no device is chosen, the window's own."""
    return [NOTHING_TICKED if each.kind is ProblemKind.NO_DEVICE else each.sentence for each in problems]


def lost(chosen: Sequence[Device], survey: Survey, remedy: str) -> list[str]:
    """Which of these devices no longer answer."""
    gone = {sample.device_id for sample in survey.samples if sample.lost}
    return [f"{device.label} is lost: it no longer answers. {remedy}" for device in chosen if device.id in gone]


def _used(chosen: Sequence[Device], used_by: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each set of runs that use these devices."""
    return [
        f"{sentence}. Start asks before it puts another run beside {'it' if len(runs) == 1 else 'them'}."
        for runs, sentence in use_sentences(chosen, used_by).items()
    ]


def standing(survey: Survey, old_s: Mapping[str, int], held_by: HeldBy, ticked: Collection[str]) -> object:
    """All that an outlook says of these devices' readings: when it is another, the choices are to be judged anew."""
    chosen = [device for device in survey.devices if device.id in ticked]
    readings = [
        (sample.device_id, sample.lost, old_s.get(sample.device_id), sample.processes, _rounded(sample))
        for sample in survey.samples
        if sample.device_id in ticked
    ]
    return readings, _taken(chosen, survey, held_by)


def _rounded(sample: Sample) -> str:
    return gigabytes(sample.memory_used_bytes)


def _doubts(chosen: Sequence[Device], survey: Survey, old_s: Mapping[str, int], held_by: HeldBy) -> str:
    """What forbids nothing and is to be known before a start; no text where there is nothing."""
    old = [device for device in chosen if device.id in old_s]
    if old:
        which = join_names(first_names([device.label for device in old], 3))
        age_s = max(old_s[device.id] for device in old)
        last = "the last reading of {} is" if len(old) == 1 else "the last readings of {} are up to"
        return f"{last.format(which)} {age_s} s old"
    return "; ".join(first_names(_taken(chosen, survey, held_by), MAX_TAKEN))


def _taken(chosen: Sequence[Device], survey: Survey, held_by: HeldBy) -> list[str]:
    """Which GPUs others have taken most of: `GPU 1 is held by blender (anna): 20.0 / 24 GB in use, about 90 % busy`.

    Of a CPU device there is no saying: its memory is the machine's.
    """
    samples = {sample.device_id: sample for sample in survey.samples}
    told = []
    for device in chosen:
        sample = samples.get(device.id)
        if sample is None or device.kind == "cpu" or device.shared_memory:
            continue
        share = (sample.memory_used_bytes or 0) / (device.memory_total_bytes or float("inf"))
        busy = sample.utilisation_percent or 0.0
        who = held_by.get(device.id)
        if share >= MUCH_SHARE or (who and busy >= BUSY_PERCENT):
            told.append(f"{device.label} is {f'held by {who}' if who else 'taken'}: {_use(device, sample)}")
    return told


def _use(device: Device, sample: Sample) -> str:
    """How full and how busy; in tens, so that it is not another sentence at every reading."""
    busy = sample.utilisation_percent
    full = "" if sample.memory_used_bytes is None else memory(sample.memory_used_bytes, device.memory_total_bytes)
    parts = (full and f"{full} in use", "" if busy is None else f"about {percent(round(busy, -1))} busy")
    return ", ".join(part for part in parts if part)


def _ready(chosen: Sequence[Device], survey: Survey) -> str:
    """Nothing is in the way; and what there is room for, as far as that is known now."""
    names = join_names([device.label for device in chosen]) if len(chosen) <= 3 else f"{len(chosen)} devices"
    alone = len(chosen) == 1
    free = _min_free_bytes(chosen, survey)
    room = "" if free is None else f"{gigabytes(free)} GB{'' if alone else ' or more each'}"
    if _nobody_is_on(chosen, survey):
        return f"Ready: {names} {'is' if alone else 'are'} free{room and f', {room}'}."
    return f"Ready: {names} {'has' if alone else 'have'} {room} free." if room else f"Ready: {names}."


def _nobody_is_on(chosen: Sequence[Device], survey: Survey) -> bool:
    """Whether the drivers say so. On a CPU device there are only runs, and none of them is on these."""
    listed_on = {sample.device_id: sample.processes for sample in survey.samples}
    return all(device.kind == "cpu" or listed_on.get(device.id) == () for device in chosen)


def _min_free_bytes(chosen: Sequence[Device], survey: Survey) -> int | None:
    """None when it is not known of each device. What a CPU device has is shared with all else on the machine."""
    used = {sample.device_id: sample.memory_used_bytes for sample in survey.samples}
    free = []
    for device in chosen:
        taken = used.get(device.id)
        if device.kind == "cpu" or taken is None or device.memory_total_bytes is None:
            return None
        free.append(device.memory_total_bytes - taken)
    return min(free, default=None)


def resume_problems(spec: RunSpec, facts: RunFacts, survey: Survey) -> list[str]:
    """Sentences; the run can be resumed when there are none."""
    present = {device.id for device in survey.devices}
    gone = [_label(device, facts) for device in spec.devices if device not in present]
    if gone:
        return [f"{label} is not there any more. {spec.name} can only go on where it was trained." for label in gone]
    chosen = [device for device in survey.devices if device.id in spec.devices]
    return [
        *map(str, validation.problems(spec, survey.devices)),
        *lost(chosen, survey, "This run cannot go on without it."),
    ]


def _label(device: str, facts: RunFacts) -> str:
    """`GPU 1 (GPU-5a...)`, as the run knew it."""
    label = facts.devices.get(device, {}).get("label")
    return f"{label} ({device})" if label and label != device else device
