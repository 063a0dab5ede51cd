"""Read what programs print of a failure: the exception and its traceback.

The last line of the output is often no part of the cause: a message may have many lines, and exceptions are chained.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

TRACEBACK = "Traceback (most recent call last):"
MAX_AFTER = 100
"""Lines after the exception's first one, above which the program has gone on: it has handled the exception."""
MAX_AFTER_HANDLED = 5
"""Such lines of a program that ended with another exit code than that of an exception, or with another exception."""
UNCAUGHT = 1
"""The exit code of Python after an exception that nothing caught."""
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PROCESS = re.compile(r"\[rank\d+\]: ?|\[default\d+\]:|\[\d+,\d+\]<\w+>:|\(\w+ (?:pid|ip)=[^()]+\) ?")
"""What PyTorch, torchrun, Open MPI and Ray put before each line of a process."""
GROUP = re.compile(r"^ *[|+][ ]?", re.MULTILINE)
"""What stands before each line of an exception group's traceback."""
RICH_FRAME = re.compile(r"^│ (?P<file>\S+):(?P<line>\d+) in (?P<function>\S+) *│$")
NAMED = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\(\w+\))?)(?::(?:\s(?P<message>.*))?)?", re.DOTALL
)
NAMED_INSIDE = re.compile(r"\w+(?:Error|Exception): (.+)")
KERAS = re.compile(r"Exception encountered when calling .+\.$")
"""The line that Keras puts before the message of an exception."""
GRAPH = re.compile(r"Detected at node |<stack traces unavailable>|.*\(most recent call last\):$")
"""Lines that TensorFlow puts between the heading and the message of an exception."""
PARTS = 3
"""Lines that are joined, where each ends with a colon."""
IGNORED = re.compile(r"Exception ignored ")
"""The beginning of the line before a traceback that Python only reports, as of a destructor."""
QUOTE = '"""'
"""The line at both ends of the traceback of a pool's process."""
AFTER = re.compile(
    rf'"""$|The above exception was |During handling of |Process \S+:$|Exception in thread |{IGNORED.pattern}'
    r"|terminate called |\[[EFIW](?:\d{3,4} \d\d:\d\d:| ProcessGroup)"
)
"""What stands between an exception and the next traceback, or is logged after it by PyTorch's C++."""
OF_LAUNCHER = re.compile(
    r"(?:ChildFailedError|Process(?:Exited|Raised)Exception|BrokenProcessPool|TerminatedWorkerError|WorkerCrashedError"
    r"|ActorDiedError|RayActorError)\b|CalledProcessError: .*(?:python|torchrun|accelerate|deepspeed|\.py\b|\.sh\b)"
)
"""Exceptions of a process that started another one and saw it end."""
NCCL_ENDS = (
    r"Watchdog caught collective operation timeout", r"watchdog got stuck for \d+ seconds",
    r"NCCL operations have failed or timed out", r"NCCL communicator was aborted", r"remote process exit(?:ed|ing)\b")
"""What NCCL's watchdog prints before it ends a process by SIGABRT."""
CASCADES = (
    *NCCL_ENDS, r"\[(?!enforce)[^]\s]*gloo/transport/\w+/\w*(?:pair|buffer)\.cc:\d+\]",
    r"Timed out waiting \d+ms for", r"Connection closed by peer \[", r"Application timeout caused pair closure",
    r"monitoredBarrier (?:in|after) \d+", r"reached monitoredBarrier, but received errors", r"\bBrokenBarrierError\b",
    r"Connection was likely closed\. Did the remote", r"\d+/\d+ clients joined", r"Collective ops is aborted by",
)
"""What a process says that waited in vain for another one, or lost it. Sources: `ProcessGroupNCCL.cpp`,
`ProcessGroupGloo.cpp` and `socket.cpp` of PyTorch, Gloo's `transport/tcp`, TensorFlow's collective executor."""
ONLY_REPORTS = re.compile(
    rf"{OF_LAUNCHER.pattern}|EOFError: $|(?:BrokenPipe|Connection(?:Reset|Aborted))Error\b"
    r"|(?!CalledProcessError).*(?:\b(?:exit|return)(?:ed|s)?(?: with)?(?: a)?(?: non-?zero)?(?: exit)? ?"
    rf"(?:code|status(?! code))\b|exited unexpectedly|[Cc]onnection (?:closed|reset) by |{'|'.join(CASCADES)})"
)
"""Exceptions of a process that saw another one end, or that may have a cause of their own."""
USAGE = re.compile(r"^(?:\S+: (?:fatal )?error: \S.*|\S+: can't open file .+|.*: command not found)$", re.MULTILINE)
"""The line with which a command ends that cannot begin."""
MAX_LOGGED = 20
"""Lines that a launcher logs between such a line and its own traceback."""


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
    def only_reports(self) -> bool:
        """Whether it only says that another process has ended, whose exception is the cause."""
        return ONLY_REPORTS.match(self._line) is not None

    @property
    def is_of_launcher(self) -> bool:
        """Whether it can have no other cause."""
        return OF_LAUNCHER.match(self._line) is not None

    @property
    def _line(self) -> str:
        return f"{self.kind}: {self.message.partition(chr(10))[0]}"

    @property
    def sentence(self) -> str:
        """The name and the message's first sentence."""
        first = first_sentence(self.message)
        return f"{self.name}: {first}" if first else self.name


def as_printed(text: str) -> str:
    """Return output as it looks on a terminal: without colours, and of overwritten lines only the last.

    Names of processes before lines are left out, and the lines of each process stand together.
    """
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in COLOURS.sub("", text).split("\n")]
    found: list[str] = []
    for is_named, group in itertools.groupby(lines, key=lambda line: PROCESS.match(line) is not None):
        by_process: dict[str, list[str]] = {}
        for line in group:
            name = PROCESS.match(line) if is_named else None
            by_process.setdefault(name[0].strip() if name else "", []).append(line[name.end() if name else 0 :])
        found += itertools.chain(*by_process.values())
    return "\n".join(found)


def last_traceback(text: str, exit_code: int = UNCAUGHT) -> str | None:
    """Return the traceback at the end of a Python program's output; None if it does not end with one.

    Of chained exceptions it is the last; of one that a data loader or a pool passes on, the one in its process. One
    that only reports the end of another process gives way to that of the process before it.
    """
    allowed, found = MAX_AFTER if exit_code < 0 or exit_code == UNCAUGHT else MAX_AFTER_HANDLED, None
    lines = _as_python_prints(text).split("\n")
    end = len(lines)
    for start in reversed([at for at, line in enumerate(lines) if TRACEBACK in line]):
        block, end = _without_margin(lines[start:end]), start
        first = _exception_at(block)
        if first is None:
            continue
        ends = next((at for at in range(first + 1, len(block)) if AFTER.match(block[at])), len(block))
        if sum(bool(line[:1].strip()) for line in block[first:ends]) > allowed:
            break
        if IGNORED.match("".join(lines[start - 1 : start])):
            continue
        trace = "\n".join([TRACEBACK, *block[1:ends]]).rstrip("\n") + "\n"
        found, raised = found or trace, raised_in(trace)
        of_pool = QUOTE in lines[max(0, start - 5) : max(0, start - 1)]  # which passes the exception of its process on
        if raised is not None and not raised.only_reports and not of_pool:
            return trace
        allowed = MAX_AFTER if of_pool or raised is None or raised.is_of_launcher else MAX_AFTER_HANDLED
    return found


def _without_margin(lines: list[str]) -> list[str]:
    """Return a traceback without what stands before each of its lines, as in a group or in another message."""
    margin = lines[0][: len(lines[0]) - len(lines[0].lstrip(" |+"))]
    return [GROUP.sub("", line) if margin.strip() else line.removeprefix(margin) for line in lines]


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


def usage_error(printed: str) -> str:
    """Return the last line with which a command says that it cannot begin, as with a wrong argument; else empty.

    It stands just above the traceback of what started the command.
    """
    before = printed.rpartition(TRACEBACK[:-1])[0].splitlines()[-MAX_LOGGED:]
    return next(reversed(USAGE.findall("\n".join(before))), "")


def first_rank(raw: str, raised: RaisedException) -> int | None:
    """Return which rank raised an exception that made others fail, if the log of a launcher shows both; else None.

    `raw`: with the names that PyTorch puts before each line of an exception: `[rank1]: `.
    """
    rank = re.search(rf"^\[rank(\d+)\]: ?{re.escape(raised.name)}\b", raw, re.MULTILINE)
    if rank is None or raised.only_reports:
        return None
    lost = re.search(rf"^\[rank(?!{rank[1]}\])\d+\]:.*(?:{'|'.join(CASCADES)})", raw, re.MULTILINE)
    return int(rank[1]) if lost else None


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
    """Return the first line after the frames, which are indented. `lines` begins with a heading, or with its end.

    Ray prints the exceptions of its processes one after the other, each with its frames.
    """
    framed = False
    for number, line in enumerate(lines):
        if line.startswith("  "):
            framed = True
        elif framed and line.strip() and not "".join(lines[number + 1 : number + 2]).startswith('  File "'):
            return number
    return None


def _as_python_prints(text: str) -> str:
    """Return output with each traceback in the frame that the package rich draws as Python itself prints one."""
    found: list[str] = []
    frames: list[str] | None = None
    for line in text.split("\n"):
        if line.startswith("╭─") and TRACEBACK[:-1] in line:
            frames = []
        elif frames is None:
            found.append(line)
        elif line.startswith("╰─"):
            found += [TRACEBACK, *(frames or ["  ..."])]
            frames = None
        elif frame := RICH_FRAME.match(line):
            frames.append(f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}')
    return "\n".join(found)
