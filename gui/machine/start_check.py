"""Why a training cannot start now, from the choices and the newest readings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from core.catalog.strategies import default_strategy, strategy_of
from core.config import moving, sweep, validation
from core.config.choices import RecipeChoices, ScriptChoices
from core.config.examination import Examination, changed_at, examine, spec_obstacles
from core.config.finding import BATCH, QUEUE, TICK, Cure, Finding, Mark, ProblemKind, cpu_cures, findings_of
from core.config.fit import fit_of
from core.devices.device import Device, Sample, Survey
from core.devices.names import join_labels
from core.history.device_use import use_sentences
from core.language import join_sentences, tr, tr_noop, tr_plural
from core.launchers.loopback import ALLOW
from core.runs.facts import RunFacts
from core.runs.run import Run
from core.schema.setting import settings_of
from core.schema.settings import Training
from core.schema.spec import RunSpec
from core.text import first_names, join_names
from gui.base.formatting import gigabytes, memory, percent
from gui.machine.script import MODULE, TypedScript
from gui.runs.words import QuestionWords

if TYPE_CHECKING:
    from core.history.summary import RunSummary

    Choices = RecipeChoices | TypedScript
    Given = RecipeChoices | ScriptChoices


HeldBy = Mapping[str, str]

MUCH_SHARE, BUSY_PERCENT = 0.5, 50.0
"""Share of a GPU's memory, and per cent of its time: above them, other processes are mentioned before a start."""
MAX_TAKEN = 3
"""Largest number of devices that are mentioned one by one."""


def lost(chosen: Sequence[Device], survey: Survey, remedy: str) -> list[str]:
    """Return a sentence for each of these devices that no longer answers."""
    gone = {sample.device_id for sample in survey.samples if sample.lost}
    return [
        tr("{label} is lost: it no longer answers. {remedy}", label=device.label, remedy=remedy)
        for device in chosen
        if device.id in gone
    ]


def readings_state(survey: Survey, stale_age_s: Mapping[str, int], held_by: HeldBy, ticked: Collection[str]) -> object:
    """Return everything that a check says about the readings of these devices: if it changes, check again."""
    chosen = [device for device in survey.devices if device.id in ticked]
    readings = [
        (each.device_id, each.lost, stale_age_s.get(each.device_id), each.processes and [p[:2] for p in each.processes],
         gigabytes(each.memory_used_bytes))
        for each in survey.samples
        if each.device_id in ticked
    ]
    return readings, [device.blocked for device in chosen], _taken(chosen, survey, held_by)


def reading_doubts(chosen: Sequence[Device], survey: Survey, stale_age_s: Mapping[str, int], held_by: HeldBy) -> str:
    """Return what does not prevent a start but should be known before it; the empty string if nothing."""
    old = [device for device in chosen if device.id in stale_age_s]
    if old:
        which = join_names(first_names([device.label for device in old], 3))
        age_s = max(stale_age_s[device.id] for device in old)
        return tr_plural(
            "the last reading of {devices} is {seconds} s old",
            "the last readings of {devices} are up to {seconds} s old",
            len(old),
            devices=which,
            seconds=age_s,
        )
    return tr("; ").join(first_names(_taken(chosen, survey, held_by), MAX_TAKEN))


def _taken(chosen: Sequence[Device], survey: Survey, held_by: HeldBy) -> list[str]:
    """Return the GPUs that others use most: `GPU 1 is held by blender (anna): 20.0 / 24 GB in use, about 90 % busy`.

    CPU devices are left out: their memory is the memory of the machine.
    """
    samples = {sample.device_id: sample for sample in survey.samples}
    taken = []
    for device in chosen:
        sample = samples.get(device.id)
        if sample is None or device.kind == "cpu" or device.shared_memory:
            continue
        share = (sample.memory_used_bytes or 0) / (device.memory_total_bytes or float("inf"))
        busy = sample.utilisation_percent or 0.0
        who = held_by.get(device.id)
        if share >= MUCH_SHARE or (who and busy >= BUSY_PERCENT):
            use = _use(device, sample)
            by = tr("{label} is held by {program}: {use}", label=device.label, program=who, use=use)
            taken.append(by if who else tr("{label} is taken: {use}", label=device.label, use=use))
    return taken


def _use(device: Device, sample: Sample) -> str:
    """Return how full and how busy a device is; in tens of per cent, so that the sentence seldom changes."""
    busy = sample.utilisation_percent
    full = "" if sample.memory_used_bytes is None else memory(sample.memory_used_bytes, device.memory_total_bytes)
    parts = (
        full and tr("{memory} in use", memory=full),
        "" if busy is None else tr("about {percent} busy", percent=percent(round(busy, -1))),
    )
    return tr(", ").join(part for part in parts if part)


def ready_sentence(chosen: Sequence[Device], survey: Survey) -> str:
    """Return the sentence that a spec can start, with the free memory if it is known."""
    names = (
        join_names([device.label for device in chosen])
        if len(chosen) <= 3
        else tr("{count} devices", count=len(chosen))
    )
    count, free = len(chosen), _min_free_bytes(chosen, survey)
    size = "" if free is None else tr_plural(", {size} GB", ", {size} GB or more each", count, size=gigabytes(free))
    words = {"names": names, "size": size}
    if _are_unused(chosen, survey):
        return tr_plural("Ready: {names} is free{size}.", "Ready: {names} are free{size}.", count, **words)
    return tr("Ready: {names}{size} free.", **words) if size else tr("Ready: {names}.", names=names)


def _are_unused(chosen: Sequence[Device], survey: Survey) -> bool:
    """Return whether no process uses these devices, as far as drivers list them. CPU devices are used by runs only."""
    listed_on = {sample.device_id: sample.processes for sample in survey.samples}
    return all(device.kind == "cpu" or listed_on.get(device.id) == () for device in chosen)


def _min_free_bytes(chosen: Sequence[Device], survey: Survey) -> int | None:
    """Return the smallest free memory in bytes; None if one is unknown. CPU devices share the memory of the machine."""
    used = {sample.device_id: sample.memory_used_bytes for sample in survey.samples}
    free = []
    for device in chosen:
        taken = used.get(device.id)
        if device.kind == "cpu" or taken is None or device.memory_total_bytes is None:
            return None
        free.append(device.memory_total_bytes - taken)
    return min(free, default=None)


TOO_MANY_TICKED = tr_noop(
    "This strategy needs one device, but {labels} are ticked. Untick all but one, or choose another strategy."
)
TOO_FEW_TICKED = tr_noop(
    "This strategy needs {count} devices or more, but only {labels} is ticked. Tick more, or choose another strategy."
)
OTHER_KIND_TICKED = tr_noop("This strategy runs on {names} only. Tick those, or choose another strategy.")
NOTHING_TICKED = tr_noop("No device is ticked. Tick one or more in the list of devices.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConditions:
    """The state of the machine that choices are checked against."""

    survey: Survey
    used_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By device id, the titles of the live runs that use it."""
    held_by: HeldBy = field(default_factory=dict)
    """By device id, the other process that holds most of it (`core.history.device_use.largest_others`)."""
    stale_age_s: Mapping[str, int] = field(default_factory=dict)
    """By device id, the age of readings that are out of date, in seconds."""
    folder_problem: str = ""
    """Why no run can be kept in the folder of runs; the empty string if one can."""
    runs: Sequence[RunSummary] = ()
    """Newest first; they tell how much memory a run like this needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheck(Examination):
    """Whether choices can be started. The most important finding is the first."""

    others: tuple[RunSpec, ...] = ()
    """Where fields have several values, the specs of the other runs: all are queued."""
    pending: bool = False
    """True while the check is under way."""
    folder_problem: str = ""
    """As in `StartConditions`."""
    busy: bool = False
    """Whether live runs use these devices already; Start asks before it adds another run."""
    offers_open_ports: bool = False
    """Whether the user may allow open ports, which the strategy needs here, or has allowed them."""

    def without_gpus(self, problem: str, survey: Survey) -> StartCheck:
        """Return the check if CUDA does not show the GPUs, for which `problem` has the reason; itself for none."""
        if not problem or self.spec is None or self.problems:
            return self
        return replace(self, findings=tuple(findings_of([problem], cpu_cures(self.spec, survey.devices))))


def checking(choices: Choices) -> StartCheck:
    """Return what to show while the check of these choices is under way."""
    text = choices.script if isinstance(choices, TypedScript) else choices.recipe
    name = text if text.startswith(MODULE) else PurePath(text).name
    return StartCheck(findings=(Finding(sentence=tr("Checking {name} …", name=name)),), pending=True)


def check_start(choices: Choices, now: StartConditions) -> StartCheck:
    """Check choices. Blocks for seconds if another Python has to be started and asked."""
    try:
        given = choices.choices() if isinstance(choices, TypedScript) else choices
    except ValueError as error:
        return refused(now.folder_problem, str(error))
    return check_each(given, now, lambda each: judge(examine(each, now.survey.devices), now))


def check_each(given: Given, now: StartConditions, check: Callable[[Given], StartCheck]) -> StartCheck:
    """Check choices; for several values in a field, those of each run. `check`: checks those of one run."""
    if not isinstance(given, RecipeChoices):
        return check(given)
    try:
        values, every = sweep.swept(given), sweep.expand(given)
    except ValueError as error:
        return refused(now.folder_problem, str(error))
    first, *others = map(check, every)
    failed = next((each for each in (first, *others) if each.problems), None)
    if failed is not None and values:
        return replace(failed, findings=tuple(map(_of_several, failed.findings)))
    if not values:
        return first
    rows = settings_of(Training)
    each = [
        f"{tr(rows[name].title).lower() if name in rows else name} {join_names([f'{value:g}' for value in found])}"
        for name, found in values.items()
    ]
    ready = tr("Start adds {count} runs to the queue: {values}.", count=len(every), values="; ".join(each))
    specs = tuple(each.spec for each in others if each.spec is not None)
    every_finding = [each for check in (first, *others) for each in check.findings]
    is_sure = all(each.mark is Mark.READY for each in every_finding)
    left = [_of_several(each) for each in dict.fromkeys(first.findings if is_sure else every_finding)
            if (is_sure or each.mark is not Mark.READY) and all(cure.does != QUEUE for cure in each.cures)]
    return replace(first, others=specs, busy=False, findings=(Finding(mark=Mark.READY, sentence=ready), *left))


def _of_several(finding: Finding) -> Finding:
    """Return the finding on one of several runs: no click gives all of them one batch size."""
    return replace(finding, cures=tuple(each for each in finding.cures if each.does != BATCH))


def judge(found: Examination, now: StartConditions) -> StartCheck:
    """Return the check of choices of which this was found, under these conditions."""
    spec, survey = found.spec, now.survey
    if spec is None:
        return replace(refused(now.folder_problem, *found.problems), usual_python=found.usual_python)
    chosen = [device for device in survey.devices if device.id in spec.devices]
    own = [each for each in found.findings if each.mark is Mark.PROBLEM]
    problems = [
        *findings_of(filter(None, [now.folder_problem])), *_in_words(own, spec, chosen),
        *findings_of(lost(chosen, survey, tr("Untick it."))),
    ]
    queue = (Cure(does=QUEUE, words=tr("Add to queue")),)
    users = use_sentences(chosen, now.used_by).values()
    known = busy = findings_of([f"{each}." for each in users], queue, Mark.WARNING)
    if not problems:
        fits = fit_of(spec, chosen, survey, now.runs)
        # Other ticks are of use once these devices are free.
        useful = [each for each in found.findings if not busy or {cure.does for cure in each.cures} != {TICK}]
        warnings = [each for each in useful if each.mark is Mark.WARNING]
        rest = warnings or ([] if fits and fits[0].mark is Mark.WARNING else useful)  # rows are dear
        known = [*(busy or [_readiness(chosen, now, queue)]), *rest, *fits]
    return StartCheck(**{
        **{each.name: getattr(found, each.name) for each in fields(found)},
        "findings": (*problems, *known), "folder_problem": now.folder_problem, "busy": bool(busy),
        "offers_open_ports": spec.allow_open_ports or any(each.kind is ProblemKind.OPEN_PORTS for each in own),
    })


def _readiness(chosen: Sequence[Device], now: StartConditions, queue: tuple[Cure, ...]) -> Finding:
    """Return that a spec can start, with the free memory, or with what its readings leave in doubt."""
    doubts = reading_doubts(chosen, now.survey, now.stale_age_s, now.held_by)
    if not doubts:
        return Finding(mark=Mark.READY, sentence=ready_sentence(chosen, now.survey))
    is_old = any(device.id in now.stale_age_s for device in chosen)
    words = tr("Ready, but {doubts}.", doubts=doubts)
    return Finding(mark=Mark.WARNING, sentence=words, cures=() if is_old else queue)


def recheck(check: StartCheck, choices: Choices, now: StartConditions) -> StartCheck:
    """Check again, right before a start, what may have changed since these choices were checked.

    The spec stays as it was composed, unless the recipe or the script was edited. Blocks like `check_start`.
    """
    if check.spec is None or check.changed != changed_at(check.spec):
        return check_start(choices, now)
    every = (spec_problems(spec, now.survey, tr("Untick it.")) for spec in (check.spec, *check.others))
    problems = next(filter(None, every), [])
    found = tuple(findings_of(filter(None, (now.folder_problem, *problems))))
    return replace(check, findings=found or check.findings, folder_problem=now.folder_problem)


def spec_problems(spec: RunSpec, survey: Survey, remedy: str) -> list[str]:
    """Return why a spec cannot be started on these devices. `remedy`: what to do about a device that is lost."""
    chosen = [device for device in survey.devices if device.id in spec.devices]
    found = _in_words(spec_obstacles(spec, survey.devices), spec, chosen)
    return [*map(str, found), *lost(chosen, survey, remedy)]


def refused(folder_problem: str, *problems: str) -> StartCheck:
    """Return the check of choices that make no spec."""
    found = tuple(findings_of(filter(None, (folder_problem, *problems))))
    return StartCheck(findings=found, folder_problem=folder_problem)


def _in_words(problems: Sequence[Finding], spec: RunSpec, chosen: Sequence[Device]) -> list[Finding]:
    """Return them with the window's own words for devices that do not suit the strategy: it has ticks, and titles."""
    labels = join_names(first_names([device.label for device in chosen]))

    def words(problem: Finding) -> str:
        match problem.kind:
            case ProblemKind.NO_DEVICE:
                return tr(NOTHING_TICKED)
            case ProblemKind.TOO_MANY:
                return tr(TOO_MANY_TICKED, labels=labels)
            case ProblemKind.TOO_FEW:
                return tr(TOO_FEW_TICKED, count=strategy_of(spec).min_devices, labels=labels)
            case ProblemKind.OTHER_KIND:
                return tr(OTHER_KIND_TICKED, names=validation.device_kinds(strategy_of(spec)))
            case _:
                return problem.sentence

    return [replace(each, sentence=words(each)) for each in problems]


def resume_problems(run_id: str, spec: RunSpec, facts: RunFacts, survey: Survey) -> list[str]:
    """Return why a run cannot be resumed: sentences, or an empty list."""
    present = {device.id for device in survey.devices}
    gone = [_label(device, facts) for device in spec.devices if device not in present]
    if gone:
        return [
            tr(
                "{label} is no longer on this machine. Tick other devices, then choose Resume on ticked devices in the "
                "menu of {spec}.",
                label=label, spec=spec.name,
            )
            for label in gone
        ]
    chosen = [device for device in survey.devices if device.id in spec.devices]
    problems = validation.problems(spec, survey.devices)
    found = [str(each) for each in problems]
    if any(each.kind is ProblemKind.OPEN_PORTS for each in problems):
        how = tr("To resume this run with open ports: trainyard resume {run_id} {allow}", run_id=run_id, allow=ALLOW)
        found.append(how)
    return [*found, *lost(chosen, survey, tr("This run cannot be resumed without it."))]


def moved_spec(run_dir: Path, ticked: Sequence[str], survey: Survey) -> RunSpec:
    """Return the spec of a run on the ticked devices, with its strategy or else the default one for so many.

    May block. Raises `ValueError` or `RunError` with a sentence if the run cannot be resumed on them.
    """
    if not ticked:
        raise ValueError(tr(NOTHING_TICKED))
    run = Run.resumable(run_dir)
    before, chosen = run.spec(), [device for device in survey.devices if device.id in ticked]
    is_fit = validation.misfit(strategy_of(before), chosen) is None
    strategy = before.strategy if is_fit else default_strategy(before.framework, len(ticked))
    after = moving.moved(run, ticked, strategy)
    if problems := spec_problems(after, survey, tr("Untick it.")):
        raise ValueError(join_sentences(problems))
    return after


def move_question(run_dir: Path, after: RunSpec, survey: Survey) -> QuestionWords:
    """Return what is asked before a run is resumed with this spec."""
    labels = join_labels([device.label for device in survey.devices if device.id in after.devices])
    asked = tr("Resume {name} on {devices} ({strategy})?", name=after.name, devices=labels, strategy=after.strategy)
    same = tr("It goes on from its last checkpoint, with the same strategy on as many devices as before.")
    return QuestionWords(asked, moving.caution(Run.attach(run_dir).spec(), after) or same, tr("Resume"))


def _label(device: str, facts: RunFacts) -> str:
    """Return a device as the run named it: `GPU 1 (GPU-5a...)`."""
    label = facts.devices.get(device, {}).get("label")
    return f"{label} ({device})" if label and label != device else device
