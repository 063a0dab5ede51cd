"""The text that is sent about one run or several, and why it was not delivered."""

from __future__ import annotations

import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.language import join_sentences, tr, tr_noop, tr_plural
from core.notifications.settings import FAILED, FINISHED, LOST, STALLED, STOPPED
from core.schema.codec import encode
from core.text import as_sentence, first_names, join_names, join_phrases, replace_control_characters, short
from core.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.notifications.news import RunNews


TITLES = {
    FINISHED: tr_noop("{name} has finished"),
    STOPPED: tr_noop("{name} was stopped"),
    FAILED: tr_noop("{name} has failed"),
    LOST: tr_noop("{name} was lost"),
    STALLED: tr_noop("{name} makes no progress"),
}
PAUSED = tr_noop("{name} was paused")
COUNTS = {
    FINISHED: tr_noop("{count} finished"),
    STOPPED: tr_noop("{count} stopped"),
    FAILED: tr_noop("{count} failed"),
    LOST: tr_noop("{count} lost"),
    STALLED: tr_noop("{count} without progress"),
}
LISTS = {
    FINISHED: tr_noop("Finished: {names}."),
    STOPPED: tr_noop("Stopped: {names}."),
    FAILED: tr_noop("Failed: {names}."),
    LOST: tr_noop("Lost: {names}."),
    STALLED: tr_noop("No progress: {names}."),
}
WORST_FIRST = (FAILED, LOST, STALLED, STOPPED, FINISHED)
BAD = frozenset({FAILED, LOST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent."""

    title: str
    text: str
    occasion: str
    """The worst of the runs; the empty string for a test."""
    news: tuple[RunNews, ...] = field(default=(), repr=False)

    @property
    def is_bad(self) -> bool:
        """Whether a run failed or was lost."""
        return self.occasion in BAD

    def to_json(self) -> dict[str, Any]:
        """Return the message for programs; `text` and `content` are what chat services show."""
        whole = f"{self.title}\n{self.text}"
        return {
            "title": self.title, "message": self.text, "text": whole, "content": whole, "occasion": self.occasion,
            "host": socket.gethostname(), "runs": [encode(each) for each in self.news],
        }  # fmt: skip


def trial_message() -> Message:
    """Return the message that `trainyard notify test` sends."""
    return Message(
        title=tr("Trainyard can reach you"),
        text=tr("This is a test from {host}. A run would be named here when it ends.", host=socket.gethostname()),
        occasion="",
    )


def message_about(news: Sequence[RunNews], held: str = "") -> Message:
    """Return one message about these runs; there must be one at least. `held`: why the user's queue is held."""
    worst = next(each for each in WORST_FIRST if any(one.occasion == each for one in news))
    title, text = _about_one(news[0]) if len(news) == 1 else _about_several(news)
    text = f"{text}\n{held}" if held else text
    return Message(
        title=replace_control_characters(title), text=replace_control_characters(text, keep="\n"), occasion=worst,
        news=tuple(news),
    )  # fmt: skip


def _about_one(news: RunNews) -> tuple[str, str]:
    title = PAUSED if news.state == "paused" else TITLES[news.occasion]
    losses = []
    if news.last_loss is not None:
        losses.append(tr("loss {loss}", loss=short(news.last_loss)))
    if news.best_validation_loss is not None:
        losses.append(tr("best val. loss {loss}", loss=short(news.best_validation_loss)))
    if news.duration_s is not None:
        losses.append(tr("after {duration}", duration=duration(news.duration_s)))
    numbers = as_sentence(join_phrases(losses)) if losses else ""
    return tr(title, name=news.name), join_sentences([numbers, news.memory, _ended(news.detail)])


def _ended(detail: str) -> str:
    return detail if not detail or detail.endswith((".", "!", "?", "…", "。")) else tr("{phrase}.", phrase=detail)


def _about_several(news: Sequence[RunNews]) -> tuple[str, str]:
    counts = Counter(each.occasion for each in news)
    present = [each for each in WORST_FIRST if counts[each]]
    counted = join_phrases(tr(COUNTS[each], count=counts[each]) for each in present)
    title = tr_plural("{count} run: {counted}", "{count} runs: {counted}", len(news), counted=counted)
    lines = [tr(LISTS[each], names=join_names(first_names(_named(news, each)))) for each in present]
    if error := next((each.detail for each in reversed(news) if each.occasion in BAD and each.detail), ""):
        lines.append(tr("The last error: {error}", error=error))
    memories = [each for each in news if each.memory_is_held]
    if memories:
        lines.append(memories[-1].memory)
    return title, "\n".join(lines)


def _named(news: Sequence[RunNews], occasion: str) -> list[str]:
    """Return the names of the runs of an occasion, with the losses of those that finished; equal ones are counted."""
    names = Counter(_name(each) for each in news if each.occasion == occasion)
    return [
        name if count == 1 else tr("{name} ({count} times)", name=name, count=count) for name, count in names.items()
    ]


def _name(news: RunNews) -> str:
    if news.occasion != FINISHED or news.last_loss is None:
        return news.name
    return tr("{name} (loss {loss})", name=news.name, loss=short(news.last_loss))


class NotDeliveredError(Exception):
    """A message was not delivered. `str()` is a sentence; `detail` is for the user alone."""

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.detail = detail


class NoDesktopError(NotDeliveredError):
    """There is no desktop that could show a message, as on a server. This is no failure."""


class TemporaryError(NotDeliveredError):
    """A service cannot be reached, or cannot take a message now; it may be able to a little later."""
