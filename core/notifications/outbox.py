"""What waits to be sent: runs that end within a short time, and a flood of failing ones, become one message.

Each run's news is a file in the user's cache folder. Whichever process holds the lock of that folder sends what waits
there; another one leaves its news to it. The files of a process that was killed are sent by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from core.notifications.channels import FAILED, LOST
from core.notifications.message import RunNews
from core.schema.codec import decode, encode
from core.schema.files import open_to_append, read_json, write_whole
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
    ) -> None:  # fmt: skip
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
