"""What is said of a program before its start, although it prevents nothing; and one process on one device."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core.config.choices import ScriptChoices
from core.config.finding import Mark
from core.config.script_check import ScriptCheckRequest, cautions_of, check_script, fill_in
from core.devices.device import Device, Survey
from core.scripts.analysis import analyse_script, cautions
from gui.machine.script import TypedScript
from gui.machine.start_check import StartConditions, check_start

NANOGPT = """import os
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    rank = int(os.environ["LOCAL_RANK"])
"""
TESTS_RANK = 'import os\nif "RANK" in os.environ and "WORLD_SIZE" in os.environ:\n    rank = int(os.environ["RANK"])\n'
NEEDS_RANK = 'import os\nlocal_rank = int(os.environ["LOCAL_RANK"])\n'
DEFAULT_0 = 'import os\nlocal_rank = int(os.environ.get("LOCAL_RANK", 0))\n'
ACCELERATE = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
TRAINER = "from transformers import Trainer\nTrainer()\n"
CPUS = [Device(id=f"cpu:{core}", kind="cpu", label=f"CPU {core}", name="", cores=(core,)) for core in range(2)]


def chosen(folder: Path, source: str, launch: str | None, count: int = 2) -> ScriptChoices:
    (folder / "train.py").write_text(source)
    devices = tuple(each.id for each in CPUS[:count])
    return ScriptChoices(
        script=str(folder / "train.py"), working_dir=str(folder), python=sys.executable, devices=devices, launch=launch,
    )


def cautions_about(folder: Path, source: str, launch: str, devices: int, *, on_cpu: bool = False) -> list[str]:
    (folder / "train.py").write_text(source)
    look = analyse_script("train.py", cwd=str(folder), python=sys.executable)
    return cautions(look, launch, devices, on_cpu=on_cpu)


@pytest.mark.parametrize(
    ("source", "on_one"), [(NANOGPT, "one"), (TESTS_RANK, "one"), (NEEDS_RANK, "per-device"), (DEFAULT_0, "per-device"),
                           (ACCELERATE, "one"), (TRAINER, "one"), (ACCELERATE + NEEDS_RANK, "per-device")]
)
def test_program_that_trains_without_rank_is_one_process_on_one_device(tmp_path, source, on_one) -> None:
    def launched(count: int, launch: str | None = None) -> str:
        choices = chosen(tmp_path, source, launch, count)
        return fill_in(check_script(ScriptCheckRequest.of(choices)), choices, CPUS).strategy

    assert (launched(1), launched(2)) == (on_one, "per-device")
    assert launched(1, "per-device") == "per-device"


GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX")
JAX = "import flax\n"
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


@pytest.mark.parametrize(
    ("source", "device", "environment", "outside", "given"),
    [
        (JAX, GPU, {"A": "b"}, {}, {"A": "b", PREALLOCATE: "false"}),
        (JAX, CPUS[0], {}, {}, {}),
        ("import torch\n", GPU, {}, {}, {}),
        # what the user has chosen is kept
        (JAX, GPU, {PREALLOCATE: "true"}, {}, {PREALLOCATE: "true"}),
        (JAX, GPU, {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5"}, {}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5"}),
        (JAX, GPU, {}, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, {}),
    ],
)
def test_jax_takes_what_it_needs_unless_the_user_decides_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source, device, environment, outside, given
) -> None:
    for name, value in outside.items():
        monkeypatch.setenv(name, value)
    choices = replace(chosen(tmp_path, source, "one"), devices=(device.id,), environment=environment)
    result = check_script(ScriptCheckRequest.of(choices))
    spec = fill_in(result, choices, [*CPUS, GPU])
    assert spec.script is not None
    assert spec.script.environment == given
    said = [str(each) for each in cautions_of(result, spec, [*CPUS, GPU]) if each.sentence.startswith("JAX takes")]
    sentence = (
        "JAX takes three quarters of the memory of each GPU at its start. Here it takes what it needs "
        f"({PREALLOCATE}=false). To decide yourself, set that variable."
    )
    assert said == [sentence] * (given.get(PREALLOCATE) == "false")
    again = ScriptCheckRequest.of_spec(spec)
    assert dict(again.environment) == given, "a run that is started again has what the first had"


@pytest.mark.parametrize(
    ("source", "number", "line"),
    [
        ("import torch\nmodel = torch.nn.DataParallel(net, device_ids=[2, 3])\n", 3, 2),
        ("import tensorflow as tf\n\nwith tf.device('/gpu:3'):\n    pass\n", 3, 3),
        ("device = 'cuda:2'\n", 2, 1),
        ("model.cuda(2)\n", 2, 1),
        ("import torch\ntorch.cuda.set_device(5)\n", 5, 2),
        ("trainer = Trainer(devices=[0, 2])\n", 2, 1),
    ],
)
def test_numbers_of_devices_that_do_not_exist_inside_the_run_are_named(tmp_path, source, number, line) -> None:
    (found,) = cautions_about(tmp_path, source, "one", 2)
    assert found.startswith(f"train.py names GPU {number} in line {line}. Inside a run numbers begin at 0")
    assert cautions_about(tmp_path, source, "one", number + 1) == []
    assert not any("names GPU" in each for each in cautions_about(tmp_path, source, "one", 2, on_cpu=True))


def test_program_that_chooses_its_gpus_itself_is_named_and_counts_are_no_numbers(tmp_path: Path) -> None:
    (found,) = cautions_about(tmp_path, "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '3'\n", "one", 1)
    assert found.startswith("train.py sets CUDA_VISIBLE_DEVICES itself")
    assert cautions_about(tmp_path, "Trainer(devices=8, gpus=4)\nmodel.cuda()\ndevice = 'cuda:0'\n", "one", 1) == []


LIGHTNING = "from lightning import Trainer\nTrainer(max_epochs=3).fit(model)\n"
PLAIN = "import torch\nprint(torch.nn)\n"
JOINS = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
MIRRORED = "import tensorflow as tf\nstrategy = tf.distribute.MirroredStrategy()\n"


@pytest.mark.parametrize(
    ("source", "launch", "words"),
    [
        (LIGHTNING, "per-device", "On CPU devices Lightning trains the same thing in each of the 2 processes"),
        (LIGHTNING.replace("max_epochs=3", "devices=2"), "per-device", ""),
        (PLAIN, "per-device", "Nothing in train.py joins its processes"),
        (PLAIN, "one", ""),
        (JOINS, "per-device", ""),
        (MIRRORED, "one", "MirroredStrategy makes a replica on each GPU. On CPU devices it makes one"),
        (NEEDS_RANK, "per-device", ""),
    ],
)
def test_processes_that_would_train_the_same_thing_are_warned_of(tmp_path, source, launch, words) -> None:
    found = cautions_about(tmp_path, source, launch, 2, on_cpu=True)
    assert len(found) == bool(words)
    assert "".join(found).startswith(words)
    assert cautions_about(tmp_path, source, launch, 1, on_cpu=True) == []


def test_cautions_follow_from_the_spec(tmp_path: Path) -> None:
    choices = chosen(tmp_path, PLAIN, "per-device")
    result = check_script(ScriptCheckRequest.of(choices))
    (caution,) = cautions_of(result, fill_in(result, choices, CPUS), CPUS)
    names = ("script", "working_dir", "devices", "launch", "python")
    typed = TypedScript(**{name: getattr(choices, name) for name in names})
    check = check_start(typed, StartConditions(survey=Survey(devices=tuple(CPUS))))
    assert check.problems == ()
    assert check.findings[-1] == caution
    assert caution.mark is Mark.WARNING


@pytest.mark.parametrize(("argument", "devices", "on_cpu", "told"), [
    (("--gpu 2", 2), 2, False, True), (("--gpu 1", 1), 2, False, False), (("--gpu 2", 2), 1, True, False),
])
def test_number_of_a_gpu_among_the_arguments_is_told_before_the_start(
    tmp_path: Path, argument: tuple[str, int], devices: int, on_cpu: bool, told: bool
) -> None:
    (tmp_path / "train.py").write_text("")
    look = analyse_script("train.py", cwd=str(tmp_path), python=sys.executable)
    found = cautions(look, "one", devices, on_cpu=on_cpu, argument=argument)
    words = "The argument --gpu 2 names GPU 2. Inside a run numbers begin at 0, and the last one here is 1. Change that"
    assert [each.startswith(words) for each in found] == [True] * told
