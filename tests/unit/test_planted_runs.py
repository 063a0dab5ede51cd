"""What another user may plant in a shared folder of runs: links, pipes, devices, endless files and deep JSON."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.cli.__main__ import main
from core.history.index import RunIndex
from core.runs.run import Run
from core.schema import event_log, events, files
from core.schema.event_log import MAX_NAMES
from core.schema.events import Tail, Writer
from core.schema.spec import read_spec
from core.series import report
from core.series.run_series import RunSeries
from gui.features.log.files import FileTail
from tests.support.recorded import recorded
from tests.support.running import attached
from tests.support.two_users import give_away


@pytest.fixture
def run_dir(runs_root: Path) -> Path:
    return recorded(runs_root)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("a device can only be made by root")


PLANTS: dict[str, Callable[[Path], object]] = {
    "link": lambda path: path.symlink_to("/dev/zero"), "pipe": os.mkfifo, "device": device, "folder": Path.mkdir,
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["events/worker-0.jsonl", "events/supervisor.jsonl", "log.txt"])
def test_a_run_with_a_planted_file_is_listed_and_shown(run_dir: Path, name: str, plant: str) -> None:
    (run_dir / name).unlink(missing_ok=True)
    PLANTS[plant](run_dir / name)
    (summary,) = RunIndex(run_dir.parent).poll()
    assert summary.name == "digits_mlp"
    run = Run.attach(run_dir)
    report.document(run)
    assert run.log_end() == ""
    assert FileTail(run_dir / "log.txt").read() is None
    if name != "log.txt":
        (trouble,) = [text for text in run.facts.notices if "cannot be read" in text]
        assert str(run_dir / name) in trouble


@pytest.mark.parametrize("plant", PLANTS)
def test_a_folder_with_a_planted_spec_is_no_run_and_hides_no_other(run_dir: Path, plant: str) -> None:
    other = run_dir.with_name("20990101-000000-planted-0001")
    other.mkdir()
    PLANTS[plant](other / "spec.json")
    assert [each.dir for each in RunIndex(run_dir.parent).poll()] == [run_dir]


@pytest.mark.parametrize("opening", ["[", '{"version":'])
def test_deep_json_in_a_spec_is_an_error_and_hides_no_other_run(run_dir, opening, capsys) -> None:
    other = run_dir.with_name("20990101-000000-planted-0001")
    other.mkdir()
    (other / "spec.json").write_text(opening * 200_000)
    assert {each.dir for each in RunIndex(run_dir.parent).poll()} == {run_dir, other}
    with pytest.raises(ValueError, match="is not a valid spec"):
        read_spec(other)
    assert main(["show", other.name, "--runs", str(run_dir.parent)]) == 2
    assert "is not a valid spec" in capsys.readouterr().err


def test_an_event_that_is_nested_deeply_is_skipped(run_dir: Path) -> None:
    with (run_dir / "events" / "supervisor.jsonl").open("a") as file:
        file.write(json.dumps({"t": 1, "kind": "device", "id": "x", "y": json.loads("[" * 150 + "]" * 150)}) + "\n")
    run = Run.attach(run_dir)
    report.document(run)
    assert any("1 line" in text and "is not an event" in text for text in run.facts.notices)


def test_a_spec_larger_than_the_limit_is_not_read(run_dir: Path) -> None:
    os.truncate(run_dir / "spec.json", 1 << 40)
    with pytest.raises(ValueError, match=r"spec.json could not be read: it has more than \d+ bytes"):
        read_spec(run_dir)
    assert len(RunIndex(run_dir.parent).poll()) == 1


def test_a_file_without_line_ends_is_read_up_to_the_longest_line(run_dir: Path) -> None:
    path = run_dir / "events" / "worker-0.jsonl"
    os.truncate(path, 1 << 40)
    tail = Tail(path)
    assert len(tail.read()) == 51
    assert tail.trouble == f"it has a line of more than {events.MAX_LINE_BYTES} bytes"
    assert tail.read() == []


@pytest.mark.two_users
def test_a_run_of_another_user_is_read_up_to_a_limit(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "FOREIGN_BYTES", 2 * event_log.FOREIGN_REST_BYTES)
    line = json.dumps({"t": 1.0, "kind": "unknown", "text": "x" * 1000}) + "\n"
    for number in range(3):
        (run_dir / "events" / f"worker-{number + 1}.jsonl").write_text(line * 3000)
    assert len(Run.attach(run_dir).catch_up()) > 9000
    give_away(run_dir / "events")
    run = Run.attach(run_dir)
    assert len(run.catch_up()) < 3000
    assert any("belongs to another user" in text for text in run.facts.notices)


@pytest.mark.two_users
def test_few_of_very_many_event_files_of_another_user_are_read(run_dir, monkeypatch) -> None:
    monkeypatch.setattr(event_log, "FOREIGN_FILES", 8)
    for number in range(1, 50):
        (run_dir / "events" / f"worker-{number}.jsonl").write_text('{"t":1.0,"kind":"unknown"}\n')
    give_away(run_dir / "events")
    run = Run.attach(run_dir)
    assert sum(event["kind"] == "unknown" for event in run.catch_up()) <= 8
    assert run.facts.state.value == "finished", "its own files are among those that are read"
    assert any("only 8 of its files are read" in text for text in run.facts.notices)


@pytest.mark.parametrize("in_slices", [False, True])
def test_metrics_have_bounded_names_in_number_and_in_length(run_dir: Path, *, in_slices: bool) -> None:
    line = '{"t":2e9,"kind":"metrics","first":1,"values":{"%s":[1.0],"loss":[1.0]}}\n'
    with (run_dir / "events" / "worker-0.jsonl").open("a") as file:
        file.write(line % ("long" * event_log.NAMES_CHARACTERS))
        file.writelines(line % f"m{number}" for number in range(MAX_NAMES + 10))
    run = Run.attach(run_dir)
    events = [event for each in run.every_slice() for event in each] if in_slices else run.catch_up()
    names = {name for event in events if event["kind"] == "metrics" for name in event["values"]}
    assert len(names) == MAX_NAMES
    assert sum(map(len, names)) < event_log.NAMES_CHARACTERS
    assert [event["values"].keys() for event in events[-5:] if event["kind"] == "metrics"][-1] == {"loss"}
    assert f"The run has more than {MAX_NAMES} metrics or devices; the others are missing." in run.facts.notices


def test_a_writer_of_garbage_does_not_add_a_notice_a_line(run_dir: Path) -> None:
    run = Run.attach(run_dir)
    run.catch_up()
    before = len(run.facts.notices)
    for _ in range(100):
        with (run_dir / "events" / "notifications.jsonl").open("a") as file:
            file.write("garbage\n")
        run.poll()
    assert len(run.facts.notices) - before < 10
    assert any("63 lines" in text and "are not events" in text for text in run.facts.notices)


@pytest.mark.slow
def test_a_million_planted_events_do_not_block_their_reader(run_dir: Path) -> None:
    """Costs two seconds."""
    with (run_dir / "events" / "supervisor.jsonl").open("a") as file:
        file.writelines(f'{{"t":2e9,"kind":"notice","text":"{number}"}}\n' for number in range(100_000))
    run = attached(run_dir)
    assert len(run.facts.notices) < 10_010
    assert run.facts.notices[-1].startswith("The run has more than 10000 events of its states and processes")


@pytest.mark.parametrize("name", ["log.txt", "control/stop", "events/supervisor.jsonl", "events/reserve"])
def test_nothing_is_written_through_a_planted_link(run_dir: Path, tmp_path: Path, name: str) -> None:
    mine = tmp_path / "mine"
    mine.write_text("kept")
    planted = run_dir / name
    planted.parent.mkdir(exist_ok=True)
    planted.unlink(missing_ok=True)
    planted.symlink_to(mine)
    with pytest.raises(OSError, match="it is a link") as caught:
        Writer(planted)
    assert caught.value.errno == errno.ELOOP
    with pytest.raises(OSError, match="it is a link"):
        files.touch(planted)
    assert mine.read_text() == "kept"


def test_links_to_folders_are_followed(run_dir: Path, tmp_path: Path) -> None:
    """Runs, a run, its events and its checkpoints may be on another disk."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (run_dir / "events").rename(disk / "events")
    (run_dir / "events").symlink_to(disk / "events")
    run_dir.rename(disk / run_dir.name)
    run_dir.symlink_to(disk / run_dir.name)
    linked = tmp_path / "linked"
    linked.symlink_to(run_dir.parent)
    (summary,) = RunIndex(linked).poll()
    assert summary.state.value == "finished"
    assert Run.attach(linked / run_dir.name).catch_up()


def test_a_manifest_that_names_files_elsewhere_is_damaged(run_dir: Path) -> None:
    from core.runs.outputs import whole

    saved = run_dir / "checkpoints" / "step-00000001"
    saved.mkdir(parents=True)
    manifest = {"version": 1, "step": 1, "epoch": 0, "steps_per_epoch": 1, "value": None, "progress": {}}
    elsewhere = {"/etc/passwd": {"bytes": Path("/etc/passwd").stat().st_size, "crc32": 0}}
    (saved / "checkpoint.json").write_text(json.dumps({**manifest, "files": elsewhere}))
    with pytest.raises(ValueError, match="names a file outside its folder"):
        whole(run_dir)


def test_a_run_with_a_million_metrics_and_devices_keeps_some(run_dir: Path) -> None:
    run_series, notice = RunSeries(), f"The run has more than {MAX_NAMES} metrics or devices; the others are missing."
    run_series.fold(
        event
        for number in range(20_000)
        for event in (
            {"t": 1.0, "kind": "metrics", "first": 1, "values": {f"m{number}": [1.0]}},
            {"t": 1.0, "kind": "sample", "device": f"d{number}"},
        )
    )
    assert (len(run_series.metrics), len(run_series.memory)) == (MAX_NAMES, MAX_NAMES)
    assert run_series.notice == notice
    values = {f"m{number}": [1.0] for number in range(MAX_NAMES + 1)}
    batch = {"t": 1.0, "kind": "metrics", "first": 1, "values": values}
    (run_dir / "events" / "worker-0.jsonl").write_text(json.dumps(batch) + "\n")
    document = report.document(Run.attach(run_dir))
    assert len(document["metrics"]) == MAX_NAMES
    assert document["notices"] == [notice]
