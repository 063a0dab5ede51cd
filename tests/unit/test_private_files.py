"""Nobody else reads what presets, settings, caches and specs hold, whatever the umask; secrets are asked about."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli import __main__, output
from core.config import presets, validation
from core.devices.cpu import cpu_devices
from core.pythons.python_info import ProbeCache, default_file
from core.runs import directory
from core.schema.files import make_private_folder, write_whole
from core.schema.spec import RunSpec, read_spec, write_spec
from gui.base import settings_file
from gui.machine.script import TypedScript, typed_of
from tests.support.commands import choices_of
from tests.support.running import script_spec


@pytest.fixture(autouse=True)
def _open_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    monkeypatch.delenv("TRAINYARD_CONFIG_DIR")
    monkeypatch.delenv("TRAINYARD_CACHE_DIR")
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def secret(tmp_path: Path) -> RunSpec:
    (tmp_path / "train.py").write_text("print('step 1 loss 1.0')\n")
    environment = {"HF_TOKEN": "hf_123", "LEVEL": "5", "TOKENIZERS_PARALLELISM": "false"}
    return script_spec(tmp_path / "train.py", cwd=tmp_path, environment=environment)


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def saved_run(runs_root: Path, spec: RunSpec) -> Path:
    run_dir = directory.new_directory(runs_root, spec.name)
    write_spec(run_dir, spec)
    return run_dir


def test_presets_settings_and_caches_are_private_and_become_so_again(secret: RunSpec, tmp_path: Path) -> None:
    presets.save(secret, presets.path_of("nightly", presets.default_root()))
    settings = settings_file.SettingsFile()
    settings.save({"form": "HF_TOKEN=hf_123"})
    cache = ProbeCache(default_file())
    cache.put("/usr/bin/python3", {"version": [3, 12, 0]})
    cache.save()
    found = {path: mode(path) for path in (tmp_path / "home").rglob("*")}
    assert {path.name for path in found} >= {"nightly.json", "setups", "trainyard.json", "pythons.json"}
    assert {path: "0o700" if path.is_dir() else "0o600" for path in found} == found
    everything = list((tmp_path / "home" / "config" / "trainyard").rglob("*"))
    for path in everything:
        path.chmod(0o777 if path.is_dir() else 0o666)
    settings_file.SettingsFile().save({})
    assert presets.read_all(presets.default_root())[0].spec == secret
    assert {mode(path) for path in everything} == {"0o700", "0o600"}


def test_a_run_is_private_and_its_spec_stays_so_when_the_folder_is_opened(secret: RunSpec, runs_root: Path) -> None:
    run_dir = saved_run(runs_root, secret)
    assert (mode(runs_root), mode(run_dir), mode(run_dir / "spec.json")) == ("0o755", "0o700", "0o600")


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("HF_TOKEN", "x", True), ("WANDB_API_KEY", "x", True), ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("db_password", "", True),
        ("OPENAI_APIKEY", "x", True), ("DATABASE", "postgres://me:pass@host/db", True), ("GITHUB_PAT", "x", True),
        ("TOKENIZERS_PARALLELISM", "false", False), ("MAX_TOKENS", "5", False), ("KEYBOARD", "de", False),
        ("PATH", "/bin", False), ("URL", "http://host:80/x", False),
    ],
)
def test_secrets_are_recognised(secret: RunSpec, name: str, value: str, is_secret: bool) -> None:
    assert secret.script
    spec = replace(secret, script=replace(secret.script, environment={name: value}))
    assert presets.secret_names(spec) == ([name] if is_secret else [])


@pytest.mark.parametrize(("answer", "stored"), [("", False), ("y", True)])
def test_keep_asks_before_it_stores_a_secret_and_refuses_without_a_terminal(
    secret: RunSpec, runs_root: Path, monkeypatch: pytest.MonkeyPatch, capsys, answer: str, stored: bool
) -> None:
    words = ["keep", saved_run(runs_root, secret).name, "nightly", "--runs", str(runs_root)]
    assert __main__.main(words) == 2
    assert capsys.readouterr().err.startswith(
        "trainyard: Nothing was saved: HF_TOKEN looks like a secret. Add --secrets names"
    )
    assert not presets.default_root().exists()
    monkeypatch.setattr("core.cli.commands.start.is_interactive", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert output.confirm("x") is stored
    assert __main__.main(words) == 0
    text = presets.path_of("nightly", presets.default_root()).read_text()
    assert ("hf_123" in text) is stored
    assert '"LEVEL": "5"' in text


def test_a_name_alone_is_taken_from_the_environment_at_the_start(secret, runs_root, monkeypatch) -> None:
    run_dir = saved_run(runs_root, secret)
    arguments = ["keep", run_dir.name, "nightly", "--secrets", "names", "--runs", str(runs_root)]
    assert __main__.main(arguments) == 0
    spec = presets.read(presets.path_of("nightly", presets.default_root()))
    assert spec == presets.without_values(secret, ["HF_TOKEN"])
    assert spec.script
    assert spec.script.inherited == ("HF_TOKEN",)
    (missing,) = [str(each) for each in validation.problems(spec, cpu_devices())]
    assert missing.startswith("The variable HF_TOKEN is not set.")
    monkeypatch.setenv("HF_TOKEN", "hf_123")
    assert validation.problems(spec, cpu_devices()) == []
    monkeypatch.undo()  # else the test would have changed the environment

    # It survives the option, the form and the file.
    choices = choices_of("--script", "train.py", "--env", "A=1", "--env", "HF_TOKEN")
    assert (choices.environment, choices.inherited) == ({"A": "1"}, ("HF_TOKEN",))  # type: ignore[union-attr]
    texts = typed_of(spec)
    assert "HF_TOKEN" in texts["environment"].splitlines()
    again = TypedScript(**{**texts, "expression": ""}).choices()
    assert (again.environment, again.inherited) == (spec.script.environment, ("HF_TOKEN",))
    write_spec(run_dir, spec)
    assert read_spec(run_dir) == spec
    assert "hf_123" not in (run_dir / "spec.json").read_text()


def test_a_full_disk_leaves_no_part_of_a_preset(secret: RunSpec, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"")
    subprocess.run(["dd", "if=/dev/zero", f"of={small_disk / 'filler'}"], capture_output=True, check=False)
    with pytest.raises(OSError, match="No space left"):
        presets.save(secret, small_disk / "nightly.json")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_a_link_in_the_place_of_a_temporary_file_or_a_folder_is_left_as_it_is(tmp_path: Path) -> None:
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    mine.write_text("kept")
    (tmp_path / f".spec.json.{os.getpid()}.tmp").symlink_to(mine)
    write_whole(tmp_path / "spec.json", json.dumps({}))
    assert (mine.read_text(), sorted(path.name for path in tmp_path.iterdir())) == ("kept", ["mine", "spec.json"])
    shared.mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(shared)
    make_private_folder(tmp_path / "link")
    assert mode(shared) == "0o755"


def test_a_question_on_the_terminal_has_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "y")
    assert output.confirm("Execute this?\n/x\x1b[2J.py")
    assert asked == ["Execute this?\n/x?[2J.py [y/N] "]
