"""Long runs that were read are kept in the user's cache folder, and used only while they are right."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from core import language
from core.history import removal
from core.runs.facts import RunState
from core.runs.run import Run
from core.schema.events import metrics_line
from core.schema.paths import EVENTS, SUPERVISOR_EVENTS, worker_events
from core.series import long_runs
from core.series.run_series import RunSeries
from gui.runs.reading import ReadRun, take_in, unread
from tests.support.long_run import write_long_run
from tests.unit.test_event_slices import assert_same, read_whole


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    return write_long_run(tmp_path, steps=6000, lines=120, rounds=40)


def read(run_dir: Path) -> tuple[Run, RunSeries]:
    run, series = read_whole(run_dir)
    series.prepare()
    return run, series


def keep(run_dir: Path) -> tuple[Run, RunSeries]:
    run, series = read(run_dir)
    packed = long_runs.pack(run, (run, series))
    assert packed is not None
    packed.write()
    return run, series


def kept_files() -> list[Path]:
    return sorted(long_runs.cache_folder().glob("runs/*/*"))


def test_loaded_run_is_the_one_that_was_read(long_run):
    keep(long_run)
    loaded = long_runs.load(long_run)
    assert loaded[0].facts.state is RunState.FINISHED
    assert_same(loaded, read_whole(long_run))
    (file,) = kept_files()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_run_that_was_resumed_is_read_on(long_run):
    supervisor, worker = (long_run / EVENTS / name for name in (SUPERVISOR_EVENTS, worker_events(0)))
    supervisor.write_text(supervisor.read_text().replace('"finished"', '"stopped"'))
    keep(long_run)
    after = 1_760_100_000.0
    states = [{"kind": "supervisor", "pid": 999_999, "created": 2.0, "host": "elsewhere"}]
    states += [{"kind": "state", "state": state} for state in ("starting", "running", "releasing", "finished")]
    with supervisor.open("a") as file:
        file.writelines(json.dumps({"t": after, **event}) + "\n" for event in states)
    with worker.open("a") as file:
        file.write(json.dumps({"t": after, "kind": "rewind", "step": 5000}) + "\n")
        file.write(metrics_line(since=after, until=after, first_step=5001, values={"loss": [0.25, 0.5]}) + "\n")
    run, series = long_runs.load(long_run)
    assert (run.facts.state, series.metrics["loss"].count) == (RunState.STOPPED, 6000)
    series.fold(run.catch_up())
    assert (run.facts.state, series.metrics["loss"].count) == (RunState.FINISHED, 5002)
    assert_same((run, series), read_whole(long_run))


def write_again(run_dir: Path) -> None:
    events = run_dir / EVENTS / worker_events(0)
    copy = events.with_name("new")
    shutil.copyfile(events, copy)
    copy.replace(events)


def cut(path: Path, *, to: float) -> None:
    os.truncate(path, int(path.stat().st_size * to))


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes(40) + data[80:])


CHANGES: dict[str, Callable[[Path], object]] = {
    "events are shorter": lambda run_dir: cut(run_dir / EVENTS / worker_events(0), to=0.99),
    "events are another file": write_again,
    "the spec is another": lambda run: (run / "spec.json").write_text((run / "spec.json").read_text() + "\n"),
    "events are gone": lambda run_dir: (run_dir / EVENTS / "devices.jsonl").unlink(),
    "damaged": lambda _: damage(kept_files()[0]),
    "cut": lambda _: cut(kept_files()[0], to=0.5),
    "empty": lambda _: cut(kept_files()[0], to=0),
    "others may write it": lambda _: kept_files()[0].chmod(0o622),
}


@pytest.mark.parametrize("change", CHANGES)
def test_kept_run_that_may_be_wrong_is_not_used(long_run, change):
    keep(long_run)
    assert long_runs.load(long_run) is not None
    CHANGES[change](long_run)
    assert long_runs.load(long_run) is None


def test_a_change_of_any_class_of_a_kept_run_makes_it_another_program(long_run, monkeypatch):
    modules = set()

    class Unpickler(long_runs._Unpickler):
        def find_class(self, module, name):
            modules.add(module)
            return super().find_class(module, name)

    run = Run.attach(long_run)
    whole = unread(run, run.spec())
    take_in(whole, run.catch_up())
    monkeypatch.setattr(long_runs, "_Unpickler", Unpickler)
    long_runs.pack(run, whole).write()
    assert isinstance(long_runs.load(long_run), ReadRun)
    own = {module.rpartition(".")[0].replace(".", "/") for module in modules if module.startswith(long_runs.PROGRAM)}
    assert own <= set(long_runs.MADE_OF)
    assert len(own) > 4


def test_kept_run_of_another_program_or_language_is_not_used(long_run, monkeypatch):
    keep(long_run)
    language.use("zh_CN")
    try:
        assert long_runs.load(long_run) is None
    finally:
        language.use("en")
    assert long_runs.load(long_run) is not None
    monkeypatch.setattr(long_runs, "_code", lambda: "another")
    assert long_runs.load(long_run) is None


def test_only_objects_of_this_program_are_unpickled(long_run):
    run, _ = read(long_run)
    for objects in (run, os.system, [run, subprocess.Popen], [run, run.dir.exists]):
        long_runs.pack(run, objects).write()
        assert (long_runs.load(long_run) is None) == (objects is not run)


def test_member_of_an_enumeration_is_loaded_however_it_is_pickled(long_run):
    """Python 3.11.0 to 3.11.3 pickle it as a call of `getattr`, other versions as a call of its class."""

    class Finished:
        def __reduce__(self):
            return getattr, (RunState, "FINISHED")

    run, _ = read(long_run)
    long_runs.pack(run, [run, Finished(), RunState.LOST]).write()
    assert long_runs.load(long_run)[1:] == [RunState.FINISHED, RunState.LOST]


def test_oldest_files_are_deleted_and_a_full_disk_is_left_alone(tmp_path, long_run, monkeypatch):
    keep(long_run)
    (first,) = kept_files()
    os.utime(first, (1, 1))
    monkeypatch.setattr(long_runs, "MAX_BYTES", int(1.5 * first.stat().st_size))
    newer = write_long_run(tmp_path, steps=6000, lines=120, rounds=40, name="20260102-000000-long-0000")
    keep(newer)
    assert first not in kept_files()
    assert len(kept_files()) == 1
    assert removal.remove(newer).problem == ""
    assert list(long_runs.cache_folder().glob("runs/*")) == [], "removed with its run"
    monkeypatch.setattr(long_runs, "FREE_SHARE", 1 << 60)
    keep(long_run)
    assert kept_files() == []


def test_measured_steps_are_kept(long_run):
    parts = {"seconds": 0.1, "data": 0.06, "forward": 0.01, "backward": 0.02, "optimizer": 0.01}
    with (long_run / EVENTS / worker_events(0)).open("a") as file:
        for step in range(1, 9):
            file.write(json.dumps({"t": 2e9 + step, "kind": "step_time", "rank": 0, "step": step, **parts}) + "\n")
    run, series = read(long_run)
    assert series.step_times.diagnosis(run.facts).verdict == "input"
    keep(long_run)
    run, loaded = long_runs.load(long_run)
    assert loaded.step_times.table.tolist() == series.step_times.table.tolist()
    assert loaded.step_times.diagnosis(run.facts) == series.step_times.diagnosis(run.facts)
