"""What recipe functions may return, and the errors for anything else."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.runs.directory import new_directory
from core.runs.facts import RunState
from core.schema.spec import write_spec
from core.worker.context import Context
from core.worker.pytorch import strategies
from core.worker.recipe import LoadedRecipe
from tests.support.one_rank import ALONE
from tests.support.packages import needs_shared_memory
from tests.support.running import LONG_PYTORCH, make_spec, train, train_both, write_recipe

ContextOf = Callable[[str], Context]


def data(returned: str) -> str:
    return f"{LONG_PYTORCH}\nimport numpy\ndef train_data():\n    return {returned}\n"


@pytest.fixture
def context_of(runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContextOf]:
    """Makes a worker context for a recipe in this process, so that no other process has to import torch."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # the recipe's folder is added to it
    contexts: list[Context] = []

    def make(source: str) -> Context:
        run_dir = new_directory(runs_root, "wrong")
        write_spec(run_dir, make_spec(write_recipe(tmp_path, source, "wrong"), epochs=1))
        contexts.append(Context(str(run_dir), ALONE))
        return contexts[-1]

    yield make
    for context in contexts:
        context.close()
    sys.modules.pop("wrong", None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (data("None"), "train_data() returned NoneType. Return a map-style torch Dataset"),
        (data("(torch.zeros(8, 4),)"), "train_data() returned (Tensor). Return two or more tensors"),
        (data("(numpy.zeros((8, 4)), numpy.zeros(8))"), "torch.from_numpy() makes a tensor of an array."),
        (data("(torch.zeros(8, 4), torch.zeros(7).long())"), "returned tensors of [8, 7] items"),
        (data("[torch.zeros(4)] * 8"), "A batch of the dataset has the type Tensor."),
        (data("[{'x': torch.zeros(4), 'y': 1}] * 8"), "A batch of the dataset has the type dict."),
        (data("[]"), "train_data() returned an empty list. There is nothing to train on."),
        (f"{LONG_PYTORCH}\ndef model():\n    return 5\n", "model() of wrong returned int. Return a torch.nn.Module."),
        (
            f"{LONG_PYTORCH}\ndef wrapped():\n    return lambda output, target: 0\nloss = wrapped()\n",
            "needs output, target, but it is called with no arguments. Every other argument needs a default. It",
        ),
        (
            f"{LONG_PYTORCH}\ndef val_data():\n    return train_data()\ndef metrics():\n    return {{'loss': None}}\n",
            "has a metric called loss, which is the loss's own name. Rename it.",
        ),
    ],
)
def test_invalid_recipe_results_raise_a_clear_error(context_of: ContextOf, source: str, words: str) -> None:
    context = context_of(source)
    with pytest.raises((TypeError, ValueError)) as refused:
        strategies.single(LoadedRecipe(context.spec, context.run_dir), context)
    assert words in str(refused.value)


def test_unused_parameters_are_named(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        f"""{LONG_PYTORCH}
class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(4, 2), nn.Linear(4, 2)
    def forward(self, inputs):
        return self.used(inputs)

def model():
    return Partly()
""",
        "partly",
    )
    followed = train(make_spec(recipe, epochs=3, devices="cpu:0,cpu:1"), runs_root)
    assert "These parameters take no part in the loss: spare.weight, spare.bias." in str(followed.run.facts.error)


@pytest.mark.slow
@needs_shared_memory
def test_loader_workers_are_seeded_by_run_and_rank(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        """
        import torch
        from torch import nn

        class Noise(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.randn(4), torch.tensor(0)

        def model():
            return nn.Linear(4, 2)

        def train_data():
            return Noise()
        """,
        "noise",
    )
    common = {"epochs": 2, "batch_size": 4, "loader_workers": 1}
    one, other = train_both(
        make_spec(recipe, seed=0, **common), make_spec(recipe, seed=1, devices="cpu:1", **common), runs_root
    )
    again = train(make_spec(recipe, seed=0, **common), runs_root)
    assert again.losses() == one.losses()
    assert other.losses()[1] != one.losses()[1]


@pytest.mark.slow
def test_recipe_may_have_any_file_name_and_folder(tmp_path: Path) -> None:
    folder, runs = tmp_path / "my folder #2", tmp_path / "runs #3"
    one, other = (
        make_spec(write_recipe(folder, LONG_PYTORCH, name), epochs=1, devices=device)
        for name, device in (("random", "cpu:0"), ("json", "cpu:1"))
    )
    assert [followed.state for followed in train_both(one, other, runs)] == [RunState.FINISHED] * 2
    meeting = make_spec(write_recipe(folder, LONG_PYTORCH, "it's a näme #1"), epochs=1, devices="cpu:0,cpu:1")
    assert train(meeting, runs).state is RunState.FINISHED


def test_largest_64_bit_seed_is_accepted(runs_root: Path, tmp_path: Path) -> None:
    spec = make_spec(write_recipe(tmp_path, LONG_PYTORCH), epochs=1, seed=2**63 - 1)
    assert train(spec, runs_root).run.facts.error is None


def test_one_step_epochs_share_event_lines(runs_root: Path, tmp_path: Path) -> None:
    spec = make_spec(write_recipe(tmp_path, LONG_PYTORCH), epochs=2000, batch_size=64)
    followed = train(spec, runs_root)
    lines = (followed.run.dir / "events" / "worker-0.jsonl").read_text().splitlines()
    assert followed.run_series.metrics["loss"].count == 2000
    assert len(lines) < 200
