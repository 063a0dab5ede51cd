"""The runs of a host, copied through a real ssh server: live, over cuts, and as they are deleted and renamed there."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from core.history.index import RunIndex
from core.hosts import mirror as mirroring
from core.hosts.mirror import Asked, Mirror
from core.hosts.run_files import travels
from core.runs.facts import RunState, state_info
from core.runs.foreign import read_there
from core.runs.run import Run
from core.schema.paths import EVENTS
from core.schema.spec import RunSpec
from tests.support.running import FOREVER, LONG, Followed, make_spec, start, write_recipe
from tests.support.ssh_server import TRAINYARD, SshServer, add_host
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def root(server: SshServer, runs_root: Path) -> Path:
    """The folder of runs of the host, which its agent is started with."""
    runs_root.mkdir()
    return runs_root


@pytest.fixture
def open_mirror(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Mirror]]:
    """A function that opens a mirror of the host, as each window does. Agents and threads may take their time.

    A connection that was cut is made again when the test says so (`Mirror.retry`).
    """
    for limit in ("FIRST_PAUSE_S", "LAST_PAUSE_S", "CLOSE_S"):
        monkeypatch.setattr(mirroring, limit, PATIENCE_S)
    monkeypatch.setattr(mirroring, "SILENT_S", PATIENCE_S)
    opened: list[Mirror] = []

    def open_one() -> Mirror:
        host = add_host() if not opened else opened[0].host
        opened.append(Mirror(replace(host, command=f"{TRAINYARD} --runs {root}")))
        opened[-1].start()
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()
        assert not each.is_alive()


@pytest.fixture
def spec(tmp_path: Path) -> RunSpec:
    """A run that goes on until it is stopped."""
    return make_spec(write_recipe(tmp_path, LONG), epochs=FOREVER)


def is_up(mirror: Mirror) -> bool:
    return mirror.state.is_connected and mirror.state.is_complete


def is_equal(mirror: Mirror, run_dir: Path) -> bool:
    """Return whether the copy has the bytes that the run's own folder has, file for file."""
    there = files(run_dir)
    return files(mirror.root / run_dir.name) == there and bool(there)


def files(run_dir: Path) -> dict[str, bytes]:
    found = (path for folder in (run_dir, run_dir / EVENTS) if folder.is_dir() for path in folder.iterdir())
    return {
        name: path.read_bytes() for path in found if travels(name := str(path.relative_to(run_dir))) and path.is_file()
    }


def copy_in(mirror: Mirror, name: str) -> Followed:
    """Return the copy of a run, when there is one."""
    wait_until((mirror.root / name / "spec.json").is_file, "the copy")
    return Followed(Run.attach(mirror.root / name))


def until_equal(mirror: Mirror, copy: Followed, own: Followed) -> None:
    """Wait until the copy has all bytes of the run, and then until its reader has all losses."""
    wait_until(lambda: is_equal(mirror, own.run.dir), "an equal copy")
    own.poll()
    wait_until(lambda: copy.poll().losses() == own.losses(), "the reader to know all losses")


def answered(mirror: Mirror, ability: str, **terms: object) -> Asked:
    asked = mirror.ask(ability, **terms)
    wait_until(lambda: asked.done, ability)
    return asked


def done(mirror: Mirror, ability: str, **terms: object) -> object:
    asked = answered(mirror, ability, **terms)
    assert not asked.error, asked.error
    return asked.value


@pytest.mark.slow
def test_run_that_is_started_steered_and_ended_through_the_connection_is_copied_live(root, open_mirror, spec):
    mirror = open_mirror()
    wait_until(lambda: is_up(mirror), "the connection")
    name = done(mirror, "start", spec=spec.to_json())["run"]
    assert (root / name / EVENTS).is_dir()
    copy = copy_in(mirror, name).until_trained(50)
    assert copy.run.facts.host is not None

    before = copy.losses()
    done(mirror, "request", run=name, name="save")
    copy.until_trained(len(before) + 50)
    done(mirror, "request", run=name, name="pause")
    copy.until(RunState.PAUSED)
    wait_until(lambda: copy.poll() and is_equal(mirror, root / name), "an equal copy")
    done(mirror, "resume", run=name)
    copy.until_trained(len(copy.losses()) + 20)
    done(mirror, "rename", run=name, name="another name")
    done(mirror, "mark", run=name, star=True, add_tags=["paper"])
    done(mirror, "request", run=name, name="stop")
    copy.until_over()
    assert copy.state is RunState.STOPPED
    own = Followed(Run.attach(root / name)).until_left()
    until_equal(mirror, copy, own)
    assert copy.states == own.states
    (summary,) = RunIndex(mirror.root).poll()
    assert (summary.name, summary.marks.star, summary.marks.tags) == ("another name", True, ("paper",))
    assert done(mirror, "remove", run=name)["problem"] == ""
    wait_until(lambda: not (mirror.root / name).exists(), "the copy to be removed")


def stop_agent(mirror: Mirror, server: SshServer) -> None:
    """An agent that is stopped says nothing, and its connection stays open."""
    (agent,) = server.agents()
    agent.suspend()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mirroring, "BEAT_S", 0.3)
        patch.setattr(mirroring, "SILENT_S", 1.5)
        wait_until(lambda: not mirror.state.is_connected, "the silence to be noticed")
    agent.resume()


CUTS = {
    "ssh": lambda *_: next(e for e in psutil.Process().children(recursive=True) if e.name() == "ssh").kill(),
    "agent": lambda _, server: server.agents()[0].kill(),
    "silence": stop_agent,
}


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_copy_goes_on_from_its_offset_when_the_connection_was_cut(root, open_mirror, spec, server, cut):
    own = start(spec, root)
    mirror = open_mirror()
    copy = copy_in(mirror, own.run.id).until_trained(20)
    inodes = {name: (copy.run.dir / name).stat().st_ino for name in files(copy.run.dir)}
    CUTS[cut](mirror, server)
    wait_until(lambda: mirror.state.cut_since is not None, "the cut to be known")
    wait_until(lambda: read_there(mirror.root).cut_since is not None, "the cut to be written")  # just after
    assert "one" in mirror.state.why
    own.until_trained(own.run.facts.step + 200)
    assert copy.poll().state is RunState.RUNNING, "as it was last seen, and not lost"
    mirror.retry()
    wait_until(lambda: mirror.state.is_connected, "the next connection")
    wait_until(lambda: mirror.state.cut_since is None and read_there(mirror.root).cut_since is None, "no cut")
    own.stop()
    copy.until_over()
    until_equal(mirror, copy, own)
    assert copy.run_series.metrics["loss"].steps.tolist() == own.run_series.metrics["loss"].steps.tolist()
    assert copy.run.facts.notices == ()
    grown = {name: inode for name, inode in inodes.items() if name.startswith(EVENTS)}
    assert grown == {name: (copy.run.dir / name).stat().st_ino for name in grown}, "the files were extended"


@pytest.mark.slow
def test_run_that_is_killed_while_the_connection_is_cut_is_lost_only_when_the_host_says_so(
    root, open_mirror, spec, server
):
    own = start(spec, root).until_trained()
    mirror = open_mirror()
    copy = copy_in(mirror, own.run.id).until_trained()
    mirror.close()
    facts = own.run.facts
    for process in (facts.guard, facts.supervisor):
        os.kill(process.pid, signal.SIGKILL)
    own.until(RunState.LOST)
    assert copy.poll().state is RunState.RUNNING
    assert RunIndex(mirror.root).poll()[0].state is RunState.RUNNING
    again = open_mirror()
    copy.until(RunState.LOST)
    assert f"supervisor (pid {facts.supervisor.pid}) exited unexpectedly" in copy.run.facts.error
    assert again.root == mirror.root
    done(again, "resume", run=own.run.id)
    wait_until(lambda: copy.poll().state is RunState.RUNNING, "the resumed run")
    done(again, "request", run=own.run.id, name="stop")
    copy.until_over()


@pytest.mark.slow
def test_runs_that_are_removed_and_renamed_there_are_so_here(root, open_mirror, spec):
    runs = [start(spec, root).until_trained() for _ in range(2)]
    for each in runs:
        each.run.request("stop")
    for each in runs:
        each.until_over()
    mirror = open_mirror()
    removed, renamed = (each.run.dir for each in runs)
    wait_until(lambda: is_equal(mirror, removed) and is_equal(mirror, renamed), "equal copies")
    inode = (mirror.root / renamed.name).stat().st_ino
    shutil.rmtree(removed)
    new = renamed.rename(renamed.with_name("2026 käse"))
    wait_until(lambda: is_equal(mirror, new), "the copy to be renamed")
    assert (mirror.root / new.name).stat().st_ino == inode, "it was not copied again"
    wait_until(lambda: [each.name for each in RunIndex(mirror.root).poll()] == ["recipe"], "one run")
    mirror.close()
    shutil.rmtree(new)
    again = open_mirror()
    wait_until(lambda: is_up(again) and not RunIndex(again.root).poll(), "no run")


def test_file_that_was_replaced_there_is_copied_from_its_beginning(root, open_mirror, spec):
    own = start(spec, root).until_trained()
    own.stop()
    mirror = open_mirror()
    wait_until(lambda: is_equal(mirror, own.run.dir), "an equal copy")
    mirror.fetch_reread()
    events = own.run.dir / EVENTS / "worker-0.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    other = events.with_name("other")
    other.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    other.replace(events)
    wait_until(lambda: is_equal(mirror, own.run.dir), "an equal copy")
    wait_until(lambda: mirror.fetch_reread() == [own.run.id], "the reader to be told")


@pytest.mark.slow
def test_two_mirrors_share_one_copy_and_the_second_takes_it_over(root, open_mirror, spec):
    first, second = open_mirror(), open_mirror()
    wait_until(lambda: is_up(first) and is_up(second), "two connections")
    own = start(spec, root)
    copy = copy_in(second, own.run.id).until_trained(20)
    first.close()
    copy.until_trained(own.poll().run.facts.step + 100)
    done(second, "request", run=own.run.id, name="stop")
    own.until_over()
    copy.until_over()
    until_equal(second, copy, own)


@pytest.mark.slow
def test_requests_without_a_connection_are_refused_and_not_kept(root, open_mirror, spec, server):
    own = start(spec, root).until_trained()
    mirror = open_mirror()
    wait_until(lambda: is_up(mirror), "the connection")
    assert "There is no run '../x'" in answered(mirror, "request", run="../x", name="stop").error
    assert "cannot be asked for this: fly" in answered(mirror, "request", run=own.run.id, name="fly").error
    assert "Enter a name." in answered(mirror, "rename", run=own.run.id, name="").error
    CUTS["agent"](mirror, server)
    wait_until(lambda: mirror.state.cut_since is not None, "the cut to be known")
    asked = mirror.ask("request", run=own.run.id, name="stop")
    assert asked.done
    assert "There is no connection to one" in asked.error
    mirror.retry()
    wait_until(lambda: mirror.state.is_connected, "the next connection")
    own.until_trained(own.run.facts.step + 20)
    assert not (own.run.dir / "control" / "stop").exists()
    done(mirror, "request", run=own.run.id, name="stop")
    own.until_over()


@pytest.mark.slow
def test_nothing_acts_on_a_copy(root, open_mirror, spec):
    """A pid of another machine means another process here: no function of a run touches its copy."""
    from core.errors import RunError
    from core.history import removal
    from core.history.marks import change_marks, rename
    from core.queue.control import cancel, revive
    from core.runs.directory import launch_supervisor
    from core.runs.lock import held

    own = start(spec, root).until_trained()
    mirror = open_mirror()
    copy = copy_in(mirror, own.run.id).run
    for act in (
        lambda: copy.request("stop"), lambda: Run.resume(copy.dir), lambda: Run.start(spec, mirror.root),
        lambda: change_marks(copy.dir, star=True), lambda: rename(copy.dir, "x"), lambda: cancel(copy.dir),
        lambda: launch_supervisor(copy.dir), lambda: held(copy.dir).__enter__(),
    ):
        with pytest.raises(RunError, match="is a run of one, and this folder has a copy of it"):
            act()
    assert "not removed" in removal.why_not(copy.dir)
    assert revive(mirror.root) == []
    own.stop()
    wait_until(lambda: state_info((copy.catch_up() and copy.facts.state) or copy.facts.state).over, "the end")
    assert "is a run of one" in removal.remove(copy.dir).problem
    assert {path.name for path in copy.dir.iterdir()} == {name.split("/")[0] for name in files(own.run.dir)}


@pytest.mark.slow
def test_full_disk_here_is_a_sentence_and_the_copy_goes_on_when_there_is_room(
    root, open_mirror, spec, small_disk, monkeypatch
):
    monkeypatch.setenv("TRAINYARD_CACHE_DIR", str(small_disk))
    own = start(spec, root).until_trained()
    own.stop()
    (own.run.dir / "log.txt").write_bytes(os.urandom(700_000))
    filler = small_disk / "filler"
    filler.write_bytes(bytes(600_000))
    mirror = open_mirror()
    wait_until(lambda: mirror.state.problem, "the sentence")
    assert "The disk is full" in mirror.state.problem
    assert "What is shown of one stays as it was. Free some space here." in mirror.state.problem
    assert mirror.state.is_connected
    filler.unlink()
    wait_until(lambda: is_equal(mirror, own.run.dir), "an equal copy")
    wait_until(lambda: not mirror.state.problem, "no problem")
    mirror.close()
