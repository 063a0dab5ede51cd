"""The command `devices --watch`: a screen that is renewed, as large as the terminal; lines where there is none."""

import re
import signal
from itertools import pairwise
from pathlib import Path

from tests.support.commands import Call, in_a_process
from tests.support.queueing import Queue, stop
from tests.support.ssh_server import add_host
from tests.support.terminals import Terminal, on_a_terminal
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.written_runs import running_run, write_state

RUNS = 12
HOME, END = "\x1b[H", "\x1b[J"


def screen_of(terminal: Terminal, *words: str) -> list[str]:
    """Return the lines of the first screen that has all of these words."""
    text = ""
    while True:
        text = text.rpartition(HOME)[2] + terminal.read_until(END)
        for screen in re.findall(r"\x1b\[H([^\x1b]*(?:\x1b\[K[^\x1b]*)*)\x1b\[J", HOME + text):
            if all(word in screen for word in words):
                return screen.replace("\x1b[K", "").split("\r\n")


SIZES = ((60, 120, RUNS), (16, 120, 8), (16, 30, 8), (9, 60, 1), (4, 24, 0), (60, 120, RUNS))
"""Rows and columns of the terminal, and how many runs have room."""


def test_screen_has_the_size_of_the_terminal_and_counts_what_has_no_room(runs_root: Path) -> None:
    names = sorted((running_run(runs_root, f"run{number}").name for number in range(RUNS)), reverse=True)
    with on_a_terminal("devices", "--watch", "--runs", runs_root, rows=30, columns=100) as terminal:
        for rows, columns, listed in SIZES:
            terminal.resize(rows, columns)
            lines = wait_until(lambda rows=rows, columns=columns: _fits(screen_of(terminal), rows, columns))
            assert re.fullmatch(r"[\d: -]{19}", lines[0])
            shown = lines[lines.index(next(line for line in lines if line.startswith("RUN "))) + 1 :] if listed else []
            assert [line.split()[0] for line in shown[:listed]] == names[:listed]
            assert shown[listed:] == ([f"{RUNS - listed} more"] if 0 < listed < RUNS else [])
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE_S) == 130


def _fits(lines: list[str], rows: int, columns: int) -> list[str]:
    """Return the lines of a screen if the terminal has room for them, and they use it; else none."""
    least = min(rows, RUNS + 6) if rows > 4 else rows
    return lines if least - 1 <= len(lines) <= rows and 0 < max(map(len, lines)) < columns else []


def test_screen_follows_runs_queue_and_size_and_leaves_the_terminal_as_it_is(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    live = running_run(queue.runs_root)
    queued = queue.add("waits", held=True)
    with on_a_terminal("devices", "--watch", "--runs", queue.runs_root, rows=30, columns=200) as terminal:
        first = screen_of(terminal, f"run {live.name}", "running", queued.run.id, "It is held.")
        assert [line.split()[0] for line in first if line and line[0] in "DRP"] == ["DEVICE", "RUN", "PLACE"]
        terminal.resize(30, 24)
        wait_until(lambda: max(map(len, screen_of(terminal))) < 24)
        write_state(live, "stopping")
        terminal.resize(30, 200)
        screen_of(terminal, live.name, "stopping")
        write_state(live, "releasing", "stopped")
        wait_until(lambda: not any("stopp" in line for line in screen_of(terminal)))
        stop(queued)
        wait_until(lambda: not any(line.startswith("PLACE") for line in screen_of(terminal)))
        terminal.process.send_signal(signal.SIGINT)
        left = terminal.read_until("\r\n")
        assert terminal.process.wait(PATIENCE_S) == 130
    assert "Traceback" not in left
    assert "\x1b[?" not in left, "no mode of the terminal is changed, so none has to be restored"


def test_without_a_terminal_the_tables_come_again_as_plain_lines(runs_root: Path) -> None:
    run_dir = running_run(runs_root)
    with in_a_process("devices", "--watch", "--runs", runs_root) as shell:
        parts: list[list[str]] = [[]]
        while len(parts) < 7:
            line = shell.stdout.readline().rstrip("\n")
            parts[-1].append(line) if line else parts.append([])
        shell.send_signal(signal.SIGINT)
        _, err = shell.communicate(timeout=PATIENCE_S)
    assert (shell.returncode, err) == (130, "")
    times = [part[0] for part in parts[:6:3]]
    assert all(before < after for before, after in pairwise(times))
    for part in parts[1:6:3]:
        assert part[0].split()[:3] == ["DEVICE", "NAME", "MEMORY"]
        assert part[1].endswith(f"run {run_dir.name}")
    assert all(part[1].split()[:2] == [run_dir.name, "running"] for part in parts[2:6:3])
    assert "\x1b" not in "".join(map("".join, parts))


def test_devices_of_hosts_are_watched_and_a_host_that_does_not_answer_is_named(server, runs_root: Path) -> None:
    for name in ("one", "closed"):
        add_host(name)
    with on_a_terminal("devices", "--watch", "--runs", runs_root, rows=40, columns=200) as terminal:
        lines = screen_of(terminal, "one/cpu:0", "one/cpu:1", "closed")
        devices = [line.split()[0] for line in lines if "cpu:" in line[:12]]
        assert devices == ["cpu:0", "cpu:1", "one/cpu:0", "one/cpu:1"]
        assert any("closed" in line for line in lines[1 : lines.index("")])


def test_devices_are_watched_where_runs_cannot_be_listed(runs_root: Path) -> None:
    runs_root.write_text("a file where a folder should be")
    with on_a_terminal("devices", "--watch", "--runs", runs_root, rows=40, columns=400) as terminal:
        lines = screen_of(terminal, "cpu:0", "cpu:1")
    assert f"The runs in {runs_root} cannot be listed: Not a directory." in lines


def test_json_cannot_be_watched(call: Call) -> None:
    sentence = "--json prints one document, and cannot go on. Leave out --json or --watch."
    assert call("devices", "--watch", "--json") == (2, "", f"trainyard: {sentence}\n")
