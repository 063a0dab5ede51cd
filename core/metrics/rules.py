"""Rules by which the user teaches what the numbers of a program's lines are, and the files in which they are kept.

A rule is the shape of a line, and what each of its numbers is. It is written as the line with its numbers in braces:

    round {step} of {}: total cost : {metric cost}, {no metric} s

`{metric NAME}` is a value of this metric, `{step}` and `{epoch}` say where the training is, `{no metric}` is not read
as a metric by anything, and `{}` is any number, which the built-in readers may read. A brace of the line is doubled.
`...` at the beginning or the end stands for any text. For the rows of a table, the line with the names of its columns
stands before the row, as a line of its own.

A rule is data and cannot be slow: the expression that is made from it never goes back over what it has matched.
What rules say wins over the dialects; the rest of a line is left to the dialects.

Rules are kept in a JSON file beside the script, and in the run to which a rule was taught:

    {"version": 1, "rules": ["round {step}: total cost : {metric cost}"]}
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from core.language import tr
from core.metrics.reading import MAX_STEP, Reading
from core.schema.files import parse_json, read_whole, write_whole
from core.schema.settings import Script
from core.schema.spec import MAX_RULES
from core.system.folders import writing
from core.text import one_line

STEP, EPOCH, NO_METRIC, ANY = "step", "epoch", "no metric", ""
METRIC = "metric "
"""The beginning of the role of a number that is a value of a metric; its name follows."""
OPEN = "..."
MAX_NUMBERS = 48
MAX_CHARACTERS = 4096
"""Characters of a line that are matched."""
MAX_NAME = 100

DIGITS = r"(?>\d{1,3}(?:,\d{3})++(?![\d,])(?:\.\d*+)?+|\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?\d++)?+"
UNREAL = r"(?i:nan|inf(?:inity)?)(?![\w.])"
VALUE = rf"(?>[-+]?(?:{DIGITS}|{UNREAL}))"
"""A number in a line that is matched."""
NUMBER = re.compile(rf"(?<![\w.])[-+]?(?:{DIGITS}|{UNREAL})|(?<![A-Za-z_0-9.]){DIGITS}")
"""A number in a line from which a rule is made. Digits after a letter belong to a name."""
ANY_DIGITS = re.compile(rf"(?<![\w.])[-+]?(?:{DIGITS}|{UNREAL})|(?<![0-9.]){DIGITS}")
"""A number in such a line, or digits after a letter, as in `it120`."""
SLOT = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Claim:
    """A number of a line, and what a rule says it is."""

    begin: int
    end: int
    role: str
    value: float


@dataclass(frozen=True)
class Rule:
    """The shape of a line: the texts around its numbers, one more than numbers, and the role of each number."""

    texts: tuple[str, ...]
    roles: tuple[str, ...]
    header: str = ""
    """The names of the columns, for the rows of a table."""
    open_begin: bool = False
    """Whether any text may come before."""
    open_end: bool = False

    def __str__(self) -> str:
        escaped = [text.replace("{", "{{").replace("}", "}}") for text in self.texts]
        line = escaped[0] + "".join(f"{{{role}}}{text}" for role, text in zip(self.roles, escaped[1:], strict=True))
        line = f"{OPEN} {line.lstrip()}" if self.open_begin else line
        line = f"{line.rstrip()} {OPEN}" if self.open_end else line
        return f"{self.header}\n{line}" if self.header else line

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for rules about the same lines."""
        texts = tuple(" ".join(text.split()) for text in self.texts)
        return texts, words_of(self.header), self.open_begin, self.open_end

    @property
    def metrics(self) -> list[str]:
        return [role.removeprefix(METRIC) for role in self.roles if role.startswith(METRIC)]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        literals = [_literal(self.texts[0], at_begin=True)]
        literals += [_literal(text) for text in self.texts[1:-1]]
        literals.append(_literal(self.texts[-1], at_end=True))
        before = r"(?<!\w)" if self.open_begin and self.texts[0].lstrip()[:1].isalnum() else ""
        after = (r"\b" if self.texts[-1].rstrip()[-1:].isalnum() else "") if self.open_end else r"\s*+\Z"
        return re.compile(before + f"({VALUE})".join(literals) + after)

    @cached_property
    def word(self) -> str:
        """The longest text that a line must contain: it rules out most lines."""
        return max((word for text in self.texts for word in text.split()), key=len, default="")

    def claims(self, line: str) -> list[Claim] | None:
        """Return what the numbers of a line are, as far as this rule says; None if the line has another shape."""
        if self.word not in line:
            return None
        line = line[:MAX_CHARACTERS]
        match = self._pattern.search(line) if self.open_begin else self._pattern.match(line)
        if match is None:
            return None
        return [
            Claim(*match.span(number), role, float(match[number].replace(",", "")))
            for number, role in enumerate(self.roles, start=1)
            if role != ANY
        ]


def parse_rule(text: str) -> Rule:
    """Return the rule that is written so. Raises `ValueError` with a sentence if it is none."""
    header, newline, line = text.rpartition("\n")
    open_begin, open_end = line.startswith(OPEN), line.endswith(OPEN) and len(line) > len(OPEN)
    line = line[len(OPEN) * open_begin : len(line) - len(OPEN) * open_end]
    line = line.lstrip() if open_begin else line
    line = line.rstrip() if open_end else line
    texts, roles, at = [""], [], 0
    for match in SLOT.finditer(line):
        texts[-1] += line[at : match.start()]
        at = match.end()
        if match[0] in {"{{", "}}"}:
            texts[-1] += match[0][0]
        elif match[1] is None:
            raise ValueError(tr("The rule {rule!r} has a single brace. Double the braces of the line.", rule=text))
        else:
            roles.append(_role(match[1], text))
            texts.append("")
    texts[-1] += line[at:]
    rule = Rule(tuple(texts), tuple(roles), header.strip() if newline else "", open_begin, open_end)
    check_rule(rule)
    return rule


def check_rule(rule: Rule) -> None:
    """Raise `ValueError` with a sentence if a rule says nothing, or would match everything."""
    if not any(rule.roles):
        raise ValueError(
            tr(
                "The rule {rule!r} says nothing. Mark a number in it, as {example} or {other}.",
                rule=str(rule), example="{metric loss}", other="{step}",
            )
        )
    if len(rule.roles) > MAX_NUMBERS:
        raise ValueError(tr("The rule {rule!r} has more than {count} numbers.", rule=str(rule), count=MAX_NUMBERS))
    is_open = rule.open_begin or rule.open_end
    if is_open and not rule.header and not any(letter.isalnum() for text in rule.texts for letter in text):
        raise ValueError(
            tr("The rule {rule!r} would match every line with a number. Keep a word of the line in it.", rule=str(rule))
        )
    if not all(rule.texts[1:-1]):
        raise ValueError(tr("The rule {rule!r} has numbers without a text between them.", rule=str(rule)))


def numbers_of(line: str) -> list[tuple[int, int]]:
    """Return where the numbers of a line begin and end."""
    return [match.span() for match in NUMBER.finditer(line[:MAX_CHARACTERS])]


def number_at(line: str, position: int) -> tuple[int, int] | None:
    """Return where the number at, or just before, a position in a line begins and ends; None if there is none."""
    for pattern in (NUMBER, ANY_DIGITS):
        for match in pattern.finditer(line[:MAX_CHARACTERS]):
            if match.start() <= position <= match.end():
                return match.span()
    return None


def nearest_number(line: str, position: int) -> tuple[int, int] | None:
    """Return where the number at a position of a line, or else the nearest to it, begins and ends; None without one."""
    near = sorted(numbers_of(line), key=lambda span: min(abs(span[0] - position), abs(span[1] - position)))
    return number_at(line, position) or next(iter(near), None)


def words_of(line: str) -> tuple[str, ...]:
    """Return the words of a line, as which headers of tables are compared."""
    return tuple(word for word in re.split(r"[\s|,;]+", line) if word)


def _role(text: str, rule: str) -> str:
    role = " ".join(text.split())
    name = role.removeprefix(METRIC)
    if role in {STEP, EPOCH, NO_METRIC, ANY} or (
        role.startswith(METRIC) and name.isprintable() and len(name) <= MAX_NAME
    ):
        return role
    raise ValueError(
        tr(
            "The rule {rule!r} has a number of the kind {{{role}}}. Write {{metric NAME}}, {{step}}, {{epoch}}, "
            "{{no metric}} or {{}}.", rule=rule, role=role,
        )
    )


def _literal(text: str, *, at_begin: bool = False, at_end: bool = False) -> str:
    """Return the expression of the text between two numbers, in which blanks may be more or fewer."""
    words = [re.escape(word) for word in text.split()]
    if not words:
        return r"\s*+" if at_begin or at_end or not text else r"\s++"
    return ("" if at_begin else r"\s*+") + r"\s++".join(words) + ("" if at_end else r"\s*+")


BLANK = "_"
"""Takes the place of the digits that a rule has claimed, so that no dialect reads them."""
SHOWN_CHARACTERS = 80


class RuleSet:
    """The rules of one log, in their order: the first that claims a number has it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.matched = [0] * len(self.rules)
        """The number of lines that each rule matched."""
        self._headers = {words_of(rule.header) for rule in self.rules if rule.header}
        self._header: tuple[str, ...] = ()
        self._step: int | None = None
        """The step that a rule found in the last line that has one."""
        self._placed: set[str] = set()
        """The metrics that had a value at this step: further values without a step of their own have another one."""
        self._conflict = ""
        self._lines = 0

    @property
    def words(self) -> tuple[bytes, ...] | None:
        """Texts of which each line that a rule matches has one; None if every line may match."""
        if any(rule.header or not rule.word for rule in self.rules):
            return None
        return tuple({rule.word.encode() for rule in self.rules})

    def taught(self, line: str) -> tuple[str, Reading | None]:
        """Return a line without the numbers that the rules claim, and what they say; None if they say nothing."""
        self._lines += 1
        claims = self._claims(line)
        if not claims:
            if self._headers and (words := words_of(line)) in self._headers:
                self._header = words
            return line, None
        values = {claim.role.removeprefix(METRIC): claim.value for claim in claims if claim.role.startswith(METRIC)}
        step, epoch = _number(claims, STEP), _number(claims, EPOCH)
        if step is not None and step.is_integer() and abs(step) < MAX_STEP:
            self._step, self._placed = int(step), set()
        says = values or step is not None or epoch is not None
        for claim in claims:
            line = line[: claim.begin] + BLANK * (claim.end - claim.begin) + line[claim.end :]
        return line, Reading(values=values, step=self.step_of(values), epoch=epoch) if says else None

    def step_of(self, metrics: Collection[str]) -> int | None:
        """Return the step for the next value of these metrics; None if one of them has a value at the last step."""
        if not self._placed.isdisjoint(metrics):
            return None
        self._placed.update(metrics)
        return self._step

    @property
    def problems(self) -> list[str]:
        """Sentences on rules that match nothing, and on numbers that two rules claim; for the end of the log."""
        found = [self._conflict] if self._conflict else []
        if self._lines:
            found += [
                tr("The rule {rule!r} matches no line of the log.", rule=str(rule))
                for rule, count in zip(self.rules, self.matched, strict=True)
                if not count
            ]
        return found

    def claims(self, line: str) -> list[Claim]:
        """Return what the rules say about the numbers of a line, without counting it; headers are not needed."""
        return _first_ones([found for rule in self.rules if (found := rule.claims(line)) is not None])

    def _claims(self, line: str) -> list[Claim]:
        found: list[list[Claim]] = []
        owners: list[Rule] = []
        for index, rule in enumerate(self.rules):
            if rule.header and words_of(rule.header) != self._header:
                continue
            claims = rule.claims(line)
            if claims is not None:
                self.matched[index] += 1
                found.append(claims)
                owners.append(rule)
        if len(found) > 1 and not self._conflict:
            self._conflict = _conflict(line, found, owners)
        return _first_ones(found)


def usable_rules(texts: Sequence[str]) -> list[Rule]:
    """Return those rules of a spec that can be used: its file was checked, but a run directory is not trusted."""
    rules = []
    for text in texts[:MAX_RULES]:
        with contextlib.suppress(ValueError):
            rules.append(parse_rule(text))
    return rules


def _first_ones(found: Sequence[Sequence[Claim]]) -> list[Claim]:
    """Return the claims, without those on a number that an earlier rule has claimed."""
    taken: dict[int, Claim] = {}
    for claims in found:
        for claim in claims:
            if not any(each.begin < claim.end and claim.begin < each.end for each in taken.values()):
                taken[claim.begin] = claim
    return [taken[begin] for begin in sorted(taken)]


def _conflict(line: str, found: Sequence[Sequence[Claim]], owners: Sequence[Rule]) -> str:
    """Return a sentence if two rules say different things about one number; else the empty string."""
    first: dict[tuple[int, int], tuple[Claim, Rule]] = {}
    for claims, rule in zip(found, owners, strict=True):
        for claim in claims:
            earlier, owner = first.setdefault((claim.begin, claim.end), (claim, rule))
            if earlier.role != claim.role:
                return tr("Two rules claim the number {number} of the line {line!r}: {first!r} and {second!r}. "
                          "The first is used.",
                          number=line[claim.begin : claim.end], line=one_line(line, SHOWN_CHARACTERS),
                          first=str(owner), second=str(rule))
    return ""


def _number(claims: Sequence[Claim], role: str) -> float | None:
    return next((claim.value for claim in claims if claim.role == role), None)


VERSION = 1
SUFFIX = ".rules.json"
MAX_BYTES = 1 << 18
NO_RULES = "none"
"""In place of a file: no rules, although there is a file beside the script."""


def file_beside(script: Script, working_dir: str) -> Path:
    """Return where the rules of a script are kept: `train.rules.json` beside `train.py`; for a module in its folder."""
    if script.module:
        return Path(working_dir, f"{script.module}{SUFFIX}")
    path = Path(script.path)
    return path.with_name(f"{path.stem if path.suffix == '.py' else path.name}{SUFFIX}")


def chosen_file(given: str, script: Script, working_dir: str) -> Path | None:
    """Return the file of rules to use: the one that is given, or one beside the script; None for no rules."""
    if given == NO_RULES:
        return None
    if given:
        return Path(working_dir, Path(given).expanduser())
    usual = file_beside(script, working_dir)
    return usual if usual.is_file() else None


def read_rules(path: Path) -> tuple[str, ...]:
    """Return the rules in a file. Raises `ValueError` with a sentence that names the file if it cannot be used."""
    try:
        found = parse_json(read_whole(path, MAX_BYTES, follow_link=True))
    except OSError as error:
        raise ValueError(
            tr("The rules {path} cannot be read: {strerror}.", path=path, strerror=error.strerror or error)
        ) from error
    except ValueError as error:
        raise ValueError(tr("The rules {path} cannot be used. {error}", path=path, error=error)) from error
    rules = found.get("rules") if isinstance(found, dict) else None
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules) or len(rules) > MAX_RULES:
        raise ValueError(
            tr(
                'The rules {path} cannot be used: a file of rules is an object with a list of at most {count} texts, '
                '"rules".',
                path=path, count=MAX_RULES,
            )
        )
    if isinstance(found.get("version"), int) and found["version"] > VERSION:
        raise ValueError(tr("The rules {path} were written by a newer Trainyard. Update Trainyard.", path=path))
    try:
        for rule in rules:
            parse_rule(rule)
    except ValueError as error:
        raise ValueError(tr("The rules {path} cannot be used. {error}", path=path, error=error)) from error
    return tuple(rules)


def write_rules(path: Path, rules: Iterable[Rule | str]) -> None:
    """Replace a file of rules. Raises `RunError` with a sentence if it cannot be written; the old file stays then."""
    text = json.dumps({"version": VERSION, "rules": [str(rule) for rule in rules]}, indent=2, ensure_ascii=False)
    with writing(path, tr("Check the permissions of its folder.")):
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_whole(path, text + "\n")
        if mode is not None:
            path.chmod(mode)
