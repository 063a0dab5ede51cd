"""Runs that were queued together: one row of the list, in what stands in it, and where."""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.history.index import RunIndex
from core.queue.listing import QueuedRun, QueueView
from core.queue.request import QueueRequest
from core.runs.facts import RunState
from gui.runs.groups import Group, fold, sweeps
from gui.runs.rows import NO_QUEUE, RunRow, run_rows
from gui.runs.words import STATE_MARKS
from tests.support.running import make_spec
from tests.support.written_runs import BEGAN, values, write_run

QUEUED = ((0.0, "queued"),)
RUNS = ((0.0, "starting"), (1.0, "running"))
DONE = (*RUNS, (2.0, "releasing"), (3.0, "finished"))
FAILED = (*RUNS, (2.0, "releasing"), (3.0, "failed"))
RATES = (0.001, 0.003, 0.01)


def write(root: Path, *states: tuple[tuple[float, str], ...], losses: Sequence[float] = (), **training: float) -> None:
    """Write a sweep of three rates with these states, of which the first ones have these losses."""
    for number, (rate, each) in enumerate(zip(RATES, states, strict=True)):
        spec = replace(make_spec("digits_mlp", learning_rate=rate, **training), sweep="3f2a1c")
        loss = losses[number] if number < len(losses) else None
        events = [] if loss is None else [values(1, 0.0, 1.0, loss=[loss])]
        # The names of one second are in no order.
        write_run(root, f"20250615-{15 + (number == 0)}0000-digits_mlp-{number}", events, spec=spec, states=each)


def rows_of(root: Path, queue: QueueView = NO_QUEUE, *, is_open: bool = False) -> list[RunRow]:
    running = RunState.RUNNING  # without its processes, such a run is lost
    found = [replace(each, state=running) if each.state is RunState.LOST else each for each in RunIndex(root).poll()]
    groups = sweeps(found, {})
    folded = fold(found, groups, {each.dir for each in groups if is_open})
    return run_rows(folded, BEGAN + 60.0, by_day=True, queue=queue)


@pytest.mark.parametrize(("states", "losses", "section", "mark", "texts"), [
    ((DONE, RUNS, QUEUED), (0.5, 0.42), "Running", "running",
     ("", "1 of 3", "loss 0.420 · lr 0.003", "1 of 3 done, best loss 0.420 at lr 0.003", 1 / 3)),
    ((DONE, DONE, DONE), (0.5, float("nan"), 0.6), "Today", "finished",
     ("", "3 of 3", "loss 0.500 · lr 0.001", "3 of 3 done, best loss 0.500 at lr 0.001", None)),
    ((DONE, FAILED, DONE), (0.5,), "Today", "failed",
     ("1 failed", "2 of 3", "loss 0.500 · lr 0.001",
      "2 of 3 done, 1 failed, best loss 0.500 at lr 0.001", None)),
    ((QUEUED, QUEUED, QUEUED), (), "Queue", "queued", ("", "", "", "0 of 3 done", None)),
])
def test_runs_that_were_queued_together_are_one_row_that_says_how_far_they_are(
    tmp_path: Path, states, losses, section: str, mark: str, texts: tuple[object, ...]
) -> None:
    write(tmp_path, *states, losses=losses)
    write_run(tmp_path, "20250614-150000-other")
    row, *others = rows_of(tmp_path)
    assert [each.title.endswith("digits_mlp") for each in others] == [True], "one row, and the other run"
    assert (row.title, row.words, row.day, row.of_day) == (
        "▸ digits_mlp, sweep of 3", "lr 0.001, 0.003, 0.01", section, 1,
    )
    assert (row.mark, len(row.runs)) == (STATE_MARKS[RunState(mark)], 3)
    assert (row.result, row.below, row.left, row.outcome, row.fraction) == texts
    opened = rows_of(tmp_path, is_open=True)
    assert [each.title for each in opened[:4]] == [
        "▾ digits_mlp, sweep of 3", "↳ lr 0.001", "↳ lr 0.003", "↳ lr 0.01",
    ], "below it in the order of their values, whatever they do"
    assert [each.runs for each in opened[1:4]] == [(each,) for each in row.runs]
    assert (opened[0].of_day, opened[4].of_day) == (1, 1), "the runs below a row do not count"


def test_a_run_that_was_taken_out_of_the_queue_does_not_differ_in_devices_that_it_never_had(tmp_path: Path) -> None:
    write(tmp_path, DONE, (*QUEUED, (5.0, "stopped")), DONE, losses=(0.5,))
    device = {"t": BEGAN, "kind": "device", "id": "cpu:0", "device_kind": "cpu", "label": "CPU 0", "name": "EPYC"}
    for done in (each for each in tmp_path.iterdir() if not each.name.endswith("1")):
        with (done / "events" / "supervisor.jsonl").open("a") as file:
            file.write(json.dumps({**device, "memory_total_bytes": 1, "pci_bus_id": None, "cores": [0]}) + "\n")
    row, *below = rows_of(tmp_path, is_open=True)
    assert row.words == "lr 0.001, 0.003, 0.01"
    assert [each.title.split("lr ")[1] for each in below] == ["0.001", "0.003", "0.01"]


def test_a_queued_row_has_the_place_and_the_reason_of_its_next_run_and_its_runs_stay_below_it(tmp_path: Path) -> None:
    write(tmp_path, QUEUED, QUEUED, DONE, losses=(), batch_size=32)
    for name in ("a", "z"):
        write_run(tmp_path, f"20250616-150000-{name}", states=QUEUED)
    by_name = {each.name[-1]: each for each in tmp_path.iterdir()}
    runs = [
        QueuedRun(run_dir=by_name[name], request=QueueRequest(), place=place, state="queued", needs="CPU 0",
                  reason=f"Reason {place}.", expected_start=BEGAN + 60.0 * place, waits=True)
        for place, name in enumerate("a1z0", 1)
    ]
    queue = QueueView(runs=tuple(runs))
    assert [each.title for each in rows_of(tmp_path, queue)] == [
        "1  digits_mlp", "▸ 2  digits_mlp, sweep of 3", "3  digits_mlp",
    ]
    opened = rows_of(tmp_path, queue, is_open=True)
    assert [each.title for each in opened] == [
        "1  digits_mlp", "▾ 2  digits_mlp, sweep of 3", "↳ 4  lr 0.001", "↳ 2  lr 0.003", "↳ lr 0.01", "3  digits_mlp",
    ]
    row = opened[1]
    assert (row.below, row.result) == ("1 of 3", time.strftime("%H:%M", time.localtime(BEGAN + 120.0)))
    shutil.rmtree(by_name["2"])
    assert [each.below for each in rows_of(tmp_path, queue)][1] == "Reason 2", "while none has ended"
    shutil.rmtree(by_name["1"])
    assert [each.title for each in rows_of(tmp_path, queue)] == ["1  digits_mlp", "3  digits_mlp", "4  digits_mlp"]


def test_runs_of_one_sweep_of_which_others_are_gone_or_are_of_another_user_are_no_group(tmp_path: Path) -> None:
    write(tmp_path, DONE, DONE, DONE)
    found = RunIndex(tmp_path).poll()
    known: dict[tuple[str | None, str], Group] = {}
    (group,) = sweeps(found, known)
    assert sweeps(found, known)[0] is group, "nothing has changed"
    changed = [replace(found[0], step=7), *found[1:]]
    assert sweeps(changed, known)[0] is not group
    others = [replace(each, owner="anna") for each in found]
    assert [len(each.members) for each in sweeps([*found, *others[:2]], {})] == [3, 2]
    assert sweeps([found[0], others[1]], {}) == []
