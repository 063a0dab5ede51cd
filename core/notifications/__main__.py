"""Entry point of the process that sends a notification: ``python -m core.notifications FOLDER WHAT [SENTENCES]``.

WHAT: ended, lost, or an alarm: of the run in FOLDER, or of the machine if that is the folder of all runs. It ends when
the message is delivered or given up, and nothing else waits to be sent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from core import language
from core.notifications.channels import OCCASIONS, UNRELEASED
from core.notifications.delivery import Outbox, Undelivered, deliver_news, record, retry
from core.notifications.message import RunNews, news_of_end, news_of_trouble
from core.notifications.settings import NotificationSettings, load
from core.runs.facts import HELD

NICE = 10


def is_wanted(news: RunNews, settings: NotificationSettings) -> bool:
    """Return whether the settings ask for a notification of this."""
    took_s = news.asked_s if news.asked_s is not None else 0.0
    is_short = bool(OCCASIONS[news.occasion].states) and took_s < settings.min_duration_s
    return news.occasion in settings.occasions and not is_short


def main() -> int:
    """Send a notification about the run, or the machine, whose folder is the first argument."""
    run_dir, what, *detail = Path(sys.argv[1]), *sys.argv[2:]
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGQUIT):  # the shell in the background ignores them, and commands would, too
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    language.use(language.from_environment(os.environ))
    has_ended = what in {"ended", "lost"}
    news = news_of_end(run_dir, only_lost=what == "lost") if has_ended else news_of_trouble(run_dir, what, *detail)
    if news is None:
        return 0
    loaded = load()
    if not is_wanted(news, loaded.settings) and news.memory_verdict in {each.value for each in HELD}:
        news = replace(news, occasion=UNRELEASED, detail="")  # the end that is not wanted would have said it, too
    if is_wanted(news, loaded.settings):
        undelivered: list[Undelivered] = []
        Outbox(lambda collected: undelivered.extend(deliver_news(collected))).send(news)
        retry(undelivered)  # the outbox is no longer locked: other processes send what comes meanwhile
    elif loaded.problem:
        record(run_dir, [loaded.problem])
    return 0


if __name__ == "__main__":
    sys.exit(main())
