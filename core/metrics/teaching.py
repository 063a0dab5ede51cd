"""Teach a run what a number of its log is: make a rule from a line and a number in it, try it, and keep it.

A rule is tried on the whole log, which shows the curve that it would give. When it is kept, the curves of the run are
read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.language import tr, tr_plural
from core.metrics.merge import TEXT, MetricMerger
from core.metrics.reread import Result, reread
from core.metrics.rules import (
    ANY,
    ANY_DIGITS,
    MAX_CHARACTERS,
    MAX_NUMBERS,
    METRIC,
    NO_METRIC,
    NO_RULES,
    NUMBER,
    Rule,
    check_rule,
    chosen_file,
    file_beside,
    number_at,
    read_rules,
    usable_rules,
    words_of,
    write_rules,
)
from core.metrics.text.log import LogReader
from core.metrics.text.printed_lines import PrintedLines
from core.runs import foreign
from core.runs.facts import state_info
from core.runs.run import Run
from core.schema.files import open_to_read
from core.schema.paths import RULES_FILE, log_of_rank
from core.text import one_line

TRIAL_BYTES = 1 << 26
"""Bytes of a log over which a rule is tried."""
BLOCK_BYTES = 1 << 20
SHOWN_CHARACTERS = 60
MAX_WORDS = 3
"""Words before a number that may be its name."""
WORDS_BEFORE = re.compile(r"((?:[^\W\d][\w/.-]*\s+){0,2}[^\W\d][\w/.-]*)[\s:=|(\[>~'\"-]*$")
FILLERS = frozenset({"is", "was", "are", "of", "at", "now", "the", "a", "an", "to", "and", "with"})
"""Words that are no part of a name."""
WORDS_AFTER = re.compile(r"^\s*([^\W\d][\w/.-]*)")
TABLE_LINE = re.compile(r"[\W_]*")
"""The line under the header of a table."""
ENOUGH = 0.5
"""The share of the lines of a more general rule that a more specific one must match to be taken."""
REPEATED = 2
"""Lines of the log that a rule must match before more general ones are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What pointing at a number gives."""

    rule: Rule
    """What was pointed at, as a rule."""
    rules: tuple[Rule, ...]
    """All rules, with this one."""
    matched: int
    """Lines of the log that the rule matches."""
    curves: dict[str, list[tuple[int, float]]]
    """Steps and values by metric, of all metrics that the rules name."""
    problems: tuple[str, ...]
    """Sentences on rules that match nothing or contradict each other, and on what was not read."""


def find_number(line: str, number: str) -> int:
    """Return where a number stands in a line; `1#2` is the second 1. Raises `ValueError` with a sentence."""
    text, _, which = number.partition("#")
    found = (match for pattern in (NUMBER, ANY_DIGITS) for match in pattern.finditer(line[:MAX_CHARACTERS]))
    places = sorted({match.start() for match in found if text in {match[0], match[0].lstrip("+-")}})
    shown = one_line(line, SHOWN_CHARACTERS)
    if not places:
        raise ValueError(tr("{number} is not a number of the line {line!r}.", number=text, line=shown))
    if len(places) > 1 and not which:
        raise ValueError(
            tr(
                "The line {line!r} has the number {number} {count} times. Write {number}#1 for the first.",
                line=shown, number=text, count=len(places),
            )
        )
    if which and not (which.isdecimal() and 1 <= int(which) <= len(places)):
        raise ValueError(
            tr("The line {line!r} has the number {number} {count} times.", line=shown, number=text, count=len(places))
        )
    return places[int(which or 1) - 1]


def propose_name(line: str, position: int, header: str = "") -> str:
    """Return a name for the number at this character: the words before it, the column, or the word after it."""
    spans = [match.span() for match in NUMBER.finditer(line)]
    column = next((index for index, (begin, end) in enumerate(spans) if begin <= position < end), None)
    words = words_of(header)
    if column is not None and len(words) == len(spans):
        return words[column]
    begin, end = number_at(line, position) or (position, position)
    since = max((stop for _, stop in spans if stop <= begin), default=0)
    if before := WORDS_BEFORE.search(line[since:begin]):
        names = [word for word in before[1].split() if word.lower() not in FILLERS]
        return " ".join(names) or before[1].split()[-1]
    after = WORDS_AFTER.match(line[end:])
    return after[1] if after else "value"


def header_of_row(line: str, lines: Iterable[str]) -> str:
    """Return the names of the columns above a row that has numbers only; the empty string if there are none."""
    count = len(NUMBER.findall(line))
    if not count or any(letter.isalpha() for letter in NUMBER.sub("", line)):
        return ""
    header = ""
    for each in lines:
        if each == line:
            return header
        if len(words_of(each)) == count and not NUMBER.search(each) and not TABLE_LINE.fullmatch(each):
            header = each
    return header


def teach(line: str, position: int, role: str, log: Path, known: Sequence[Rule] = ()) -> Lesson:
    """Make a rule for the number at this character of a line, add it to the known ones, and try them on the log.

    Raises `ValueError` with a sentence if there is no number, or if no rule can be made of the line.
    """
    line, position = line.strip(), position - (len(line) - len(line.lstrip()))
    if number_at(line, position) is None:
        raise ValueError(tr("There is no number in the line {line!r} there.", line=one_line(line, SHOWN_CHARACTERS)))
    header = header_of_row(line, log_lines(log))
    tiers = [[replace(rule, header=header) for rule in tier] for tier in _candidates(line, position, role) if tier]
    if not tiers:
        raise ValueError(tr("No rule can be made of the line {line!r}.", line=one_line(line, SHOWN_CHARACTERS)))
    rule, matched = _best(tiers, log_lines(log))
    check_rule(rule)
    rules = with_rule(known, rule)
    return replace(try_rules(rules, log), rule=rule, matched=matched)


def with_rule(known: Sequence[Rule], rule: Rule) -> tuple[Rule, ...]:
    """Return the rules with one more. If one is about the same lines, it takes the roles of the new one.

    A line has one step, and one value of a metric: the number that had the role before loses it.
    """
    rules = list(known)
    for index, each in enumerate(rules):
        if each.shape == rule.shape and len(each.roles) == len(rule.roles):
            kept = [ANY if role in rule.roles and role != NO_METRIC else role for role in each.roles]
            both = zip(kept, rule.roles, strict=True)
            rules[index] = replace(each, roles=tuple(new if new != ANY else old for old, new in both))
            return tuple(rules)
    return (rule, *rules)


def try_rules(rules: Sequence[Rule], log: Path) -> Lesson:
    """Return the curves that these rules give over a log."""
    reader, merger = LogReader(rules=rules), MetricMerger()
    names = {name for rule in rules for name in rule.metrics}
    curves: dict[str, dict[int, float]] = {}
    blocks = [*_blocks(log)]
    for number, block in enumerate(blocks, start=1):
        readings = reader.take(block) + (reader.end() if number == len(blocks) else [])
        for each in merger.take(TEXT, readings):
            for name in each.restarts:
                curves.pop(name, None)
            for name in names & each.values.keys():
                curves.setdefault(name, {})[each.step or 0] = each.values[name]
    problems = list(reader.about_rules)
    if sum(map(len, blocks)) >= TRIAL_BYTES:
        problems.append(tr("Only the first {size} MiB of the log were tried.", size=TRIAL_BYTES >> 20))
    sorted_curves = {name: sorted(points.items()) for name, points in curves.items()}
    return Lesson(rule=rules[0], rules=tuple(rules), matched=0, curves=sorted_curves, problems=tuple(problems))


def log_lines(log: Path) -> Iterator[str]:
    """Yield the lines of a log as a terminal shows them."""
    lines = PrintedLines(all_of_them=True)
    for block in _blocks(log):
        yield from (line.text for line in lines.take(block))
    yield from (line.text for line in lines.end())


def _blocks(log: Path) -> Iterator[bytes]:
    left = TRIAL_BYTES
    with open_to_read(log) as file:
        while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            yield block


def _candidates(line: str, position: int, role: str) -> list[list[Rule]]:
    """Return rules for a number, in lists from the most specific ones to the most general ones, each ordered likewise.

    First the whole line, and its beginning up to the word after the number; then the same with digits in names as
    numbers; then only the words around the number.
    """
    tiers: list[list[Rule]] = []
    around: list[Rule] = []
    for pattern in (NUMBER, ANY_DIGITS):
        spans = [match.span() for match in pattern.finditer(line[:MAX_CHARACTERS])]
        roles = tuple(role if begin <= position < end else ANY for begin, end in spans)
        if role not in roles:
            continue
        texts, at = _between(line, spans), roles.index(role)
        before, after = texts[at].split()[-MAX_WORDS:], texts[at + 1].split()[:1]
        begins = (*texts[: at + 1], f" {' '.join(after)}")
        whole, begin = Rule(tuple(texts), roles), Rule(begins, roles[: at + 1], open_end=True)
        both = [whole, begin] if _has_word(begins) else [whole]
        tiers.append([rule for rule in both if len(rule.roles) <= MAX_NUMBERS and all(rule.texts[1:-1])])
        while before and not _has_word(before[:1]):  # a sign that may be another one in another line
            del before[0]
        if _has_word((*before, *after)):
            texts_around = (f"{' '.join(before)} ", f" {' '.join(after)}")
            around.append(Rule(texts_around, (role,), open_begin=True, open_end=True))
    return [*tiers, around]


def _has_word(texts: Sequence[str]) -> bool:
    return any(letter.isalpha() for text in texts for letter in text)


def _best(tiers: Sequence[Sequence[Rule]], lines: Iterable[str]) -> tuple[Rule, int]:
    """Return the rule to take, and how many lines it matches."""
    counts = [[0] * len(tier) for tier in tiers]
    for line in lines:
        for number, tier in enumerate(tiers):
            for index, rule in enumerate(tier):
                counts[number][index] += rule.claims(line) is not None
    most = max(map(max, counts))
    chosen = next(number for number, each in enumerate(counts) if max(each) >= min(REPEATED, most))
    enough = ENOUGH * max(counts[chosen])
    index = next(index for index, count in enumerate(counts[chosen]) if count >= enough)
    return tiers[chosen][index], counts[chosen][index]


def _between(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the texts before, between and after the spans."""
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(line)]
    return [line[end:begin] for end, begin in zip(ends, begins, strict=True)]


def metric(name: str) -> str:
    """Return the role of a number that is a value of this metric. Raises `ValueError` for a name that cannot be one."""
    name = " ".join(name.split())
    if not name or not name.isprintable() or any(brace in name for brace in "{}"):
        raise ValueError(tr("Give the metric a name without braces."))
    return METRIC + name


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Where rules are kept, and what they changed in the run."""

    path: Path
    reread: Result | None
    """None if the run is not over, so that its curves cannot be read again yet."""


class Teacher:
    """Makes rules for the log of one run."""

    def __init__(self, run_dir: Path, rank: int = 0) -> None:
        """Raise `ValueError` with a sentence if rules cannot be made for this run."""
        self._run, self._log = Run.attach(run_dir), log_of_rank(run_dir, rank)
        self._spec = self._run.spec()
        if self._spec.script is None:
            raise ValueError(tr("Run {id} trains a recipe, which reports its measurements itself.", id=self._run.id))
        if self._spec.script.expression:
            raise ValueError(
                tr("Run {id} reads its log with an expression, which takes the place of rules. Start it without.",
                   id=self._run.id)
            )
        self.rules = usable_rules(self._spec.script.rules)
        """The rules that the run has."""

    def propose_name(self, line: str, position: int) -> str:
        """Return a name for the number at this character of a line of the log."""
        return propose_name(line, position, header_of_row(line.strip(), log_lines(self._log)))

    def teach(self, line: str, position: int, role: str) -> Lesson:
        """Return the rule for a number and what it gives. Raises `ValueError` with a sentence if there is none."""
        return teach(line, position, role, self._log, self.rules)

    def keep(self, lesson: Lesson, path: str = "") -> Kept:
        """Keep the rules beside the script, or in the file `path`, and read the curves of the run again if it is over.

        Rules of that file that the run does not have stay in it. Raises `ValueError` or `RunError` with a sentence.
        """
        foreign.refuse(self._run.dir)
        script = self._spec.script
        assert script is not None
        given = path or script.rules_file
        file = chosen_file("" if given == NO_RULES else given, script, self._spec.working_dir)
        file = file or file_beside(script, self._spec.working_dir)
        others = usable_rules(read_rules(file)) if file.exists() else []
        shapes = {rule.shape for rule in lesson.rules}
        if owner := self._run.owner:
            raise ValueError(tr("Run {id} belongs to {owner}, who alone can teach it.", id=self._run.id, owner=owner))
        write_rules(file, [*lesson.rules, *(rule for rule in others if rule.shape not in shapes)])
        write_rules(self._run.dir / RULES_FILE, lesson.rules)  # they win over the rules in its spec
        self._run.catch_up()
        is_over = state_info(self._run.facts.state).over
        return Kept(path=file, reread=reread(self._run.dir) if is_over else None)


def describe(lesson: Lesson) -> list[str]:
    """Describe what a rule gives, in sentences."""
    sentences = [
        tr_plural("It matches {count} line of the log.", "It matches {count} lines of the log.", lesson.matched)
    ]
    if NO_METRIC in lesson.rule.roles:
        sentences.append(tr("The number is no metric then."))
    names = lesson.curves if not any(role.startswith(METRIC) for role in lesson.rule.roles) else lesson.rule.metrics
    for name in names:
        points = lesson.curves.get(name, [])
        if not points:
            sentences.append(tr("{name} would have no value.", name=name))
            continue
        (first_step, first), (last_step, last) = points[0], points[-1]
        sentences.append(
            tr_plural(
                "{name} would have {count} value: {last:.6g} at step {last_step}.",
                "{name} would have {count} values: from {first:.6g} at step {first_step} to {last:.6g} at step "
                "{last_step}.",
                len(points),
                name=name, first=first, first_step=first_step, last=last, last_step=last_step,
            )
        )
    return sentences


def describe_kept(kept: Kept) -> str:
    """Say where a rule is kept and what that changed, in sentences."""
    where = tr("The rule is kept in {path}.", path=kept.path)
    if kept.reread is None:
        return f"{where} {tr('The run is not over: its curves can be read again when it has ended.')}"
    return f"{where} {tr('The curves of the run were read again.')}"
