"""Collect news, and send a message through all channels that are set, again where that may help.

Runs that end within a short time, and a flood of failing ones, become one message. Each run's news is a file in the
user's cache folder. Whichever process holds the lock of that folder sends what waits there; another one leaves its news
to it. The files of a process that was killed are sent by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from core.errors import RunError
from core.language import tr, tr_noop
from core.notifications.channels import FAILED, LOST, Channel, NoDesktopError, NotDeliveredError, TemporaryError
from core.notifications.message import Message, RunNews, message_about
from core.notifications.settings import CHANNELS, NotificationSettings, load
from core.queue.folder import own_line
from core.queue.listing import held_words
from core.schema.codec import decode, encode
from core.schema.event_kinds import Notice
from core.schema.events import Writer
from core.schema.files import open_to_append, read_json, write_whole
from core.schema.paths import EVENTS, NOTIFICATION_EVENTS
from core.system.folders import cache_folder, make_cache_folder

QUIET_S = 2.0
"""Seconds without further news after which a message is sent."""
QUIET_AFTER_FAILURE_S = 10.0
"""As `QUIET_S`, after a failure: what broke one run often breaks the next ones, too."""
MAX_WAIT_S = 60.0
"""Seconds after the first news at which a message is sent in any case."""
SPACING_S = 60.0
"""Seconds between two messages."""
MAX_SPACING_S = 1800.0
FLOOD = 4
"""Runs in one message from which on the next one has twice the distance."""
KEPT_S = 7 * 86_400.0
"""Seconds after which news is too old to be sent."""
MAX_FILES = 10_000
NAP_S = 60.0
SUFFIX = ".news"
LAST_SENT = "sent.json"
MAX_BYTES = 64 * 1024


class Outbox:
    """Collects news and hands it to `deliver`, at once as a list."""

    def __init__(
        self, deliver: Callable[[Sequence[RunNews]], None], *, folder: Path | None = None,
        now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._deliver, self._now, self._sleep = deliver, now, sleep
        self._folder = folder or cache_folder() / "notifications"

    def send(self, news: RunNews) -> None:
        """Have the news sent, by this process or by the one that is sending. Returns when nothing waits any more.

        Where the folder cannot be used, the news is sent at once and alone.
        """
        try:
            make_cache_folder(self._folder)
            write_whole(self._folder / f"{time.time_ns()}-{os.getpid()}{SUFFIX}", json.dumps(encode(news)))
        except OSError:
            self._deliver([news])
            return
        while self._waiting():
            with self._lock() as is_ours:
                if not is_ours:
                    return  # its holder looks once more after it has given the lock up
                self._send_all()

    def _send_all(self) -> None:
        while waiting := self._waiting():
            read = [(path, *self._read(path)) for path in waiting]
            found = [(arrived, news) for _, arrived, news in read if news is not None]
            if found and (wait_s := self._due(found) - self._now()) > 0:
                self._sleep(min(wait_s, NAP_S))  # what arrives meanwhile makes it later, never earlier
                continue
            for path in waiting:  # before, so that a message that ends this process is not sent for ever
                path.unlink(missing_ok=True)
            if found:
                self._deliver([news for _, news in found])
                self._keep_sent(len(found))

    def _due(self, found: Sequence[tuple[float, RunNews]]) -> float:
        """Return the time at which these should be sent, in Unix seconds."""
        arrivals = [arrived for arrived, _ in found]
        has_failed = any(news.occasion in {FAILED, LOST} for _, news in found)
        quiet_s = QUIET_AFTER_FAILURE_S if has_failed else QUIET_S
        collected = min(max(arrivals) + quiet_s, min(arrivals) + MAX_WAIT_S)
        sent, spacing_s = self._sent()
        return max(collected, sent + spacing_s)

    def _waiting(self) -> list[Path]:
        try:
            return sorted(self._folder.glob(f"*{SUFFIX}"))[:MAX_FILES]
        except OSError:
            return []

    def _read(self, path: Path) -> tuple[float, RunNews | None]:
        """Return when news arrived, and the news; None if it is damaged, or too old."""
        try:
            arrived = path.stat().st_mtime
            age_s = self._now() - arrived
            news = decode(RunNews, read_json(path, MAX_BYTES)) if age_s < KEPT_S else None
        except (OSError, ValueError):
            return 0.0, None
        return arrived if age_s >= 0 else 0.0, news  # a clock that was set back must not delay it

    def _sent(self) -> tuple[float, float]:
        """Return when the last message was sent, and how far the next must be from it."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = read_json(self._folder / LAST_SENT, MAX_BYTES)
            sent, spacing_s = float(found["time"]), float(found["spacing_s"])
            if sent <= self._now() and 0 <= spacing_s <= MAX_SPACING_S:
                return sent, spacing_s
        return 0.0, SPACING_S

    def _keep_sent(self, count: int) -> None:
        before, spacing_s = self._sent()
        is_flood = count >= FLOOD and self._now() - before < 2 * spacing_s
        spacing_s = min(2 * spacing_s, MAX_SPACING_S) if is_flood else SPACING_S
        with contextlib.suppress(OSError):
            write_whole(self._folder / LAST_SENT, json.dumps({"time": self._now(), "spacing_s": spacing_s}))

    @contextlib.contextmanager
    def _lock(self) -> Iterator[bool]:
        """Hold the folder's lock, and yield True; yield False while another process holds it."""
        try:
            handle = open_to_append(self._folder / "lock")
        except OSError:
            yield True  # better twice than not at all
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        except OSError:  # a file system without locks
            yield True
        else:
            yield True
        finally:
            os.close(handle)


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
) -> list[Outcome]:
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
    held = ""  # why the user's queue is held, if one of these runs may be the cause
    if any(each.occasion == FAILED for each in news):
        with contextlib.suppress(OSError, RunError):
            held = held_words(own_line().line.held_users().get(os.getuid(), ""))
    message = message_about(news, held)
    outcomes = deliver(loaded.settings, message)
    failures += [tr(each.channel.not_delivered, why=each.why) for each in outcomes if each.why and not each.is_absent]
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
    for run_dir in dict.fromkeys(each.run_dir for each in message.news if each.run_dir):
        record(Path(run_dir), texts)


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
            channel=channel, why=str(error), detail=error.detail, is_absent=isinstance(error, NoDesktopError),
            is_temporary=isinstance(error, TemporaryError),
        )
    except Exception as error:  # noqa: BLE001 (the outer border of a thread; a library of others may raise anything)
        why = tr("It failed for an unexpected reason: {error}. Please report this.", error=type(error).__name__)
        return Outcome(channel=channel, why=why, detail=repr(error))
    return Outcome(channel=channel)
