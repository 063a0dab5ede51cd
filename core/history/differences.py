"""What tells a run from others, in a few words that name it in lists, plots, notifications and titles.

No argument whose name looks like that of a secret is named.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path, PurePath

from core.devices.names import short_kinds
from core.errors import RunError
from core.history.index import RunIndex
from core.history.summary import SWEEP, RunSummary, setting_words
from core.history.summary_cache import SummaryCache
from core.language import tr, tr_noop
from core.schema.setting import Flag, settings_of
from core.schema.settings import SettingValue, Training
from core.text import SECRET_NAME, SECRET_VALUE, join_phrases, one_line

Settings = Mapping[str, SettingValue]
BRIEF = {"learning_rate": tr_noop("lr"), "batch_size": tr_noop("batch")}
"""Names of settings that are shorter than their titles."""
BARE = frozenset({"recipe", "script", "imported", "framework", "strategy", "devices"})
"""Settings of which the value says enough."""
WORKLOAD, RATE, BATCH, OTHER, SEED, ASIDE = range(6)
RANKS = {name: rank for rank, names in enumerate((
    ("recipe", "script", "imported"), ("learning_rate", "lr"), ("batch_size", "batch"), (), ("seed",),
    ("allow_open_ports", "checkpoints", "cuda_ids", "env", "expression", "python", "release", "rules", "rules_file",
     "stop", "working_dir"),
)) for name in names}
"""The order in which settings are named; those aside do not change what is trained, and are not."""
MOST, MAX_VALUE = 3, 24
"""Settings that are named, and characters of a value."""
BUDGET_S = 0.3
"""Seconds in which a command reads the newest runs."""


class Differences:
    """The words for the runs of a list, found when they are asked for: there may be thousands of runs."""

    def __init__(self, summaries: Sequence[RunSummary] = ()) -> None:
        self._settings: list[Settings] = []
        self._before: dict[int, Settings] = {}
        """By the `id` of a run's settings, those of the run before of the same recipe or script."""
        self._words: dict[int, tuple[Settings, Settings | None, str]] = {}
        self.follow(summaries)

    def follow(self, summaries: Sequence[RunSummary]) -> None:
        """Take the list as it is now, newest first."""
        settings = [each.settings for each in summaries]
        if len(settings) == len(self._settings) and all(map(operator.is_, settings, self._settings)):
            return
        self._settings, self._before = settings, {}
        newer: dict[SettingValue, int] = {}
        for each in settings:
            workload = each.get("recipe") or each.get("script")
            if workload in newer:
                self._before[newer[workload]] = each
            newer[workload] = id(each)

    def words(self, summary: RunSummary) -> str:
        """Return `lr 0.05 · batch 128 · seed 2`; the empty string if its settings are not known."""
        settings, before = summary.settings, self._before.get(id(summary.settings))
        known = self._words.get(id(settings))
        if known is None or known[0] is not settings or known[1] is not before:
            known = self._words[id(settings)] = settings, before, words_of(settings, before or {})
        return known[2]


def differences_below(root: Path) -> dict[str, str]:
    """Return the words for the newest runs below a root, by the names of their folders."""
    try:
        summaries = RunIndex(root, patience_s=0.0, cache=SummaryCache(root)).poll(BUDGET_S)
    except RunError:
        return {}
    found = Differences(summaries)
    return {each.dir.name: found.words(each) for each in summaries}


def words_of(settings: Settings, before: Settings) -> str:
    """Return what differs from the run before, if any, then what tells most: rate, batch, seed, or arguments."""
    if not settings.get("recipe") and not settings.get("script"):
        return ""
    are_known = "devices" in settings and "devices" in before  # not while a run is queued
    changed = [name for name in differing([settings, before]) if before and (are_known or name != "devices")]
    telling = {RATE, BATCH, SEED, *([OTHER] if "script" in settings else [])}
    told = [name for name in settings if rank(name) in telling and settings[name] is not None and name not in BARE]
    names = dict.fromkeys([*_in_order(changed), *_in_order(told or [*{"devices"} & settings.keys()])])
    return " · ".join(_phrase(name, settings.get(name)) for name in [*names][:MOST])


def telling(every: Sequence[Settings]) -> list[str]:
    """Return the settings that differ between runs of one recipe or script, and these if there are several, in order.

    The devices are not among them.
    """
    groups: dict[SettingValue, list[Settings]] = {}
    for each in every:
        groups.setdefault(each.get("recipe") or each.get("script"), []).append(each)
    groups.pop(None, None)
    pairs = chain.from_iterable(each.items() ^ group[0].items() for group in groups.values() for each in group)
    names = {name for name, _ in pairs} - {"devices"}  # of thousands of runs: several times as fast as `differing`
    workloads = {name for group in groups.values() for name in ("recipe", "script") if name in group[0]}
    return _in_order(sorted(names | workloads if len(groups) > 1 else names))


def title_and_value(name: str, value: SettingValue) -> tuple[str, str]:
    """Return `lr` and `0.05`, or `mixup` and `on`."""
    title = _phrase(name, True)
    return title, Flag().words(value) if isinstance(value, bool) else _phrase(name, value).removeprefix(f"{title} ")


def differing(every: Sequence[Settings]) -> list[str]:
    """Return the settings that are not the same in all of these, in order."""
    names = dict.fromkeys(name for each in every for name in each)
    return [name for name in names if any(each.get(name) != every[0].get(name) for each in every)]


def values_within(every: Sequence[Settings]) -> tuple[str, list[str]]:
    """Return the values of what all of these have and differ in, `lr 0.01, 0.1 · seed 1, 2`, and `names_within`."""
    names = [name for name in differing(every) if all(name in each for each in every)]
    own = [{name: each[name] for name in names} for each in every]
    phrases = (_phrase(name, *dict.fromkeys(each[name] for each in own)) for name in _in_order(names))
    return " · ".join(phrases), names_within(own)


def names_within(every: Sequence[Settings]) -> list[str]:
    """Return what tells each of these from the others: `lr 0.05, batch 384`; empty strings where nothing does.

    That is the first setting that differs, and one that is not as in most others; more of these where two are alike.
    """
    names = _in_order(differing(every))
    counts = {name: Counter(repr(each.get(name)) for each in every).most_common(1)[0] for name in names}
    usual = {name: value for name, (value, count) in counts.items() if 2 * count > len(every)}

    def named(settings: Settings, count: int) -> str:
        own = [name for name in names[1:] if repr(settings.get(name)) != usual.get(name)]
        return join_phrases(_phrase(name, settings.get(name)) for name in [*names[:1], *own[:count]])

    brief = [named(each, 1) for each in every]
    return [one if brief.count(one) == 1 else named(each, len(names)) for one, each in zip(brief, every, strict=True)]


def _in_order(names: Sequence[str]) -> list[str]:
    return sorted((name for name in names if name != SWEEP and rank(name) != ASIDE), key=rank)


def _plain(name: str) -> str:
    """Return the name of a setting or argument without signs: `batch_size` of `--batch-size`."""
    return name.lstrip("-+~").replace("-", "_").removeprefix("recipe.")


@cache
def rank(name: str) -> int:
    """Return what a setting or an argument is about: `RATE`, `BATCH`, `OTHER` and so on."""
    plain = _plain(name)
    first, last = RANKS.get(plain.partition(".")[0], OTHER), RANKS.get(plain.rpartition(".")[2], OTHER)
    return ASIDE if ASIDE in {first, last} or SECRET_NAME.search(plain) else last


def _phrase(name: str, value: SettingValue, *others: SettingValue) -> str:
    """Return `lr 0.05`, `no warm-up` or `mixup`; with others, `lr 0.05, 0.1`."""
    row, plain = settings_of(Training).get(name), _plain(name)
    title = tr(BRIEF[plain]) if plain in BRIEF else plain.replace("_", " ")
    if row is not None and plain not in BRIEF:
        title = f"{tr(row.title)[:1].lower()}{tr(row.title)[1:]}"
    if isinstance(value, bool):
        return title if value else tr("no {setting}", setting=title)
    text = "–" if value is None else SECRET_VALUE.sub("://", setting_words(name, value))
    if row is not None:
        text = tr(row.none) or text if value is None else row.kind.words(value)
    elif text.startswith(("/", "./", "~/")):
        text = PurePath(text).stem if name in BARE else PurePath(text).name
    text = one_line(short_kinds(text) if name == "devices" else text, MAX_VALUE)
    own = text if name in BARE or name.startswith("argument ") else f"{title} {text}"
    return ", ".join([own, *(_phrase(name, each).removeprefix(f"{title} ") for each in others)])
