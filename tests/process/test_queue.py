"""Queued runs with real processes: they start when their devices are free, in order, and whatever dies."""

import contextlib
import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.queue import control
from core.queue.folder import own_line
from core.queue.listing import queue_view
from core.queue.request import QueueRequest, change_request, read_request, write_request
from core.runs.facts import RunState, state_info
from core.runs.run import Run
from core.schema.event_log import Log
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS
from core.schema.spec import read_spec
from core.system import processes, procfs
from core.system.processes import ProcessId
from tests.support.commands import call
from tests.support.queueing import Queue, is_free, kill, stop, tickets
from tests.support.running import FOREVER, LONG, Followed, write_recipe
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.written_runs import BEGAN, write_run

FINISHED, STOPPED, QUEUED = RunState.FINISHED, RunState.STOPPED, RunState.QUEUED


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that queues runs again waits until they wait, however long that takes."""
    monkeypatch.setattr(control, "WAITING_S", PATIENCE_S)


def time_of(followed: Followed, state: RunState) -> float:
    return next(time for time, each in followed.run.facts.history if each is state)


def time_of_verdict(followed: Followed) -> float:
    """The time after which the devices of a run may go to others; its end is recorded a moment later."""
    return max(event["t"] for event in Log(followed.run.dir).read() if event["kind"] == "release")


@pytest.mark.slow
def test_the_next_run_starts_after_the_verdict_of_the_one_before(queue: Queue) -> None:
    first, second = queue.add("first"), queue.add("second")
    first.until_over(), second.until_over()
    assert first.states == [QUEUED, RunState.STARTING, RunState.RUNNING, RunState.RELEASING, FINISHED]
    assert second.state is FINISHED
    assert time_of(second, RunState.STARTING) >= time_of_verdict(first)
    assert first.run.facts.releases.keys() == {"cpu:0"}
    assert first.run.facts.started == time_of(first, RunState.STARTING)
    wait_until(lambda: tickets() == [] and is_free("cpu:0"), "the line to be empty")
    assert [path for path in Path(own_line().line.own).rglob("*") if path.is_file() and path.name != "use"] == [
        Path(own_line().line.own) / "devices" / "cpu:0"
    ]


@pytest.mark.slow
def test_a_queued_run_waits_for_those_that_were_started_at_once_and_says_so(queue: Queue, capsys) -> None:
    """Those say that they share the device."""
    first, second = queue.start(), queue.start()
    name = first.run.spec().name
    assert any(f"CPU 0 was claimed by run {name} when this run started" in each for each in second.run.facts.notices)
    waiting = queue.add("waiting")
    row = queue.until_reason("waiting", f"CPU 0 is used by run {name}")
    assert (row.place, row.state, row.needs, row.waits) == (1, "queued", "CPU 0", True)
    code, out, _ = call(capsys, "queue", "--json", "--runs", queue.runs_root)
    (listed,) = json.loads(out)
    assert code == 0
    assert listed["run"] == waiting.run.id
    assert listed.keys() >= {"run", "place", "state", "needs", "reason", "expected_start"}
    assert listed["difference"] == "epochs 5 · lr 0.001 · batch 64"
    assert call(capsys, "runs", "state:queued", "--runs", queue.runs_root)[1].count(waiting.run.id) == 1
    assert "SWEEP" not in call(capsys, "queue", "--runs", queue.runs_root)[1]
    stop(first)
    queue.until_reason("waiting", "CPU 0 is used by run")
    assert waiting.poll().state is QUEUED
    stop(second)
    assert waiting.until_over().state is FINISHED


@pytest.mark.slow
def test_runs_that_were_queued_together_are_listed_so_and_in_their_order_whichever_joins_first(queue, capsys) -> None:
    busy = queue.start()
    spec = replace(queue.spec("cpu:0", epochs=5), sweep="3f2a1c")
    first, second = (control.enqueue(spec, queue.runs_root, QueueRequest()) for _ in range(2))
    assert control.revive(queue.runs_root) == [], "their processes are being started"
    assert [each.run_dir for each in queue_view(queue.runs_root).runs] == [first.dir, second.dir]
    wait_until(lambda: all(map(control.until_waiting, (first, second))), "both to be in the line")
    late = write_run(queue.runs_root, "20260101-000000-late-abcd", states=((time.time() - BEGAN, "queued"),))
    write_request(late, QueueRequest(order=0.0))
    assert [each.run_dir for each in queue_view(queue.runs_root).runs] == [late, first.dir, second.dir], "it joins"
    shutil.rmtree(late)
    for command in ("runs", "queue"):
        found = {each["run"]: each["sweep"] for each in listed(capsys, command, queue.runs_root)}
        assert {found[first.id], found[second.id]} == {"3f2a1c"}
        assert found.get(busy.run.id) is None
        heading, *lines = call(capsys, command, "--runs", queue.runs_root)[1].splitlines()
        assert "SWEEP" in heading
        assert sum("  3f2a1c" in line for line in lines) == 2
    assert len(listed(capsys, "runs", queue.runs_root, "sweep:3f2a1c")) == 2
    waiting = [Followed(each) for each in (first, second)]
    stop(busy)
    assert [each.until_over().state for each in waiting] == [FINISHED, FINISHED]
    assert call(capsys, "again", first.id, "--detach", "--runs", queue.runs_root)[0] == 0
    others = [each["run"] for each in listed(capsys, "runs", queue.runs_root) if each["sweep"] is None]
    (again,) = {*others} - {busy.run.id}
    Followed(Run.attach(queue.runs_root / again)).until_over()


def listed(capsys, command: str, runs_root: Path, *search: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(capsys, command, *search, "--json", "--runs", runs_root)[1])
    return found


def test_workers_do_not_inherit_claims_and_the_supervisor_holds_them(queue: Queue) -> None:
    followed = queue.start()
    facts = followed.run.facts
    line = own_line().line
    claimed = [str(Path(line.own) / "devices" / "cpu:0"), str(Path(line.own) / "tickets" / followed.run.id)]

    def open_files(pid: int) -> set[str]:
        found = set()
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has just been closed
                found.add(str(path.readlink()))
        return found

    assert {*claimed} <= open_files(facts.supervisor.pid)
    assert {*claimed} <= open_files(facts.guard.pid)
    assert not {*claimed} & open_files(facts.workers[0].process.pid)
    assert not is_free("cpu:0")
    assert is_free("cpu:1")
    stop(followed)
    wait_until(lambda: is_free("cpu:0"), "the claim to be given up")


@pytest.mark.slow
def test_any_one_of_two_takes_the_free_device(queue: Queue) -> None:
    running = queue.start("cpu:0")
    chosen = queue.add("chosen", "cpu:0", any_of=("cpu:0", "cpu:1"), count=1).until_over()
    assert chosen.state is FINISHED
    assert read_spec(chosen.run.dir).devices == ("cpu:1",)
    assert chosen.run.facts.workers[0].devices == ("cpu:1",)
    stop(running)


@pytest.mark.slow
def test_a_run_on_two_devices_is_not_starved_and_its_devices_are_kept(queue: Queue) -> None:
    running = queue.start("cpu:1")
    both = queue.add("both", "cpu:0,cpu:1")
    small = [queue.add(f"small{number}", any_of=("cpu:0", "cpu:1"), count=1) for number in range(2)]
    row = queue.until_reason("small1", "CPU 0 is free, kept for run both, which needs 2")
    assert row.place == 3
    assert both.poll().state is QUEUED
    stop(running)
    for each in (both, *small):
        assert each.until_over().state is FINISHED
    assert all(time_of(each, RunState.STARTING) >= time_of_verdict(both) for each in small)


@pytest.mark.slow
def test_stop_hold_release_and_move_while_waiting(queue: Queue, capsys) -> None:
    def command(*words: object) -> str:
        code, out, err = call(capsys, *words, "--runs", queue.runs_root)
        assert code == 0, err
        return out

    running = queue.start()
    one, two, three = (queue.add(name) for name in ("one", "two", "three"))
    assert "priority 0" in command("queue", "move", three.run.id, 1)
    assert [*queue.rows()] == ["three", "one", "two"]
    command("queue", "hold", one.run.id)
    assert queue.until_reason("one", "It is held").state == "held"
    command("stop", two.run.id)
    assert two.until_over().states == [QUEUED, STOPPED]
    wait_until(lambda: two.run.id not in tickets(), "its place in the line to be given up")
    stop(running)
    assert three.until_over().state is FINISHED
    assert one.poll().state is QUEUED
    command("queue", "release", one.run.id)
    assert one.until_over().state is FINISHED


@pytest.mark.slow
def test_a_run_follows_another_and_is_cancelled_if_that_has_not_finished(queue: Queue) -> None:
    running = queue.start()
    after = str(running.run.dir)
    any_end = queue.add("any", "cpu:1", after=after)
    ok = queue.add("ok", "cpu:1", after=after, after_mode="ok")
    assert queue.until_reason("any", "waits for the end of run").state == "queued"
    stop(running)
    assert any_end.until_over().state is FINISHED
    assert ok.until_over().states == [QUEUED, STOPPED]
    assert "only if that finished: it is stopped" in ok.run.facts.error


@pytest.mark.slow
def test_a_time_limit_stops_the_run_and_lets_others_plan(queue: Queue) -> None:
    asked_at = time.time()
    limited = queue.add("limited", epochs=FOREVER, limit_s=PATIENCE_S).until(RunState.STARTING)
    following = queue.add("next")
    row = wait_until(
        lambda: (found := queue.until_reason("next", "CPU 0 is used by run")).expected_start and found, "an estimate"
    )
    assert asked_at <= row.expected_start - PATIENCE_S <= time_of(limited, RunState.STARTING)
    stop(limited)
    assert following.until_over().state is FINISHED
    limited = queue.add("short", epochs=FOREVER, limit_s=1).until_over()
    assert limited.state is STOPPED
    assert any("The time limit of 1.0 s is over" in each for each in limited.run.facts.notices)


# -- what dies ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("_patient")
def test_a_killed_waiting_process_is_told_and_revived(queue: Queue, capsys) -> None:
    running = queue.start()
    waiting = queue.add("waiting")
    kill(waiting.run.facts.waiter.pid)
    queue.until_reason("waiting", "trainyard queue revive")
    assert waiting.poll().state is QUEUED, "it is not lost"
    assert call(capsys, "queue", "revive", "--runs", queue.runs_root)[1] == f"{waiting.run.id} waits again.\n"
    queue.until_reason("waiting", "CPU 0 is used by")
    assert "No run had to" in call(capsys, "queue", "revive", "--runs", queue.runs_root)[1]
    pid = waiting.poll().run.facts.waiter.pid
    os.kill(pid, signal.SIGSTOP)
    stop(running)
    queue.until_reason("waiting", f"(pid {pid}) is stopped, so other runs pass it. Continue it: kill -CONT {pid}")
    os.kill(pid, signal.SIGCONT)
    assert waiting.until_over().state is FINISHED


@pytest.mark.slow
def test_a_killed_waiting_process_is_revived_by_another_that_waits(queue: Queue) -> None:
    running = queue.start()
    killed, other = queue.add("killed"), queue.add("other")
    before = killed.run.facts.waiter
    kill(before.pid)
    wait_until(lambda: killed.poll().run.facts.waiter != before and tickets().count(killed.run.id), "its revival")
    assert processes.is_alive(other.run.facts.waiter)
    parent = procfs.stat(killed.run.facts.waiter.pid).parent
    assert parent != other.run.facts.waiter.pid
    stop(running)
    for each in (killed, other):
        assert each.until_over().state is FINISHED


@pytest.mark.slow
def test_a_killed_supervisor_frees_its_devices_only_when_its_workers_are_gone(queue: Queue) -> None:
    running = queue.start()
    waiting = queue.add("waiting")
    worker = running.run.facts.workers[0].process
    kill(running.run.facts.supervisor.pid)
    assert waiting.until_over().state is FINISHED
    assert not processes.is_alive(worker)
    assert running.until_over().state is RunState.LOST


def test_a_queued_run_without_a_process_can_be_stopped(queue: Queue, capsys) -> None:
    running = queue.start()
    waiting = queue.add("waiting")
    kill(waiting.run.facts.waiter.pid)
    wait_until(lambda: not procfs.words(waiting.run.facts.waiter.pid), "its end")
    assert call(capsys, "stop", waiting.run.id, "--runs", queue.runs_root)[0] == 0
    assert waiting.until_over().state is STOPPED
    stop(running)


SLOW = f"""{LONG}
import pathlib, time

def loss():
    calls = []
    def measure(weight, items):
        calls.append(1)
        if len(calls) > 60 and not pathlib.Path({{quick!r}}).exists():
            time.sleep(1)
        return weight
    return measure
"""
"""From the 61st on, each step takes a second until there is a file: a thousand of them do not end before."""


def as_of_another_boot(followed: Followed) -> None:
    """Make the events say that they were written before a reboot."""
    path = followed.run.dir / EVENTS / SUPERVISOR_EVENTS
    path.write_text(path.read_text().replace(processes.here().boot, "0" * 36))


@pytest.mark.slow
def test_held_run_is_started_at_once_beside_the_run_that_uses_its_device(queue: Queue, capsys) -> None:
    running = queue.start()
    waiting = queue.add("waiting", "cpu:0,cpu:1", held=True)
    code, out, _ = call(capsys, "queue", "start", waiting.run.id, "--runs", queue.runs_root)
    assert (code, "starts now" in out) == (0, True)
    waiting.until_over()
    assert waiting.state is FINISHED
    assert set(waiting.run.spec().devices) == {"cpu:0", "cpu:1"}
    assert any(text.startswith("CPU 0 was claimed by run ") for text in waiting.run.facts.notices)
    assert not read_request(waiting.run.dir).at_once
    assert running.poll().state is RunState.RUNNING
    assert not is_free("cpu:0")
    wait_until(lambda: is_free("cpu:1"), "the other device to be free")
    stop(running)
    code, _, err = call(capsys, "queue", "start", waiting.run.id, "--runs", queue.runs_root)
    assert (code, "is not in the queue" in err) == (2, True)


@pytest.mark.slow
@pytest.mark.usefixtures("_patient")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_reboot_queued_runs_wait_again_and_marked_ones_resume(queue, ending, tmp_path) -> None:
    """A machine that shuts down sends SIGTERM, which stops a run; one that loses its power sends nothing."""
    quick = tmp_path / "quick"
    recipe = write_recipe(tmp_path, SLOW.format(quick=str(quick)), "held")
    uninterrupted = queue.add("uninterrupted", epochs=1000, requeue=True, recipe=recipe)
    trained = queue.add("trained", "cpu:1", epochs=1000, requeue=True, recipe=recipe)
    waiting = queue.add("waiting", "cpu:1", after=str(trained.run.dir), after_mode="ok")
    unmarked, unwanted = queue.add("unmarked", "cpu:1"), queue.add("unwanted", "cpu:1", requeue=True)
    stop(unwanted)
    trained.until_trained(50).run.request("save")
    wait_until(lambda: trained.poll().run.facts.checkpoint, "a checkpoint")
    for each in (waiting, unmarked):
        kill(each.run.facts.waiter.pid)
    if ending is signal.SIGKILL:
        kill(trained.run.facts.guard.pid)
    os.kill(trained.run.facts.supervisor.pid, ending)
    was = trained.until_over().state
    wait_until(lambda: not processes.is_alive(trained.run.facts.supervisor), "the supervisor to leave")
    assert was is (STOPPED if ending is signal.SIGTERM else RunState.LOST)
    for each in (trained, waiting, unmarked, unwanted):
        as_of_another_boot(each)
    assert {*control.revive(queue.runs_root)} == {trained.run.dir, waiting.run.dir, unmarked.run.dir}
    quick.touch()
    again = Followed(Run.attach(trained.run.dir)).until_over()
    assert again.state is FINISHED
    assert again.run.facts.starts == 2
    assert {QUEUED, was} <= {*again.states}
    assert again.losses() == uninterrupted.until_over().losses()
    for each in (waiting, unmarked):
        assert Followed(Run.attach(each.run.dir)).until_over().state is FINISHED


# -- what is trained, and what is not ----------------------------------------------------------------


@pytest.mark.slow
def test_a_changed_recipe_holds_the_run_and_the_recorded_copy_can_be_trained(queue, tmp_path, capsys) -> None:
    recipe = write_recipe(tmp_path, LONG, "changing")
    running = queue.start()
    held = queue.add("held", recipe=recipe)
    goes_on = queue.add("goes", recipe=recipe, if_changed="recorded")
    Path(recipe).write_text("raise SystemExit('this is not what was queued')\n")
    stop(running)
    assert goes_on.until_over().state is FINISHED
    queue.until_reason("held", "has changed since the run was queued")
    assert read_request(held.run.dir).held
    assert call(capsys, "queue", "release", held.run.id, "--recorded", "--runs", queue.runs_root)[0] == 0
    assert held.until_over().state is FINISHED


@pytest.mark.slow
def test_three_runs_that_fail_alike_hold_the_queue(queue: Queue, tmp_path: Path, capsys) -> None:
    broken = write_recipe(tmp_path, LONG + "\ndef loss():\n    raise ValueError('no such file 17')\n", "broken")
    runs = [queue.add(f"broken{number}", recipe=broken) for number in range(3)]
    last = queue.add("last")
    for each in runs:
        assert each.until_over().state is RunState.FAILED
    row = queue.until_reason("last", "Your queue is held, since 3 queued runs in a row failed within a minute")
    assert "no such file 17" in row.reason
    assert row.state == "held"
    assert call(capsys, "queue", "release", "--runs", queue.runs_root)[1] == "Your queue is no longer held.\n"
    assert last.until_over().state is FINISHED


def test_a_claim_without_a_ticket_keeps_a_run_waiting_and_is_told(queue: Queue) -> None:
    line = own_line().line
    claimed = line.claim("cpu:0")
    assert claimed is not None
    waiting = queue.add("waiting")
    row = queue.until_reason("waiting", "CPU 0 is claimed by a process that has no ticket in the queue")
    assert waiting.poll().state is QUEUED
    os.close(claimed)
    assert waiting.until_over().state is FINISHED
    assert row.waits


def test_a_run_that_cannot_be_started_has_failed_and_does_not_wait_again(queue: Queue) -> None:
    running = queue.start()
    waiting = queue.add("waiting")
    (waiting.run.dir / "spec.json").write_text("{}")
    stop(running)
    wait_until(lambda: waiting.poll().state is RunState.FAILED, "its failure")
    assert "is not a valid spec" in waiting.run.facts.error
    wait_until(lambda: tickets() == [] and is_free("cpu:0"), "the line to be empty")


@pytest.mark.slow
def test_odd_names_and_runs_that_wait_for_each_other(queue: Queue, capsys) -> None:
    running = queue.start()
    one = queue.add("odd\x1b[31mname\u2028", priority=3)
    two = queue.add("two", after=str(one.run.dir))
    assert {each.run for each in own_line().line.tickets()} >= {one.run.id, two.run.id}
    change_request(one.run.dir, after=str(two.run.dir))
    queue.until_reason("two", f"waits for its own end. Stop one of them, such as: trainyard stop {two.run.id}")
    code, _, err = call(capsys, "run", queue.recipe, "--devices", "cpu:0", "--epochs", 1, "--detach",
                        "--runs", queue.runs_root.parent / "elsewhere")
    assert code == 0
    assert f"CPU 0 is claimed by {running.run.spec().name} (another folder)." in err
    (two.run.dir / "queue.json").write_text("{")
    assert queue.until_reason("two", "is not a valid request to the queue. Stop the run").state == "held"
    stop(one, two, running)


# -- at random ---------------------------------------------------------------------------------------


def alive_workers(runs: list[Followed]) -> list[str]:
    """The devices on which a worker is alive, each as often as there are runs on it."""
    workers = [worker for each in runs for worker in each.run.facts.workers.values()]
    return [device for worker in workers if processes.is_alive(worker.process) for device in worker.devices]


def processes_of(followed: Followed) -> list[ProcessId]:
    """What waits for a run, supervises or guards it."""
    facts = followed.run.facts
    named = [facts.supervisor, facts.guard] if facts.supervisor is not None else [facts.waiter]
    return [each for each in named if each is not None and processes.is_alive(each)]


def kill_at_random(queue: Queue, kills: int, seed: int) -> None:
    """Let runs wait and train, and kill waiting processes, supervisors and guards, until all runs have ended.

    No device is given twice among these runs, and none of them leaves a ticket.
    """
    chance, runs = random.Random(seed), []
    needs = (
        {"devices": "cpu:0"}, {"devices": "cpu:1"}, {"devices": "cpu:0,cpu:1"},
        {"any_of": ("cpu:0", "cpu:1"), "count": 1},
    )

    def check() -> None:
        for each in runs:
            each.poll()
        used = alive_workers(runs)
        assert len(used) == len({*used}), f"a device was given twice: {used}"

    while kills:
        check()
        live = [each for each in runs if not state_info(each.state).over]
        if len(live) < 6:
            runs.append(queue.add(f"r{len(runs)}", epochs=chance.randrange(1, 1500), **chance.choice(needs)))
            continue
        victims = [process for each in live for process in processes_of(each)]
        if victims and processes.send(chance.choice(victims), signal.SIGKILL):
            kills -= 1
        if chance.random() < 0.4:
            control.revive(queue.runs_root)
        until = time.monotonic() + chance.random()
        while time.monotonic() < until:
            check()
            time.sleep(0.02)
    control.revive(queue.runs_root)

    def all_over() -> bool:
        check()
        return all(state_info(each.state).over for each in runs)

    wait_until(all_over, "the ends of all runs")
    control.revive(queue.runs_root)
    folder = Path(own_line().line.own) / "tickets"
    wait_until(lambda: not [*folder.iterdir()], "the place of the line to be empty")
    print({state.value: sum(each.state is state for each in runs) for state in {each.state for each in runs}})


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_200_kills_at_random_moments(queue: Queue) -> None:
    seed = int(os.environ.get("TRAINYARD_TEST_SEED", "0")) or random.randrange(1, 10**6)
    print(f"TRAINYARD_TEST_SEED={seed}")
    kill_at_random(queue, 200, seed)
    assert not tickets()
    wait_until(lambda: is_free("cpu:0") and is_free("cpu:1"), "the devices to be free")
