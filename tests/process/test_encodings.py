"""Each command prints in any encoding of the terminal: what the encoding does not have is replaced, nothing fails."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core import language
from core.cli import __main__
from core.cli.parser import COMMANDS
from core.schema.paths import log_of_rank
from tests.support.commands import ROOT
from tests.support.recorded import finding, recorded

ENCODINGS = (("ascii", "zh_CN"), ("latin-1", "en"), ("cp1252", "zh_CN"), ("gbk", "en"))
"""Each with the language of the sentences."""
NAME, NOTE = "实验🚂 café", "naïve “quotes” … Ω 🚂"
PRINTED = f"epoch 1 损失 0.5 {NOTE}\n".encode() + b"\xff\xfe no UTF-8\n"
CALLS = (
    "devices", "catalog", "recipes", "runs", f"runs {NAME}", "runs --csv -", "runs --markdown -", "show RUN",
    "show RUN --json", "show RUN --events", "log RUN", "log RUN --tail 1", "log RUN --json", "compare RUN RUN",
    "compare RUN RUN --csv -", "export RUN --csv -", "command RUN", "keep RUN 预设", "setups", "mark RUN",
    "rename RUN 名字é", "queue", "queue --all", "hosts", "notify show", "attach RUN", "try RUN (?P<损失>", "sweep",
    # errors
    "show 没有", "log 没有", "run 没有é.py --devices cpu:0", "run --script 没有é.py --devices cpu:0", "没有",
    "runs --没有", "runs ключ:1", "stop RUN", "resume RUN", "save RUN", "again RUN --devices 没有", "import 没有",
    "recipes --copy 没有 é", "export RUN --csv 没有/é.csv", "hosts remove 没有", "check --save 没有/é.md --quick",
    "remove 没有 --yes", "doctor RUN", "why-slow RUN", "set RUN epochs=没有", "trace RUN", "fit 没有 --devices cpu:0",
    "scale 没有 --devices cpu:0", "report 没有 --output é.html", "reread RUN", "pythons --near 没有", "queue hold 没有",
    "devices --watch --json", "desktop 没有", "agent",
)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Calls a command whose output goes to streams as Python opens them; returns its exit code and what was printed."""

    def call(encoding: str, *words: str) -> tuple[int, str, str]:
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        err = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "stdin", io.StringIO())
            try:
                code = __main__.main(words)
            except SystemExit as left:
                code = int(left.code or 0)
            out.flush()
            err.flush()
        return code, out.buffer.getvalue().decode(encoding), err.buffer.getvalue().decode(encoding)

    return call


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A failed run whose name, paths, notes and log have characters of many scripts."""
    root = tmp_path / "runs"
    run_dir = recorded(root, findings=[finding(sentence=NOTE)], more=[{"kind": "notice", "text": NOTE}], last="failed")
    log_of_rank(run_dir, 0).write_bytes(PRINTED)
    spec = json.loads((run_dir / "spec.json").read_text())
    spec["recipe"]["path"] = f"/проект/{NAME}.py"
    (run_dir / "spec.json").write_text(json.dumps({**spec, "name": NAME}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return run_dir


@pytest.mark.slow
@pytest.mark.parametrize(("encoding", "spoken"), ENCODINGS)
def test_every_command_prints_in_every_encoding(run_dir, printed, monkeypatch, encoding: str, spoken: str) -> None:
    monkeypatch.setenv("LANGUAGE", spoken)
    root = str(run_dir.parent)
    printed(encoding, "mark", run_dir.name, "--runs", root, "--tag", "метка", "--note", NOTE)
    for line in CALLS:
        words = [run_dir.name if word == "RUN" else word for word in line.split(" ")]
        code, out, err = printed(encoding, *words, "--runs", root)
        assert code in {0, 1, 2, 3}, (line, err)
        assert out or err or line == "sweep", line
        assert "Traceback" not in out + err, line
        assert not any(word in err for word in ("codec", "encod")), (line, err)
        if "--json" in line and code == 0:
            assert json.loads(out), line
    for row in COMMANDS if encoding == "ascii" else COMMANDS[:3]:
        assert row.name in printed(encoding, row.name, "--help")[1]
    language.use(language.ENGLISH)


def test_table_has_every_command_but_those_that_never_end() -> None:
    assert {row.name for row in COMMANDS} - {line.split()[0] for line in CALLS} == {"pause"}


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0",
                                                                      "PYTHONCOERCECLOCALE": "0"}])
def test_process_replaces_what_the_terminal_does_not_have(run_dir: Path, variables: dict[str, str]) -> None:
    command = [sys.executable, "-m", "core.cli", "log", str(run_dir)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, check=True)
    assert done.stdout.splitlines() == [b"epoch 1 ?? 0.5 na?ve ?quotes? ? ? ?", b"?? no UTF-8"]
    assert done.stderr == b""
