"""Models that are made on their device, or in shards, and models whose blocks are computed twice or compiled."""

from pathlib import Path

import pytest
import torch
from torch import nn

from core.runs.facts import RunState
from core.worker.pytorch.deferred import DeferredModel
from core.worker.pytorch.model import checkpoint_blocks, compile_module
from tests.support.block_model import BLOCKS, on_two, values
from tests.support.resuming import broken_off, resumed
from tests.support.running import Followed, make_spec, train, write_recipe

EVERY_SEVENTH = {"unit": "steps", "every": 7, "keep": 9}


@pytest.mark.slow
def test_each_shard_has_its_size(runs_root: Path, blocks: str, blocks_alone: Followed) -> None:
    followed = on_two(blocks, runs_root, "fsdp", epochs=1, meta_device=True)
    sizes = [part.size_bytes or 0 for part in followed.run.facts.parts.values()]
    model = torch.load(next((blocks_alone.run.dir / "checkpoints").iterdir()) / "model.pt")
    whole = sum(each.nbytes for name, each in model.items() if name not in {"scale", "shift"})
    assert sum(sizes) == whole
    assert max(sizes) < 0.6 * whole
    assert not followed.run.facts.notices


def test_device_without_a_shard_is_named(runs_root: Path, tmp_path: Path) -> None:
    """Rows are divided over the devices, and these parameters have one row each."""
    source = """
        import torch

        def model():
            return torch.nn.Linear(4, 1)

        def train_data():
            return torch.ones(8, 4), torch.ones(8, 1)

        def loss():
            return torch.nn.MSELoss()
    """
    followed = on_two(write_recipe(tmp_path, source, "row"), runs_root, "fsdp", epochs=1, batch_size=4)
    assert followed.state is RunState.FINISHED, followed.run.facts.error
    (notice,) = followed.run.facts.notices
    assert notice.startswith("No parameter of the model is on cpu:1, although it was ticked: it only holds memory. No ")


MADE = f"""{BLOCKS}

    import os
    from pathlib import Path
    from torch.overrides import _get_current_function_mode_stack

    made = model

    def model(width=12, blocks=3, folder=""):
        torch.manual_seed(os.getpid())
        built = made(width, blocks)
        modes = [mode.device for mode in _get_current_function_mode_stack() if type(mode).__name__ == "DeviceContext"]
        torch.save({{"modes": modes, "state": built.state_dict()}}, Path(folder) / f"{{os.getpid()}}.pt")
        return built

    def optimizer(params):
        return torch.optim.SGD(params, lr=0)
"""
"""Each process makes other weights, as GPUs of two kinds would, and keeps them, and where new tensors are put."""


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_model_is_made_on_its_device_and_all_ranks_have_the_values_of_the_first(runs_root, tmp_path, strategy) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    source = write_recipe(tmp_path, MADE)
    choices = {"settings": {"folder": str(folder)}, "make_on_device": True, "epochs": 1}
    followed = on_two(source, runs_root, strategy, **choices)
    assert followed.state is RunState.FINISHED, followed.run.facts.error
    first, second = (
        torch.load(folder / f"{worker.process.pid}.pt", weights_only=False)
        for _, worker in sorted(followed.run.facts.workers.items())
    )
    assert first["modes"] == second["modes"] == [torch.device("cpu")]
    assert not torch.equal(first["state"]["head.weight"], second["state"]["head.weight"])
    found = torch.load(next((followed.run.dir / "checkpoints").iterdir()) / "model.pt")
    assert all(torch.equal(found[name], value) for name, value in first["state"].items())


@pytest.mark.slow
def test_model_made_in_shards_resumes(runs_root: Path, blocks: str, blocks_alone: Followed) -> None:
    whole = on_two(blocks, runs_root, "fsdp", meta_device=True, checkpoints=EVERY_SEVENTH)
    again = resumed(broken_off(whole, 7, runs_root))
    assert values(again) == pytest.approx(values(blocks_alone), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("width, blocks):\n", "width, blocks):\n            width = int(torch.tensor(12.0).item())\n"),
         "model() reads the value of a tensor while it makes the model"),
        (("nn.init.zeros_(module.bias)", "module.bias.data = torch.rand(len(module.bias), device='cpu')"),
         "model() draws random numbers on the CPU by name (rand)"),
        (("self.apply(", "self.unset = nn.Parameter(torch.empty(2)); self.apply("),
         "model() gives unset no values on the meta device"),
    ],
)
def test_model_that_the_meta_device_cannot_make_is_refused(runs_root, tmp_path, change, words) -> None:
    assert change[0] in BLOCKS
    assert words in on_two(write_recipe(tmp_path, BLOCKS.replace(*change)), runs_root, "fsdp", meta_device=True).failure


LARGE = """
    import resource
    from pathlib import Path

    import torch
    from torch import nn


    def model(blocks=30):
        return nn.Sequential(nn.Linear(8, 1024), *(nn.Linear(1024, 1024) for _ in range(blocks)), nn.Linear(1024, 3))


    def train_data():
        return torch.zeros(4, 8), torch.zeros(4, dtype=torch.long)


    def optimizer(params, learning_rate=0.01):
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        Path("{folder}", f"{torch.distributed.get_rank()}").write_text(str(peak_kb))
        return torch.optim.SGD(params, lr=learning_rate)
"""
"""A model of 126 MB. `optimizer` is called when the shards are made."""


@pytest.mark.soak
def test_no_process_holds_the_whole_of_a_model_made_in_shards(runs_root: Path, tmp_path: Path) -> None:
    peaks = {}
    for meta in (True, False):
        folder = tmp_path / str(meta)
        path = write_recipe(folder, LARGE.replace("{folder}", str(folder)), "large")
        followed = on_two(path, runs_root, "fsdp", epochs=1, batch_size=4, meta_device=meta)
        assert followed.state is RunState.FINISHED, followed.run.facts.error
        peaks[meta] = [int((folder / rank).read_text()) / 1024 for rank in "01"]
    for deferred, plain in zip(peaks[True], peaks[False], strict=True):
        assert plain - deferred > 40, peaks  # the other rank's half has 63 MB


class Odd(nn.Module):
    """A model whose values are made in many ways."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16, padding_idx=3)
        self.position = nn.Parameter(torch.randn(7, 16) * 0.02)
        self.register_buffer("mask", torch.tril(torch.ones(7, 7)).bool())
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        self.recurrent = nn.LSTM(16, 8, 2)
        self.images = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        self.orthogonal = nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))
        nn.init.orthogonal_(self.recurrent.weight_hh_l0)
        nn.init.sparse_(self.recurrent.weight_hh_l1, 0.5)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.loaded = nn.Linear(2, 2).to(torch.bfloat16)
        self.loaded.load_state_dict({"weight": torch.ones(2, 2, device="cpu"), "bias": torch.zeros(2, device="cpu")})
        self.apply(self._initialise)
        with torch.no_grad():
            self.orthogonal.bias[2:4] = 5
            self.images[0].weight.copy_(self.images[0].weight.flip(0))

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear) and module.weight.shape[0] == 32:
            nn.init.trunc_normal_(module.weight, std=0.02)


def test_deferred_values_equal_those_of_a_model_made_at_once() -> None:
    torch.manual_seed(4)
    plain = Odd()
    drawn = torch.rand(3)
    making = DeferredModel()
    with making:
        model = Odd()
    assert all(each.is_meta for each in (*model.parameters(), *model.buffers()))
    found: dict[str, torch.Tensor] = {}
    torch.manual_seed(4)
    making.fill(making.states(model), lambda name, value: found.__setitem__(name, value.clone()))
    wanted = dict([*plain.named_parameters(), *plain.named_buffers()])
    assert found.keys() == wanted.keys()
    assert [name for name, value in wanted.items() if not torch.equal(value, found[name])] == []
    assert torch.equal(torch.rand(3), drawn), "as many random numbers"


class Layers(nn.Module):
    """Blocks, of which some have a batch normalisation."""

    def __init__(self, blocks: int, *, normalises: bool = False, drops: float = 0.0) -> None:
        super().__init__()
        norm = nn.BatchNorm1d(32) if normalises else nn.LayerNorm(32)
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Dropout(drops), nn.Linear(256, 32), norm)
              for _ in range(blocks))
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.blocks(inputs)  # type: ignore[no-any-return]


def backward(model: nn.Module) -> tuple[list[torch.Tensor], int]:
    """Return the gradients, and the bytes that were kept for the backward pass."""
    kept = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.nbytes
        return tensor

    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
        loss = model(torch.randn(64, 32)).square().mean()
    loss.backward()
    return [each.grad for each in model.parameters() if each.grad is not None], kept


def test_blocks_computed_twice_have_the_same_gradients_and_keep_less() -> None:
    torch.manual_seed(0)
    plain = Layers(4, drops=0.3)
    twice = Layers(4, drops=0.3)
    twice.load_state_dict(plain.state_dict())
    names = list(twice.state_dict())
    checkpoint_blocks(twice, compiled=False)
    assert list(twice.state_dict()) == names
    gradients, kept = backward(plain)
    others, less = backward(twice)
    assert all(torch.allclose(*pair, rtol=1e-6, atol=0) for pair in zip(gradients, others, strict=True))
    assert less < kept / 4


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Layers(3, normalises=True), "the blocks of Layers have a batch normalisation"),
        (Layers(1), "needs a model of several blocks with layers of their own, such as modules in a ModuleList, but"),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "but Sequential has 0. Switch activation checkpointing off."),
    ],
)
def test_model_without_blocks_cannot_be_computed_twice(model: nn.Module, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checkpoint_blocks(model, compiled=False)


def test_compiled_sequence_is_really_compiled_and_keeps_its_names() -> None:
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    inputs, names = torch.randn(3, 8), list(model.state_dict())
    wanted = model(inputs)
    compile_module(model, backend)
    assert torch.allclose(model(inputs), wanted)
    assert len(graphs) == 1
    assert list(model.state_dict()) == names


@pytest.mark.soak
@pytest.mark.parametrize("twice", [False, True])
def test_blocks_compiled_one_by_one_follow_the_curve(runs_root: Path, blocks: str, *, twice: bool) -> None:
    """In shards of their own, which takes a million parameters each."""
    wide = {"settings": {"width": "704", "blocks": "2"}, "epochs": 1}
    plain = train(make_spec(blocks, batch_size=16, **wide), runs_root)
    followed = on_two(blocks, runs_root, "fsdp", compile=True, activation_checkpointing=twice, **wide)
    assert followed.losses() == pytest.approx(plain.losses(), rel=1e-3)
