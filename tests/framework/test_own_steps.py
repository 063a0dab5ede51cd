"""Recipes that compute their steps themselves: `training_step`, `validation_step`, `collate`, batches of any shape."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from core.cli import __main__
from core.config.choices import RecipeChoices, compose
from core.devices.cpu import cpu_devices
from core.runs.facts import RunState
from core.worker.pytorch.task.data import map_tensors, rebuilder, tensors_in
from tests.support.running import curves, make_spec, train, write_recipe
from tests.support.small_runs import TWO, assert_same_curves, recipe_fixture
from tests.support.small_runs import small_spec as spec

MODEL = """
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
            self.head = nn.Linear(16, 3)

        def forward(self, inputs):
            return self.head(self.encode(inputs))

        def encode(self, inputs):
            return self.body(inputs)

    def model():
        return Net()

    def made(items):
        generator = torch.Generator().manual_seed(7)
        return torch.randn(items, 6, generator=generator), torch.randint(0, 3, (items,), generator=generator)

    def optimizer(params, learning_rate=0.1):
        return torch.optim.SGD(params, lr=learning_rate, momentum=0.9)

    def accuracy(output, target):
        return (output.argmax(1) == target).float().mean()
"""
SUPERVISED = f"""{MODEL}
    def train_data():
        return made(65)

    def val_data():
        return made(21)

    def metrics():
        return {{"accuracy": accuracy}}
"""
"""65 items in batches of 16: the last batch has one item, so one of two ranks has none."""
OWN = f"""{MODEL}
    def train_data():
        inputs, target = made(65)
        return {{"inputs": inputs, "nested": (target,)}}

    def val_data():
        inputs, target = made(21)
        return {{"inputs": inputs, "nested": (target,)}}

    def training_step(model, batch):
        (target,) = batch["nested"]
        output = model.head(model.encode(batch["inputs"]))  # past the forward pass of the model
        return {{"loss": cross_entropy(output, target), "accuracy": accuracy(output, target)}}
"""
TOKENS = f"""{MODEL}
    class Sequences(torch.utils.data.Dataset):
        def __init__(self, count):
            generator = torch.Generator().manual_seed(3)
            self.lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
            self.items = [torch.randn(length, 6, generator=generator) for length in self.lengths]

        def __len__(self):
            return len(self.items)

        def __getitem__(self, index):
            return {{"tokens": self.items[index], "name": f"sequence {{index}}"}}

    def train_data(count=33):
        return Sequences(count)

    def val_data():
        return Sequences(10)

    def collate(items):
        return {{
            "tokens": nn.utils.rnn.pad_sequence([each["tokens"] for each in items], batch_first=True),
            "mask": nn.utils.rnn.pad_sequence([torch.ones(len(each["tokens"])) for each in items], batch_first=True),
            "names": [each["name"] for each in items],
        }}

    def training_step(model, batch):
        assert len(batch["names"]) == len(batch["tokens"])
        tokens, mask = batch["tokens"], batch["mask"]
        target = (tokens.sum(-1) > 0).long()
        losses = cross_entropy(model(tokens).flatten(0, 1), target.flatten(), reduction="none").view_as(mask)
        return {{"loss": (losses * mask).sum() / mask.sum(), "weight": mask.sum()}}
"""

own = recipe_fixture("own", OWN)
tokens = recipe_fixture("tokens", TOKENS)


@pytest.fixture(scope="module")
def baselines(own: str, tokens: str, pools: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """The curves of one device, by recipe."""
    root = tmp_path_factory.mktemp("baselines")
    return {path: curves(train(spec(path), root / "runs")) for path in (own, tokens)}


@pytest.mark.slow
def test_own_step_has_the_curve_of_the_same_loss(own: str, baselines: dict, runs_root: Path, tmp_path: Path) -> None:
    wanted = curves(train(spec(write_recipe(tmp_path, SUPERVISED, "supervised")), runs_root))
    found = baselines[own]
    assert found["loss"] == wanted["loss"]
    assert found["val_loss"] == pytest.approx(wanted["val_loss"], rel=1e-6)
    assert found["val_accuracy"] == pytest.approx(wanted["val_accuracy"], rel=1e-6)
    assert len(found["accuracy"]) == len(found["loss"]) == 10, "of every step"


@pytest.mark.parametrize(
    ("strategy", "accumulation"), [("ddp", 1), ("ddp", 2), ("fsdp", 2), ("placement", 1), ("single", 4)]
)
@pytest.mark.parametrize("which", ["own", "tokens"])
def test_own_step_has_one_curve_on_one_and_on_two_devices(
    which: str, strategy: str, accumulation: int, baselines: dict, runs_root: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(which)
    if strategy == "placement":
        path = write_recipe(runs_root.parent, PLACED[which], f"placed_{which}")
    wanted = baselines[request.getfixturevalue(which)]
    assert_same_curves(curves(train(spec(path, strategy, accumulation=accumulation), runs_root)), wanted, 1e-5)


PLACE = """
    def placed_model(devices):
        net = model()
        net.body.to(devices[0])
        net.head.to(devices[1])
        return net
"""
PLACED = {"own": OWN + PLACE, "tokens": TOKENS + PLACE}


@pytest.mark.slow
def test_autoencoder_of_digits_learns_and_reports_the_parts_of_its_loss(runs_root: Path) -> None:
    found = curves(train(make_spec("digits_vae", epochs=4, batch_size=64, strategy="ddp", devices=TWO), runs_root))
    assert found.keys() >= {"loss", "reconstruction", "divergence", "val_loss", "val_reconstruction", "val_divergence"}
    parts = zip(found["loss"], found["reconstruction"], found["divergence"], strict=True)
    assert all(loss == pytest.approx(one + other, rel=1e-5) for loss, one, other in parts)
    assert found["val_loss"][-1] < 0.75 * found["loss"][0]


SHAPED = f"""{MODEL}
    import dataclasses
    from collections import UserDict, namedtuple

    Pair = namedtuple("Pair", ["inputs", "target"])

    @dataclasses.dataclass(frozen=True)
    class Record:
        inputs: torch.Tensor
        target: torch.Tensor
        note: str = "stays"

    class Encoding(UserDict):
        inputs = property(lambda self: self["inputs"])
        target = property(lambda self: self["target"])

    def shaped(items, kind):
        inputs, target = made(items)
        if kind == "pair":
            return Pair(inputs, target)
        if kind == "record":
            return Record(inputs, target)
        if kind == "hugging_face":
            from transformers import BatchEncoding
            return BatchEncoding({{"inputs": inputs, "target": target}})
        return Encoding(inputs=inputs, target=target)

    def train_data(kind="pair"):
        return shaped(65, kind)

    def val_data(kind="pair"):
        return shaped(21, kind)

    def training_step(model, batch, kind="pair"):
        expected = {{"pair": Pair, "record": Record, "encoding": Encoding}}.get(kind)
        assert type(batch) is expected or type(batch).__name__ == "BatchEncoding", type(batch)
        assert kind != "record" or batch.note == "stays"
        inputs, target = (batch["inputs"], batch["target"]) if kind == "hugging_face" else (batch.inputs, batch.target)
        output = model(inputs)
        return {{"loss": cross_entropy(output, target), "accuracy": accuracy(output, target)}}
"""


@pytest.mark.parametrize("kind", ["pair", "record", "encoding", "hugging_face"])
def test_batches_keep_the_shape_of_the_data(kind, own, baselines, runs_root, tmp_path) -> None:
    """Named tuples, frozen dataclasses and mappings that are no dicts, on two ranks."""
    if kind == "hugging_face":
        pytest.importorskip("transformers")
    chosen = spec(write_recipe(tmp_path, SHAPED, "shaped"), "ddp", settings={"kind": kind})
    found = curves(train(chosen, runs_root))
    assert found["loss"] == pytest.approx(baselines[own]["loss"], rel=1e-5)
    assert found["val_accuracy"] == pytest.approx(baselines[own]["val_accuracy"], rel=1e-5)


class Pair(NamedTuple):
    one: torch.Tensor
    other: str


@dataclass(frozen=True)
class Record:
    parts: list[Any]

    def __post_init__(self) -> None:
        assert self.parts


def test_tensors_of_any_shape_are_moved_and_all_else_stays() -> None:
    batch = {"pair": Pair(torch.ones(2), "text"), "record": Record([torch.zeros(1), 3, None]), "same": (torch.ones(1),)}
    moved = map_tensors(lambda each: each.to("meta"), batch)
    assert [each.is_meta for each in tensors_in(moved)] == [True] * 3
    assert (moved["pair"].other, moved["record"].parts[1:], type(moved["same"])) == ("text", [3, None], tuple)
    assert not any(each.is_meta for each in tensors_in(batch)), "the batch itself is as it was"
    for shape in (batch, (torch.ones(1), torch.ones(1)), {"a": torch.ones(1), "b": torch.ones(1)}):
        tensors = [torch.full((2,), float(number)) for number in range(len(tensors_in(shape)))]
        built = rebuilder(shape)(tensors)
        assert type(built) is type(shape)
        assert all(one is other for one, other in zip(tensors_in(built), tensors, strict=True))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("return None", "training_step() of wrong (line LINE) returned NoneType as the loss. Return a tensor of one"),
        ("return {'mean': model(batch['inputs']).sum()}", "returned a dict without 'loss' (mean). Add the loss."),
        ("return model(batch['inputs'])", "returned a tensor of shape (16, 3) and type torch.float32 as the loss."),
        ("return model(batch['inputs']).sum().detach()", "depends on no parameter of the model"),
        ("return {'loss': model(batch['inputs']).sum(), 'val_x': 1}", "a metric called val_x, a name that the run"),
        ("return {'loss': model(batch['inputs']).sum(), 'x': 'y'}", "returned 'x' as str. Return a number or a"),
        (
            "return {'loss': model(batch['inputs']).sum(), str(len(batch['inputs'])): 0}",
            "returned loss, 1, but loss, 16 before. It must return the same names",
        ),
    ],
)
def test_wrong_step_is_named(step: str, words: str, runs_root: Path, tmp_path: Path) -> None:
    source = with_step(step)
    followed = train(spec(write_recipe(tmp_path, source, "wrong")), runs_root)
    assert words.replace("LINE", str(line_of_step(source))) in followed.failure
    assert "begins in line" not in followed.failure, "it is named once"


def test_other_names_on_another_rank_fail_on_all(runs_root: Path, tmp_path: Path) -> None:
    name = "f'a{torch.distributed.get_rank()}'"
    source = with_step(f"return {{'loss': model(batch['inputs']).sum(), {name}: 0}}")
    followed = train(spec(write_recipe(tmp_path, source, "ranks"), "ddp"), runs_root)
    found = followed.failure
    assert "returned other names on rank 1 (loss, a1) than on rank 0 (loss, a0)" in found
    assert found.endswith(f"training_step() begins in line {line_of_step(source)} of ranks.py.")


def with_step(body: str) -> str:
    """Return the recipe with another step."""
    return OWN.partition("    def training_step")[0] + f"\n    def training_step(model, batch):\n        {body}\n"


def line_of_step(source: str) -> int:
    return textwrap.dedent(source).splitlines().index("def training_step(model, batch):") + 1


def test_loss_that_is_not_a_number_names_its_function(runs_root: Path, tmp_path: Path) -> None:
    source = with_step("return model(batch['inputs']).sum() * float('nan')")
    followed = train(spec(write_recipe(tmp_path, source, "nan")), runs_root)
    assert followed.state is RunState.FINISHED
    assert followed.run.facts.notices[0].startswith("The loss became NaN at step 1 (learning rate ")
    where = f"It is computed by training_step() of nan (line {line_of_step(source)}). Try a lower rate"
    assert where in followed.run.facts.notices[0]


@pytest.mark.parametrize(
    ("framework", "strategy", "source", "words"),
    [
        ("pytorch", "pipeline", OWN, "because no device has the whole model. Choose strategy single, ddp, fsdp or"),
        (
            "keras",
            "single",
            OWN.replace("import torch\n", "import torch, keras\n", 1).replace("def optimizer", "def _other")
            + "\n    def collate(items):\n        return items\n",
            "collate(), which Keras' fit does not call. Choose framework tensorflow",
        ),
        ("pytorch", "single", OWN.replace("step(model, batch)", "step(batch)"), "is called with model, batch, but it"),
    ],
)
def test_step_that_cannot_be_trained_is_refused_before_the_start(framework, strategy, source, words, tmp_path) -> None:
    path = write_recipe(tmp_path, source, "refused")
    choices = RecipeChoices(recipe=path, devices=("cpu:0", "cpu:1"), framework=framework, strategy=strategy)
    with pytest.raises(ValueError, match=re.escape(words)):
        compose(choices, cpu_devices())


def test_device_without_a_part_of_the_model_is_told(runs_root: Path, tmp_path: Path, capsys) -> None:
    path = write_recipe(tmp_path, PLACED["own"].replace("net.head.to(devices[1])", "net.head.to(devices[0])"), "half")
    followed = train(spec(path, "placement", epochs=1), runs_root)
    assert followed.state is RunState.FINISHED
    (notice,) = followed.run.facts.notices
    assert notice.startswith("No parameter of the model is on cpu:1, although it was ticked")
    assert __main__.main(["show", followed.run.id, "--runs", str(runs_root)]) == 0
    shown = capsys.readouterr().out
    assert "  CPU 0 holds 4 of 4 parameters: body.0 and head (1 kB)\n  CPU 1 holds no parameter of the model\n" in shown
