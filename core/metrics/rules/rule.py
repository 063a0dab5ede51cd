"""One rule: the shape of a line, and what each of its numbers is.

A rule is written as the line with its numbers in braces:

    round {step} of {}: total cost : {metric cost}, {no metric} s

`{metric NAME}` is a value of this metric, `{step}` and `{epoch}` say where the training is, `{no metric}` is not read
as a metric by anything, and `{}` is any number, which the built-in readers may read. A brace of the line is doubled.
`...` at the beginning or the end stands for any text. For the rows of a table, the line with the names of its columns
stands before the row, as a line of its own.

A rule is data and cannot be slow: the expression that is made from it never goes back over what it has matched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from core.language import tr

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
        """The names of its metrics."""
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
        )  # fmt: skip
    if len(rule.roles) > MAX_NUMBERS:
        raise ValueError(tr("The rule {rule!r} has more than {count} numbers.", rule=str(rule), count=MAX_NUMBERS))
    is_open = rule.open_begin or rule.open_end
    if is_open and not rule.header and not any(letter.isalnum() for text in rule.texts for letter in text):
        raise ValueError(
            tr("The rule {rule!r} would match every line with a number. Keep a word of the line in it.", rule=str(rule))
        )
    if not all(rule.texts[1:-1]):
        raise ValueError(tr("The rule {rule!r} has numbers without a text between them.", rule=str(rule)))


def number_at(line: str, position: int) -> tuple[int, int] | None:
    """Return where the number at, or just before, a position in a line begins and ends; None if there is none."""
    for pattern in (NUMBER, ANY_DIGITS):
        for match in pattern.finditer(line[:MAX_CHARACTERS]):
            if match.start() <= position <= match.end():
                return match.span()
    return None


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
            "{{no metric}} or {{}}.",
            rule=rule, role=role,
        )
    )  # fmt: skip


def _literal(text: str, *, at_begin: bool = False, at_end: bool = False) -> str:
    """Return the expression of the text between two numbers, in which blanks may be more or fewer."""
    words = [re.escape(word) for word in text.split()]
    if not words:
        return r"\s*+" if at_begin or at_end or not text else r"\s++"
    return ("" if at_begin else r"\s*+") + r"\s++".join(words) + ("" if at_end else r"\s*+")
