"""The command `log`: whole, of a rank, its end, and followed to the end of the run."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.cli import logs
from core.cli.logs import MAX_LINE, PIECE_BYTES
from core.diagnosis.terminal import CUT
from core.queue import control
from core.runs.facts import RunState
from core.schema.paths import log_of_rank
from tests.support.commands import ROOT, Call, in_a_process
from tests.support.queueing import Queue
from tests.support.terminals import on_a_terminal
from tests.support.waiting import PATIENCE_S
from tests.support.written_runs import running_run, write_state

BAR = "".join(f"\r{number:3d}%|" for number in range(0, 101, 10))
NESTED = "outer 0/2\ninner 0%\x1b[A\n\rinner 100%\x1b[A\router 2/2\n\n"


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.fixture
def run_dir(runs_root: Path) -> Path:
    return running_run(runs_root)


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        (b"one\n\n  two\r\nthree", ["one", "", "  two", "three"]),
        (BAR.encode() + b"\nepoch 1\n", ["100%|", "epoch 1"]),
        (BAR.encode(), ["100%|"]),
        (NESTED.encode(), ["outer 2/2", "inner 100%"]),
        (b"\xff\xfe caf\xc3\xa9 \xc3", ["\ufffd\ufffd café \ufffd"]),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07\x00\x07|\xe2\x80\xae|\n", ["red |?|"]),
        (b"x" * (MAX_LINE + 1) + b"\nend\n", ["x" * MAX_LINE + CUT, "end"]),
        (b"".join(b"line %d\n" % number for number in range(60_000)), [f"line {number}" for number in range(60_000)]),
        (b"\xe2\x82\xac" * PIECE_BYTES, ["€" * PIECE_BYTES]),
    ],
    ids=["lines", "bar", "open-bar", "nested-bars", "no-utf-8", "control", "long-line", "many-lines", "cut-bytes"],
)
def test_a_log_is_printed_as_a_terminal_shows_it(call: Call, run_dir: Path, printed: bytes, lines: list[str]) -> None:
    log_of_rank(run_dir, 0).write_bytes(printed)
    code, out, err = call("log", run_dir.name)
    assert (code, out.split("\n"), err) == (0, [*lines, ""], "")


def test_each_rank_is_named_and_has_its_log(call: Call, run_dir: Path) -> None:
    for rank in (0, 1, 10):
        log_of_rank(run_dir, rank).write_text(f"{BAR}\nrank {rank} done\n")
    named = "\n".join(f"[rank {rank}] 100%|\n[rank {rank}] rank {rank} done" for rank in (1, 10))
    assert call("log", run_dir.name) == (0, f"100%|\nrank 0 done\n{named}\n", "")
    assert call("log", run_dir.name, "--rank", 10, "--tail", 1) == (0, "rank 10 done\n", "")
    shown = json.loads(call("log", run_dir.name, "--json", "--rank", 1)[1])
    assert shown == {"run": run_dir.name, "logs": [{"rank": 1, "lines": ["100%|", "rank 1 done"]}]}
    assert [each["rank"] for each in json.loads(call("log", run_dir.name, "--json")[1])["logs"]] == [0, 1, 10]


@pytest.mark.parametrize(
    ("options", "words"),
    {
        "--rank 3": "has no log of rank 3. It has those of: 0.",
        "--rank -1 -f": "has no log of rank -1. It has those of: 0.",
        "--tail -1": "--tail is -1. Give a whole number of at least 0.",
        "--tail many": "--tail is 'many'. Give a whole number.",
        "--json -f": "--json prints one document, and cannot go on. Leave out --json or --follow.",
    }.items(),
)
def test_what_cannot_be_printed_is_refused(call: Call, run_dir: Path, options: str, words: str) -> None:
    write_state(run_dir, "releasing", "finished")
    code, out, err = call("log", run_dir.name, *options.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.parametrize("end", ["", "\n"])
def test_tail_is_the_end_of_the_whole_log(call: Call, run_dir: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Also where the log is longer than what is read for it."""
    monkeypatch.setattr(logs, "END_BYTES", 1024)
    lines = ["first", "x" * (2 * PIECE_BYTES), *(f"line {number}" for number in range(100)), ""]
    log_of_rank(run_dir, 0).write_text("\n".join([*lines, "end"]) + end)
    for count, found in ((0, []), (1, ["end"]), (5, [*lines[-4:], "end"]), (90, [*lines[-89:], "end"])):
        assert call("log", run_dir.name, "--tail", count) == (0, "".join(f"{line}\n" for line in found), ""), count
    assert "first" in call("log", run_dir.name)[1]


@pytest.mark.parametrize("state", ["finished", "failed", "stopped"])
def test_log_is_followed_to_the_end_of_the_run(run_dir: Path, state: str) -> None:
    log = log_of_rank(run_dir, 0)
    log.write_text("before\n")
    with in_a_process("log", run_dir, "-f") as shell:
        assert shell.stdout.readline() == "before\n"
        append(log, BAR.encode())
        append(log, b"\nafter\n")
        assert [shell.stdout.readline() for _ in range(2)] == ["100%|\n", "after\n"], "at once, not at the end"
        append(log_of_rank(run_dir, 1), b"of another\n")
        assert shell.stdout.readline() == "[rank 1] of another\n"
        assert shell.poll() is None
        append(log, b"unfinished")
        write_state(run_dir, "releasing", state)
        assert shell.communicate(timeout=PATIENCE_S) == ("unfinished\n", "")
    assert shell.returncode == 0


def test_log_of_a_rank_that_has_not_begun_is_waited_for(run_dir: Path) -> None:
    with in_a_process("log", run_dir, "-f", "--rank", "1", "--tail", "1") as shell:
        append(log_of_rank(run_dir, 0), b"of rank 0\n")
        append(log_of_rank(run_dir, 1), b"of rank 1\n")
        assert shell.stdout.readline() == "of rank 1\n"
        log_of_rank(run_dir, 1).write_bytes(b"new\n")
        assert shell.stdout.readline() == "new\n", "an emptied file is read from its beginning"
        write_state(run_dir, "releasing", "finished")
        assert shell.communicate(timeout=PATIENCE_S) == ("", "")


def test_terminal_shows_a_bar_in_place_until_ctrl_c(run_dir: Path) -> None:
    log_of_rank(run_dir, 0).write_text("before\n")
    with on_a_terminal("log", run_dir, "-f", rows=24, columns=20) as terminal:
        terminal.read_until("before\r\n")
        append(log_of_rank(run_dir, 0), b"\r 10%|" + b"#" * 40)
        assert terminal.read_until(" 10%|####").endswith(f"\r\x1b[K 10%|{'#' * 14}"), "cut to the width"
        append(log_of_rank(run_dir, 0), b"\r\x1b[Kdone\n\r 20%|")
        assert "\r\x1b[Kdone\r\n" in terminal.read_until(" 20%|")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.read_until("\r\x1b[K") == "\r\x1b[K", "quietly"
        assert terminal.process.wait(PATIENCE_S) == 130


def test_queued_run_says_why_it_waits_and_is_followed_and_a_reader_may_go(tmp_path: Path, call: Call) -> None:
    queue = Queue(tmp_path)
    queued = queue.add("held", held=True)
    code, out, err = call("log", queued.run.id)
    assert (code, out) == (0, "")
    assert f"{queued.run.id}: queued. It is held." in err
    assert err.endswith(f"{queued.run.id}: queued. It printed nothing.\n")
    with in_a_process("log", queued.run.dir, "-f") as shell:
        assert "queued. It is held." in shell.stderr.readline()
        append(log_of_rank(queued.run.dir, 0), b"its first line\n")
        assert shell.stdout.readline() == "its first line\n"
        assert shell.poll() is None
        control.let_go(queued.run.dir)
        shell.communicate(timeout=PATIENCE_S)
    assert (shell.returncode, queued.until_over().state) == (0, RunState.FINISHED)
    log_of_rank(queued.run.dir, 0).write_text("a line\n" * 100_000)
    words = f"{sys.executable} -m core.cli log {queued.run.dir} | head -1"
    done = subprocess.run(["/bin/sh", "-c", words], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("a line\n", "")


def test_link_in_the_place_of_a_log_is_not_followed(call: Call, run_dir: Path) -> None:
    log_of_rank(run_dir, 0).symlink_to("/etc/hostname")
    code, out, err = call("log", run_dir.name)
    assert (code, out) == (2, "")
    assert "log.txt cannot be used: it is a link" in err
