"""What is known before a start: rows of a sentence, a mark and its cures, from stand-in readings and earlier runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.config import fit
from core.config.choices import RecipeChoices
from core.config.examination import Examination
from core.config.finding import Finding, Mark
from core.config.fit import fit_of
from core.devices.device import Device, Sample, Survey
from core.history.index import all_runs
from core.schema.settings import Script
from core.schema.spec import RunSpec
from gui.machine.machine import Machine
from gui.machine.start_check import StartConditions, check_start, judge
from tests.support.running import make_spec
from tests.support.written_runs import BEGAN, values, write_run

GB = 2**30
H100 = [
    Device(id=f"GPU-{at}", kind="nvidia", label=f"GPU {at}", name="NVIDIA H100 80GB HBM3", memory_total_bytes=80 * GB)
    for at in range(4)
]
RTX = Device(id="GPU-4", kind="nvidia", label="GPU 4", name="NVIDIA GeForce RTX 4090", memory_total_bytes=24 * GB)
OTHER = replace(RTX, id="GPU-5", label="GPU 5", name="NVIDIA RTX A5000")
CPUS = [Device(id=f"cpu:{at}", kind="cpu", label=f"CPU {at}", name="Xeon", memory_total_bytes=24 * GB) for at in (0, 1)]
DEVICES = (*H100, RTX, OTHER, *CPUS)


def survey(used: int = 1, **samples) -> Survey:
    given = {f"GPU-{at}": {"memory_used_bytes": used * GB, "processes": ()} for at in range(6)}
    for name, each in samples.items():
        given[name.replace("_", "-")].update(each)
    readings = tuple(Sample(device_id=name, time=1, **each) for name, each in given.items())
    return Survey(devices=DEVICES, samples=readings)


def rows(check) -> list[tuple]:
    """Return sign, beginning of the sentence, and the words of the cures, with how many values each has."""
    return [(each.mark, each.sentence, [(cure.words, cure.values) for cure in each.cures]) for each in check.findings]


QUEUE = ("Add to queue", ())
ON_CPUS = ("Train on the CPU", ("cpu:0", "cpu:1"))
USED = "GPU 0 is used by A."
HELD = "Ready, but GPU 0 is held by vllm (anna): 70.0 / 80 GB in use."
MIG = replace(H100[0], blocked="GPU 0 is in MIG mode. Tick one of its parts.")
UNLIKE = "Unlike: GPU 4 (RTX 4090, 24 GB) beside H100 80GB HBM3: the slowest and smallest decides."


@pytest.mark.parametrize(
    ("devices", "strategy", "batch", "now", "expected"),
    [
        ("GPU-0", "single", 64, {}, [(Mark.READY, "Ready: GPU 0 is free, 79.0 GB.", [])]),
        ("GPU-0", "single", 64, {"used_by": {"GPU-0": ("A",)}}, [(Mark.WARNING, USED, [QUEUE])]),
        ("GPU-0", "single", 64,
         {"survey": survey(GPU_0={"memory_used_bytes": 70 * GB}), "held_by": {"GPU-0": "vllm (anna)"}},
         [(Mark.WARNING, HELD, [QUEUE])]),
        ("GPU-0", "single", 64, {"stale_age_s": {"GPU-0": 9}},
         [(Mark.WARNING, "Ready, but the last reading of GPU 0 is 9 s old.", [])]),
        ("GPU-0,GPU-1", "ddp", 129, {},
         [(Mark.PROBLEM, "A batch of 129 cannot be split evenly over 2 devices and 1 accumulation step.",
           [("Batch 128", ("128",)), ("Batch 130", ("130",))])]),
        ("GPU-0,GPU-1,GPU-2,GPU-3,GPU-4", "ddp", 320, {},
         [(Mark.READY, "Ready: 5 devices are free, 23.0 GB or more each.", []),
          (Mark.WARNING, UNLIKE, [("Tick GPU 0 to 3 alone", ("GPU-0", "GPU-1", "GPU-2", "GPU-3"))])]),
        ("GPU-4,GPU-5", "ddp", 64, {},  # as much memory, and another model
         [(Mark.READY, "Ready: GPU 4 and GPU 5 are free, 23.0 GB or more each.", []),
          (Mark.WARNING, "Unlike: GPU 5 (RTX A5000, 24 GB) beside RTX 4090, 24 GB: the slowest and smallest decides.",
           [("Tick GPU 4 alone", ("GPU-4",))])]),
        ("GPU-0,GPU-4", "pipeline", 64, {},  # no data parallelism: nothing waits for the slowest
         [(Mark.READY, "Ready: GPU 0 and GPU 4 are free, 23.0 GB or more each.", [])]),
        ("GPU-0", "single", 64, {"survey": replace(survey(), devices=(MIG, *DEVICES[1:]))},
         [(Mark.PROBLEM, MIG.blocked, [("Train on the CPU", ("cpu:0",))])]),
        ("GPU-0,GPU-1", "ddp", 64, {"survey": replace(survey(), devices=(MIG, *DEVICES[1:]))},
         [(Mark.PROBLEM, MIG.blocked, [ON_CPUS])]),
        ("GPU-0,GPU-4", "ddp", 320, {"used_by": {"GPU-0": ("A",)}},  # other ticks are of use once it is free
         [(Mark.WARNING, USED, [QUEUE])]),
        ("cpu:0", "single", 64, {"used_by": {"cpu:0": ("A",)}},
         [(Mark.WARNING, "CPU 0 is used by A.", [QUEUE])]),
    ],
)
def test_each_situation_has_its_rows_and_cures(devices, strategy, batch, now, expected, monkeypatch) -> None:
    monkeypatch.setattr("core.config.builds.judge_build", lambda *_: None)
    choices = RecipeChoices(
        recipe="digits_mlp", devices=tuple(devices.split(",")), strategy=strategy, training={"batch_size": batch}
    )
    check = check_start(choices, StartConditions(**{"survey": survey(), **now}))
    assert rows(check) == expected
    assert bool(check.problems) is any(mark is Mark.PROBLEM for mark, _, _ in expected)


def test_gpus_that_cuda_does_not_show_offer_the_cpu(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("core.config.builds.judge_build", lambda *_: None)
    machine = Machine(tmp_path / "runs")
    monkeypatch.setattr(machine._gpus, "problem", lambda *_: "CUDA is out of order.")
    on_cpu = ("Train on the CPU", ("cpu:0",))
    for devices, strategy, cures in ((("GPU-0",), "single", [on_cpu]), (("GPU-0", "GPU-4"), "pipeline", [])):
        choices = RecipeChoices(recipe="digits_mlp", devices=devices, strategy=strategy)
        check = machine.check(choices, StartConditions(survey=replace(survey(), devices=DEVICES[:-1])))
        assert rows(check) == [(Mark.PROBLEM, "CUDA is out of order.", cures)]


def test_choices_for_several_runs_keep_the_remedies_in_words() -> None:
    choices = RecipeChoices(
        recipe="digits_mlp", devices=("cpu:0", "cpu:1"), strategy="ddp", training={"batch_size": "63, 64"}
    )
    (row,) = check_start(choices, StartConditions(survey=survey())).findings
    assert row.cures == ()
    assert str(row).endswith("1 accumulation step. Choose 62 or 64.")


# -- the last run ----------------------------------------------------------------------------------


def earlier(
    root: Path, number: int, batch: int = 256, peak: int = 42, *, devices: str = "GPU-0,GPU-1", total: int = 80,
    error: str = "", recorded: int | None = None, before: int = 1, **changes,
) -> Path:
    """Write a run that is over, with the peaks of its devices in GB. Larger numbers are newer.

    `recorded`: what its only worker recorded of each device; None for a run whose workers record no peaks.
    """
    spec = make_spec("digits_mlp", devices=devices, batch_size=batch)
    spec = replace(spec, **{"strategy": "ddp" if "," in devices else "single", **changes})
    more = [{"t": BEGAN + 9000, "kind": "error", "error": error}] if error else []
    for each in devices.split(","):
        kind = "cpu" if each.startswith("cpu") else "nvidia"
        more += [
            {"t": BEGAN, "kind": "device", "id": each, "device_kind": kind, "label": each, "name": kind,
             "memory_total_bytes": total * GB},
            {"t": BEGAN + 9000.5, "kind": "release", "device": each, "verdict": "released", "before_bytes": before * GB,
             "peak_bytes": peak * GB, "after_bytes": GB, "seconds": 1.0, "sentence": "Back.", "holders": []},
        ]
    worker = {"kind": "worker", "rank": 0, "pid": 1, "created": 1.0, "devices": devices.split(",")}
    more += [] if recorded is None else [worker | {"t": BEGAN}]
    states = [(0.0, "starting"), (0.5, "running"), (9000.0, "releasing")]
    ended = {"t": BEGAN + 9001, "kind": "state", "state": "failed" if error else "finished"}
    more.append(ended | ({"error": error} if error else {}))
    name = f"20260101-0000{number:02}-digits_mlp-{number:04}"
    peaks = [{"t": BEGAN + 8999, "kind": "peak", "rank": 0, "device": each, "bytes": recorded * GB}
             for each in devices.split(",") if recorded]
    return write_run(root, name, [values(1, 0, 10, loss=[1.0, 0.5]), *peaks], spec=spec, states=states, more=more)


def asked(batch: int = 256, devices: str = "GPU-0,GPU-1", **changes) -> RunSpec:
    spec = make_spec("digits_mlp", devices=devices, batch_size=batch)
    return replace(spec, **{"strategy": "ddp" if "," in devices else "single", **changes})


FULL = "Worker 0 on GPU-0: OutOfMemoryError: CUDA out of memory."
SAID = "Fits: 41 of 80 GB at batch 256 last time."


@pytest.mark.parametrize(
    ("runs", "spec", "used", "expected"),
    [
        ([], asked(), 1, None),
        ([{}], asked(), 1, (Mark.READY, SAID, [])),
        ([{}], asked(128), 1, (Mark.READY, SAID, [])),
        ([{}], asked(512), 1, None),  # a larger batch needs more, by an unknown amount
        ([{"batch": 64, "peak": 11}, {}, {"batch": 512, "peak": 70}], asked(384), 1,
         (Mark.READY, "Fits: 69 of 80 GB at batch 512 last time.", [])),
        ([{"peak": 60}, {}], asked(), 1, (Mark.READY, SAID, [])),  # the newest
        ([{}], asked(), 60,
         (Mark.WARNING, "May not fit: peak 41 of 80 GB at batch 256 last time; 20 GB are free now on GPU 0.", [])),
        ([{"batch": 128, "peak": 11}, {"batch": 64, "peak": 6}, {}], asked(), 60,
         (Mark.WARNING, "May not fit: peak 41 of 80 GB at batch 256 last time; 20 GB are free now on GPU 0.",
          [("Batch 128", ("128",))])),
        ([{}, {"batch": 512, "peak": 79, "error": FULL}], asked(512), 20,
         (Mark.WARNING,
          "Did not fit last time: peak 78 of 80 GB at batch 512; 60 GB are free now on GPU 0.",
          [("Batch 256", ("256",))])),
        ([{"batch": 512, "peak": 79, "error": FULL}], asked(512), 1,
         (Mark.WARNING, "Did not fit last time: peak 78 of 80 GB at batch 512.", [])),
        ([{"total": 40, "peak": 30}], asked(), 1, None),  # other cards
        ([{"total": 40, "peak": 30}, {"batch": 512}], asked(), 1,
         (Mark.READY, "Fits: 41 of 80 GB at batch 512 last time.", [])),
        ([{"batch": 512}, {"peak": 79, "error": FULL}], asked(), 1,  # a larger batch is no cure
         (Mark.WARNING, "Did not fit last time: peak 78 of 80 GB at batch 256.", [])),
        ([{"devices": "GPU-0"}, {"devices": "GPU-0,GPU-1,GPU-2"}], asked(), 1, None),
        ([{"devices": "GPU-0"}], asked(devices="GPU-1"), 1, (Mark.READY, SAID, [])),
        ([{}], asked(strategy="fsdp"), 1, None),
        ([{}], asked(training=replace(asked().training, precision="bfloat16")), 1, None),
        ([{}], asked(training=replace(asked().training, epochs=9, learning_rate=0.5, seed=8)), 1,
         (Mark.READY, SAID, [])),
        ([{"devices": "cpu:0,cpu:1", "total": 24, "peak": 3}], asked(devices="cpu:0,cpu:1"), 1,
         (Mark.READY, "Fits: 4 of 24 GB at batch 256 last time.", [])),
        # A process on two CPU devices: each reading is of all of it, and each of its peaks of a part.
        ([{"devices": "cpu:0,cpu:1", "total": 24, "peak": 7, "recorded": 0}], asked(devices="cpu:0,cpu:1"), 1,
         (Mark.READY, "Fits: 6 of 24 GB at batch 256 last time.", [])),
        ([{"devices": "cpu:0,cpu:1", "total": 24, "peak": 7, "recorded": 4}], asked(devices="cpu:0,cpu:1"), 1,
         (Mark.READY, "Fits: 8 of 24 GB at batch 256 last time.", [])),
        ([{"recorded": 50}], asked(), 1, (Mark.READY, "Fits: 50 of 80 GB at batch 256 last time.", [])),
        ([{"recorded": 30}], asked(), 1, (Mark.READY, SAID, [])),  # with what the driver needs
        ([{"before": 20}], asked(), 1, None),
        ([{"before": 20, "recorded": 30}], asked(), 1, (Mark.READY, "Fits: 30 of 80 GB at batch 256 last time.", [])),
    ],
)
def test_last_run_of_a_recipe_tells_whether_it_fits(tmp_path: Path, runs, spec, used, expected) -> None:
    for number, each in enumerate(runs):
        earlier(tmp_path, number, **each)
    chosen = [device for device in DEVICES if device.id in spec.devices]
    found = fit_of(spec, chosen, survey(used), all_runs(tmp_path))
    assert [(each.mark, each.sentence, [(cure.words, cure.values) for cure in each.cures]) for each in found] == (
        [expected] if expected else []
    )


def test_run_of_a_script_tells_about_the_same_arguments_alone(tmp_path: Path) -> None:
    def of(*arguments: str) -> dict[str, object]:
        script = Script(path="/home/u/train.py", arguments=arguments)
        return {"script": script, "recipe": None, "framework": "script", "strategy": "per-device"}

    earlier(tmp_path, 0, **of("batch_size=64.5", "--lr", "0.1"))
    for arguments, said in (
        (("batch_size=64.5", "--lr", "0.2"), ["Fits: 41 of 80 GB last time."]), (("batch_size=128",), []),
        (("batch_size=64.5", "--large"), []), ((), []),
    ):
        found = fit_of(asked(**of(*arguments)), H100[:2], survey(), all_runs(tmp_path))
        assert [each.sentence for each in found] == said
    (found,) = fit_of(asked(**of("batch_size=64.5")), H100[:2], survey(70), all_runs(tmp_path))
    assert found.sentence == "May not fit: peak 41 of 80 GB last time; 10 GB are free now on GPU 0."


def test_few_runs_are_read_of_many_and_one_without_a_step_tells_nothing(tmp_path: Path, monkeypatch) -> None:
    summary = all_runs(earlier(tmp_path, 0).parent)[0]
    read: list[Path] = []
    facts = fit.present_facts
    monkeypatch.setattr(fit, "present_facts", lambda run_dir: read.append(run_dir) or facts(run_dir))
    many = [replace(summary, settings={**summary.settings, "batch_size": 256 + at % 50}) for at in range(10_000)]
    assert len(fit_of(asked(), H100[:2], survey(), many)) == 1
    assert len(read) == 1
    read.clear()
    assert fit_of(asked(), [replace(each, memory_total_bytes=40 * GB) for each in H100[:2]], survey(), many) == []
    assert len(read) == fit.MAX_READ
    assert fit_of(asked(), H100[:2], survey(), [replace(summary, step=0)]) == []


def test_fit_stands_below_what_is_more_urgent_and_a_good_build_gives_way_to_a_warning(tmp_path: Path) -> None:
    earlier(tmp_path, 0)
    built = Finding(sentence="PyTorch is built for GPU 0 and GPU 1.", mark=Mark.READY)
    note = Finding(sentence="Please note that it rains.", mark=Mark.WARNING)
    now = StartConditions(survey=survey(), runs=all_runs(tmp_path))
    shown = [each.sentence for each in judge(Examination(spec=asked(), findings=(built,)), now).findings]
    assert shown[1:] == [built.sentence, SAID]
    shown = [each.sentence for each in judge(Examination(spec=asked(), findings=(built, note)), now).findings]
    assert shown[1:] == [note.sentence, SAID]
