"""Real runs tell the user how they ended: on a real D-Bus session, by command, webhook, ntfy and Apprise."""

import contextlib
import fcntl
import io
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.notifications.channels import BUS_VARIABLE
from core.notifications.delivery import RETRY_S, SUFFIX, deliver, deliver_news, retry
from core.notifications.message import Message, news_of_end
from core.notifications.settings import NotificationSettings, save, settings_file
from core.queue import folder
from core.queue.folder import own_line
from core.runs.facts import RunState
from core.system.folders import cache_folder, make_cache_folder
from core.system.own_processes import NOTIFIER
from tests.support.acting import played
from tests.support.commands import call
from tests.support.queueing import Queue
from tests.support.running import LONG, Followed, attached, make_spec, source_spec, start, train, write_recipe
from tests.support.session_bus import NotificationService, Shown, session_bus
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.web_server import WebServer
from tests.support.written_runs import write_run

MESSAGE = Message(title="bert & co", text="It ended: <b>loss</b> 0.12.", occasion="finished")
NOTHING_LISTENS = "127.0.0.1:9"


def settings(**given: object) -> NotificationSettings:
    return NotificationSettings(**{"desktop": False, "min_duration_s": 0.0, **given})


def failing(folder: Path, name: str) -> str:
    return write_recipe(
        folder, "def model():\n    raise ValueError('the data are gone')\ndef train_data():\n    pass", name
    )


def notifiers(tmp_path: Path) -> list[psutil.Process]:
    """Return the processes that send notifications about runs of a test."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if NOTIFIER in words and any(str(tmp_path) in word for word in words):
            found.append(each)
    return found


@contextlib.contextmanager
def collecting(tmp_path: Path, count: int) -> Iterator[None]:
    """In the block, be the process that sends: others leave their news to it. At the end, so much is left."""
    folder = cache_folder() / "notifications"
    make_cache_folder(folder)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        wait_until(lambda: len(list(folder.glob(f"*{SUFFIX}"))) == count, "the news")
        wait_until(lambda: not notifiers(tmp_path), "the processes that have left it to end")


def notices(run: Followed) -> list[str]:
    return list(run.poll().run.facts.notices)


def without_a_supervisor(run: Followed) -> bool:
    supervisor = run.run.facts.supervisor
    return supervisor is not None and not psutil.pid_exists(supervisor.pid)


# -- runs --------------------------------------------------------------------------------------------


NAN_SCRIPT = """
import time
for step in range(10**9):
    print(f"step {step} loss {0.5 if step < 3 else float('nan')}", flush=True)
    time.sleep(0.05)
"""
NAN_RECIPE = f"{LONG}\ndef loss():\n    return lambda weight, items: float('nan')\n"


@pytest.mark.slow
@pytest.mark.parametrize("is_script", [True, False])
def test_nan_is_told_once_while_the_run_trains(tmp_path: Path, runs_root: Path, *, is_script: bool) -> None:
    told = tmp_path / "told"
    save(settings(command=f'echo "$NOTIFICATION_OCCASION $NOTIFICATION_TITLE" >> {shlex.quote(str(told))}'))
    recipe = write_recipe(tmp_path, NAN_RECIPE, "train")
    run = start(source_spec(tmp_path, NAN_SCRIPT) if is_script else make_spec(recipe, epochs=10**6), runs_root)
    wait_until(lambda: told.exists() and told.read_text().endswith("\n"), "the notification")
    assert run.poll().state is RunState.RUNNING
    run.run.request("stop")
    assert run.until_over().state is RunState.STOPPED
    wait_until(lambda: told.read_text().count("\n") == 2, "the notification of the end")
    assert told.read_text().splitlines() == ["nan train: the loss became NaN", "stopped train was stopped"]


def test_desktop_shows_how_a_run_ended_while_no_window_is_open(tmp_path: Path, runs_root: Path) -> None:
    save(settings(desktop=True))
    with session_bus(tmp_path) as address, NotificationService(address) as service:
        run = train(played(tmp_path, name="mine", steps=3), runs_root)
        wait_until(lambda: service.shown, "the notification")
        wait_until(lambda: not notifiers(tmp_path), "its process to end")
    (shown,) = service.shown
    assert (shown.application, shown.title, shown.urgency) == ("Trainyard", "mine has finished", 1)
    assert shown.text.startswith("lr 0.001 · batch 1 · seed 0. Loss ")
    assert ", after " in shown.text
    assert shown.text.endswith(" The memory of CPU 0 is free again.")
    assert notices(run) == []


def test_server_that_never_answers_does_not_delay_the_end_and_is_recorded(tmp_path: Path, runs_root: Path) -> None:
    told = tmp_path / "told"
    with WebServer(silent=True) as server:
        save(settings(
            webhook=f"http://me:secret@{server.host}/secret", command=f"echo $NOTIFICATION_OCCASION >> {told}; exit 3",
        ))
        run = train(played(tmp_path, name="mine", steps=3), runs_root)
        assert run.state is RunState.FINISHED
        wait_until(lambda: without_a_supervisor(run), "the supervisor to leave")
        wait_until(lambda: server.posts, "the request")
        assert notifiers(tmp_path)
        assert not any("webhook" in text for text in notices(run))
        server.hang_up()
        wait_until(lambda: len(notices(run)) == 2, "what could not be delivered")
    assert notices(run) == [
        "The notification could not be sent by your command. The command failed: exit status 3.",
        f"The notification could not be sent to your webhook. {server.host} did not answer as a web server does.",
    ]
    assert told.read_text() == "finished\n"
    # No secret is in the run, and a run that is read again tells the same.
    assert not any(b"secret" in path.read_bytes() for path in run.run.dir.rglob("*") if path.is_file())
    again = attached(run.run.dir)
    assert list(again.facts.notices) == notices(run)


@pytest.mark.slow
def test_failing_runs_and_a_lost_one_are_one_message(tmp_path: Path, runs_root: Path) -> None:
    """The lost one's supervisor is killed; its guard has the user told."""
    with WebServer() as server:
        save(settings(webhook=f"http://{server.host}/hook"))
        lost = start(played(tmp_path, name="killed"), runs_root).until_trained()
        with collecting(tmp_path, 2):
            for number in range(2):
                run = train(make_spec(failing(tmp_path, f"broken_{number}")), runs_root)
                assert run.state is RunState.FAILED
        lost.kill_supervisor()
        wait_until(lambda: server.posts, "the message")
        wait_until(lambda: not notifiers(tmp_path), "the process to end")
    (post,) = server.posts
    assert post.body["title"] == "3 runs: 2 failed, 1 lost"
    assert {each["name"]: each["occasion"] for each in post.body["runs"]} == {
        "broken_0": "failed", "broken_1": "failed", "killed": "lost",
    }
    lines = post.body["message"].splitlines()
    told = " and ".join(f"broken_{number} lr 0.001 · batch 64 · seed 0" for number in range(2))
    assert (lines[0], lines[1].startswith("Lost: killed lr 0.001 · ")) == (f"Failed: {told}.", True)
    assert lines[2].startswith("The last error: The run's supervisor (pid ")


@pytest.mark.slow
def test_short_and_unwanted_runs_are_not_told_and_a_damaged_file_is(tmp_path: Path, runs_root: Path) -> None:
    told = tmp_path / "told"
    save(settings(command=f"echo told >> {told}", min_duration_s=3600.0))
    run = train(played(tmp_path, name="short", steps=3), runs_root)
    wait_until(lambda: without_a_supervisor(run), "the supervisor to leave")
    wait_until(lambda: not notifiers(tmp_path), "the process to end")
    settings_file().write_text("damaged")
    damaged = train(played(tmp_path, name="damaged", steps=3), runs_root)
    wait_until(lambda: notices(damaged), "the sentence on the file")
    assert notices(damaged) == [
        f"The notification settings in {settings_file()} are damaged. Delete the file, then set them again."
    ]
    wait_until(lambda: not notifiers(tmp_path), "the processes to end")
    assert not told.exists()
    assert notices(run) == []


@pytest.mark.slow
def test_queued_run_that_will_not_start_and_a_held_queue_are_told(tmp_path: Path) -> None:
    queue, told = Queue(tmp_path), tmp_path / "told"
    save(settings(command=f'echo "$NOTIFICATION_TITLE" > {told}; cat >> {told}', occasions=("stopped", "failed")))
    with collecting(tmp_path, 1):
        failed = train(make_spec(failing(tmp_path, "broken")), queue.runs_root)
    folder.hold(own_line().line, folder.QUEUE_HELD.format(count=3, error="It broke."))
    next_one = queue.add("next", after=str(failed.run.dir), after_mode="ok").until_over()
    assert next_one.state is RunState.STOPPED
    wait_until(lambda: told.is_file() and "queue is held" in told.read_text(), "the message")
    title, broken, stopped, *_, last = told.read_text().splitlines()
    assert (title, broken) == ("2 runs: 1 failed, 1 stopped", "Failed: broken lr 0.001 · batch 64 · seed 0.")
    assert stopped.startswith("Stopped: next")
    assert last.startswith(
        "Your queue is held, since 3 queued runs in a row failed within a minute with the same error"
    )


# -- channels ----------------------------------------------------------------------------------------


def test_desktop_with_markup_gets_escaped_text(tmp_path: Path) -> None:
    with (
        session_bus(tmp_path) as address,
        NotificationService(address, capabilities=["body", "body-markup"]) as service,
    ):
        (outcome,) = deliver(NotificationSettings(), MESSAGE, PATIENCE_S)
    assert outcome.why == ""
    assert service.shown == [Shown("Trainyard", "bert & co", "It ended: &lt;b&gt;loss&lt;/b&gt; 0.12.", 1)]


def test_desktop_without_a_service_or_a_bus_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session_bus(tmp_path):
        (none_there,) = deliver(NotificationSettings(), MESSAGE, PATIENCE_S)
    assert none_there.is_absent
    assert none_there.why == "This desktop session has no notification service."
    for address in ("unix:path=/nowhere", "tcp:host=localhost,port=1", "nonsense"):
        monkeypatch.setenv(BUS_VARIABLE, address)
        (no_bus,) = deliver(NotificationSettings(), MESSAGE, PATIENCE_S)
        assert no_bus.is_absent, address
        assert no_bus.why.startswith("The desktop's session bus cannot be reached: ")


def test_desktop_that_refuses_is_a_failure(tmp_path: Path) -> None:
    with session_bus(tmp_path) as address, NotificationService(address, error="org.example.Full"):
        (outcome,) = deliver(NotificationSettings(), MESSAGE, PATIENCE_S)
    assert not outcome.is_absent
    assert outcome.why == "The desktop's notification service refused the message: org.example.Full."


def test_ntfy_gets_topic_title_and_credentials() -> None:
    with WebServer() as server:
        given = settings(ntfy=f"http://me:pass%40word@{server.host}/base/my%20runs")
        (outcome,) = deliver(given, Message(title="ü", text="x" * 9000, occasion="failed"), PATIENCE_S)
        assert outcome.why == ""
    (post,) = server.posts
    assert post.path == "/base/"
    assert post.headers["Authorization"] == "Basic bWU6cGFzc0B3b3Jk"
    assert post.body == {"topic": "my runs", "title": "ü", "message": "x" * 3500, "priority": 4, "tags": ["x"]}


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (WebServer(status=404), " answered 404 Not Found."),
        (WebServer(status=404, phrase="token=secret <b>"), " answered 404 Not Found."),
        (WebServer(status=499, phrase="token=secret"), " answered 499."),
        (WebServer(status=302, headers={"Location": "http://127.0.0.1:9/secret"}), " answered 302 Found."),
        (WebServer(silent=True), " did not answer within 3 s."),
    ],
)
def test_webhook_that_fails_is_told_without_its_address(server: WebServer, why: str) -> None:
    with server:
        limit_s = 3.0 if server.silent else PATIENCE_S
        (outcome,) = deliver(settings(webhook=f"http://{server.host}/secret?token=secret"), MESSAGE, limit_s)
        host = server.host
        wait_until(lambda: server.posts, "the server to have read it")
    assert outcome.why == f"{host}{why}"
    assert len(server.posts) == 1


def test_service_that_cannot_be_reached_for_a_while_is_tried_again(tmp_path: Path) -> None:
    """It fails twice, then takes the message; the command, which was sent to at once, is not called again."""
    run_dir, told, waits = write_run(tmp_path, "20260101-000000-mine-abcd"), tmp_path / "told", []
    with WebServer(status=503) as server:

        def wait(seconds: float) -> None:
            waits.append(seconds)
            server.status = 503 if len(waits) < 2 else 200

        save(settings(webhook=f"http://{server.host}/secret", command=f"echo told >> {told}"))
        news = news_of_end(run_dir)
        undelivered = deliver_news([news])
        assert [[each.name for each in one.channels] for one in undelivered] == [["webhook"]]
        retry(undelivered, wait)
        host = server.host
        assert len(server.posts) == 3
        assert waits == [*RETRY_S[:2]]
        server.status = 404
        assert deliver_news([news]) == [], "another attempt would not help"
    run = attached(run_dir)
    unavailable = f"The notification could not be sent to your webhook. {host} answered 503 Service Unavailable."
    assert list(run.facts.notices[:2]) == [
        unavailable, "A later attempt to send the notification through Webhook succeeded.",
    ]
    assert told.read_text() == "told\n" * 2
    retry([replace(undelivered[0], settings=settings(webhook=f"http://{NOTHING_LISTENS}/"))], waits.append)
    assert waits[2:] == [*RETRY_S], "it is given up after the last"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (f"http://{NOTHING_LISTENS}/secret", f"{NOTHING_LISTENS} cannot be reached: Connection refused."),
        ("http://name.invalid/secret", "name.invalid cannot be reached: "),
        (f"http://{'x' * 70}.org/secret", f"{'x' * 70}.org did not answer as a web server does."),
    ],
)
def test_webhook_that_cannot_be_reached_is_told(address: str, why: str) -> None:
    (outcome,) = deliver(settings(webhook=address), MESSAGE, PATIENCE_S)
    assert outcome.why.startswith(why)
    assert "secret" not in outcome.why


def test_command_gets_the_message_and_is_ended_after_its_time(tmp_path: Path) -> None:
    told = tmp_path / "told"
    (outcome,) = deliver(settings(command=f'echo "$NOTIFICATION_TITLE" > {told}; cat >> {told}'), MESSAGE, PATIENCE_S)
    assert outcome.why == ""
    assert told.read_text() == "bert & co\nIt ended: <b>loss</b> 0.12.\n"
    sleep = ["sleep", str(10**6 + os.getpid())]  # no other test has it
    (late,) = deliver(settings(command=f"{' '.join(sleep)} & wait"), MESSAGE, limit_s=0.3)
    assert late.why == "The command did not end within 0.3 s, and was ended."
    wait_until(
        lambda: not [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == sleep],
        "what the command started to be gone",
    )
    (failed,) = deliver(settings(command="echo the password is xyz >&2; kill -9 $$"), MESSAGE, PATIENCE_S)
    assert failed.why == "The command failed: signal KILL."
    assert failed.detail == "the password is xyz"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # those of the services that it loads
def test_apprise_reaches_its_services_and_names_those_that_it_does_not_know() -> None:
    pytest.importorskip("apprise")
    with WebServer() as server:
        good, bad = f"json://{server.host}/secret", "nonsense://secret"
        (outcome,) = deliver(settings(apprise=(bad, good)), MESSAGE, PATIENCE_S)
        assert outcome.why == "Apprise does not know the address nonsense://…. Its documentation lists all services."
    (post,) = server.posts
    assert (post.body["title"], post.body["message"]) == ("bert & co", "It ended: <b>loss</b> 0.12.")
    (gone,) = deliver(settings(apprise=(good,)), MESSAGE, PATIENCE_S)
    assert gone.why == "Apprise could not deliver to json://…."


# -- the command ---------------------------------------------------------------------------------------


def test_command_line_sets_shows_and_tests(tmp_path: Path, capsys, monkeypatch) -> None:
    told = tmp_path / "told"
    monkeypatch.setattr("sys.stdin", io.StringIO("https://user:secret@hooks.example.org/secret\n"))
    code, out, _ = call(
        capsys, "notify", "set", "--desktop", "off", "--webhook", "-", "--when", "failed, lost", "--min-duration", 5
    )
    assert code == 0
    assert "hooks.example.org" in out
    assert "secret" not in out
    code, out, _ = call(capsys, "notify", "show", "--json")
    shown = json.loads(out)
    assert shown["webhook"] == "hooks.example.org"
    assert (shown["desktop"], shown["when"], shown["min_duration_s"]) == (False, ["failed", "lost"], 5)
    assert call(capsys, "notify", "set", "--webhook", "", "--command", f"cat > {shlex.quote(str(told))}")[0] == 0
    code, out, err = call(capsys, "notify", "test")
    assert (code, out, err) == (0, "Command: delivered\n", "")
    assert told.read_text().startswith("This is a test from ")
    with WebServer(status=500) as server:
        call(capsys, "notify", "set", "--ntfy", f"http://{server.host}/topic")
        code, out, err = call(capsys, "notify", "test", "--json")
    assert code == 1
    assert json.loads(out) == [
        {"channel": "command", "delivered": True, "reason": ""},
        {"channel": "ntfy", "delivered": False, "reason": f"{server.host} answered 500 Internal Server Error."},
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set",), "Nothing was changed. Name a setting: trainyard notify set --help"),
        (("show", "--desktop", "on"), "Settings are changed with: trainyard notify set"),
        (("set", "--webhook", "htp://x"), "The webhook's address must begin with https:// or http:// and a host."),
        (("set", "--ntfy", "https://ntfy.sh"), "The address for ntfy has no topic. Write it as https://ntfy.sh/TOPIC."),
        (("set", "--when", "always"), "There is no occasion 'always'. Choose from: failed, lost, gone, nan, stalled"),
        (("set", "--min-duration", "-1"), "The shortest duration must be a number of seconds, 0 or more."),
        (("set", "--desktop", "maybe"), "--desktop is 'maybe'. Choose one of: "),
    ],
)
def test_command_line_refuses_with_one_sentence(capsys, arguments: tuple[str, ...], sentence: str) -> None:
    code, out, err = call(capsys, "notify", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"trainyard: {sentence}")
    assert not settings_file().exists()


def test_command_line_says_that_nobody_would_be_told(capsys, monkeypatch) -> None:
    monkeypatch.setenv(BUS_VARIABLE, "unix:path=/nowhere")
    code, _, err = call(capsys, "notify", "test")
    assert code == 1
    assert "Desktop: The desktop's session bus cannot be reached: No such file or directory." in err
    assert "No channel that works here is set, so no notification would be sent. Set one, for instance: " in err


def test_settings_that_cannot_be_written_are_told(tmp_path: Path, capsys, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRAINYARD_CONFIG_DIR", str(tmp_path / "file"))
    code, _, err = call(capsys, "notify", "set", "--desktop", "off")
    assert code == 2
    assert "notifications.json could not be written: " in err
