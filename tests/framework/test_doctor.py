"""Why a run hangs: planted hangs in real workers, and the worker and the line that are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from core.doctor.snapshot import snapshots_of
from core.system import procfs
from tests.support.commands import call
from tests.support.running import (
    FOREVER,
    LONG_PYTORCH,
    Followed,
    kill_tagged,
    make_spec,
    source_spec,
    start,
    write_recipe,
)
from tests.support.waiting import wait_until


class Hang(NamedTuple):
    """One way to hang, for rank 1."""

    act: str
    """A line of Python."""
    blamed: list[int]
    words: str


HANGS = {
    "endless loop": Hang("while True: pass", [1], "Worker 1: in Python code at"),
    "lock": Hang("lock.acquire(); lock.acquire()", [1], "Worker 1: in Python code at"),
    "thread": Hang("event.wait()", [1], "Worker 1: waiting for a lock or a thread at"),
    "another collective": Hang("dist.barrier()", [], "They wait at different places, where they never meet."),
    "data": Hang("", [1], "Worker 1: waiting for data at recipe.py, line"),
    "stopped": Hang("os.kill(os.getpid(), signal.SIGSTOP)", [1], "Worker 1: stopped, as by SIGSTOP or a debugger"),
}
PREPARED = """
import os, signal, threading
import torch, torch.distributed as dist
lock, event = threading.Lock(), threading.Event()

def hang():
    {act}
"""
RECIPE = LONG_PYTORCH + PREPARED + """
calls = []

def loss():
    def measure(output, target):
        calls.append(1)
        if len(calls) == 5 and dist.get_rank() == 1:
            hang()
        return nn.functional.cross_entropy(output, target)
    return measure
"""
SCRIPT = PREPARED + """
if os.fork() == 0:  # it has the rank of its parent in its environment, as a process that loads data
    signal.pause()
dist.init_process_group("gloo")
for step in range(5):
    dist.all_reduce(torch.ones(1))
    print(f"step {{step}} loss {{1 / (step + 1)}}", flush=True)
if dist.get_rank() == 1:
    hang()
dist.all_reduce(torch.ones(1))
"""


SLOW_DATA = LONG_PYTORCH.partition("def train_data")[0] + """
import time, torch.distributed as dist
from torch.utils.data import Dataset

class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if dist.is_initialized() and dist.get_rank() == 1:
            self.hang()
        return torch.ones(4), torch.tensor(0)

    def hang(self):
        time.sleep(1000)

def train_data():
    return Data()

def loss():
    return nn.functional.cross_entropy

class Descent""" + LONG_PYTORCH.partition("class Descent")[2]
"""Rank 1 hangs in a process that loads its data."""


TENSORFLOW = """
import json, os, threading
import keras, numpy as np, tensorflow as tf

def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])

def train_data():
    return np.ones((64, 4), "float32"), np.zeros(64, "int32")

def hang(*_):
    threading.Event().wait()

def loss():
    mean = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    is_last = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {}).get("index") == 1

    def measure(target, output):
        if is_last:
            hang()  # while its graph is made
        return mean(target, output)

    def in_graph(target, output):
        with tf.control_dependencies([tf.py_function(hang, [], [])]):
            return mean(target, output)

    return in_graph if "TF_CONFIG" not in os.environ else measure
"""
"""Of two workers, the second one hangs in Python; a single one within a graph, where no call of the user is."""


def may_trace() -> bool:
    """Return whether a process may read the stacks of one that it has not started."""
    command = [Path(sys.executable).with_name("py-spy"), "dump", "--pid", str(os.getpid())]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def hung(run: Followed, at_place: str) -> None:
    """Wait until rank 1 is in the planted call, or stopped, and rank 0 waits for it."""

    def is_there() -> bool:
        run.poll()
        looks = {each.rank: each for each in snapshots_of(run.run)} if len(run.run.facts.workers) > 1 else {}
        if len(looks) < 2 or not looks[0].stack:
            return False
        there = looks[1].state in procfs.STOPPED or any(at_place in each.function for each in looks[1].stack)
        return there and looks[0].activity.value in {"collective", "backward"}

    wait_until(is_there, "rank 1 to hang and rank 0 to wait for it")


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("kind", "name"),
    [("recipe", "endless loop"), ("recipe", "another collective"), ("recipe", "stopped"), ("data", "data"),
     ("script", "lock"), ("script", "thread")],
)
def test_worker_that_holds_the_others_up_is_named_with_its_line(capsys, tmp_path, runs_root, kind, name) -> None:
    if kind == "script" and not may_trace():
        pytest.skip("this system lets no process trace another one, which py-spy needs")
    hang = HANGS[name]
    if kind != "script":
        recipe = write_recipe(tmp_path, SLOW_DATA if kind == "data" else RECIPE.replace("{act}", hang.act))
        workers = {"loader_workers": 1} if kind == "data" else {}
        spec = make_spec(recipe, devices="cpu:0,cpu:1", strategy="ddp", epochs=FOREVER, **workers)
    else:
        spec = source_spec(tmp_path, SCRIPT.format(act=hang.act), devices="cpu:0,cpu:1", launch="per-device")
    followed = start(spec, runs_root)
    try:
        hung(followed, "hang")
        code, out, err = call(capsys, "doctor", followed.run.id, "--json", "--runs", runs_root)
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["blamed"], hang.words in found["sentence"]) == (hang.blamed, True), found
        places = {each["rank"]: each["place"] for each in found["ranks"]}
        assert hang.words.startswith("Worker 1: stopped") or places[1]["function"] == "hang"
    finally:
        kill_tagged(followed.run.id)
        followed.until_left()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    ("framework", "strategy", "blamed", "words"),
    [("tensorflow", "multi_worker_mirrored", [1], "Worker 0: in a step of TensorFlow at "),
     ("keras", "single", [], "Worker 0: in a step of TensorFlow at ")],
)
def test_hang_of_tensorflow_has_the_call_of_the_user_or_of_ours(
    capsys, tmp_path, runs_root, framework, strategy, blamed, words
) -> None:
    devices = "cpu:0,cpu:1" if blamed else "cpu:0"
    recipe = write_recipe(tmp_path, TENSORFLOW)
    followed = start(make_spec(recipe, framework=framework, strategy=strategy, devices=devices), runs_root)

    def is_hung() -> bool:
        followed.poll()
        looks = {each.rank: each for each in snapshots_of(followed.run)}
        return 0 in looks and looks[0].activity.value == "graph" and len(looks) > bool(blamed) and (
            not blamed or any("hang" in each.function for each in looks[1].stack))

    try:
        wait_until(is_hung, "that rank 0 waits in a step")
        found = json.loads(call(capsys, "doctor", followed.run.id, "--json", "--runs", runs_root)[1])
        assert (found["blamed"], words in found["sentence"]) == (blamed, True), found
        assert "another machine" not in found["sentence"], "the process that has fetched for them is no worker"
        assert "/core/worker/" in found["ranks"][0]["place"]["file"]
    finally:
        kill_tagged(followed.run.id)
        followed.until_left()
