"""Files of Weights & Biases, trackio and MLflow, recorded with the real libraries: values, growth, damage, locks."""

import gzip
import math
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from core.metrics.collector import MetricsCollector
from core.metrics.files.finder import SLACK_S, MetricFileFinder
from core.metrics.files.trackers import (
    LOG_BLOCK_BYTES,
    TRIES,
    MlflowDatabase,
    MlflowMetricFile,
    TrackioDatabase,
    WandbFile,
    reader_of,
)
from core.metrics.rank_metrics import RankReader
from core.schema.events import Tail
from core.schema.paths import COLLECTOR_EVENTS, EVENTS
from tests.support.running import script_spec
from tests.support.waiting import PATIENCE_S

RECORDED = Path(__file__).resolve().parents[1] / "recorded_trackers"


def unpacked(name: str, folder: Path, as_name: str = "") -> Path:
    path = folder / (as_name or name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.decompress((RECORDED / f"{name}.gz").read_bytes()))
    return path


def polled(source) -> list:
    readings = source.poll(ended=True)
    while source.more:
        readings += source.poll(ended=True)
    return readings


def curve(readings, name: str) -> dict[int, float]:
    return {each.step: each.values[name] for each in readings if name in each.values}


def test_wandb_offline_file_gives_every_step(tmp_path: Path) -> None:
    source = WandbFile(unpacked("offline.wandb", tmp_path))
    readings = polled(source)
    assert curve(readings, "loss") == pytest.approx({step: 1 / step for step in range(1, 401)})
    assert curve(readings, "val_loss") == {step: 2 / step for step in (100, 200, 300, 400)}
    assert curve(readings, "nested_score") == {step: step / 2 for step in (100, 200, 300, 400)}
    assert all(math.isnan(value) for value in curve(readings, "bad").values())
    assert not any("note" in each.values or "wandb" in " ".join(each.values) for each in readings)
    assert readings[0].time == pytest.approx(time.mktime((2026, 11, 23, 9, 0, 0, 0, 0, 0)), abs=2 * 86400)
    assert source.trouble == ""


@pytest.mark.parametrize("piece", [1000, LOG_BLOCK_BYTES - 1])
def test_wandb_file_is_read_while_it_grows(tmp_path: Path, piece: int) -> None:
    whole, growing = unpacked("offline.wandb", tmp_path), tmp_path / "growing.wandb"
    data = whole.read_bytes()
    assert len(data) > LOG_BLOCK_BYTES, "records are cut where a block ends"
    source, readings = WandbFile(growing), []
    for end in range(piece, len(data) + piece, piece):
        growing.write_bytes(data[:end])
        readings += polled(source)
    assert readings == polled(WandbFile(whole))
    assert source.trouble == ""


def test_damaged_wandb_file_loses_the_damaged_records_only(tmp_path: Path) -> None:
    path = unpacked("offline.wandb", tmp_path)
    data = bytearray(path.read_bytes())
    data[60000:60010] = b"\xff" * 10
    path.write_bytes(data)
    source = WandbFile(path)
    assert 150 < len(curve(polled(source), "loss")) < 400
    assert source.trouble == f"{path} has damaged records. They are skipped, and their metrics are missing here."
    path.write_bytes(b":W&B\xe1\xbe\x09" + data[7:])
    newer = WandbFile(path)
    assert polled(newer) == []
    assert newer.trouble.startswith(f"{path} is not a file of Weights & Biases that this version can read.")


def test_databases_of_trackers_are_recognised_and_read_without_a_trace(tmp_path: Path) -> None:
    trackio, mlflow = unpacked("trackio.db", tmp_path), unpacked("mlflow.db", tmp_path)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE metrics (loss)")
    assert [reader_of(path) for path in (trackio, mlflow, other)] == [TrackioDatabase, MlflowDatabase, None]
    readings = polled(TrackioDatabase(trackio))
    assert curve(readings, "loss") == pytest.approx({step: 1 / (step + 1) for step in range(20)})
    assert curve(readings, "val_accuracy") == {step: step / 20 for step in (0, 5, 10, 15)}
    readings = polled(MlflowDatabase(mlflow))
    assert curve(readings, "loss") == pytest.approx({step: 1 / step for step in range(1, 21)})
    assert curve(readings, "val_accuracy") == {5: 0.25, 10: 0.5, 15: 0.75, 20: 1.0}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mlflow.db", "other.db", "trackio.db"]
    assert polled(TrackioDatabase(trackio, since=time.time() + 1e9)) == [], "rows of earlier runs"


def test_a_file_whose_reader_raises_is_named_and_the_others_are_read_on(tmp_path, monkeypatch) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (tmp_path / "train.py").write_text("")
    spec = script_spec(tmp_path / "train.py", cwd=tmp_path)
    reader = RankReader(run_dir, spec, 0, None)
    odd, good = unpacked("trackio.db", tmp_path), tmp_path / "metrics.jsonl"
    good.write_text('{"step": 1, "loss": 0.5}\n')
    for path in (odd, good):
        reader.add_file(path, 0)

    def fail(*_: object) -> None:
        raise AttributeError("no items")

    monkeypatch.setattr(TrackioDatabase, "row", fail)
    merged = reader.read()
    good.write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n')
    merged += reader.read(last=True)
    assert [each.values["loss"] for each in merged] == [0.5, 0.25]
    (trouble,) = reader.troubles()
    assert trouble.startswith(
        f"{odd} is not read any more, since what is in it could not be understood (AttributeError("
    )


def test_database_grows_is_locked_and_changes_its_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.metrics.files.trackers.BUSY_S", 0.001)
    path = unpacked("mlflow.db", tmp_path)
    source = MlflowDatabase(path)
    assert len(polled(source)) == 28
    row = "INSERT INTO metrics SELECT key, 9.5, timestamp, run_uuid, 21, 0 FROM metrics WHERE rowid = 1"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA foreign_keys = OFF")
        writer.execute(row)
        assert curve(polled(source), "loss") == {21: 9.5}
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute(row.replace("21", "22"))
        later = path.stat().st_mtime_ns + 10**9  # two changes within one tick of a file system's clock are one
        os.utime(path, ns=(later, later))
        for _ in range(TRIES):
            assert polled(source) == []
        assert source.trouble == f"{path} is locked by its writer. Its metrics are missing here."
        writer.execute("COMMIT")
        assert curve(polled(source), "loss") == {22: 9.5}
        assert source.trouble == ""
        writer.execute("ALTER TABLE metrics RENAME COLUMN is_nan TO kind")
        assert polled(source) == []
        assert source.trouble.startswith(f"{path} has another layout than this version of Trainyard knows (it lacks ")
    path.write_bytes(path.read_bytes()[:5000])
    assert polled(MlflowDatabase(path)) == []


def test_rows_in_the_write_ahead_log_are_read_while_it_is_open(tmp_path: Path) -> None:
    path = unpacked("trackio.db", tmp_path)
    source = TrackioDatabase(path)
    assert len(polled(source)) == 20
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        insert = "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES ('{}', '{}', '{}', {}, '{}')"
        now = "2026-11-23T10:00:00+00:00"
        run_id, name = writer.execute("SELECT run_id, run_name FROM metrics").fetchone()
        writer.execute(insert.format(run_id, now, name, 20, '{"train_loss": "NaN"}'))
        assert (tmp_path / "trackio.db-wal").stat().st_size
        table = '{"table": {"_type": "trackio.table", "rows": [[1, {"loss": 2}]]}, "train_loss": 0.5}'
        writer.execute(insert.format(run_id, now, name, 21, table))
        assert repr(curve(polled(source), "loss")) == "{20: nan, 21: 0.5}"
        writer.execute(insert.format("x", now, "another", 1, '{"train_loss": 1}'))
        assert polled(source) == []
    assert source.trouble == f"{path} has several runs of this program. Only the first is shown."


def test_database_that_was_locked_or_empty_when_it_was_found_is_read_later(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    looking = MetricFileFinder([tmp_path], time.time())
    looking.remember(PATIENCE_S)
    (tmp_path / "run" / EVENTS).mkdir(parents=True)
    collector = MetricsCollector(tmp_path / "run", script_spec(tmp_path / "train.py", cwd=tmp_path), looking)
    log, locked = tmp_path / "log.db", unpacked("mlflow.db", tmp_path)
    with closing(sqlite3.connect(log, isolation_level=None)) as writer, closing(sqlite3.connect(locked)) as locker:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        locker.execute("BEGIN EXCLUSIVE")
        assert looking.search_all(PATIENCE_S) == []
        collector.read(last=True)
        for name in ("metrics", "configs", "system_metrics"):
            writer.execute(f"CREATE TABLE {name} (id, run_name, timestamp, step, metrics)")
        assert looking.search_all(PATIENCE_S) == [log]
        locker.rollback()
    assert looking.search_all(PATIENCE_S) == [locked]
    collector.close()
    events = Tail(tmp_path / "run" / EVENTS / COLLECTOR_EVENTS).read()
    notices = [each["text"]["text"] for each in events if "text" in each]
    assert notices == [f"{locked} is locked by its writer. Its metrics are missing here."]


def test_finder_finds_what_trackers_write_in_the_run(tmp_path: Path) -> None:
    old = unpacked("trackio.db", tmp_path, "shared.db")
    os.utime(old, (1.0, 1.0))
    began = time.time()
    finder = MetricFileFinder([tmp_path], since=began)
    finder.remember()
    assert finder.search_all(PATIENCE_S) == []
    run = tmp_path / "mlruns" / "0" / "abc"
    (run / "metrics" / "val").mkdir(parents=True)
    (run / "meta.yaml").write_text("run_id: abc\n")
    (run / "metrics" / "val" / "loss").write_text("1795424988222 0.5 1\n")
    unpacked("offline.wandb", tmp_path, "wandb/offline-run-1/run-1.wandb")
    unpacked("mlflow.db", tmp_path)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "notes").write_text("no metric of MLflow\n")
    with closing(sqlite3.connect(old)) as writer, writer:
        writer.execute("UPDATE metrics SET step = 0")
    found = finder.search_all(PATIENCE_S)
    assert sorted(each.name for each in found) == ["loss", "mlflow.db", "run-1.wandb", "shared.db"]
    assert finder.offset(old) == int(began - SLACK_S)


def test_mlflow_metric_file(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics" / "train_loss"
    path.parent.mkdir(parents=True)
    (tmp_path / "run" / "meta.yaml").write_text("")
    path.write_bytes((RECORDED / "mlflow_train_loss").read_bytes() + b"torn")
    readings = polled(MlflowMetricFile(path))
    assert curve(readings, "loss") == pytest.approx({step: 1 / step for step in range(1, 21)})
    assert readings[0].time == pytest.approx(1795424988.222)
