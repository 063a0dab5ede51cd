"""Send a message through all channels that are set, each within a time limit, and again where that may help."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from core.errors import RunError
from core.language import tr, tr_noop
from core.notifications.channels import FAILED, Channel, NoDesktopError, NotDeliveredError, TemporaryError
from core.notifications.message import Message, RunNews, message_about
from core.notifications.settings import CHANNELS, NotificationSettings, load
from core.queue.folder import own_line
from core.queue.listing import held_words
from core.schema.event_kinds import Notice
from core.schema.events import Writer
from core.schema.paths import EVENTS, NOTIFICATION_EVENTS

LIMIT_S = 20.0
"""Seconds for each attempt of a channel."""
MARGIN_S = 5.0
"""Seconds that a channel may need beyond its own limit, such as a server that sends a byte now and then."""
RETRY_S = (15.0, 60.0, 240.0)
"""Seconds to wait before each further attempt at a service that could not be reached."""
LATER = tr_noop("A later attempt to send the notification through {channel} succeeded.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a message in one channel."""

    channel: Channel
    why: str = ""
    """Why it was not delivered: a sentence without secrets; the empty string if it was."""
    detail: str = ""
    """More for the user alone."""
    is_absent: bool = False
    """Whether there is no desktop here, which is no failure."""
    is_temporary: bool = False
    """Whether another attempt may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A message that is to be sent again through some channels."""

    settings: NotificationSettings
    message: Message
    channels: tuple[Channel, ...]


def deliver(
    settings: NotificationSettings, message: Message, limit_s: float = LIMIT_S, *,
    channels: Sequence[Channel] = CHANNELS,
) -> list[Outcome]:  # fmt: skip
    """Send a message through those of the channels that are set, at the same time.

    Returns within `limit_s` and some seconds.
    """
    channels = [each for each in channels if getattr(settings, each.name)]
    outcomes: dict[str, Outcome] = {}

    def send(channel: Channel) -> None:
        outcomes[channel.name] = _outcome(channel, settings, message, limit_s)

    threads = [Thread(target=send, args=(each,), name=f"notify {each.name}", daemon=True) for each in channels]
    deadline = time.monotonic() + limit_s + MARGIN_S
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = tr("It was not done within {seconds:g} s.", seconds=limit_s + MARGIN_S)
    return [outcomes.get(each.name) or Outcome(channel=each, why=late) for each in channels]


def deliver_news(news: Sequence[RunNews]) -> list[Undelivered]:
    """Send one message about these runs as the user has set; record in each run what could not be delivered.

    Returns what `retry` is to send again.
    """
    loaded = load()
    failures = [loaded.problem] if loaded.problem else []
    message = message_about(news, held=_queue_is_held(news))
    outcomes = deliver(loaded.settings, message)
    failures += [recorded(each) for each in outcomes if each.why and not each.is_absent]
    _record_in_all(message, failures)
    again = tuple(each.channel for each in outcomes if each.is_temporary)
    return [Undelivered(settings=loaded.settings, message=message, channels=again)] if again else []


def retry(undelivered: Iterable[Undelivered], sleep: Callable[[float], None] = time.sleep) -> None:
    """Send messages again through services that could not be reached, after the times in `RETRY_S`.

    What is delivered then is recorded in the runs.
    """
    left = list(undelivered)
    for wait_s in RETRY_S:
        if not left:
            return
        sleep(wait_s)
        left = [again for each in left if (again := _sent_again(each)) is not None]


def _sent_again(given: Undelivered) -> Undelivered | None:
    """Send a message again; return what is to be sent once more."""
    outcomes = deliver(given.settings, given.message, channels=given.channels)
    delivered = [tr(LATER, channel=tr(each.channel.title)) for each in outcomes if not each.why]
    _record_in_all(given.message, delivered)
    again = tuple(each.channel for each in outcomes if each.is_temporary)
    return replace(given, channels=again) if again else None


def _record_in_all(message: Message, texts: Sequence[str]) -> None:
    for run_dir in dict.fromkeys(each.run_dir for each in message.news):
        record(Path(run_dir), texts)


def _queue_is_held(news: Sequence[RunNews]) -> str:
    """Return why the user's queue is held, if one of these runs may be the cause; else the empty string."""
    if not any(each.occasion == FAILED for each in news):
        return ""
    with contextlib.suppress(OSError, RunError):
        return held_words(own_line().line.held_users().get(os.getuid(), ""))
    return ""


def recorded(outcome: Outcome) -> str:
    """Return what is recorded in a run about a message that was not delivered."""
    return tr(outcome.channel.not_delivered, why=outcome.why)


def record(run_dir: Path, failures: Iterable[str]) -> None:
    """Record sentences in a run, as far as its folder is still there and has room."""
    texts = list(failures)
    if not texts:
        return
    with contextlib.suppress(OSError), contextlib.closing(Writer(run_dir / EVENTS / NOTIFICATION_EVENTS)) as events:
        for text in texts:
            events.write(Notice(text=text))


def _outcome(channel: Channel, settings: NotificationSettings, message: Message, limit_s: float) -> Outcome:
    try:
        channel.send(getattr(settings, channel.name), message, limit_s)
    except NotDeliveredError as error:
        return Outcome(
            channel=channel,
            why=str(error),
            detail=error.detail,
            is_absent=isinstance(error, NoDesktopError),
            is_temporary=isinstance(error, TemporaryError),
        )
    except Exception as error:  # noqa: BLE001 (the outer border of a thread; a library of others may raise anything)
        why = tr("It failed for an unexpected reason: {error}. Please report this.", error=type(error).__name__)
        return Outcome(channel=channel, why=why, detail=repr(error))
    return Outcome(channel=channel)
