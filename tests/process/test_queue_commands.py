"""The queue on the command line: what is refused, and what is understood."""

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.cli import run_options
from core.devices.device import Device
from core.history.index import directories
from core.queue import control
from core.queue.request import read_request
from core.runs.facts import RunState
from core.schema.spec import read_spec
from core.system.processes import user_name
from tests.nvml.standin import uuid
from tests.support.commands import call
from tests.support.queueing import Queue, stop
from tests.support.running import Followed
from tests.support.waiting import PATIENCE_S, wait_until

REFUSED = {
    "--any 3 --kind cpu": "--any asks for 3 devices, and there are 2 of kind 'cpu' that fit. Ask for fewer.",
    "--any 0": "--any is 0. Give a number of devices from 1 on.",
    "--any 1 --kind tpu": "There is no device of kind 'tpu' here. There is: cpu. `trainyard devices` lists them.",
    "--any 1 --devices cpu:0": "Both --devices and --any are given.",
    "--any 1 --free-memory lots": "--free-memory 'lots' is not understood. Give a size such as 20GB or 500MB.",
    "--any 1 --free-memory 9000TB": "--any asks for 1 devices, and there are 0 of kind 'cpu' that fit.",
    "--devices cpu:0 --kind cpu": "--kind needs --any N.",
    "--devices cpu:7": "cpu:7",
    "--devices cpu:0 --after nothing": "There is no run 'nothing'",
    "--devices cpu:0 --after nothing:soon": "--after 'nothing:soon' is not understood. Give RUN, RUN:ok or RUN:end.",
    "--devices cpu:0 --not-before soon": "--not-before 'soon' is not understood.",
    "--devices cpu:0 --time-limit long": "--time-limit 'long' is not understood.",
    f"--any 1 --free-memory {'9' * 400}GB": "is not understood. Give a size such as 20GB or 500MB.",
    f"--devices cpu:0 --time-limit {'9' * 400}d": "is not understood.",
    "--devices cpu:0 --not-before +999999999d": "is not understood.",
    "--devices cpu:0 --priority 1000000": "--priority is 1000000. Give a whole number from -1000 to 1000.",
    "--devices cpu:0 --if-changed cry": "--if-changed is 'cry'. Choose one of: hold, recorded or current.",
}

QUEUE_REFUSED = {
    "move": "The place is missing.",
    "hold nothing": "There is no run 'nothing'",
    "hold nothing 3": "Only `queue move` takes a place.",
    "release x --recorded --current": "Both --recorded and --current",
    "revive x": "takes up all runs",
    "hold x --all": "--all is for the list of queued runs.",
    "hold --current": "are for `queue release RUN`",
}


@pytest.mark.slow
def test_what_cannot_be_queued_is_refused_in_one_sentence_and_leaves_nothing(tmp_path: Path, capsys) -> None:
    queue = Queue(tmp_path)
    recipe = tmp_path / "recipe.py"
    for words, sentence in REFUSED.items():
        code, out, err = call(capsys, "run", recipe, "--queue", *words.split(), "--runs", queue.runs_root)
        assert (code, out) == (2, ""), words
        assert sentence in err, words
    for words in ("--priority 3", "--after x", "--requeue", "--not-before 22:00", "--any 1"):
        code, _, err = call(capsys, "run", recipe, *words.split(), "--runs", queue.runs_root)
        assert code == 2
        assert f"{words.split()[0]} is for queued runs. Add --queue, or leave it out." in err
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    code, _, err = call(capsys, "run", "--script", script, "--queue", "--requeue", "--runs", queue.runs_root)
    assert "--requeue is for recipes" in err
    assert directories(queue.runs_root) == []
    for words, sentence in QUEUE_REFUSED.items():
        code, _, err = call(capsys, "queue", *words.split(), "--runs", queue.runs_root)
        assert code == 2
        assert sentence in err, words
    assert call(capsys, "queue", "--json", "--runs", queue.runs_root)[1] == "[]\n"


def test_times_and_sizes() -> None:
    def limit(text: str) -> float | None:
        return run_options.time_limit_s(SimpleNamespace(time_limit=text))

    assert [limit(text) for text in ("90m", "1h30m", "8 h", "2d", "1:30:00", "45 min", "30s")] == [
        5400, 5400, 28800, 172800, 5400, 2700, 30,
    ]

    def start(text: str) -> float:
        options = SimpleNamespace(
            after=None, if_changed=None, any=None, free_memory="1.5GB", priority=2, not_before=text, requeue=None
        )
        request = run_options.queue_request(options, (), (), None)
        assert (request.free_memory_bytes, request.priority) == (3 * 2**29, 2)
        return request.not_before or 0.0

    asked_at = time.time()
    assert asked_at <= start("+2h") - 7200 <= time.time()
    assert start("2099-12-24 06:00") == datetime(2099, 12, 24, 6).timestamp()  # noqa: DTZ001 (as the user's clock)
    now = datetime.now().replace(second=0, microsecond=0)  # noqa: DTZ005
    later, earlier = now + timedelta(hours=6), now - timedelta(hours=6)
    assert start(later.strftime("%H:%M")) == later.timestamp()
    assert start(earlier.strftime("%H:%M")) == (earlier + timedelta(days=1)).timestamp()


def test_any_device_is_one_of_the_kind_with_enough_memory() -> None:
    gpus = [Device(id=f"GPU-{at}", kind="nvidia", label=f"GPU {at}", name="", memory_total_bytes=size * 2**30)
            for at, size in enumerate((8, 24, 24))]
    options = SimpleNamespace(any=1, kind=None, free_memory="20GB", devices="")
    assert [each.id for each in run_options.choose_any(options, gpus)] == ["GPU-1", "GPU-2"]
    assert options.devices == "GPU-1"


@pytest.mark.slow
def test_run_queue_follows_the_run_and_says_why_it_waits(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(control, "WAITING_S", PATIENCE_S)
    queue = Queue(tmp_path)
    running = queue.start()
    words = ("run", tmp_path / "recipe.py", "--devices", "cpu:0", "--epochs", 3, "--runs", queue.runs_root)
    code, out, _ = call(capsys, *words, "--queue", "--priority", 2, "--requeue", "--detach", "--time-limit", "1h")
    assert code == 0
    run_dir = queue.runs_root / out.strip()
    request = read_request(run_dir)
    assert (request.priority, request.requeue, read_spec(run_dir).time_limit_s) == (2, True, 3600)
    (row,) = json.loads(call(capsys, "queue", "--all", "--json", "--runs", queue.runs_root)[1])
    assert (row["run"], row["place"], row["line_place"], row["user"]) == (run_dir.name, 1, 1, user_name(os.getuid()))
    out = call(capsys, "show", run_dir.name, "--runs", queue.runs_root)[1]
    assert f"{run_dir.name}: queued" in out
    assert "CPU 0 is used by run" in out
    assert call(capsys, "save", run_dir.name, "--runs", queue.runs_root)[0] == 2
    assert "waits in the queue" in call(capsys, "resume", run_dir.name, "--runs", queue.runs_root)[2]
    removed = call(capsys, "remove", run_dir.name, "--yes", "--runs", queue.runs_root)
    assert "is queued, so it was not removed" in removed[2]
    command = [sys.executable, "-m", "core.cli", "attach", run_dir.name, "--runs", str(queue.runs_root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as attached:
        assert "CPU 0 is used by run" in attached.stderr.readline()
        running.run.request("stop")
        assert f"{run_dir.name}: finished" in attached.communicate(timeout=PATIENCE_S)[0]
    assert attached.returncode == 0
    stop(running)


@pytest.mark.slow
def test_a_program_on_the_device_keeps_the_run_waiting_until_its_memory_is_back(nvml, tmp_path, monkeypatch) -> None:
    """A process of no run, with a hostile name, uses the GPU of the stand-in driver; then only its memory is left.

    Then the GPU disappears, and comes back free.
    """
    monkeypatch.setenv("TRAINYARD_QUEUE_QUIET_S", "0.2")
    queue = Queue(tmp_path)
    code = "from pathlib import Path; Path('/proc/self/comm').write_text('a\\n\\x1b[31m'); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True) as other:
        wait_until(lambda: b"\x1b" in Path(f"/proc/{other.pid}/comm").read_bytes(), "its name")
        nvml.write(gpus=1, gpu0={"compute": f"{other.pid}:{8 * 2**30}", "memory_used": 9 * 2**30})
        waiting = queue.add("waiting", uuid(0))
        row = queue.until_reason("waiting", f"(pid {other.pid}), which is no run of this queue")
        assert row.reason.startswith("GPU 0 is used by a??[31m")
        other.communicate("")
    nvml.write(gpu0={"compute": None})
    queue.until_reason("waiting", "by no process that the driver lists")
    nvml.write(gpus=0)
    queue.until_reason("waiting", f"Device {uuid(0)} is not on this machine any more.")
    nvml.write(gpus=1)
    assert waiting.poll().state is RunState.QUEUED
    nvml.write(gpu0={"memory_used": None})
    wait_until(lambda: RunState.STARTING in Followed(waiting.run).poll().states, "the start")
    waiting.until_over()
    assert json.loads((waiting.run.dir / "spec.json").read_text())["devices"] == [uuid(0)]
