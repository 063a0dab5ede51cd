"""What machines of a run compare before anything trains: answers of an agent, and the sentences on differences."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.catalog.installed import nccl_version
from core.config import abilities
from core.config.abilities import PART_ABILITIES
from core.errors import RunError
from core.hosts.agent.server import Request
from core.hosts.parts import workload
from core.hosts.parts.head import MISSING, UNREADABLE
from core.hosts.parts.workload import Equipment
from core.runs.directory import Part
from core.schema.codec import encode
from core.schema.spec import RankAssignment, RunSpec
from core.scripts.source import files_hash, own_files
from tests.support.running import make_spec, write_recipe

OWN = Equipment(version="2.13.0+cu130", nccl="2.29.7", recipe="a" * 64)
ASKED = {"framework": "pytorch", "recipe": "digits_cnn", "paths": [], "nccl": True}
RECIPE = "import helper\n\ndef model():\n    pass\n\ndef train_data():\n    return [helper.ONE]\n"


def sentence(found: Equipment, own: Equipment = OWN, asked: dict[str, Any] | None = None) -> str:
    with pytest.raises(RunError) as caught:
        workload.compare(make_spec("digits_cnn"), asked or ASKED, own, {"node2": found})
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"version": "2.12.0"}, "node2 has torch 2.12.0, and this machine has 2.13.0+cu130. Ranks of one run need"),
        ({"nccl": "2.27.3"}, "node2 has NCCL 2.27.3, and this machine has 2.29.7. GPUs of one run need the same"),
        ({"nccl": ""}, "The PyTorch of node2 has no NCCL, with which GPUs of several machines exchange data"),
        (
            {"recipe": "b" * 64},
            "The included recipe digits_cnn on node2 differs from the one of this machine (SHA-256 bbbbbbbbbbbb and a",
        ),
        (
            {"paths": {"/data/a": "", "/data/b": MISSING}},
            "/data/b does not exist on node2, and this run names it in its settings. Data do not travel: copy them to",
        ),
        (
            {"paths": {"/data": UNREADABLE}},
            "/data cannot be read on node2, and this run names it in its settings. Change its permissions there (ch",
        ),
    ],
)
def test_a_difference_is_a_sentence_with_host_and_remedy(changes: dict[str, Any], start: str) -> None:
    assert sentence(replace(OWN, **changes)).startswith(start)


def test_machines_with_the_same_equipment_pass_and_nccl_is_compared_only_where_it_was_asked_for() -> None:
    found = replace(OWN, version="2.13.1+cu128", paths={"/data": ""})
    workload.compare(make_spec("digits_cnn"), ASKED, OWN, {"node2": found})
    assert sentence(OWN, replace(OWN, nccl="")).startswith("The PyTorch of this machine has no NCCL")
    asked = {**ASKED, "nccl": False}
    workload.compare(make_spec("digits_cnn"), asked, replace(OWN, nccl=""), {"node2": replace(OWN, nccl="")})


@pytest.mark.parametrize(
    ("framework", "uses_gpus", "is_asked"), [("pytorch", True, True), ("pytorch", False, False), ("keras", True, False)]
)
def test_nccl_is_asked_for_where_pytorch_trains_on_gpus(framework: str, uses_gpus: bool, is_asked: bool) -> None:
    asked = workload.questions(make_spec("digits_cnn", framework=framework), uses_gpus=uses_gpus)
    assert asked["nccl"] is is_asked
    assert asked["recipe"] == "digits_cnn"


def test_nccl_version_is_what_pytorch_says(tmp_path: Path) -> None:
    """Stand-ins: no build of PyTorch with NCCL is here."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$2" in *torch.cuda.nccl.version*) echo 2.29.7;; *) exit 3;; esac\n')
    python.chmod(0o755)
    assert nccl_version(str(python)) == "2.29.7"
    python.write_text("#!/bin/sh\necho \"AttributeError: no attribute '_nccl_version'\" >&2; exit 1\n")
    assert nccl_version(str(python)) == ""
    assert nccl_version(str(tmp_path / "missing")) == ""


def settings(tmp_path: Path, **values: object) -> RunSpec:
    spec = make_spec(write_recipe(tmp_path, RECIPE))
    return replace(spec, recipe=replace(spec.own_recipe, settings=values), working_dir=str(tmp_path))


def test_paths_of_the_data_are_settings_that_name_something_that_exists(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data" / "train").mkdir(parents=True)
    spec = settings(
        tmp_path, absolute=str(tmp_path / "data"), relative="data/train", home="~/data", word="data",
        new=str(tmp_path / "new"), number=3, url="https://example.org/data", several="a\nb/c",
    )
    assert workload.data_paths(spec) == [str(tmp_path / "data"), str(tmp_path / "data/train"), "~/data"]


def ask(tmp_path: Path, **terms: object) -> Any:
    return PART_ABILITIES["equipment"](Request(runs_root=tmp_path, terms={"framework": "pytorch", **terms}))


def test_a_machine_says_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = []
    monkeypatch.setattr(abilities, "nccl_version", lambda python: asked_for.append(python) or "2.29.7")
    (tmp_path / "data").mkdir()
    (tmp_path / "closed").touch()
    monkeypatch.setattr(os, "access", lambda path, _: "closed" not in path)  # root can read everything
    paths = [str(tmp_path / name) for name in ("data", "none", "closed")]
    found = ask(tmp_path, recipe="digits_cnn", paths=paths, nccl=True)
    assert found["paths"] == dict(zip(paths, ["", MISSING, UNREADABLE], strict=True))
    assert found["nccl"] == "2.29.7"
    spec = make_spec("digits_cnn")
    assert found["recipe"] == workload.own_equipment(spec, {**ASKED, "nccl": False}).recipe != ""
    without = ask(tmp_path, recipe="", paths=[], nccl=False)
    assert (without["recipe"], without["nccl"], without["paths"], len(asked_for)) == ("", "", {}, 1)


@pytest.mark.parametrize("paths", [None, "/data", [5], ["/data"] * 1000])
def test_what_names_no_paths_is_refused(tmp_path: Path, paths: object) -> None:
    with pytest.raises(ValueError, match="These are no paths"):
        ask(tmp_path, recipe="", paths=paths)


def test_hash_is_that_of_names_and_contents(tmp_path: Path) -> None:
    path = tmp_path / "recipe.py"
    path.write_text(RECIPE)
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    (tmp_path / "other.py").write_text("TWO = 2\n")
    texts = own_files(path)
    assert texts == {"recipe.py": RECIPE, "helper.py": "ONE = 1\n"}
    assert files_hash(texts) == files_hash(dict(reversed(texts.items())))
    assert files_hash(texts) != files_hash({**texts, "helper.py": "ONE = 2\n"})
    assert files_hash(texts) != files_hash({"recipe.py": RECIPE, "helper2.py": "ONE = 1\n"})


def test_recipe_that_arrives_changed_is_refused_before_anything_starts(tmp_path: Path) -> None:
    spec = make_spec(write_recipe(tmp_path / "here", RECIPE))
    assignment = RankAssignment(
        rank=1, world_size=2, devices=("cpu:0",), own=("cpu:0",), kind="cpu", cores=(0,), target="pytorch.ddp", host=1
    )
    own = Part(head="head", run="20260101-recipe", assignments=(assignment,))
    terms = {
        "spec": spec.to_json(), "part": encode(own), "files": {"recipe.py": f"{RECIPE}# changed\n"},
        "hash": files_hash({"recipe.py": RECIPE}),
    }
    root = tmp_path / "runs"
    with pytest.raises(RunError, match="differs from the one that was sent"):
        PART_ABILITIES["part"](Request(runs_root=root, terms=terms))
    assert not list(root.iterdir())
