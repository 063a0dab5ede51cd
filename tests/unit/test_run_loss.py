"""A run has one loss wherever it is named: the best of validation, else a mean of the last ones."""

import csv
import json
import math
from pathlib import Path

import pytest

from core.history import summary as module
from core.history.index import RunIndex
from core.history.marks import rename
from core.history.summary import RunLoss, ValidationReader, recent_mean, run_loss
from core.notifications.message import news_of_end
from core.results.measured_run import read_run, result_of
from core.results.report import read_reported, report
from core.runs.run import Run
from core.schema.events import metrics_line
from core.schema.files import write_whole
from core.schema.paths import EVENTS
from core.schema.spec import write_spec
from core.series.report import runs_table
from core.series.run_series import loss_of
from core.series.series import ExponentialMean
from gui.runs.rows import run_rows
from gui.runs.words import loss_words
from tests.support.commands import call
from tests.support.running import folded, make_spec
from tests.unit.test_run_series import metrics


def written(root: Path, *events: dict[str, object]) -> Path:
    """A finished run with these events of its worker."""
    run_dir = root / "20260101-000000-run-0000"
    (run_dir / EVENTS).mkdir(parents=True)
    states = [{"t": 1.0, "kind": "state", "state": state} for state in ("starting", "running", "releasing", "finished")]
    for name, lines in (("supervisor", states), ("worker-0", events)):
        text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)  # as workers write it
        (run_dir / EVENTS / f"{name}.jsonl").write_text(text)
    write_spec(run_dir, make_spec("digits_cnn"))
    return run_dir


def shown(run_dir: Path) -> tuple[RunLoss | None, RunLoss | None]:
    """The loss of the run in lists, and that of its series."""
    (summary,) = RunIndex(run_dir.parent).poll()
    run = Run.attach(run_dir)
    run_series = folded(*run.catch_up())
    return summary.loss, loss_of(run_series, run.facts)


def test_list_and_series_name_the_best_validation(tmp_path: Path) -> None:
    values = [0.9, 0.3, 0.5, math.nan]
    events = [metrics(2.0 + number, 10 * number + 1, loss=[1.0] * 10) for number in range(4)]
    events += [metrics(2.5 + number, 10 * (number + 1), val_loss=[value]) for number, value in enumerate(values)]
    listed, drawn = shown(written(tmp_path, *sorted(events, key=lambda event: float(event["t"]))))  # type: ignore[arg-type]
    assert listed == drawn == RunLoss(value=0.3, is_validation=True, step=20)
    assert listed is not None
    assert listed.title == "val. loss"


@pytest.mark.parametrize(
    ("kept", "words"),
    [(None, "0.0764"), (0.07639617031, "0.0764"), (0.0840, "0.0764 (kept: 0.084)")],  # events have rounded values
)
def test_every_list_has_the_same_loss_and_says_if_its_model_was_not_kept(tmp_path, capsys, kept, words) -> None:
    written_at = {"t": 5.0, "kind": "checkpoint", "step": 20, "epoch": 2, "name": "a", "metric": "val_loss"}
    values = {} if kept is None else {"value": kept, "kept": kept, "lowest": 0.0763961703, "lowest_epoch": 1}
    run_dir = written(
        tmp_path / "runs", metrics(2.0, 1, loss=[1.0] * 20), metrics(3.0, 10, val_loss=[0.0763961703]),
        metrics(4.0, 20, val_loss=[0.0840]), {**written_at, **values},
    )
    listed, drawn = shown(run_dir)
    assert listed == drawn
    assert listed is not None
    assert listed.words() == f"val. loss {words}"
    assert loss_words(listed) == f"val. loss {words}".replace("0.084)", "0.0840)")
    (summary,) = RunIndex(run_dir.parent).poll()
    (row,) = run_rows([summary], 6.0)
    assert row.outcome == f"finished · {loss_words(listed)}"
    assert f"Best validation loss: 0.0764, at step 10.{words.removeprefix('0.0764')}\n" in row.tip
    runs = ("--runs", run_dir.parent)
    assert f"val. {words}" in call(capsys, "runs", *runs)[1]
    (document,) = json.loads(call(capsys, "runs", "--json", *runs)[1])
    assert (document["loss"], document["last_loss"]) == (0.0763961703, 1.0)
    assert document["kept_loss"] == (0.084 if "kept" in words else None)
    assert f"  val. loss {words}\n" in call(capsys, "show", run_dir.name, *runs)[1]
    (line,) = csv.DictReader(runs_table([summary]).csv().splitlines())
    assert (line["loss"], line["last_loss"]) == ("0.0763961703", "1")
    assert f"<td>val. loss {words}</td>" in report(read_reported([run_dir]), made=6.0).decode()
    news = news_of_end(run_dir)
    assert news is not None
    assert news.loss == f"val. loss {words}"
    best = result_of(read_run(run_dir), "val_loss", lower=True, target=None)
    assert best.numbers["best"] == 0.0763961703


def test_without_validation_it_is_the_mean_that_the_plot_draws(tmp_path: Path) -> None:
    losses = [2.0 / (1 + step) + 0.1 * (step % 3) for step in range(300)]
    losses[250] = math.nan
    events = [metrics(2.0 + first, first + 1, loss=losses[first : first + 25]) for first in range(0, 300, 25)]
    listed, drawn = shown(written(tmp_path, *events))
    mean = ExponentialMean(module.WEIGHT)
    run_series = folded(*events)
    mean.extend(run_series.metrics["loss"].values)
    assert listed is not None
    assert listed == drawn
    assert listed.value == pytest.approx(mean.array[-1], rel=1e-12)


RESTART: dict[str, object] = {"t": 3.0, "kind": "metric_restart", "metrics": ["loss"]}
VOID: dict[str, object] = {"t": 4.0, "kind": "rewind", "step": 15}


@pytest.mark.parametrize(
    ("events", "loss"),
    [
        # what a resume made void does not count
        ([metrics(2.0, 10, val_loss=[0.5]), metrics(3.0, 20, val_loss=[0.1]), VOID, metrics(5.0, 20, val_loss=[0.4])],
         RunLoss(value=0.4, is_validation=True, step=20)),
        # losses before a better source was found do not count
        ([metrics(2.0, 1, loss=[9.0] * 4), RESTART, metrics(4.0, 3, loss=[2.0, 2.0])],
         RunLoss(value=2.0, is_validation=False)),
        ([metrics(2.0, 1, loss=[9.0] * 4), RESTART], None),
    ],
)
def test_what_no_longer_holds_does_not_count(tmp_path, events, loss) -> None:
    assert shown(written(tmp_path, *events)) == (loss, loss)


def test_reader_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 2000)
    path, reader = tmp_path / "worker-0.jsonl", ValidationReader(foreign=False)
    assert reader.read(path)
    assert reader.best is None
    long = metrics_line(since=1, until=2, first_step=1, values={"loss": [0.123456] * 1000}) + "\n"  # several chunks
    with path.open("w") as file:
        for number in range(30):
            file.write(
                metrics_line(since=1, until=2, first_step=number, values={"val_loss": [1 / (1 + number)]}) + "\n"
            )
            file.write(long)
    assert not reader.read(path, until=0.0)
    assert reader.read(path)
    assert reader.best == (29, pytest.approx(1 / 30))
    with path.open("a") as file:
        file.write(metrics_line(since=1, until=2, first_step=99, values={"val_loss": [0.01]})[:-5])
        file.flush()
        assert reader.read(path)
        assert reader.best[0] == 29
        file.write(metrics_line(since=1, until=2, first_step=99, values={"val_loss": [0.01]})[-5:] + "\n")
    assert reader.read(path)
    assert reader.best == (99, 0.01)


def test_a_list_in_a_hurry_has_the_loss_of_the_last_steps_first_and_follows_changes(tmp_path: Path) -> None:
    run_dir = written(tmp_path, metrics(2.0, 1, loss=[3.0]), metrics(3.0, 1, val_loss=[0.5]))
    listed = RunIndex(run_dir.parent, patience_s=-1.0)
    assert listed.poll()[0].loss == RunLoss(value=3.0, is_validation=False)
    listed._patience_s = 10.0
    assert listed.poll()[0].loss == RunLoss(value=0.5, is_validation=True, step=1)
    assert [(each.name, each.last_loss) for each in listed.poll()] == [("digits_cnn", 3.0)]
    rename(run_dir, " the  best ")
    assert [each.name for each in listed.poll()] == ["the best"]
    line = metrics_line(since=2.0, until=2.0, first_step=1, values={"loss": [0.5]})
    write_whole(run_dir / EVENTS / "worker-0.jsonl", f"{line}\n")
    assert [(each.name, each.last_loss) for each in listed.poll()] == [("the best", 0.5)]


def test_run_without_a_number_has_its_last_loss() -> None:
    assert recent_mean([None, math.nan]) is None
    assert run_loss(None, None, None) is None
    last = run_loss(None, None, math.inf)
    assert last is not None
    assert math.isinf(last.value)
