"""Recipe files are parsed, never imported; settings have the type of their defaults."""

from pathlib import Path

import pytest

from core.catalog import recipe_use, recipes
from core.catalog.frameworks import FRAMEWORKS
from core.config.choices import default_learning_rate
from tests.support.running import write_recipe

SOURCE = """
    '''Reads nothing.

    More of it.
    '''
    raise SystemExit("imported!")

    def model(width=16, deep=False, name="x", rate=0.5, nothing=None, layer=object, *, tail=-1):
        pass

    def train_data(seed, root="data", width=16):
        pass

    def optimizer(params, learning_rate=0.3, momentum=0.9):
        pass

    def helper(hidden=3):
        pass
"""


def recipe_of(folder: Path, more: str = "", *, data: str = "") -> recipes.RecipeFile:
    """A recipe with the two functions that each has, and more from its seventh line on."""
    source = f"def model():\n    pass\n\ndef train_data({data}):\n    pass\n\n{more}\n"
    return recipes.read(Path(write_recipe(folder, source, "mine")))


@pytest.fixture
def recipe(tmp_path: Path) -> recipes.RecipeFile:
    return recipes.read(Path(write_recipe(tmp_path, SOURCE, "mine")))


def test_settings_are_keyword_arguments_with_plain_defaults(recipe: recipes.RecipeFile) -> None:
    assert (recipe.name, recipe.summary) == ("mine", "Reads nothing.")
    assert recipe.functions == ("model", "train_data", "optimizer")
    assert {setting.name: setting.default for setting in recipe.settings} == {
        "width": 16, "deep": False, "name": "x", "rate": 0.5, "nothing": None, "tail": -1,
        "root": "data", "momentum": 0.9,
    }
    assert recipe.learning_rate == default_learning_rate(recipe) == 0.3


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("width", "32", 32), ("width", 32.0, 32), ("deep", "true", True), ("deep", "off", False), ("name", "5", "5"),
        ("rate", "1e-3", 0.001), ("rate", 2, 2.0), ("nothing", "7", 7), ("nothing", "words", "words"),
    ],
)
def test_setting_is_converted_to_the_type_of_its_default(recipe, name, given, value) -> None:
    taken = recipe.with_settings({name: given}).settings[name]  # type: ignore[dict-item]
    assert (taken, type(taken)) == (value, type(value))


@pytest.mark.parametrize(("name", "given"), [("width", "1.5"), ("width", 1.5), ("deep", "perhaps"), ("rate", "fast")])
def test_setting_that_cannot_be_converted_is_refused(recipe: recipes.RecipeFile, name: str, given: object) -> None:
    with pytest.raises(ValueError, match=rf"Setting '{name}' is .*\. Give "):
        recipe.with_settings({name: given})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("def loss(output, target):\n    return 0",
         "must return the loss function; it was written as the function itself, which needs output and target."),
        ("def metrics(output, *, target):\n    return 0", "must return a dict of functions"),
        ("def val_data(folder):\n    return 0", "line 7, needs folder, but it is called without arguments."),
        ("loss = nn.CrossEntropyLoss()",
         "line 7, is a CrossEntropyLoss and not a function. Write: def loss(): return nn.CrossEntropyLoss()"),
    ],
)
def test_function_that_cannot_be_called_is_refused_with_its_line(tmp_path: Path, source: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="mine") as error:
        recipe_of(tmp_path, source, data="seed")
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    "source",
    [
        "def loss(weight=1.0):\n    return 0", "@make\ndef loss(output, target):\n    return 0",
        "def loss(*args, **kwargs):\n    return 0", "def metrics(batch_size):\n    return 0", "loss = make_loss()",
        "def helper(a, b):\n    return 0", "def stages(devices):\n    return 0",
    ],
)
def test_functions_that_can_be_called_are_accepted(tmp_path: Path, source: str) -> None:
    assert recipe_of(tmp_path, source).functions[:2] == ("model", "train_data")


@pytest.mark.parametrize(("source", "unknown"), [
    ("def optimiser(params):\n    pass", ("optimiser",)),
    ("def helper():\n    pass\n\ndef metrics():\n    return {'a': helper}", ()), ("def _own():\n    pass", ()),
    ("@hook\ndef called_by_the_hook():\n    pass", ()), ("def named():\n    pass\nALL = ['named']", ()),
])
def test_functions_that_no_run_calls_are_named(tmp_path: Path, source: str, unknown: tuple[str, ...]) -> None:
    recipe = recipe_of(tmp_path, source)
    assert recipe.unknown_functions == unknown
    words = f"the function {unknown[0]}() of the recipe is not one that a run calls" if unknown else ""
    assert recipe_use.doubt(recipe, "pytorch") == words


def test_callbacks_are_for_keras_alone(tmp_path: Path) -> None:
    source = "def model(): ...\ndef train_data(): ...\ndef callbacks(folder, patience=3): ...\ndef helper(): ...\n"
    recipe = recipes.read(Path(write_recipe(tmp_path, source)))
    assert [setting.name for setting in recipe.settings] == ["patience"]
    assert recipe_use.doubt(recipe, "keras") == "the function helper() of the recipe is not one that a run calls"
    for framework in ("pytorch", "tensorflow"):
        assert recipe_use.doubt(recipe, framework) == (
            "the functions helper() and callbacks() of the recipe are not ones that a run calls (callbacks() is for "
            "framework keras; on_epoch_end(model, metrics, folder) is called after each epoch)"
        )
    with pytest.raises(ValueError, match=r"callbacks\(\) in .*, line 3, needs model"):
        recipes.read(Path(write_recipe(tmp_path, source.replace("folder, ", "model, "), "other")))


@pytest.mark.parametrize(("body", "further", "named"), [
    ("with tf.device('/gpu:1'):\n        pass", "", ("/gpu:1", 2)), ("return net().to('cuda:0')", "", ("cuda:0", 2)),
    ("return net().to('cuda')", "", None), ("return net(name='gpu')", "", None),
    ("return net().to('cuda:0')", "def placed_model(devices):\n    pass", None),
])
def test_device_that_a_model_names_is_told(tmp_path, body, further, named) -> None:
    path = write_recipe(tmp_path, f"def model():\n    {body}\n\ndef train_data():\n    pass\n\n{further}\n")
    recipe = recipes.read(Path(path))
    assert recipe.named_device == named
    words = f"model() of the recipe names the device {named[0]} (line 2), but the strategy decides" if named else ""
    assert recipe_use.doubt(recipe, "keras").startswith(words)
    assert bool(recipe_use.doubt(recipe, "keras")) == bool(named)


@pytest.mark.parametrize(("framework", "takes", "is_refused"), [
    ("pytorch", "params, learning_rate=0.1", False), ("pytorch", "params, rate", True), ("pytorch", "", False),
    ("keras", "learning_rate=0.1", False), ("keras", "params, learning_rate=0.1", True),
])
def test_optimizer_gets_what_its_framework_gives(tmp_path: Path, framework: str, takes: str, is_refused: bool) -> None:
    package = "torch" if framework == "pytorch" else "keras"
    source = f"import {package}\ndef model(): ...\ndef train_data(): ...\ndef optimizer({takes}): ...\n"
    recipe = recipes.read(Path(write_recipe(tmp_path, source)))
    row = next(row for row in FRAMEWORKS if row.id == framework)
    if not is_refused:
        recipe_use.check_framework(recipe, row)
        return
    with pytest.raises(ValueError, match=r"optimizer\(\) of .* needs "):
        recipe_use.check_framework(recipe, row)
