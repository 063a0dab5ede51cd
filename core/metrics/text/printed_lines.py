"""Split a log into the lines that a terminal shows. The bytes may come in pieces, cut anywhere.

A carriage return, or a run of backspaces as long as the line, restarts a line: the text before it was a progress bar
and is replaced. After fewer backspaces only the text at that place is replaced: kuangliu's bar writes its count so.
Colours and other control sequences are removed, invalid UTF-8 is marked, and a line without an end is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from core.metrics.dialects.plain import LATIN, NAMES

WORDS = (
    b"loss", b"acc", b"epoch", b"step", b"%|", b"error", b" err", b"_err", b"ppl", b"perplex", b"mae", b"mse",
    b"auc", b"auroc", b"f1", b"iou", b"bleu", b"rouge", b"reward", b"grad", b"lr:", b"lr=", b"lr ", b"lr_", b'lr"',
    b"lr'", b"lr-", b"learning", b"psnr", b"ssim", b"nll", b"elbo", b"dice", b"fid", b"wer:", b"wer=",
    b"cer:", b"cer=", b"map5", b"map:", b"map=", b"map@", b"bpb", b"bpc", b"precision", b"recall", b"score",
    b"entropy", b"prec@", b"iter", b"train", b"test", b"valid", b"eval", b"learn:", b"rollout/", b"time/ ",
    b"ndcg", b"approx", b"'s ",
    b"cost", b"best", b"l_", b"l1:", b"l2:", b"value obtained", b"finished with value",
    b"params:", b"parameters:", b"config:", b"settings:", b"arguments:", b"options:",
    *(word.encode() for word in LATIN),
)
"""A line without one of these contains nothing that the dialects read."""
LIMIT = 1 << 16
"""Bytes of a line to read; the rest is skipped."""
LONG_RUN = 8
"""At least this many backspaces in a row may restart the line; fewer only move back in it."""
ERASED = b"\x08" * LONG_RUN
RUN = re.compile(rb"\x08{%d,}" % LONG_RUN)
REDRAW = re.compile(rb"[\r\x08]*\r[\r\x08]*")
BACKSPACES = re.compile(r"(\x08+)")
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+][0-9A-Z]|[@-Z\\-_=>78])")
CONTROL = dict.fromkeys((*range(9), *range(11, 32), 127))


class PrintedLine(NamedTuple):
    """One line, without its newline."""

    text: str
    redrawn: bool = False  # another line replaces it on the screen: a progress bar under way
    indent: int = 0  # blanks before it


class PrintedLines:
    """Takes a log's bytes as they come and returns each line once, when it is complete.

    The result does not depend on where the bytes are cut. At most `LIMIT` bytes and a few more are kept.
    """

    def __init__(self, *, all_of_them: bool = False, words: Sequence[bytes] = ()) -> None:
        """`all_of_them`: also return the lines that cannot contain a metric, which are filtered out otherwise.

        `words`: lines with one of these are returned, too.
        """
        self._words = words
        self.all_of_them = all_of_them
        """May be changed while lines are taken: it applies to the lines after the last one returned."""
        self._rest = b""

    def take(self, data: bytes) -> Iterator[PrintedLine]:
        """Yield the lines completed by these bytes. Exhaust it before the next call."""
        data = self._rest + data
        # The last bytes may be the first half of "\r\n", or of a run of backspaces.
        decided = len(data.rstrip(b"\r\x08"))
        end = 1 + max(data.rfind(b"\n", 0, decided), data.rfind(b"\r", 0, decided), _run_end(data, decided))
        self._rest = _bounded(data[end:])
        return self._lines(data[:end])

    def end(self) -> Iterator[PrintedLine]:
        """Yield the incomplete last line, after all bytes have come."""
        data, self._rest = self._rest, b""
        return self._lines(data)

    def _lines(self, data: bytes) -> Iterator[PrintedLine]:
        begin = 0
        while begin < len(data):
            end = data.find(b"\n", begin)
            end = len(data) if end < 0 else end
            line = data[begin:end]
            if self._is_wanted(line):
                if b"\r" in line or b"\x08" in line:
                    yield from self._drawn(line, ended=end < len(data))
                elif text := _text(line[:LIMIT], strip=False):
                    yield from _printed(text)
            begin = end + 1

    def _is_wanted(self, line: bytes) -> bool:
        return self.all_of_them or holds(line) or any(map(line.__contains__, self._words))

    def _drawn(self, line: bytes, *, ended: bool) -> Iterator[PrintedLine]:
        """Yield the texts drawn in the place of one line; the last one stays on the screen if a newline `ended` it."""
        body = line.rstrip(b"\r\x08")
        drawn = [text for part in REDRAW.split(body) for text in _split_at_restarts(part)]
        for at, part in enumerate(drawn, start=1):
            if self._is_wanted(part):
                redrawn = at < len(drawn) or not (ended or body == line)
                yield from _printed(_text(part[:LIMIT], strip=False), redrawn=redrawn)


def _printed(text: str, *, redrawn: bool = False) -> Iterator[PrintedLine]:
    """Yield the line with a text; none if it is blank."""
    if stripped := text.strip():
        yield PrintedLine(stripped, redrawn, len(text) - len(text.lstrip()))


def holds(line: bytes) -> bool:
    """Return whether the line can contain a metric: whether it has one of the words, in capitals or not."""
    if any(map(line.lower().__contains__, WORDS)):
        return True
    return not line.isascii() and any(map(line.__contains__, NAMES))


def _run_end(data: bytes, decided: int) -> int:
    """Return the index of the last backspace of the last run that restarts its line, or -1."""
    if data.rfind(ERASED, 0, decided) < 0:
        return -1
    begin = 1 + max(data.rfind(b"\n", 0, decided), data.rfind(b"\r", 0, decided))
    ends = _restarts(data[begin:decided])
    return begin + ends[-1][1] - 1 if ends else -1


def _restarts(line: bytes) -> list[tuple[int, int]]:
    """Return begin and end of each run of backspaces that is at least as long as the text before it."""
    found: list[tuple[int, int]] = []
    begin = 0
    for run in RUN.finditer(line):
        if run.end() - run.start() >= len(_text(line[begin : run.start()], strip=False)):
            found.append(run.span())
            begin = run.end()
    return found


def _split_at_restarts(line: bytes) -> Iterator[bytes]:
    begin = 0
    for end, after in _restarts(line) if ERASED in line else ():
        yield line[begin:end]
        begin = after
    yield line[begin:]


def _bounded(rest: bytes) -> bytes:
    """Cut a line without an end, but keep the bytes at its end that may restart it."""
    if len(rest) <= LIMIT:
        return rest
    body = rest.rstrip(b"\r\x08")
    tail = rest[len(body) :]
    if len(tail) > 2 * LONG_RUN:
        tail = b"\r" if b"\r" in tail or len(tail) >= len(body) else ERASED
    return body[:LIMIT] + tail


def _text(line: bytes, *, strip: bool = True) -> str:
    text = line.decode("utf-8", errors="replace")
    if "\x1b" in text:
        text = SEQUENCE.sub("", text)
    if "\x08" in text:
        text = _without_backspaces(text)
    if not text.isprintable():  # cheaper than translating every line
        text = text.translate(CONTROL)
    return text.strip() if strip else text


def _without_backspaces(text: str) -> str:
    """Apply the backspaces: the text after them replaces the text that is there."""
    shown: list[str] = []
    at = 0
    for number, part in enumerate(BACKSPACES.split(text)):
        if number % 2:
            at = max(0, at - len(part))
        else:
            shown[at : at + len(part)] = part
            at += len(part)
    return "".join(shown)
