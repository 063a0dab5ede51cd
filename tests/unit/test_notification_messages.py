"""What a notification says about one run and about several, and when it is sent."""

import fcntl
import json
import math
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.notifications.__main__ import is_wanted
from core.notifications.delivery import MAX_SPACING_S, MAX_WAIT_S, QUIET_AFTER_FAILURE_S, SPACING_S, Outbox
from core.notifications.message import RunNews, message_about, news_of_end, news_of_trouble
from core.notifications.settings import NotificationSettings, save
from core.notifications.start import Notifier
from core.schema.codec import decode, encode
from core.schema.event_kinds import Release, Verdict
from tests.support.running import attached
from tests.support.written_runs import BEGAN, values, write_run

NEWS = RunNews(
    run_dir="/runs/a", name="digits_cnn", occasion="finished", state="finished", time=1000.0, duration_s=11_400.0,
    asked_s=11_400.0, last_loss=0.03, best_validation_loss=0.0213, memory="The memory of GPU 0 and 1 is free again.",
    memory_verdict="released", detail="", loss="val. loss 0.0213",
)


def failed(name: str, error: str = "CUDA is out of memory.") -> RunNews:
    return replace(
        NEWS, name=name, occasion="failed", state="failed", last_loss=None, best_validation_loss=None, detail=error,
        loss="",
    )


def test_message_about_one_run_has_its_numbers() -> None:
    message = message_about([NEWS])
    assert message.title == "digits_cnn has finished"
    assert message.text == (
        "Val. loss 0.0213, after 3 h 10 min. The memory of GPU 0 and 1 is free again."
    )
    document = message.to_json()
    assert document["runs"][0]["last_loss"] == 0.03
    assert document["text"].startswith("digits_cnn has finished\nVal. loss 0.0213")


def test_words_of_what_differs_tell_runs_of_one_name_apart() -> None:
    first, second = (replace(NEWS, difference=f"lr 0.{number} · seed 1") for number in (1, 2))
    assert message_about([first]).title == "digits_cnn has finished"
    assert message_about([first]).text.startswith("lr 0.1 · seed 1. Val. loss 0.0213, ")
    named = " and ".join(f"digits_cnn lr 0.{number} · seed 1 (val. loss 0.0213)" for number in (1, 2))
    assert f"Finished: {named}." in message_about([first, second]).text


def test_message_about_a_failure_has_its_error_and_no_control_characters() -> None:
    message = message_about([replace(failed("a\x1b[31m"), duration_s=3.0, detail="It broke")])
    assert message.title == "a?[31m has failed"
    assert message.text == "After 3.0 s. The memory of GPU 0 and 1 is free again. It broke."
    assert message.is_bad
    assert message_about([replace(NEWS, occasion="stopped", state="paused")]).title == "digits_cnn was paused"


def test_message_about_several_runs_counts_and_names_them_the_worst_first() -> None:
    held = replace(NEWS, memory="GPU 1 holds 3 GB.", memory_verdict="held by others")
    message = message_about([NEWS, *(failed(f"bert-{number}") for number in range(7)), failed("bert-0"), held])
    assert message.title == "10 runs: 8 failed, 2 finished"
    assert message.text.splitlines() == [
        "Failed: bert-0 (2 times), bert-1, bert-2, bert-3, bert-4 and 2 more.",
        "Finished: digits_cnn (val. loss 0.0213) (2 times).",
        "The last error: CUDA is out of memory.",
        "GPU 1 holds 3 GB.",
    ]
    hot = [replace(NEWS, run_dir=f"/runs/{each}", name=each, occasion="hot", detail="GPU 5 is hot.") for each in "ab"]
    assert message_about(hot).title == "1 × hot GPU", "two runs on it"


def test_news_of_a_run_are_read_from_its_directory(tmp_path: Path) -> None:
    release = Release(
        device_id="cpu:0", verdict=Verdict.RELEASED, before_bytes=1, peak_bytes=2, after_bytes=1, seconds=0.2,
        sentence="All is free.",
    )
    more = [
        {"t": BEGAN + 0.1, "kind": "device", "id": "cpu:0", "device_kind": "cpu", "label": "CPU 0"},
        replace(release, time=BEGAN + 9000.5).event(),
    ]
    events = [values(1, 1, 100, loss=[3.0, 2.0]), values(2, 100, 101, val_loss=[0.5])]
    run_dir = write_run(tmp_path, "20260101-000000-mine-abcd", events, more=more)
    measured = run_dir / "events" / "worker-0.jsonl"
    measured.write_text(measured.read_text().replace(": ", ":"))  # as workers write it
    news = news_of_end(run_dir)
    assert news is not None
    assert (news.occasion, news.last_loss, news.best_validation_loss) == ("finished", 2.0, 0.5)
    assert news.loss == "val. loss 0.5"
    assert news.duration_s == news.asked_s == 9001.0
    assert (news.memory, news.memory_verdict) == ("The memory of CPU 0 is free again.", "released")
    assert decode(RunNews, json.loads(json.dumps(encode(news)))) == news
    assert news_of_end(run_dir, only_lost=True) is None
    assert news_of_trouble(run_dir, "stalled") is None
    assert news_of_end(tmp_path / "gone") is None


def test_nan_is_news_of_its_own_until_the_run_has_ended(tmp_path: Path) -> None:
    events = [values(1, 1, 100, loss=[3.0, math.nan])]
    run_dir = write_run(tmp_path, "20260101-000000-mine-abcd", events)
    nan, end = news_of_trouble(run_dir, "nan"), news_of_end(run_dir)
    assert nan is not None
    assert end is not None
    message = message_about([nan])
    assert (message.title, message.occasion) == (f"{nan.name}: the loss became NaN", "nan")
    assert " Loss nan, after " in message.text
    both = message_about([nan, end])
    assert both.title == f"{nan.name} has finished"
    assert both.text.endswith("Its last loss is not a number.")
    assert decode(RunNews, json.loads(json.dumps(encode(nan)))) == nan


def test_duration_is_that_since_the_last_start(tmp_path: Path) -> None:
    states = [
        (0, "starting"), (1, "releasing"), (2, "paused"), (1000, "starting"), (1001, "releasing"), (1060, "failed"),
    ]
    news = news_of_end(write_run(tmp_path, "run", states=states))
    assert news is not None
    assert (news.occasion, news.duration_s, news.last_loss) == ("failed", 60.0, None)


@pytest.mark.parametrize(
    ("news", "settings", "wanted"),
    [
        (NEWS, NotificationSettings(), True),
        (NEWS, NotificationSettings(occasions=("failed", "lost")), False),
        (replace(NEWS, asked_s=9.0), NotificationSettings(), False),
        (replace(NEWS, duration_s=3.0), NotificationSettings(), True),  # it waited in the queue before
        (replace(NEWS, asked_s=9.0, occasion="stalled"), NotificationSettings(), True),
        (replace(NEWS, asked_s=0.0), NotificationSettings(min_duration_s=0), True),
    ],
)
def test_only_what_the_user_chose_is_sent(news: RunNews, settings: NotificationSettings, *, wanted: bool) -> None:
    assert is_wanted(news, settings) is wanted


class Post:
    """An outbox with a clock of its own. `arrivals`: news by the second at which it arrives while a process waits."""

    def __init__(self, folder: Path, arrivals: dict[float, RunNews] | None = None) -> None:
        self.folder, self.time = folder, 0.0
        self.sent: list[tuple[float, list[str]]] = []
        self._arrivals = dict(arrivals or {})
        self.outbox = Outbox(self._deliver, folder=folder, now=lambda: self.time, sleep=self._sleep)
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, news: RunNews, number: int = 0, when: float | None = None) -> None:
        path = self.folder / f"{number:09}-1.news"
        path.write_text(json.dumps(encode(news)))
        os.utime(path, (self.time if when is None else when,) * 2)

    def run(self) -> None:
        """Send what waits, and then what arrives later: each run's process comes here when it has left its news."""
        self.outbox._send_all()
        while self._arrivals:
            self._sleep(min(self._arrivals) - self.time)
            self.outbox._send_all()

    def _sleep(self, seconds: float) -> None:
        self.time += seconds
        for when in [each for each in self._arrivals if each <= self.time]:
            self.put(self._arrivals.pop(when), number=int(when * 10), when=when)

    def _deliver(self, news: Sequence[RunNews]) -> None:
        self.sent.append((self.time, [each.name for each in news]))


@pytest.mark.parametrize(
    ("puts", "told"),
    [
        ([5000.0], [5002.0]),
        ([1000.0, 1180.0, 1360.0], [1002.0, 1182.0, 1362.0]),  # now and then
        ([1_000_000.0, 1000.0], [1_000_002.0, 1000.0]),  # a clock that was set back delays nothing
    ],
)
def test_run_that_ends_alone_is_told_after_a_moment(tmp_path: Path, puts: list[float], told: list[float]) -> None:
    post = Post(tmp_path)
    for number, when in enumerate(puts):
        post.put(replace(NEWS, name=f"trial-{number}"), number=number, when=max(post.time, when))
        post.time = when
        post.run()
    assert post.sent == [(when, [f"trial-{number}"]) for number, when in enumerate(told)]


def test_flood_of_failing_runs_is_one_message(tmp_path: Path) -> None:
    """A queue of ten runs, each of which fails after five seconds."""
    post = Post(tmp_path, {5.0 * number: failed(f"run-{number}") for number in range(1, 10)})
    post.time = 0.0
    post.put(failed("run-0"))
    post.run()
    assert [names for _, names in post.sent] == [[f"run-{number}" for number in range(10)]]
    assert 45.0 + QUIET_AFTER_FAILURE_S <= post.sent[0][0] <= MAX_WAIT_S


def test_endless_flood_is_told_ever_more_seldom(tmp_path: Path) -> None:
    """A run fails every 15 seconds for two hours."""
    post = Post(tmp_path, {5000.0 + 15.0 * number: failed(f"run-{number}") for number in range(480)})
    post.run()
    times = [when - 5000.0 for when, _ in post.sent]
    assert times[:4] == [10.0, 70.0, 190.0, 430.0]
    assert times[0] + SPACING_S == times[1]
    assert times[-1] - times[-2] == MAX_SPACING_S
    assert sum(len(names) for _, names in post.sent) == 480


def test_damaged_and_old_files_are_cleared_away(tmp_path: Path) -> None:
    post = Post(tmp_path)
    post.put(NEWS, number=1)
    post.time = 30 * 86_400.0
    post.put(failed("new"), number=2)
    for number, text in enumerate(("", "{}", '{"name": 1}', "\xff" * 10, "x" * 100_000)):
        (tmp_path / f"{number}.news").write_text(text)
    (tmp_path / "9.news").symlink_to("/dev/zero")
    post.run()
    assert [names for _, names in post.sent] == [["new"]]
    assert list(tmp_path.glob("*.news")) == []


def test_news_is_left_to_the_process_that_is_sending_and_sent_where_no_folder_can_be_made(tmp_path: Path) -> None:
    post = Post(tmp_path / "folder")
    with (post.folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        post.outbox.send(NEWS)
        assert post.sent == []
        assert len(list(post.folder.glob("*.news"))) == 1
    (tmp_path / "file").touch()
    post.outbox._folder = tmp_path / "file" / "folder"
    post.outbox.send(NEWS)
    assert post.sent == [(0.0, ["digits_cnn"])]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (subprocess.CalledProcessError(2, "sh"), "Command 'sh' returned non-zero exit status 2."),
    ],
)
def test_process_that_cannot_be_started_is_recorded_in_the_run(tmp_path, monkeypatch, error, why) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    run_dir = write_run(tmp_path, "20260101-000000-mine-abcd")
    save(NotificationSettings(command="true"))
    monkeypatch.setattr(subprocess, "run", refuse)
    Notifier(run_dir).notify("ended")
    run = attached(run_dir)
    assert list(run.facts.notices) == [f"The process that sends notifications could not be started: {why.rstrip('.')}."]
