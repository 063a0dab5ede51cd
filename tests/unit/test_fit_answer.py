"""Which batch sizes are measured, and what is concluded, with devices whose memory grows along a line."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.devices.device import Device
from core.fit.answer import Answer, find_answer
from core.fit.probe import Measured, writing_words
from core.schema.spec import RunSpec
from tests.support.commands import call
from tests.support.running import write_recipe

GIB, MIB = 1024**3, 1024**2
RECIPE = """
import torch

def model():
    return torch.nn.Linear(4, 2)

def train_data():
    return torch.randn(8, 4), torch.zeros(8)
"""
GPU = Device(id="GPU-1", kind="nvidia", label="GPU 0", name="RTX 4090", memory_total_bytes=24 * GIB)
BASE, PER_ITEM = 2 * GIB, 20 * MIB
SMALL = replace(GPU, memory_total_bytes=BASE + 30 * MIB)


class Machine:
    """A device on which a training takes `BASE`, and `PER_ITEM` for each item of a part of a batch."""

    def __init__(self, device: Device, items: int | None = 100_000, total: int = 24 * GIB) -> None:
        total = BASE + 30 * MIB if device is SMALL else total
        self.device, self.items, self.total = replace(device, memory_total_bytes=total), items, total
        self.measured: list[int] = []

    def measure(self, spec: RunSpec) -> Measured:
        training = spec.training
        self.measured.append(training.batch_size)
        per_item = PER_ITEM / training.accumulation / (1 if training.precision == "float32" else 2)
        peak = int(BASE + training.batch_size * per_item)
        if peak > self.total:
            return Measured(batch=training.batch_size, peaks={}, left={}, items=None, why="Out of memory.")
        name = self.device.id
        return Measured(batch=training.batch_size, peaks={name: peak}, left={name: self.total - peak}, items=self.items)

    def answer(self, folder: Path, batch: int, *, largest: bool = False, others: bool = False) -> Answer:
        choices = RecipeChoices(recipe=write_recipe(folder, RECIPE), devices=(self.device.id,),
                                training={"batch_size": batch})
        spec = compose(choices, [self.device])
        return find_answer(spec, [self.device], self.measure, largest=largest, others=others)


CPU = cpu_devices()[0]
CASES = [
    # device, items, batch, largest; what is measured, the largest batch, and a sentence
    (GPU, 100_000, 64, False, [64, 256], 1088, "The largest batch is about 1088, with 23.2 GB on a device"),
    (GPU, 100_000, 64, True, [64, 256, 864, 1088], 1088, "The largest batch is 1088; a measurement has proved it."),
    (GPU, 100_000, 400, True, [400, 800, 1088], 1088, "Fits at batch 400: 14.2 GB to spare on GPU 0."),
    (GPU, 100_000, 2000, False, [2000, 1000, 500], 1088, "Does not fit at batch 2000. Out of memory."),
    (GPU, 150, 64, False, [64, 128], 150, "The largest batch is about 150"),
    (GPU, 100, 64, False, [64, 32], 100, "The largest batch is about 100"),
    (GPU, 100, 640, True, [640, 320], 100, "The largest batch is 100; a measurement has proved it."),
    (GPU, None, 64, False, [64, 256], 1088, "The largest batch is about 1088"),
    (SMALL, 100_000, 2, False, [2, 1], 1, "The largest batch is about 1, with 2.0 GB on a device."),
    (SMALL, 100_000, 1, False, [1], None, "The largest batch is not known."),
    (CPU, 100_000, 64, False, [64, 256], 992, "The largest batch is about 992"),
]


@pytest.mark.parametrize(("device", "items", "batch", "largest", "measured", "best", "sentence"), CASES)
def test_sizes_that_are_measured_and_the_largest(
    device, items, batch, largest, measured, best, sentence, tmp_path: Path
) -> None:
    machine = Machine(device, items)
    answer = machine.answer(tmp_path, batch, largest=largest)
    assert machine.measured == measured
    assert (answer.largest, answer.proved) == (best, largest)
    assert any(said.startswith(sentence) for said in answer.sentences), answer.sentences


def test_answer_is_known_for_all_batches_that_were_measured(tmp_path: Path) -> None:
    answer = Machine(GPU).answer(tmp_path, 64, largest=True)
    other = answer.at(1088)
    assert other is not None
    assert other.sentences[0] == "Fits at batch 1088: 768 MB to spare on GPU 0."
    assert other.sentences[1:] == answer.sentences[1:]
    assert answer.at(65) is None


def test_nothing_fits(tmp_path: Path) -> None:
    answer = Machine(GPU, total=1 * GIB).answer(tmp_path, 4, largest=True)
    assert answer.sentences == ["Does not fit at batch 4. Out of memory.", "No smaller batch fits."]
    assert answer.document["devices"] == {"GPU-1": {"peak_bytes": None, "left_bytes": None}}


@pytest.mark.parametrize(
    ("batch", "said"),
    [(64, ["With bfloat16: 640 MB less.", "With accumulation: 640 MB less."]),
     (2000, ["With bfloat16 it fits.", "With accumulation it fits."]),
     (4000, ["With bfloat16 it does not fit either.", "With accumulation it does not fit either."])],
)
def test_other_settings(batch, said, tmp_path: Path) -> None:
    assert Machine(CPU).answer(tmp_path, batch, others=True).sentences[-2:] == said


@pytest.mark.parametrize(
    ("code", "found"),
    [("open('a', 'w')", "line 2"), ("open('a', mode='ab')", "line 2"), ("open('words')", ""),
     ("open('a', 'rb')", ""), ("path.open('r+')", "line 2"), ("gzip.open('x', 'w')", "line 2"),
     ("path.write_text('')\ntorch.save(1, path)", "line 2 and line 3"), ("model.train()", ""), ("x = (", "")],
)
def test_calls_that_write_files(code, found, tmp_path: Path) -> None:
    said = writing_words(Path(write_recipe(tmp_path, f"\n{code}\n")))
    assert said.startswith(f"recipe.py writes files ({found}).") if found else said == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "No recipe is given."), (("digits_mlp",), "No device is chosen."),
     (("digits_mlp", "--devices", "cpu:99"), "There is no device 'cpu:99' here."),
     (("digits_mlp", "--devices", "host/cpu:0"), "Memory is measured on devices of this machine only."),
     (("digits_mlp", "--devices", "cpu:0", "--batch-size", "0"), "0"),
     (("digits_mlp", "--devices", "cpu:0", "--accumulation", "3"), "cannot be split evenly"),
     (("digits_mlp", "--devices", "cpu:0", "--strategy", "none"), "none"),
     (("--script", "train.py", "--devices", "cpu:0"), "--script")],
)
def test_wrong_use_measures_nothing(words, said, tmp_path: Path, capsys) -> None:
    code, out, err = call(capsys, "fit", *words, "--runs", tmp_path / "runs")
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "runs").exists()
