"""The built-in recipes train on data that is included, generated or downloaded once."""

import gzip
import hashlib
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.catalog import recipes
from core.scripts.analysis import analyse_script
from resources import ROOT
from tests.support.running import make_spec, train
from tests.support.shared import made_once
from tests.support.worker_pool import WorkerPools

KERAS = Path(__file__).resolve().parents[1] / "support" / "keras_workloads.py"
BOTH = ["char_transformer", "digits_cnn", "digits_mlp", "fashion_cnn", "mnist_cnn", "mnist_mlp", "shared_layer_lstm",
        "two_branch_lstm"]
PYTORCH_ONLY = ["char_lora", "digits_gan", "digits_vae", "forecast_stream", "hugging_face_gpt", "shapes_detector"]
BRANCHES = {
    "two_branch_lstm": [0, 0, 0, 1, 1, 1, 0, 0, 0, 0],
    "shared_layer_lstm": [0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0],
}
"""The device of each variable of a placed Keras model whose parts are not on the devices in order."""
IDX = {"x_train": "train-images-idx3-ubyte", "y_train": "train-labels-idx1-ubyte",
       "x_test": "t10k-images-idx3-ubyte", "y_test": "t10k-labels-idx1-ubyte"}
SETTINGS: dict[str, dict[str, Any]] = {
    "mnist_cnn": {"items": 48},
    "mnist_mlp": {"items": 48},
    "fashion_cnn": {"items": 48},
}


def write_mnist(folder: Path) -> dict[str, np.ndarray]:
    """Write small files of both formats, and return the arrays in them."""
    random = np.random.default_rng(0)
    sizes = {"train": 64, "test": 16}
    arrays = {f"x_{part}": random.integers(0, 256, (size, 28, 28), dtype=np.uint8) for part, size in sizes.items()}
    arrays |= {f"y_{part}": random.integers(0, 10, size, dtype=np.uint8) for part, size in sizes.items()}
    (folder / "mnist").mkdir()
    np.savez(folder / "mnist" / "mnist.npz", **arrays)  # type: ignore[arg-type]
    (folder / "fashion-mnist").mkdir()
    for name, file in IDX.items():
        array = arrays[name]
        content = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
        (folder / "fashion-mnist" / f"{file}.gz").write_bytes(gzip.compress(content))
    return arrays


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with small files of both formats."""
    folder = tmp_path_factory.mktemp("cache")
    np.savez(folder / "arrays.npz", **write_mnist(folder))  # type: ignore[arg-type]
    return folder


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a PyTorch recipe, and removes it from `sys.modules` afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "recipes" / "pytorch"))
    yield importlib.import_module
    folder = str(ROOT / "recipes")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache folder on a machine without network."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the discard port: refused at once
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_built_in_recipes_are_listed_by_framework() -> None:
    assert [each.name for each in recipes.built_in("pytorch")] == sorted([*BOTH, *PYTORCH_ONLY])
    keras = sorted([*BOTH, "mobilenet_cats_dogs"])
    assert [each.name for each in recipes.built_in("keras")] == keras
    assert [each.name for each in recipes.built_in("tensorflow")] == keras
    for framework in ("pytorch", "keras", "tensorflow"):
        summaries = {each.name: each.summary for each in recipes.built_in(framework)}
        assert all(summaries.values())
        assert recipes.built_in_summaries(framework) == summaries  # which reads only the first line


@pytest.mark.parametrize("name", BOTH)
def test_recipe_loss_falls_after_one_step_in_pytorch(load, cache, monkeypatch, name) -> None:
    monkeypatch.setenv("TRAINYARD_DATA", str(cache))
    recipe = load(name)
    *inputs, target = (each[:32] for each in recipe.train_data(**SETTINGS.get(name, {})))
    model = recipe.model()
    optimizer = recipe.optimizer(model.parameters())
    measure = recipe.loss() if hasattr(recipe, "loss") else torch.nn.functional.cross_entropy
    losses = []
    for _ in range(2):
        output = model(*inputs)
        loss = measure(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]
    assert output.shape[:-1] == target.shape
    assert 0 <= recipe.metrics()["accuracy"](output, target) <= 1
    assert [each.shape[1:] for each in recipe.val_data()] == [each.shape[1:] for each in (*inputs, target)]


def test_transformer_stages_equal_the_whole_model(load: Callable[[str], Any]) -> None:
    recipe = load("char_transformer")
    settings = {"layers": 3, "width": 16, "heads": 2, "context": 8}
    torch.manual_seed(3)
    whole = recipe.model(**settings)
    torch.manual_seed(3)
    stages = recipe.stages(**settings)
    assert len(stages) == 5
    cut = {name: value for stage in stages for name, value in stage.state_dict().items()}
    assert list(cut) == list(whole.state_dict())
    assert all(torch.equal(cut[name], value) for name, value in whole.state_dict().items())
    codes = recipe.train_data(context=8)[0][:4]
    seen = codes
    for stage in stages:
        seen = stage(seen)
    assert torch.equal(seen, whole(codes))


def test_transformer_does_not_attend_to_later_positions(load: Callable[[str], Any]) -> None:
    recipe = load("char_transformer")
    model, codes = recipe.model(context=8), recipe.train_data(context=8)[0][:4]
    changed = codes.clone()
    changed[:, 5:] = 0
    assert torch.equal(model(codes)[:, :5], model(changed)[:, :5])
    assert not torch.equal(model(codes)[:, 5:], model(changed)[:, 5:])


TINY = {"layers": 1, "heads": 2, "width": 8, "context": 8}


def test_adapters_are_trained_and_the_base_is_not(load: Callable[[str], Any], tmp_path: Path) -> None:
    """The base is that of a `char_transformer`, as `export --model` writes it."""
    base = load("char_transformer").model(**TINY)
    torch.save(base.state_dict(), tmp_path / "model.pt")
    recipe = load("char_lora")
    model = recipe.model(base=str(tmp_path / "model.pt"), **TINY)
    inputs, target = (each[:16] for each in recipe.train_data(context=8))
    assert torch.equal(model(inputs), base(inputs)), "adapters begin with no effect"
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = recipe.optimizer(model.parameters())
    recipe.loss()(model(inputs), target).backward()
    optimizer.step()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if name.endswith(".up")}  # the first gradient of `down` is zero
    assert len(changed) == 4  # two layers of the attention, two of the network behind it
    with pytest.raises(FileNotFoundError, match=r"There is no file .*other\.pt with the weights of the base\. Check"):
        recipe.model(base=str(tmp_path / "other.pt"), **TINY)


def test_detector_finds_what_it_is_shown(load: Callable[[str], Any]) -> None:
    """A network that knows the answer has the lowest loss, and its detections cover the objects."""
    recipe = load("shapes_detector")
    batch = recipe.collate([recipe.train_data(8)[index] for index in range(8)])
    assert {len(boxes) for boxes in batch["boxes"]} == {1, 2, 3}
    logits, boxes = torch.full((8, 2, 8, 8), -9.0), torch.zeros(8, 8, 8, 4)
    for number, (true_boxes, kinds) in enumerate(zip(batch["boxes"], batch["kinds"], strict=True)):
        smallest, occupied = recipe.targets(true_boxes)
        boxes[number] = true_boxes[smallest]
        for row, column in occupied.nonzero().tolist():
            logits[number, kinds[smallest[row, column]], row, column] = 9.0

    measured = recipe.validation_step(lambda _: (logits, boxes), batch)
    assert measured["loss"] < 0.001
    assert measured["mean_iou"] > 0.9  # some objects are hidden behind others
    unsure = recipe.validation_step(lambda _: (logits.neg(), boxes), batch)
    assert unsure["mean_iou"] < measured["mean_iou"]


def test_forecast_stream_has_other_values_in_each_epoch(load: Callable[[str], Any]) -> None:
    stream = load("forecast_stream").train_data(items=5)
    first, again = list(stream), list(stream)
    stream.set_epoch(1)
    assert len(stream) == len(first) == 5
    assert [past.shape for past, _ in first] == [(48,)] * 5
    assert all(torch.equal(one, other) for one, other in zip(sum(first, ()), sum(again, ()), strict=True))
    assert not torch.equal(next(iter(stream))[0], first[0][0])


def test_missing_package_of_a_recipe_is_known_before_the_start() -> None:
    recipe = ROOT / "recipes" / "pytorch" / "hugging_face_gpt.py"
    assert "transformers" in analyse_script(str(recipe), cwd=str(ROOT), python=sys.executable).imports


@pytest.mark.slow
def test_hugging_face_model_is_made_of_a_configuration_file(load: Callable[[str], Any], tmp_path: Path) -> None:
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    recipe = load("hugging_face_gpt")
    config = tmp_path / "config.json"
    written = {"model_type": "llama", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
               "num_attention_heads": 2, "vocab_size": 99, "bos_token_id": None, "eos_token_id": None}
    config.write_text(json.dumps(written))
    model = recipe.model(config=str(tmp_path))
    assert type(model).__name__ == "LlamaForCausalLM"
    windows = recipe.val_data(context=8)["input_ids"][:2]
    assert recipe.training_step(model, {"input_ids": windows}).isfinite()
    config.write_text(json.dumps(written | {"vocab_size": 9}))
    with pytest.raises(ValueError, match=r"has 9 tokens, but the text has \d+ different characters\. Raise its vocab"):
        recipe.model(config=str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"There is no configuration .*gpt2\. Check the setting config\."):
        recipe.model(config=str(tmp_path / "gpt2"))


@pytest.mark.parametrize("name", BRANCHES)
def test_placed_branches_equal_the_plain_model(load: Callable[[str], Any], name: str) -> None:
    recipe = load(name)
    models = []
    for make in (recipe.model, lambda: recipe.placed_model([torch.device("cpu")] * 2)):
        torch.manual_seed(1)
        models.append(make())
    left, right, _ = recipe.val_data(val_items=8)
    assert list(models[0].state_dict()) == list(models[1].state_dict())
    assert torch.equal(models[0](left, right), models[1](left, right))


def test_user_text_file_is_read_and_checked(load: Callable[[str], Any], tmp_path: Path) -> None:
    recipe = load("char_transformer")
    file = tmp_path / "mine.txt"
    file.write_text("äbä→" * 50, encoding="utf-8")
    inputs, following = recipe.windows(str(file), "train", 16)
    assert recipe.coded(str(file))[0] == 3
    assert inputs.shape == following.shape == (11, 16)
    assert (inputs.ravel()[1:] == following.ravel()[:-1]).all()
    with pytest.raises(ValueError, match=r"mine\.txt is too short for a context of 64\. Use a longer text\."):
        recipe.windows(str(file), "val", 64)
    with pytest.raises(
        OSError, match=r"The text /no/such cannot be read: No such file or directory\. Check the path\."
    ):
        recipe.coded("/no/such")


def test_both_mnist_formats_are_read_from_the_cache_folder(load, cache, monkeypatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA", str(cache))
    arrays = np.load(cache / "arrays.npz")
    for recipe, read, mean, deviation in (
        ("mnist_mlp", "mnist", 0.1307, 0.3081),
        ("fashion_cnn", "fashion", 0.286, 0.353),
    ):
        for part, name, items in (("train", "train", 64), ("val", "test", 5)):
            images, labels = getattr(load(recipe), read)(part, items)
            assert images.numpy()[:, 0] == pytest.approx(
                (arrays[f"x_{name}"][:items] / 255 - mean) / deviation, abs=1e-5
            )
            assert labels.tolist() == arrays[f"y_{name}"][:items].tolist()


def test_damaged_data_file_is_named(load: Callable[[str], Any], offline: Path) -> None:
    for recipe, folder, file in (
        ("mnist_mlp", "mnist", "mnist.npz"),
        ("fashion_cnn", "fashion-mnist", "train-images-idx3-ubyte.gz"),
    ):
        (offline / folder).mkdir(parents=True)
        for content in (b"no such thing", gzip.compress(b"no"), gzip.compress(b"no such thing")):
            (offline / folder / file).write_bytes(content)
            with pytest.raises(ValueError, match=rf"{file} cannot be read \(.*\)\. Delete it to download it again\."):
                load(recipe).train_data()


@pytest.mark.parametrize(
    ("recipe", "address", "folder"),
    [
        ("mnist_mlp", "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz", "mnist"),
        ("fashion_cnn", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images", "fashion-mnist"),
    ],
    ids=["mnist_mlp", "fashion_cnn"],  # the address names a framework, by which pytest-xdist's process is chosen
)
def test_failed_download_names_address_and_folder(runs_root, offline, recipe, address, folder) -> None:
    followed = train(make_spec(recipe, epochs=1), runs_root)
    sentence = followed.failure
    assert f"could not be downloaded from {address}" in sentence
    assert f"put it into the folder {offline / folder}, and start again." in sentence
    assert list((offline / folder).iterdir()) == []


def test_concurrent_downloads_of_one_file_succeed(load: Callable[[str], Any], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path))
    downloaded = load("mnist_mlp").downloaded
    source = tmp_path / "source"
    source.write_bytes(os.urandom(5_000_000))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    target = tmp_path / "cache" / "source"
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: downloaded("cache", source.as_uri(), digest), range(4))) == [target] * 4
    assert target.read_bytes() == source.read_bytes()
    assert list(target.parent.iterdir()) == [target]


def test_download_with_wrong_checksum_is_refused(load: Callable[[str], Any], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA", str(tmp_path))
    source = tmp_path / "source"
    source.write_bytes(b"a page that says: log in first")
    with pytest.raises(OSError, match=r"its SHA-256 is [0-9a-f]{64} instead of 00.*the folder .*/cache, and"):
        load("mnist_mlp").downloaded("cache", source.as_uri(), "00")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.fixture(scope="module")
def in_keras(cache: Path, pools: WorkerPools, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of the Keras recipes in another process, by recipe, and the error without a library of data."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")

    def make(folder: Path) -> None:
        program = f"import runpy; runpy.run_path({str(KERAS)!r}, run_name='__main__')"
        folders = {"TRAINYARD_DATA": str(cache), "TFDS_DATA_DIR": str(folder / "tfds")}
        (folder / "facts.json").write_text(pools.run("tensorflow", program, environment=folders).splitlines()[-1])

    facts: dict[str, Any] = json.loads((made_once(tmp_path_factory, "in-keras", make) / "facts.json").read_text())
    return facts


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
def test_recipe_loss_falls_after_one_step_in_keras(in_keras: dict[str, Any], name: str) -> None:
    facts = in_keras[name]
    assert facts["losses"][1] < facts["losses"][0]
    assert facts["built"]
    assert facts["output"][:-1] == facts["target"]
    assert facts["accuracy"] == [32]  # one value per item
    assert facts["train_shapes"] == facts["val_shapes"]


def test_keras_digits_cnn_reaches_95_percent_after_five_epochs(in_keras: dict[str, Any]) -> None:
    assert in_keras["digits_cnn"]["val_accuracy"] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp", "char_transformer", *BRANCHES])
def test_placed_keras_model_uses_both_devices_and_has_the_same_losses(in_keras: dict[str, Any], name: str) -> None:
    single, placed = in_keras[name], in_keras[name]["placed"]
    assert placed["same_start"]
    assert placed["losses"] == pytest.approx(single["losses"], rel=1e-6)
    devices = placed["devices"]
    assert devices == BRANCHES.get(name, sorted(devices))
    assert set(devices) == {0, 1}
    assert placed["slots"] == [0, 1]
    assert placed["products"] == [0, 1]  # in the backward pass, too: no product uses the default device


@pytest.mark.slow
def test_keras_mobilenet_trains_on_generated_pictures(in_keras: dict[str, Any]) -> None:
    if importlib.util.find_spec("tensorflow_datasets") is None:  # importing it here would import TensorFlow
        pytest.skip("tensorflow_datasets is not installed")
    facts = in_keras["mobilenet"]
    assert facts["items"] == [24, 24]
    assert facts["shape"] == [32, 32, 3]
    assert -1 <= facts["least"] < facts["most"] <= 1
    assert facts["steps"] == 2
    assert facts["loss"] > 0


def test_missing_dataset_library_of_a_keras_recipe_says_how_to_install_it(in_keras: dict[str, Any]) -> None:
    assert (
        "-m pip install --constraint constraints.txt tensorflow-datasets importlib_resources`."
        in in_keras["without_datasets"]["sentence"]
    )
