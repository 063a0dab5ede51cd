"""What happened in a run, from its events: one line a thing."""

import math
from pathlib import Path
from typing import Any

import pytest

from core.diagnosis.start_phases import environment, start_words
from core.diagnosis.timeline import Timeline
from core.runs.facts import RunFacts, RunState
from core.runs.fold import fold
from core.runs.run import Run
from tests.support.recorded import finding, recorded
from tests.support.running import make_spec, source_spec

BEGAN = 1_700_000_000.0
PHASES = (
    ("framework", 0.5, {"python": "3.12.3"}), ("recipe", 6.3, {"framework": "2.13.0"}), ("data", 6.4, {}),
    ("model", 8.3, {}), ("join", 8.4, {}), ("step", 8.5, {}),
)


def start(*, gpus: int = 2, resumed: bool = False) -> list[dict[str, Any]]:
    """Return the events of a start in which 0.5 s pass before the first phase."""
    events: list[dict[str, Any]] = [
        {"t": BEGAN, "kind": "supervisor", "pid": 7, "created": 3.5},
        {"t": BEGAN, "kind": "state", "state": "starting"},
        *({"t": BEGAN, "kind": "device", "id": f"GPU-{each}", "label": f"GPU {each}"} for each in range(gpus)),
        *(
            {"t": BEGAN + 0.1, "kind": "worker", "rank": each, "pid": each, "created": 1.0, "devices": []}
            for each in range(gpus)
        ),
    ]
    for name, at, more in PHASES:
        events.append({"t": BEGAN + at, "kind": "phase", "rank": 0, "name": name, **more})
        events.append({"t": BEGAN + at + 1, "kind": "phase", "rank": 1, "name": name, **more})
    first = [{"t": BEGAN + 8.4, "kind": "rewind", "step": 5}] if resumed else []
    plan = {"kind": "plan", "epochs": 4, "steps_per_epoch": 10, "samples_per_epoch": 640}
    return [*events, *first, {"t": BEGAN + 8.5, **plan}, {"t": BEGAN + 8.6, "kind": "state", "state": "running"}]


def losses(first: int, *values: float | None, at: float) -> dict[str, Any]:
    return {"t": BEGAN + at, "kind": "metrics", "since": BEGAN + at, "first": first, "values": {"loss": [*values]}}


def validation(step: int, *, at: float, **values: float) -> dict[str, Any]:
    return {
        "t": BEGAN + at, "kind": "metrics", "first": step, "values": {name: [value] for name, value in values.items()}
    }


def texts(events: list[dict[str, Any]], *, framework: str = "PyTorch") -> list[str]:
    timeline = Timeline(make_spec("digits_mlp"), framework)
    timeline.fold(events)
    return [entry.text for entry in timeline.entries]


def test_start_has_devices_processes_python_and_the_time_of_its_parts():
    _, started, parts = texts([*start(), losses(1, 0.9, at=8.8)])
    assert started.startswith("Started on GPU 0 and 1: 2 processes, Python 3.12.3 (")
    assert parts == "PyTorch 2.13.0 loaded in 5.8 s, data in 1.9 s, first step after 8.8 s."


def test_start_that_fails_has_the_parts_that_were_done():
    events = [each for each in start() if each["kind"] != "plan" and each.get("name") not in {"join", "step"}]
    failed = [
        {"t": BEGAN + 9, "kind": "state", "state": "releasing"},
        {"t": BEGAN + 9, "kind": "state", "state": "failed", "error": "Worker 0 on GPU-0: model() failed."},
    ]
    found = texts([*events, *failed])
    assert found[2:] == [
        "PyTorch 2.13.0 loaded in 5.8 s, data in 1.9 s.",
        "The processes have ended.",
        "Worker 0 on GPU 0: model() failed.",
    ]


def test_each_epoch_has_its_loss_and_its_validation():
    epoch = [*start(), losses(1, *[1.0] * 9, at=9)]
    assert "Epoch 1: loss 1.1" in texts([*epoch, losses(10, 2.0, 3.0, at=10)])  # the eleventh is of the next epoch
    epoch.append(losses(10, 2, at=10))
    known = validation(10, at=10.5, val_loss=0.55, val_accuracy=0.79)
    assert "Epoch 1: loss 1.1, val. loss 0.55, val. accuracy 0.79" in texts([*epoch, known])
    rate = validation(10, at=10.1, learning_rate=0.1)
    assert texts([*epoch, rate])[-1].startswith("PyTorch")  # the validation may follow


def test_several_epochs_in_one_report_have_a_line_each_at_their_time():
    timeline = Timeline(None, "PyTorch")
    report = {**losses(1, *[1.0] * 10, *[math.nan] * 20, at=29), "since": BEGAN}
    timeline.fold([*start(), report, {"t": BEGAN + 30, "kind": "done", "rank": 0}])
    epochs = [(entry.time - BEGAN, entry.text) for entry in timeline.newest(3)]
    assert epochs == [(9.0, "Epoch 1: loss 1"), (19.0, "Epoch 2: loss nan"), (29.0, "Epoch 3: loss nan")]
    unknown = losses(1, *[1.0] * 9, None, *[2.0] * 10, at=29)
    found = texts([*start(), unknown, {"t": BEGAN + 30, "kind": "done", "rank": 0}])
    assert found[-2:] == ["Epoch 1", "Epoch 2: loss 2"], "no mean of a step that is not known"


def test_resumed_epoch_has_no_mean_of_steps_that_are_void():
    lost = [*start(), losses(1, *[1.0] * 8, at=9), *start(resumed=True), losses(6, *[0.5] * 5, at=9)]
    found = texts([*lost, validation(10, at=11, val_loss=0.4)])
    assert "The run was lost: its supervisor exited unexpectedly." in found
    assert "Training continues after step 5." in found
    assert any(text.startswith("Resumed on GPU 0 and 1") for text in found)
    assert found[-1] == "Epoch 1: val. loss 0.4"


def test_epoch_has_the_means_of_the_measured_training_metrics_and_checkpoint_its_size():
    sparse = {"t": BEGAN + 9, "kind": "metrics", "first": 2, "every": 4, "values": {"top_1": [0.25, 0.75, 0.5, 1.0]}}
    written = {"t": BEGAN + 12, "kind": "checkpoint", "step": 5070, "bytes": 94 << 20, "name": "a"}
    found = texts([*start(), sparse, losses(1, *[1.0] * 20, at=10), validation(20, at=11, val_top_1=0.8), written])
    assert found[-3:] == [
        "Epoch 1: loss 1, top 1 0.5", "Epoch 2: loss 1, top 1 1, val. top 1 0.8",
        "Checkpoint written: step 5\u2009070, 94 MB.",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metric": "val_loss", "value": 0.25, "lowest": 0.25, "kept": 0.25}, ", val. loss 0.25 (best so far)"),
        ({"metric": "loss", "value": 0.25, "lowest": 0.25, "kept": 0.25}, ", loss 0.25 (best so far)"),
        ({"metric": "val_loss", "value": 0.5, "lowest": 0.25, "kept": 0.25}, ", val. loss 0.5"),  # it is on the disk
        ({"metric": "val_loss", "value": 0.084, "lowest": 0.0764, "lowest_epoch": 9, "kept": 0.084},
         ", val. loss 0.084 (best was 0.0764 at epoch 9, not kept)"),
        ({"metric": "val_loss", "lowest": 0.0764, "lowest_epoch": 9}, ", best was 0.0764 at epoch 9, not kept"),
        ({"metric": "val_loss"}, ""),  # before the first epoch has ended
        ({"best": True}, ""),  # of an earlier version, which compared with what was left on the disk
    ],
)
def test_checkpoint_is_called_the_best_only_if_it_has_the_lowest_loss_of_the_run(given: dict[str, Any], words: str):
    written = {"t": BEGAN + 12, "kind": "checkpoint", "step": 7, "name": "a", **given}
    assert texts([*start(), losses(1, 1.0, at=9), written])[-1] == f"Checkpoint written: step 7{words}."


def test_warnings_and_the_end_of_the_run(tmp_path: Path):
    notice = {"kind": "notice", "text": "Look at this."}
    held = finding(verdict="held by others", sentence="Another program has it.", device="cpu:1")
    run = Run(recorded(tmp_path, findings=[finding(), held], more=[notice], devices="cpu:0,cpu:1"))
    timeline = Timeline(run.spec(), "PyTorch")
    timeline.fold(run.catch_up())
    tones = {entry.text: entry.tone for entry in timeline.entries}
    assert tones["Look at this."] == tones["Another program has it."] == "warn"
    assert list(tones)[-2:] == ["All memory on CPU 0 was released 1.2 s after the end.", "Finished."]


def test_slow_device_has_its_beginning_and_its_end():
    hot = {"t": BEGAN + 9, "kind": "slowed", "device": "GPU-1", "text": "GPU 1 is slowed down: 91 °C."}
    over = {"t": BEGAN + 99, "kind": "slowed", "device": "GPU-1", "text": "", "seconds": 90.0}
    events = [*start(), hot, over]
    assert texts(events)[-2:] == [hot["text"], "GPU 1 is no longer slowed down. It was slowed down for 90 s."]
    facts = fold(RunFacts(), events[:-1])
    assert facts.slowed == {"GPU-1": hot["text"]}
    assert fold(facts, [over]).slowed == {}
    assert fold(facts, [{"t": BEGAN + 99, "kind": "state", "state": "releasing"}]).slowed == {}


def test_fault_of_a_device_is_an_event_a_warning_and_a_fact_until_the_run_is_resumed():
    text = "The driver says that GPU 1 needs a reset (its recovery action)."
    fault = {"t": BEGAN + 9, "kind": "fault", "device": "GPU-1", "text": text}
    unknown = {**fault, "device": "GPU-7"}
    events = [*start(), fault, unknown]
    assert text in texts(events)
    facts = fold(RunFacts(), events)
    assert (facts.faults, facts.warnings) == ({"GPU-1": text}, (text,))
    assert fold(facts, [{"t": BEGAN + 99, "kind": "state", "state": "releasing"}]).faults == {"GPU-1": text}
    resumed = {"t": BEGAN + 999, "kind": "supervisor", "pid": 9, "created": 9.0}
    assert fold(facts, [resumed]).faults == {}


def test_script_has_its_validations_and_epochs_but_no_parts_of_a_start():
    events = [
        *start(gpus=1)[:4], {"t": BEGAN + 1, "kind": "state", "state": "running"},
        losses(1, 0.5, 0.4, at=2), validation(2, at=3, val_loss=0.6),
        {"t": BEGAN + 4, "kind": "progress", "done": 1.0, "total": 3.0, "unit": "epochs"},
        {"t": BEGAN + 5, "kind": "progress", "done": 1.4, "total": 3.0, "unit": "epochs"},
    ]
    assert texts(events, framework="")[2:] == ["Step 2: val. loss 0.6", "Epoch 1 of 3 is done: loss 0.4"]


def test_training_of_a_script_ends_at_the_last_step_that_was_read_after_its_end(tmp_path: Path):
    running, releasing, finished = (
        {"t": BEGAN + at, "kind": "state", "state": state}
        for at, state in ((1, "running"), (9, "releasing"), (10, "finished"))
    )
    first, last = losses(1, *[0.5] * 197, at=2), losses(198, 0.5, 0.4, at=9.1)
    events = [*start(gpus=1)[:4], running, first, releasing, last, finished]
    timeline = Timeline(source_spec(tmp_path, ""), "")
    timeline.fold(events)
    assert [(each.time - BEGAN, each.text) for each in timeline.entries][-2:] == [
        (9.0, "Training ended at step 199."), (10.0, "Finished."),
    ]


def test_damaged_events_are_left_out_and_the_oldest_entries_go_first():
    timeline = Timeline(None, "PyTorch", max_entries=3)
    timeline.fold(
        [{"t": BEGAN, "kind": kind} for kind in ("state", "phase", "checkpoint", "release", "slowed", "stop_step")]
    )
    timeline.fold([{"t": BEGAN, "kind": "notice", "text": str(number)} for number in range(10)])
    assert timeline.count == 10
    assert [entry.text for entry in timeline.newest(100)] == ["7", "8", "9"]
    assert [entry.text for entry in timeline.newest(2)] == ["8", "9"]


def test_lost_run_has_one_line_that_says_so():
    facts = RunFacts(state=RunState.LOST, error="Its supervisor exited.", history=((BEGAN + 20, RunState.LOST),))
    timeline = Timeline(None, "PyTorch")
    timeline.fold(start())
    timeline.follow(facts)
    timeline.follow(facts)
    timeline.fold(start(resumed=True))
    assert [entry.text for entry in timeline.entries if entry.tone == "bad"] == ["Its supervisor exited."]


@pytest.mark.parametrize(
    ("python", "name"),
    [
        ("/home/anna/miniconda3/envs/cats-env/bin/python", "cats-env"),
        ("/home/anna/cats/.venv/bin/python3", "cats/.venv"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("python3", "python3"),
    ],
)
def test_environment_is_named_by_its_folder(python, name):
    assert environment(python) == name


def test_start_words_name_the_phase_and_its_seconds():
    def words(*events: dict[str, Any], after: float) -> str:
        return start_words(fold(RunFacts(), events), "PyTorch", BEGAN + after)

    events = start()
    assert words(*events[:2], after=0.4) == "checking the devices"
    assert words(*events[:5], after=3) == "starting Python 3 s"
    assert words(*events[:6], after=3) == "starting 2 processes 3 s"
    assert words(*events[:7], after=3.5) == "loading PyTorch 3 s"
    by_name = {
        each["name"]: number for number, each in enumerate(events) if each["kind"] == "phase" and not each["rank"]
    }
    assert words(*events[: by_name["data"] + 1], after=8.4) == "reading data 2 s"
    assert words(*events[: by_name["join"] + 1], after=8.4) == "joining 2 processes"
    assert words(*events, after=12.5) == "first step 4 s"
    assert words(*events, losses(1, 0.9, at=13), after=14) == ""
    assert words(*events, {"t": BEGAN + 9, "kind": "state", "state": "stopping"}, after=14) == ""
