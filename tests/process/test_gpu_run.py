"""Runs on GPUs of the NVML stand-in: workers see exactly the ticked devices."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.cli import __main__
from core.launchers import p2p
from core.runs.facts import RunState
from core.runs.run import Run
from core.series import report
from tests.nvml.standin import StandIn, uuid
from tests.support.running import LONG, make_spec, start, train, write_recipe
from tests.support.waiting import wait_until

REPORTING_ENVIRONMENT = """
import json, os
from pathlib import Path

names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TRAINYARD_RUN")
seen = {name: os.environ.get(name) for name in names}
report = Path(__file__).parent / f"seen-{os.getpid()}.json"
report.with_suffix(".new").write_text(json.dumps(seen))  # this process may be ended at any moment
report.with_suffix(".new").replace(report)
"""
REPORTING = LONG + REPORTING_ENVIRONMENT


def seen(folder: Path) -> list[dict[str, str]]:
    return [json.loads(path.read_text()) for path in folder.glob("seen-*.json")]


def test_cpu_run_sees_no_gpu(nvml: StandIn, tmp_path: Path, runs_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.write(gpus=8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    followed = train(make_spec(write_recipe(tmp_path / "recipes", REPORTING), epochs=1), runs_root)
    assert followed.state is RunState.FINISHED
    assert [worker["CUDA_VISIBLE_DEVICES"] for worker in seen(tmp_path / "recipes")] == [""]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus": 1}, f"Device {uuid(1)} is not on this machine any more."),
        ({"gpu1": {"cuda_hidden": 1}}, f"chosen: {uuid(1)}; shown: none."),
        ({"gpu1": {"mig": 1, "mig_count": 1}}, "GPU 1 is in MIG mode and cannot be used as a whole:"),
    ],
    ids=["gone", "hidden from CUDA", "switched to MIG"],
)
def test_gpu_that_changed_since_it_was_ticked_is_refused_before_workers_start(
    nvml, tmp_path: Path, runs_root: Path, change, words
) -> None:
    nvml.write(gpus=2)
    spec = replace(make_spec(write_recipe(tmp_path / "recipes", REPORTING)), devices=(uuid(1),), strategy="single")
    nvml.write(**change)
    followed = train(spec, runs_root)
    assert followed.states == [RunState.STARTING, RunState.FAILED]
    assert words in str(followed.run.facts.error)
    assert seen(tmp_path / "recipes") == []


def test_integer_cuda_ids_follow_pci_bus_order(nvml: StandIn, tmp_path: Path, runs_root: Path) -> None:
    nvml.write(gpus=3, gpu0={"bus": 9}, gpu2={"speed": 9})
    recipe = write_recipe(tmp_path / "recipes", REPORTING)
    spec = replace(make_spec(recipe, batch_size=64), devices=(uuid(0),), strategy="single", cuda_ids="integer")
    train(spec, runs_root)
    assert [(worker["CUDA_VISIBLE_DEVICES"], worker["CUDA_DEVICE_ORDER"]) for worker in seen(tmp_path / "recipes")] == [
        ("2", "PCI_BUS_ID")
    ]


def test_devices_command_shows_why_gpu_is_blocked_and_run_refuses_it(nvml, tmp_path, monkeypatch, capsys) -> None:
    nvml.write(gpus=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid(1))
    assert __main__.main(["devices", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    reason = rows[0]["blocked"]
    assert reason.startswith(f"GPU 0 is hidden by CUDA_VISIBLE_DEVICES={uuid(1)} in the environment")
    assert (rows[1]["blocked"], rows[1]["minor"]) == (None, 1)
    assert __main__.main(["devices"]) == 0
    assert reason in capsys.readouterr().out
    assert __main__.main(["run", "digits_mlp", "--devices", "gpu:0", "--runs", str(tmp_path)]) == 2
    assert reason in capsys.readouterr().err


STRAYING = f"""{LONG}
import os, time
from pathlib import Path

(Path(__file__).parent / f"straying-{{os.getpid()}}").touch()
while not (Path(__file__).parent / "go on").exists():
    time.sleep(0.02)
"""


@pytest.mark.slow
def test_process_on_unticked_gpu_is_reported_once(nvml: StandIn, tmp_path: Path, runs_root: Path) -> None:
    nvml.write(gpus=2)
    folder = tmp_path / "recipes"
    spec = replace(make_spec(write_recipe(folder, STRAYING)), devices=(uuid(0),), strategy="single")
    followed = start(spec, runs_root)
    (sign,) = wait_until(lambda: list(folder.glob("straying-*")), "the worker")
    pid = sign.name.partition("-")[2]
    nvml.write(gpu1={"compute": f"{pid}:1000,1:5"})
    wait_until(lambda: followed.poll().run.facts.unticked_device_uses, "the use of a device that was not ticked")
    (folder / "go on").touch()
    followed.until_over()
    (use,) = followed.run.facts.unticked_device_uses
    assert not followed.run.facts.notices
    assert (use.device_id, use.pids) == (uuid(1), (int(pid),))
    assert use.sentence == (
        f"Process {pid} of this run is on GPU 1 (NVIDIA GeForce RTX 4090), which was not chosen for it. "
        "Stop the run, and look for device numbers in its recipe or script."
    )
    (shown,) = report.document(Run.attach(followed.run.dir))["unticked_device_uses"]
    assert shown == {"device": uuid(1), "pids": [int(pid)], "text": use.sentence}


def test_run_without_direct_access_between_gpus_says_so_to_its_worker_and_its_user(
    nvml: StandIn, tmp_path: Path, runs_root: Path
) -> None:
    nvml.write(gpus=1)
    p2p.switch(on=False)
    recipe = write_recipe(tmp_path / "recipes", REPORTING.replace('"TRAINYARD_RUN"', '"NCCL_P2P_DISABLE"'))
    for device, expected in ((uuid(0), "1"), ("cpu:0", None)):
        followed = train(replace(make_spec(recipe, epochs=1), devices=(device,), strategy="single"), runs_root)
        assert followed.state is RunState.FINISHED
        assert (p2p.IS_OFF in followed.run.facts.notices) == (expected is not None)
        [worker] = seen(tmp_path / "recipes")
        assert worker["NCCL_P2P_DISABLE"] == expected
        next((tmp_path / "recipes").glob("seen-*.json")).unlink()
