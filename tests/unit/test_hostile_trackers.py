"""Hostile rows in the files of each tracker, at random: a row loses at most its own value, and no reader raises."""

import json
import sqlite3
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from itertools import chain, product
from pathlib import Path
from random import Random

import pytest

from core.metrics.files import trackers
from core.metrics.files.growing_file import GrowingSource
from core.metrics.rank_metrics import RankReader
from tests.process.test_hostile_runs import batches
from tests.support.hostile_runs import damage, hostile_value, watched
from tests.support.running import script_spec

ROWS = 30
FIRST, LAST = 0.25, 0.125
"""The losses of the first row and of the last two, which are good. After a row whose step is 2 ** 31, one row alone
would count as an older value."""
CELLS = (
    None, 0, -1, 2**62, 1.5, float("inf"), "x", "\x1b[31m", b"\xff", "x" * (trackers.MAX_ROW_BYTES + 1), "[1]", "null",
    "[" * 200_000, '{"loss": 1', '{"loss": 1e400}', '{"loss": ' + "9" * 4200 + "}", '{"' + "n" * 10_000 + '": 1}',
)
"""What a column of any type may have."""


def _json(random: Random) -> str:
    value = hostile_value(random)
    return json.dumps(random.choice([value, {"loss": value}, {str(value)[:50]: 1}]))


def _bytes(random: Random) -> bytes:
    return random.choice([_json(random).encode(errors="replace"), random.randbytes(50), b"9" * 5000, b"1e999", b"nan"])


def _database(schema: str, good: dict[str, object]) -> Callable[[Path, Random], None]:
    """Return what writes a database. `schema`: its other tables. `good`: a row, but for its loss and step."""

    def write(path: Path, random: Random) -> None:
        at_random = [(random.choice([*good]), random.choice([_json, _bytes])(random)) for _ in range(ROWS)]
        rows = []
        for change in ({}, *({column: cell} for column, cell in (*product(good, CELLS), *at_random)), {}, {}):
            loss = LAST if rows else FIRST
            row = {name: value(loss) if callable(value) else value for name, value in good.items()}
            rows.append(row | {"step": len(rows)} | change)
        with closing(sqlite3.connect(path)) as database, database:
            database.executescript(f"{schema}; CREATE TABLE metrics (id INTEGER PRIMARY KEY, {', '.join(good)})")
            marks = ", ".join(f":{name}" for name in good)
            database.executemany(f"INSERT INTO metrics ({', '.join(good)}) VALUES ({marks})", rows)

    return write


def _mlflow_file(path: Path, random: Random) -> None:
    (path.parents[1] / "meta.yaml").write_text("")
    odd = [b" ".join(_bytes(random).replace(b"\n", b"") for _ in range(3)) for _ in range(ROWS)]
    last = [b"1795424988333 %g %d" % (LAST, step) for step in (98, 99)]
    path.write_bytes(b"\n".join([b"1795424988222 %g 1" % FIRST, *odd, *last, b""]))


def _wandb(path: Path, random: Random) -> None:
    """Write a block of records with the right checksums."""

    def field(number: int, content: bytes) -> bytes:
        size, head = len(content), [number >> 4 and (number << 3 | 2) & 127 | 128, number >> 4]
        prefix = bytes(head) if head[0] else bytes([number << 3 | 2])
        return prefix + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + content

    def record(value: bytes) -> bytes:
        content = field(2, field(1, field(1, b"loss") + field(16, value)))
        return random.randbytes(20) if value == b"random" else content

    data = b":W&B\xe1\xbe\x00"
    values = [b"%g" % FIRST, *(random.choice([_bytes(random)[:500], b"random"]) for _ in range(ROWS)), b"%g" % LAST]
    for content in map(record, values):
        data += struct.pack("<IHB", zlib.crc32(content, zlib.crc32(b"\1")), len(content), 1) + content
    path.write_bytes(data)


WRITERS: dict[type, tuple[str, Callable[[Path, Random], None]]] = {
    trackers.WandbFile: ("run-1.wandb", _wandb),
    trackers.MlflowMetricFile: ("metrics/loss", _mlflow_file),
    trackers.TrackioDatabase: ("trackio.db", _database(
        "CREATE TABLE configs (x); CREATE TABLE system_metrics (x)",
        {"run_name": "r", "timestamp": "2026-11-28T12:00:00+00:00", "step": 0,
         "metrics": lambda loss: json.dumps({"loss": loss})},
    )),
    trackers.MlflowDatabase: ("mlflow.db", _database(
        "CREATE TABLE alembic_version (x); CREATE TABLE runs (x)",
        {"run_uuid": "u", "timestamp": 1795424988222, "step": 0, "key": "loss", "value": float, "is_nan": 0},
    )),
}
"""By reader of a tracker, the name of a file and what writes it."""


def _readers(base: type) -> list[type]:
    below = list(chain.from_iterable(map(_readers, base.__subclasses__())))
    return below or [base]


def test_each_tracker_has_hostile_rows() -> None:
    found = {*_readers(GrowingSource), *_readers(trackers.TrackerDatabase)}
    assert {each for each in found if each.__module__ == trackers.__name__} == WRITERS.keys()


@pytest.mark.parametrize("tracker", WRITERS, ids=lambda tracker: tracker.__name__)
@pytest.mark.parametrize("count", [3, pytest.param(None, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])])
def test_hostile_rows_of_a_tracker_lose_at_most_their_own_values(tracker, count, tmp_path) -> None:
    """Then some bytes of the file are damaged, which may lose more, but ends no reader."""
    for seed in batches(count):
        folder, random = tmp_path / str(seed), Random(seed)
        name, write = WRITERS[tracker]
        (folder / name).parent.mkdir(parents=True)
        write(folder / name, random)
        for is_damaged in (False, True):
            if is_damaged:
                damage(folder / name, random)
            losses, troubles = _read(folder, folder / name, seed)
            assert not any("is not read any more" in each for each in troubles), (seed, troubles)
            assert is_damaged or {FIRST, LAST} <= losses, (seed, losses)


def _read(folder: Path, path: Path, seed: int) -> tuple[set[float], list[str]]:
    """Read a file beside a good one, and return all losses; check that those of the good one are among them."""
    (folder / "run").mkdir(exist_ok=True)
    (folder / "train.py").write_text("")
    good = folder / "metrics.jsonl"
    good.write_text('{"step": 500, "other": 0.5}\n{"step": 501, "other": 0.75}\n')
    reader = RankReader(folder / "run", script_spec(folder / "train.py", cwd=folder), 0, None)
    for each in (path, good):
        reader.add_file(each, 0)
    with watched(lambda: f"seed {seed}"):
        read = reader.read(last=True)
    assert [each.values["other"] for each in read if "other" in each.values] == [0.5, 0.75], seed
    return {each.values["loss"] for each in read if "loss" in each.values}, reader.troubles()
