"""Event files for TensorBoard: TensorBoard's own reader and ours give what was measured."""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from core.metrics.files.tensorboard import EventFile
from core.metrics.files.tensorboard_writer import ROWS, ScalarCurve, event_file
from core.runs.run import Run
from core.series import report
from core.series.report import export_bytes
from tests.support.commands import call
from tests.support.recorded_events import scalar_record
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import BEGAN, values, write_run

READ = """
import json, sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # without TensorFlow, which takes seconds to load
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
for folder in sys.argv[1:]:
    read = EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
    curves = {tag: [[each.step, each.wall_time, repr(each.value)] for each in read.Scalars(tag)]
              for tag in read.Tags()["scalars"]}
    print(json.dumps(curves))
"""


def read_by_tensorboard(*folders: Path) -> list[dict[str, list[tuple[int, float, float]]]]:
    """Return step, time and value of each scalar, as TensorBoard reads them."""
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, folders)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return [
        {tag: [(step, time, float(value)) for step, time, value in rows] for tag, rows in json.loads(line).items()}
        for line in done.stdout.splitlines()
    ]


def curve(tag: str, steps: Sequence[float], numbers: Sequence[float]) -> ScalarCurve:
    times = BEGAN + 0.125 * np.arange(len(steps))
    return ScalarCurve(tag=tag, steps=np.array(steps, float), times=times, values=np.array(numbers, float))


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs TensorBoard")
def test_tensorboard_reads_the_same_values_steps_and_times(tmp_path: Path, capsys) -> None:
    losses = [2.0 / step for step in range(1, 301)]
    losses[5:8] = [math.nan, math.inf, -math.inf]
    events = [values(1, 1.0, 300.0, loss=losses), values(300, 301.0, 301.0, val_loss=[0.5])]
    first = write_run(tmp_path, "first", events)
    odd = values(128, 1.0, 1.0, **{"träin/\u2603 |<b>": [0.25]})
    second = write_run(tmp_path, "second", [odd, values(2**40, 2.0, 2.0, loss=[3e38])])
    assert call(capsys, "export", first, "--tensorboard", tmp_path / "one")[0] == 0
    code, out, _ = call(capsys, "export", first, second, "--tensorboard", tmp_path / "both", "--json")
    assert (code, [each["values"] for each in json.loads(out)["runs"]]) == (0, [301, 2])
    one, again, other = read_by_tensorboard(tmp_path / "one", tmp_path / "both" / "first", tmp_path / "both" / "second")
    assert set(one) == {"loss", "val_loss"}
    steps, times, read = map(list, zip(*one["loss"], strict=True))
    assert steps == list(range(1, 301))
    assert np.array_equal(times, BEGAN + np.linspace(1.0, 300.0, 300)), "exactly: times have 64 bits"
    recorded = report.read_series(Run(first)).metrics["loss"].values
    assert np.array_equal(read, recorded.astype(np.float32), equal_nan=True)
    assert np.allclose(read, losses, rtol=1e-6, equal_nan=True), "NaN and infinite, too"
    assert one["val_loss"] == [(300, BEGAN + 301.0, 0.5)]
    assert repr(again) == repr(one)
    assert other["träin/\u2603 |<b>"] == [(128, BEGAN + 1.0, 0.25)]
    assert other["loss"] == [(2**40, BEGAN + 2.0, float(np.float32(3e38)))]


def test_records_are_those_of_pytorch_in_pieces_of_bounded_size() -> None:
    long = "x" * 600  # beyond the block of the checksum
    for tag, step, value in (("loss", 0, 0.1), ("a/b", 127, -1e-30), ("a", 128, 7.0), (long, 2**35, math.inf)):
        _, record = event_file([curve(tag, [step], [value])], BEGAN)
        assert record == scalar_record(tag, value, step, BEGAN)
    count = 3 * ROWS + 5
    pieces = list(event_file([curve("loss", range(count), np.zeros(count))], BEGAN))
    assert sum(len(piece) for piece in pieces) > 40 * count
    assert max(len(piece) for piece in pieces) < 64 * ROWS


def test_steps_of_every_size_and_a_negative_one_keep_their_order(tmp_path: Path) -> None:
    steps = [-5.0, 0.0, *(float(2**power) for power in range(53)), 2.0**53 - 1]
    path = tmp_path / "events.out.tfevents.1.x"
    path.write_bytes(b"".join(event_file([curve("loss", steps, range(len(steps)))], BEGAN)))
    readings = EventFile(path).poll()
    assert [each.step for each in readings] == [int(step) for step in steps]
    assert [each.values["loss"] for each in readings] == list(range(len(steps)))


def test_nothing_is_mixed_or_replaced_silently(tmp_path: Path, capsys) -> None:
    run = write_run(tmp_path, "large", [values(1, 1.0, 3.0, loss=[1e300, math.inf, 1.0])])
    folder = tmp_path / "tb"
    export = ("export", run, "--tensorboard", folder)
    code, _, err = call(capsys, *export)
    assert (code, err) == (
        0, "trainyard: 1 value of loss of run large is too large for TensorBoard, and infinite there.\n"
    )
    (path,) = folder.iterdir()
    before = path.read_bytes()
    code, _, err = call(capsys, *export)
    assert (code, path.read_bytes()) == (2, before)
    assert "has event files of an earlier export. Name another folder, or add --force" in err
    path.rename(folder / "events.out.tfevents.0000000001.trainyard")  # as of another run
    assert call(capsys, *export, "--force")[0] == 0
    assert [each.name for each in folder.iterdir()] == [path.name]
    (folder / "events.out.tfevents.1.host").touch()
    code, _, err = call(capsys, *export, "--force")
    assert (code, "of another program, and TensorBoard would mix their curves" in err) == (2, True)
    assert "is a file. Name a folder" in call(capsys, "export", run, "--tensorboard", path)[2]
    assert "Run large is named twice" in call(capsys, "export", run, run, "--tensorboard", tmp_path / "x")[2]
    assert "--csv takes one run." in call(capsys, "export", run, run, "--csv", tmp_path / "x")[2]


def test_an_export_keeps_the_mode_of_a_file_and_a_link(tmp_path: Path, capsys) -> None:
    run = write_run(tmp_path, "run", [values(1, 1.0, 2.0, loss=[0.5] * 20_000)])
    path = tmp_path / "table.csv"
    export_bytes(b"old", path)
    path.chmod(0o640)
    assert call(capsys, "export", run, "--csv", path, "--force")[0] == 0
    assert path.read_text().count("\n") == 20_001
    assert path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "link").symlink_to(path)
    export_bytes(b"new", tmp_path / "link")
    assert ((tmp_path / "link").is_symlink(), path.read_bytes()) == (True, b"new"), "a link stays a link"
