"""What became of a run's memory, in words and tones: for the head, the plot of memory and the strip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.runs.states import RunState, state_info
from core.runs.verdicts import BADNESS, Release, Verdict, worst
from core.text import join_names
from gui.style.formatting import fine_gigabytes, moment, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.runs.facts import RunFacts

TONES = {
    Verdict.RELEASED: "good",
    Verdict.CANNOT_BE_JUDGED: "muted",
    Verdict.HELD_BY_OTHERS: "warn",
    Verdict.UNEXPLAINED: "bad",
    Verdict.HELD_BY_RUN: "bad",
}
"""Roles of the theme, by badness."""
SHORT = {
    Verdict.CANNOT_BE_JUDGED: "memory cannot be judged",
    Verdict.HELD_BY_OTHERS: "memory was held by others",
    Verdict.UNEXPLAINED: "memory had not come back, unexplained",
    Verdict.HELD_BY_RUN: "memory was not given back",
}
"""Of a run that is over, perhaps for long: what was so when the watch ended."""
TO_BE_SAID = (Verdict.HELD_BY_OTHERS, Verdict.UNEXPLAINED, Verdict.HELD_BY_RUN)
"""These are told across the window; the others only where they are looked for."""
WATCHING = "watching whether the memory comes back …"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found out about one device, ready to be shown."""

    label: str
    colour: str
    fall: str
    """`0.4 → 9.1 → 0.4 GB`: before, at most, after."""
    took: str
    """`1.2 s`."""
    verdict: str
    tone: str
    sentence: str


def head_words(facts: RunFacts) -> tuple[str, str]:
    """`memory released in 1.2 s` and its tone, once the run is over; no words where nothing was found out."""
    found = worst(facts.releases.values())
    if found is None or not state_info(facts.state).over:
        return "", ""
    if found.verdict is Verdict.RELEASED:
        return f"memory released in {seconds(found.seconds)}", TONES[found.verdict]
    return SHORT[found.verdict], TONES[found.verdict]


def note(facts: RunFacts, labels: Mapping[str, str]) -> tuple[str, str]:
    """`✓ released in 1.8 s on both devices` and its tone: what stands beside the end of the plot of memory."""
    found = worst(facts.releases.values())
    if _is_watched(facts):
        return WATCHING, "muted"  # what is waited for stands on the page about memory, where it has room
    if found is None:
        return "", ""
    if found.verdict is Verdict.RELEASED:
        return f"✓ released in {seconds(found.seconds)}{_everywhere(len(facts.releases))}", "good"
    where = [
        labels.get(each.device_id, each.device_id)
        for each in facts.releases.values()
        if each.verdict is found.verdict
    ]  # fmt: skip
    return f"{found.verdict.value}: {join_names(where)}", TONES[found.verdict]


def sentences(facts: RunFacts) -> tuple[list[str], str]:
    """What must be told of memory that is not back, the worst first, and the tone of it; nothing while all is well."""
    found = sorted(
        (each for each in facts.releases.values() if each.verdict in TO_BE_SAID),
        key=lambda each: BADNESS.index(each.verdict),
        reverse=True,
    )
    return list(dict.fromkeys(each.sentence for each in found)), TONES[found[0].verdict] if found else ""


def seen_words(facts: RunFacts, now: float) -> str:
    """`as of 18:04`: when what is said of the memory of a run that is over was seen; no text while it is not over."""
    return f"as of {moment(facts.ended, now)}" if state_info(facts.state).over and facts.ended is not None else ""


def findings(facts: RunFacts, labels: Mapping[str, str], colours: Mapping[str, str]) -> list[Finding]:
    """All findings of a run, in the order of its devices."""
    order = [*facts.devices, *(device for device in facts.releases if device not in facts.devices)]
    return [
        _finding(facts.releases[device], labels.get(device, device), colours.get(device, ""))
        for device in order
        if device in facts.releases
    ]


def ended_words(facts: RunFacts) -> str:
    """Who had to be ended, in a sentence; no text when nobody had."""
    ended = [
        f"{each.name or 'a process'} (pid {each.pid}, {each.signal}, by the {each.by})"
        for each in facts.ended_processes
    ]
    verb = "was" if len(ended) == 1 else "were"
    return f"What outlived the training {verb} ended: {join_names(ended)}." if ended else ""


def nothing_words(facts: RunFacts, *, looked_at: bool) -> str:
    """Why there are no findings, or not those of all devices yet; no text when they are all there."""
    if not looked_at:
        return "No run is shown. What became of a run's memory is told here."
    if _is_watched(facts):
        return facts.waiting or f"Training has ended: {WATCHING}"
    if facts.releases:
        return ""
    if facts.state is RunState.LOST:
        return "Nobody watched the memory of this run: its supervisor ended before that."
    if state_info(facts.state).over:
        return "The memory of this run was not watched: nothing is claimed."
    return "When training ends, the memory is watched until it is back; what is found out is told here."


def _is_watched(facts: RunFacts) -> bool:
    """Whether a device is still waited for: what is found out is told of each at once."""
    return facts.state is RunState.RELEASING and (not facts.releases or len(facts.releases) < len(facts.devices))


def _everywhere(devices: int) -> str:
    if devices == 1:
        return ""
    return " on both devices" if devices == 2 else f" on all {devices} devices"


def _finding(release: Release, label: str, colour: str) -> Finding:
    before, peak, after = (
        fine_gigabytes(each) for each in (release.before_bytes, release.peak_bytes, release.after_bytes)
    )  # fmt: skip
    return Finding(
        label=label,
        colour=colour,
        fall=f"{before} → {peak} → {after} GB",
        took=seconds(release.seconds),
        verdict=release.verdict.value,
        tone=TONES[release.verdict],
        sentence=release.sentence,
    )
