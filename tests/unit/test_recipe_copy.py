"""A copy of an included recipe is one file that needs no other; `test_shipped_recipes.py` trains such copies."""

import ast
import json
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.catalog import recipes
from core.catalog.recipes import standalone
from core.cli import __main__
from core.schema.settings import RECIPE_FUNCTIONS
from resources import ROOT

INCLUDED = [
    pytest.param(recipe, id=f"{framework}-{recipe.name}")
    for framework in ("pytorch", "keras")
    for recipe in recipes.built_in(framework)
]


FRAMEWORKS = {"pytorch": {"torch"}, "keras": {"keras", "tensorflow"}}
EXTRAS = {"hugging_face_gpt": {"transformers"}, "mobilenet_cats_dogs": {"tensorflow_datasets"}}
COMMON = {"accuracy", "coded", "digits", "downloaded", "ink", "mnist", "Placed", "placed", "waves", "windows"}


@pytest.fixture
def recipe() -> recipes.RecipeFile:
    return recipes.find("digits_cnn", "pytorch")


@pytest.mark.parametrize("included", INCLUDED)
def test_recipe_and_its_copy_import_nothing_but_their_framework(included: recipes.RecipeFile, tmp_path: Path) -> None:
    target = tmp_path / "mine.py"
    target.write_text(standalone(included), encoding="utf-8")
    tree = ast.parse(target.read_text(encoding="utf-8"))
    imported = {each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names}
    imported |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert others <= {"numpy", *FRAMEWORKS[included.path.parent.name], *EXTRAS.get(included.name, ())}
    copied = recipes.read(target)
    assert (copied.functions, copied.settings) == (included.functions, included.settings)
    assert (copied.summary, copied.learning_rate) == (included.summary, included.learning_rate)
    assert (copied.unknown_functions, copied.named_device) == ((), None)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_several_recipes_contain_is_the_same_in_all(framework: str) -> None:
    """Recipes import nothing of each other, so that a correction of one of these must be made in all."""
    found: dict[str, set[str]] = {}
    for recipe in recipes.built_in(framework):
        for node in ast.parse(recipe.path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in COMMON:
                found.setdefault(node.name, set()).add(ast.unparse(node))
    assert {name: len(texts) for name, texts in found.items()} == dict.fromkeys(found, 1)
    assert {"digits", "mnist", "downloaded", "coded"} <= found.keys()


def test_copy_keeps_comments_and_says_what_else_a_run_calls(recipe: recipes.RecipeFile) -> None:
    text = standalone(recipe)
    assert text.startswith(f'"""{recipe.summary}"""\n\n# A copy of Trainyard\'s recipe digits_cnn, to be changed.\n')
    assert "# Smooth activations only, as in LeNet" in text
    (line,) = [line for line in text.splitlines() if line.startswith("# A run would also call these functions: ")]
    others = line.rpartition(": ")[2].removesuffix(".").split(", ")
    assert sorted([*others, *recipe.functions]) == sorted(RECIPE_FUNCTIONS)
    assert f'FILE = Path("{ROOT}") / "data" / "digits.npz"' in text
    assert "__file__" not in text


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file can have more than 100 bytes, so that writing fails in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("small_files")
def test_failed_copy_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.py"
    assert __main__.main(["recipes", "--copy", "digits_cnn", str(target)]) != 0
    assert "mine.py could not be written: File too large. Name another file." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_command_copies_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.py"
    command = ["recipes", "--copy", "two_branch_lstm", str(target)]
    assert __main__.main([*command, "--framework", "keras", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "recipe": "two_branch_lstm", "framework": "keras", "path": str(target)
    }
    assert "keras.Model" in target.read_text()
    assert __main__.main(command) == 2
    assert "mine.py exists already. Name another file." in capsys.readouterr().err
    assert "keras.Model" in target.read_text(), "it was not replaced"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--copy", "digits_cnn", "mine"], "mine is not the name of a Python file. Name a file that ends with .py."),
        (["--copy", "digits_cnn", "no/such/mine.py"], "mine.py could not be written: No such file or directory."),
        (["--copy", "digits_dnn", "mine.py"], "There is no recipe 'digits_dnn'."),
        (["--copy", "own.py", "mine.py"], "own.py is a file of your own, which you can change as it is. Choose a"),
        (["--framework", "keras"], "--framework is for --copy only."),
    ],
)
def test_copy_that_cannot_be_made_is_explained(arguments, words, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "own.py").write_text("def model(): ...\ndef train_data(): ...\n")
    monkeypatch.chdir(tmp_path)
    assert __main__.main(["recipes", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["own.py"]
