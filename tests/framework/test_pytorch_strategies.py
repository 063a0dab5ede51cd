"""PyTorch on several devices: sharded, split and placed models have the losses of one device.

Tests import `core.worker.pytorch` themselves, since each process of tests would load torch's compiler with it.
"""

import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from core.runs.facts import RunState
from core.schema import checkpoint
from core.schema.events import Tail
from core.schema.paths import EVENTS, LOG_FILE
from core.schema.settings import StopTimeouts
from tests.framework.test_checkpoints import DROPS
from tests.framework.test_numbers import AWKWARD
from tests.support.resuming import EVERY_STEP, LEARNING, broken_off, resumed
from tests.support.running import FOREVER, Followed, make_spec, start, train, train_both, write_recipe
from tests.support.small_runs import assert_same_curve
from tests.support.strategy_runs import StrategyRuns
from tests.support.waiting import PATIENCE_S

SYNCHRONOUS = ("fsdp", "pipeline", "placement")
PATIENT = StopTimeouts(ask_s=PATIENCE_S)
TWO = "cpu:0,cpu:1"

GENERAL = textwrap.dedent(AWKWARD) + textwrap.dedent("""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)

        def forward(self, inputs, scale):
            added = torch.tanh(self.linear(self.norm(inputs)))
            return inputs + (added if self.training else 0.5 * added) * scale, scale

    class General(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.randn(16))
            self.last, self.first = nn.Linear(16, 3), nn.Linear(6, 16)
            self.blocks = nn.ModuleList([Block() for _ in range(3)])

        def forward(self, inputs, scale):
            begun = seen = self.first(inputs) + self.shift * torch.arange(16, device=inputs.device)
            for block in self.blocks:
                seen, scale = block(seen, scale)
            return self.last(seen + 0.1 * begun * scale)

    def model():
        return General()

    def train_data(items=65):
        generator = torch.Generator().manual_seed(7)
        inputs, scale = torch.randn(items, 6, generator=generator), torch.rand(items, 1, generator=generator)
        return inputs, scale, torch.randint(0, 3, (items,), generator=generator)
""")
"""A non-sequential model: two inputs, its own parameter, a value that skips stages, and a different eval mode."""

STAGES = """
    def stages():
        whole = General()

        class Front(nn.Module):
            def __init__(self):
                super().__init__()
                self.shift, self.first = whole.shift, whole.first

            def forward(self, inputs, scale):
                begun = self.first(inputs) + self.shift * torch.arange(16)
                return begun.t().contiguous().t(), scale, begun  # not dense, as its gradient will be

        class Back(nn.Module):
            def __init__(self):
                super().__init__()
                self.last, self.blocks = whole.last, whole.blocks

            def forward(self, seen, scale, begun):
                for block in self.blocks:
                    seen, scale = block(seen, scale)
                return self.last(seen + 0.1 * begun * scale)

        return [Front(), Back()]
"""


def parts(followed: Followed) -> dict[str, list[str]]:
    """Return the parameters on each device, from the workers' events."""
    events = [event for path in (followed.run.dir / EVENTS).glob("worker-*.jsonl") for event in Tail(path).read()]
    return dict(sorted((event["device"], event["parameters"]) for event in events if event["kind"] == "parts"))


@pytest.mark.e2e
@pytest.mark.parametrize("strategy", SYNCHRONOUS)
def test_each_device_has_the_parameters_that_the_strategy_gives_it(strategy_runs: StrategyRuns, strategy: str) -> None:
    names = ["0.weight", "0.bias", "2.weight", "2.bias", "6.weight", "6.bias", "8.weight", "8.bias"]
    first, second = parts(strategy_runs["pytorch", strategy, 1]).values()
    if strategy == "fsdp":
        assert first == second == names
    else:
        assert first
        assert second
        assert first + second == names


CLIPPED = LEARNING | {"gradient_clip": 0.05}


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Followed]:
    """Single-device runs by accumulation."""
    root = tmp_path_factory.mktemp("one")
    awkward = write_recipe(root, AWKWARD, "awkward")
    once, twice = (
        make_spec(awkward, devices=device, accumulation=many, **CLIPPED)
        for many, device in ((1, "cpu:0"), (2, "cpu:1"))
    )
    return dict(zip((1, 2), train_both(once, twice, root / "runs"), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_parts_of_a_batch_are_weighted_by_size(runs_root, tmp_path, on_one_device, accumulation) -> None:
    """The last batch has one item, so one rank, or three of four micro-batches, have none."""
    awkward = write_recipe(tmp_path, AWKWARD, "awkward")
    for strategy in SYNCHRONOUS:
        spec = make_spec(awkward, strategy=strategy, devices=TWO, accumulation=accumulation, **CLIPPED)
        assert_same_curve(train(spec, runs_root), on_one_device[accumulation])


@pytest.mark.slow
def test_separately_sharded_blocks_stay_synchronised_on_uneven_batches(runs_root: Path, tmp_path: Path) -> None:
    """Of the last three items one rank has two, enough for two passes, and the other has one."""
    source = AWKWARD.replace("items=65", "items=67").replace(
        "nn.Linear(6, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 3)",
        "nn.Linear(6, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 3)",
    )
    large = write_recipe(tmp_path, source.replace("learning_rate=0.1", "learning_rate=0.01"), "large")
    settings = {"epochs": 2, "batch_size": 16, "accumulation": 4}
    single = train(make_spec(large, **settings), runs_root)
    assert_same_curve(train(make_spec(large, strategy="fsdp", devices=TWO, **settings), runs_root), single)


def test_only_large_blocks_are_sharded_separately() -> None:
    from core.worker.pytorch.fsdp import blocks

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 8))

    tied = Block()
    tied.inner[0].weight = nn.Parameter(torch.zeros(1024, 1024))
    model = nn.Sequential(Block(), nn.Linear(8, 8), nn.ModuleDict({"deep": Block(), "tied": tied}))
    model.head = nn.Linear(1024, 1024)
    model.head.weight = tied.inner[0].weight
    assert list(blocks(model)) == [model[0], model[2]["deep"]]


@pytest.fixture(scope="module")
def general_on_one_device(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    root = tmp_path_factory.mktemp("general")
    return train(make_spec(write_recipe(root, GENERAL, "general"), epochs=3, batch_size=16), root / "runs")


def test_compiled_stage_runs_the_compiled_graph() -> None:
    from core.worker.pytorch.stage import DenseStage

    compiled: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        compiled.append(graph)
        return graph.forward

    stage = DenseStage(torch.nn.Linear(3, 2), None)
    plain = stage(torch.ones(1, 3))
    assert not compiled
    stage.compile(backend=backend)
    assert torch.equal(stage(torch.ones(1, 3)), plain)
    assert len(compiled) == 1


@pytest.mark.slow
@pytest.mark.parametrize("own_stages", [False, True])
def test_non_sequential_model_is_split_into_stages(runs_root, tmp_path, general_on_one_device, own_stages) -> None:
    single = general_on_one_device
    recipe = write_recipe(tmp_path, GENERAL + textwrap.dedent(STAGES) * own_stages, "general")
    followed = train(make_spec(recipe, strategy="pipeline", devices=TWO, epochs=3, batch_size=16), runs_root)
    assert_same_curve(followed, single)
    (whole, *_), (saved, *_) = checkpoint.folders(single.run.dir), checkpoint.folders(followed.run.dir)
    one, two = (torch.load(saved / f"model-{rank}.pt", weights_only=True) for rank in (0, 1))
    expected = torch.load(whole / "model.pt", weights_only=True)
    assert not one.keys() & two.keys()
    assert (one | two).keys() == expected.keys()
    for name, value in (one | two).items():
        assert torch.allclose(value, expected[name], rtol=1e-4, atol=1e-6), name


@pytest.mark.slow
def test_stage_may_modify_its_input_in_place(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        textwrap.dedent(AWKWARD)
        + textwrap.dedent("""
        class Block(nn.Module):
            def __init__(self, outputs):
                super().__init__()
                self.bend, self.inner = nn.LeakyReLU(inplace=True), nn.Linear(16, outputs)

            def forward(self, inputs):
                return self.inner(self.bend(inputs))

        def model():
            return nn.Sequential(nn.Linear(6, 16), Block(16), Block(3))
        """),
        "in_place",
    )
    single, followed = (
        train(make_spec(recipe, strategy=strategy, devices=devices, epochs=2, batch_size=16), runs_root)
        for strategy, devices in (("single", "cpu:0"), ("pipeline", TWO))
    )
    assert_same_curve(followed, single)


@pytest.mark.e2e
@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "pipeline"])
def test_process_group_threads_end_before_interpreter_exit(runs_root: Path, tmp_path: Path, strategy: str) -> None:
    """A thread that waits for the GIL at interpreter exit aborts the process. The recipe uses no torch.optim
    optimizer: importing one would hide a module that is imported too late and keeps the group alive."""
    source = (Path(__file__).parents[1] / "recorded_runs" / "recipes" / "linear.py").read_text()
    recipe = write_recipe(
        tmp_path,
        source.replace("line = nn.Linear(2, 1)", "line = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))")
        .replace("line.weight", "line[0].weight")
        .replace("line.bias", "line[0].bias")
        + textwrap.dedent("""
        def threads():
            names = [open(f"/proc/self/task/{each}/comm").read().strip() for each in os.listdir("/proc/self/task")]
            line = " ".join(["threads at the end:", *sorted(names)])
            os.write(1, f"\\n{line}\\n".encode())  # at once: both ranks write into the same file

        import atexit
        atexit.register(threads)
        """),
        "threads",
    )
    never = {"unit": "never"}  # fsdp can only save the state of a torch.optim optimizer
    spec = make_spec(recipe, strategy=strategy, devices=TWO, epochs=2, batch_size=8, checkpoints=never)
    followed = train(spec, runs_root)
    assert followed.run.facts.state is RunState.FINISHED
    lines = [line for line in (followed.run.dir / LOG_FILE).read_text().splitlines() if "threads at the end" in line]
    assert len(lines) == 2
    assert not any("gloo" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", SYNCHRONOUS)
def test_resumed_run_equals_uninterrupted_run(runs_root: Path, tmp_path: Path, strategy: str) -> None:
    """Resume from mid-epoch, with dropout, running statistics, optimizer state and a schedule."""
    drops = write_recipe(tmp_path, DROPS, "drops")
    whole = train(make_spec(drops, strategy=strategy, devices=TWO, checkpoints=EVERY_STEP, **LEARNING), runs_root)
    again = resumed(broken_off(whole, 7, runs_root))
    assert_same_curve(again, whole)
    assert parts(again) == parts(whole)


def test_branches_are_on_the_devices_chosen_by_the_recipe(runs_root: Path) -> None:
    spec = make_spec("two_branch_lstm", strategy="placement", devices=TWO, epochs=1, settings={"items": 64})
    followed = train(spec, runs_root)
    branches = {device: {name.split(".")[0] for name in names} for device, names in parts(followed).items()}
    assert branches == {"cpu:0": {"left", "join"}, "cpu:1": {"right"}}


@pytest.mark.parametrize("strategy", ["pipeline", "placement"])
def test_model_that_cannot_be_split_fails_with_the_reason(runs_root: Path, tmp_path: Path, strategy: str) -> None:
    recipe = write_recipe(tmp_path, AWKWARD.replace("nn.Linear(6, 16), nn.Tanh()", "nn.Tanh()").replace("(16,", "(6,"))
    followed = train(make_spec(recipe, strategy=strategy, devices=TWO, epochs=1, batch_size=16), runs_root)
    error = str(followed.run.facts.error)
    assert "because it can be divided into at most 1 part with parameters to train. Tick fewer" in error
    assert ("stages()" if strategy == "pipeline" else "placed_model(devices)") in error


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fsdp", "pipeline"])
def test_stop_during_validation_ends_all_ranks(runs_root: Path, tmp_path: Path, strategy: str) -> None:
    recipe = write_recipe(tmp_path, AWKWARD.replace("items=21", "items=1_000_000"), "long")
    followed = start(
        make_spec(recipe, strategy=strategy, devices=TWO, epochs=FOREVER, batch_size=16, stop_timeouts=PATIENT),
        runs_root,
    )
    followed.until_trained(5).run.request("stop")
    followed.until_over()
    assert followed.states[-3:] == [RunState.STOPPING, RunState.RELEASING, RunState.STOPPED]
    assert not followed.run.facts.stop_steps[1:]  # the request was enough; no signal was needed


def test_error_in_a_stage_is_reported_verbatim(runs_root: Path, tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path,
        textwrap.dedent(AWKWARD)
        + textwrap.dedent("""
        class Late(nn.Module):
            calls = 0
            def forward(self, inputs):
                Late.calls += 1
                if Late.calls > 40:
                    raise RuntimeError("It is too late here.")
                return inputs

        def model():
            return nn.Sequential(nn.Linear(6, 16), Late(), nn.Linear(16, 3))
        """),
        "late",
    )
    followed = train(make_spec(recipe, strategy="pipeline", devices=TWO, epochs=9, batch_size=16), runs_root)
    assert str(followed.run.facts.error).endswith("RuntimeError: It is too late here.")


def test_split_minimises_the_cost_of_the_largest_stage() -> None:
    from core.worker.pytorch.model import split_evenly, split_points, with_layers_before

    assert split_evenly([1, 1, 1, 9, 1, 1], [[1], [2], [3], [4], [5]], 3) == [0, 3, 4]
    assert split_evenly([1, 1, 1, 1], [[1], [2], [3]], 2) == [0, 2]
    assert split_evenly([5, 1, 1, 5], [[1]], 2) == [0, 1]
    assert split_evenly([1, 1], [[1]], 3) is None
    assert split_evenly([9, 1, 1, 8], [[1, 2, 3]], 2) == [0, 1]
    assert split_evenly([1, 1, 1, 9], [[1, 2, 3]], 2) == [0, 3]
    assert split_evenly([1, 1, 1, 9], [[1, 2, 3]], 3) is None, "one place is cut once"
    assert split_evenly([4, 1, 1, 4, 1, 1, 4], [[1, 2, 3], [4, 5, 6]], 3) == [0, 2, 4]
    shared = nn.Linear(2, 2)
    layers = [nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), shared, nn.Linear(2, 2), shared, nn.Tanh(), nn.Linear(2, 2)]
    assert split_points(layers) == [3, 7]
    assert with_layers_before(3, layers) == [2, 3]
    assert with_layers_before(7, layers) == [6, 7]


def test_parameterless_layer_joins_lighter_stage_unless_transfer_grows() -> None:
    from core.worker.pytorch.cuts import SequentialSource, calls
    from core.worker.pytorch.model import split_evenly

    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    row, inputs = SequentialSource(model), [torch.zeros(2, 1, 8, 8)]
    layers = row.layers(inputs)
    (place,) = row.allowed(layers, calls(model, layers, inputs))
    assert place == [3, 4], "before the pooling four times as much is sent"
    dropping = SequentialSource(
        nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.0), nn.Linear(4, 2))
    )
    drawn = [torch.zeros(2, 4)]
    (apart,) = dropping.allowed(dropping.layers(drawn), calls(dropping.model, dropping.layers(drawn), drawn))
    assert apart == [3, 4, 5], "dropout on another rank would drop others"
    begins = [layers[each][0] for each in split_evenly([1, 1, 1, 5, 5], [place], 2) or ()]
    assert begins == ["0", "4"]
    assert [type(layer) for layer in row.stage(begins, 1, inputs, torch.device("cpu")).children()] == [nn.Linear]


def test_untraceable_models_are_refused() -> None:
    from core.worker.pytorch.cuts import traced_stage
    from core.worker.pytorch.model import CannotSplitError

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen = self.first(inputs)
            return self.second(seen if seen.sum() > 0 else -seen)

    class Sharing(Branching):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(self.second(self.first(inputs)), self.first.weight)

    for model, words in (
        (Branching(), "torch.export cannot trace it"),
        (Sharing(), "2 stages would share the parameter first.weight"),
    ):
        with pytest.raises(CannotSplitError, match=words):
            traced_stage(model, [torch.ones(2, 4)], ["second"], 0, torch.device("cpu"))
