"""Read what programs print: the exception and traceback of a failure, and lines with numbers that gave no measurement.

The last line of the output is often no part of the cause: a message may have many lines, and exceptions are chained.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TRACEBACK = "Traceback (most recent call last):"
MAX_AFTER = 100
"""Lines after the exception's first one, above which the program has gone on: it has handled the exception."""
MAX_AFTER_HANDLED = 5
"""Such lines of a program that ended with another exit code than that of an exception."""
UNCAUGHT = 1
"""The exit code of Python after an exception that nothing caught."""
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RANK = re.compile(r"^\[rank\d+\]:[ ]?", re.MULTILINE)
GROUP = re.compile(r"^ *[|+][ ]?", re.MULTILINE)
"""What stands before each line of an exception group's traceback."""
RICH_FRAME = re.compile(r"^│ (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+) *│$")
NAMED = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: (?P<message>.*))?", re.DOTALL)
NAMED_INSIDE = re.compile(r"\w+(?:Error|Exception): (.+)")
KERAS = re.compile(r"Exception encountered when calling .+\.$")
"""The line that Keras puts before the message of an exception."""
GRAPH = re.compile(r"Detected at node |<stack traces unavailable>|.*\(most recent call last\):$")
"""Lines that TensorFlow puts between the heading and the message of an exception."""
PARTS = 3
"""Lines that are joined, where each ends with a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedException:
    """An exception as Python prints it."""

    name: str
    """With its module, as printed: `torch.OutOfMemoryError`."""
    message: str
    """All of it; the empty string if there is none."""

    @property
    def kind(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]

    @property
    def sentence(self) -> str:
        """The name and the message's first sentence."""
        first = first_sentence(self.message)
        return f"{self.name}: {first}" if first else self.name


def as_printed(text: str) -> str:
    """Return output as it looks on a terminal: without colours, and of overwritten lines only the last.

    The `[rank1]: ` that PyTorch puts before each line of a traceback is left out, too.
    """
    text = RANK.sub("", COLOURS.sub("", text))
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def last_traceback(text: str, exit_code: int = UNCAUGHT) -> str | None:
    """Return the traceback at the end of a Python program's output; None if it does not end with one.

    Of chained exceptions it is the last; of one that a data loader passes on, the one in its process.
    """
    before, heading, after = _as_python_prints(text).rpartition(TRACEBACK)
    if before.endswith("Exception Group "):
        after = GROUP.sub("", after)
    lines = after.splitlines()
    first = _exception_at(lines)
    if not heading or first is None:
        return None
    allowed = MAX_AFTER if exit_code <= UNCAUGHT else MAX_AFTER_HANDLED
    if len("\n".join(lines[first:]).rstrip().splitlines()) > allowed:
        return None
    return "\n".join([heading, *lines[1:]]) + "\n"


def raised_in(traceback: str) -> RaisedException | None:
    """Return the exception at the end of a traceback; None if it is not complete."""
    lines = traceback.rpartition(TRACEBACK)[2].splitlines()
    first = _exception_at(lines)
    found = None if first is None else NAMED.fullmatch("\n".join(lines[first:]).strip())
    if found is None:
        return None
    return RaisedException(name=found["name"], message=(found["message"] or "").strip())


def exception_lines(traceback: str) -> tuple[list[str], int]:
    """Return the lines of a traceback that are not empty, and which of them begins its exception.

    The last one begins it where that is unknown.
    """
    lines = [line.rstrip() for line in traceback.splitlines() if line.strip() and not set(line) <= set(" ^~")]
    headings = [at for at, line in enumerate(lines) if TRACEBACK in line]
    start = headings[-1] if headings else 0
    first = _exception_at(lines[start:])
    return lines, len(lines) - 1 if first is None else start + first


def first_sentence(message: str) -> str:
    """Return the first line of a message that says what happened.

    A heading is joined with what follows it; those of Keras and TensorFlow are left out.
    """
    if message == message.strip() and "\n" not in message:
        return message  # with its template, if it has one
    if (inner := raised_in(message)) is not None and TRACEBACK in message:
        return first_sentence(inner.message) or inner.name
    lines = [line for line in message.splitlines() if line.strip()]
    head = lines[0].strip() if lines else ""
    is_of_keras = KERAS.match(head) is not None
    if not is_of_keras and not head.endswith(":"):
        return head
    rest = [line.strip() for line in lines[1:] if not line.startswith("  ") and not GRAPH.match(line)]
    if is_of_keras:
        return rest[0] if rest else head
    if named := [found[1] for line in lines if (found := NAMED_INSIDE.match(line.strip()))]:
        return named[-1]
    parts = [head]
    for line in rest[: PARTS - 1]:
        parts.append(line)
        if not line.endswith(":"):
            break
    return " ".join(parts)


def _exception_at(lines: list[str]) -> int | None:
    """Return the first line after the frames, which are indented. `lines` begins with a heading, or with its end."""
    framed = False
    for number, line in enumerate(lines):
        if line.startswith("  "):
            framed = True
        elif framed and line.strip():
            return number
    return None


def _as_python_prints(text: str) -> str:
    """Return output with the traceback in the frame that the package rich draws as Python itself prints one."""
    lines = text.split("\n")
    end = max((at for at, line in enumerate(lines) if line.startswith("╰─")), default=0)
    starts = [at for at, line in enumerate(lines[:end]) if line.startswith("╭─") and TRACEBACK[:-1] in line]
    start = max(starts, default=-1)
    if start < 0:
        return text
    frames = [f'  File "{found["file"]}", line {found["line"]}, in {found["function"]}'
              for line in lines[start:end] if (found := RICH_FRAME.match(line))]
    return "\n".join([*lines[:start], TRACEBACK, *(frames or ["  ..."]), *lines[end + 1 :]])


SHOWN = 3
"""Lines to show, each of another shape."""
MAX_LINE = 120
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|\d+(?:e[-+]?\d+)?)(?![\w.])", re.IGNORECASE)
NUMBER_NAMED = re.compile(r"[A-Za-z]\W{0,8}[-+]?\d")
"""A number after a word."""
DATED = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|0x[0-9a-f]+", re.IGNORECASE
)
"""Dates, times, UUIDs and addresses: their numbers measure nothing."""
FRAMES = re.compile(rf"{re.escape(TRACEBACK)}\n(?: .*\n)*.*")
OF_PYTHON = re.compile(r".*Warning: |(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt)\b")
"""Lines that Python prints of a warning or an exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLine:
    """The last line of one shape."""

    text: str
    number: str
    """The last number in it, preferably one with a decimal point."""
    times: int
    """How many lines of this shape there are, one after another with other numbers."""


def unread_lines(log_end: str) -> list[UnreadLine]:
    """Return a few lines with a number after a word: first those that came again and again with other numbers.

    Of these, numbers with a decimal point come first. No line is of a traceback.
    """
    found: dict[str, UnreadLine] = {}
    for line in FRAMES.sub("", as_printed(log_end)).splitlines():
        text = line.strip()
        undated = DATED.sub("", text)
        numbers = NUMBER.findall(undated)
        if not numbers or not NUMBER_NAMED.search(undated) or len(text) > MAX_LINE or OF_PYTHON.match(text):
            continue
        shape = NUMBER.sub("0", undated)
        before = found.pop(shape, None)
        times = before.times + (before.text != text) if before else 1
        found[shape] = UnreadLine(
            text=text, number=([each for each in numbers if "." in each] or numbers)[-1], times=times
        )
    ranked = sorted(found.values(), key=lambda each: (each.times > 1, "." in each.number), reverse=True)
    return ranked[:SHOWN]


def last_line(log_end: str) -> str:
    """Return the last line of output that is not empty; the empty string if there is none."""
    lines = [line.strip() for line in as_printed(log_end).splitlines() if line.strip()]
    return lines[-1][:MAX_LINE] if lines else ""
