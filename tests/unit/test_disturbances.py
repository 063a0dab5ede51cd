"""Other programs on the GPUs of a run, and pressure of the machine, become a notice. All readings are made up."""

import os
import resource
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.devices.device import Device, Process, Sample, Survey
from core.diagnosis.evidence import DISTURBED
from core.language import Message
from core.results.comparison import compare
from core.results.measured_run import read_runs
from core.runs.facts import RunFacts, RunState
from core.supervisor import disturbances
from core.supervisor.disturbances import Disturbances
from core.supervisor.workers import WorkerGroup
from core.system.processes import TAG
from core.system.procfs import TICKS_PER_S
from tests.support.running import make_spec

RECORDED = Path(__file__).resolve().parents[1] / "recorded_runs"
GPU = Device(id="GPU-aa", kind="nvidia", label="GPU 2", name="H100")
RUN = "20260101-000000-train-aaaa"
FACTS = RunFacts(state=RunState.RUNNING, devices={"GPU-aa": {}})
OWN, OTHER = 101, 202
SECONDS = 100
"""Of training, in steps of five; the stand-in machine has two processors."""


class StandIn:
    """A machine with a clock, a `/proc`, and the processes on one GPU."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc, self.now, self.own_cpu_s = root / "proc", 0.0, 0.0
        for pid, tag in ((OWN, f"{TAG}={RUN}"), (OTHER, f"{TAG}=another")):
            (self.proc / str(pid)).mkdir(parents=True)
            (self.proc / str(pid) / "environ").write_text(f"PATH=/bin\0{tag}\0")
            (self.proc / str(pid) / "status").write_text(f"Uid:\t{os.getuid()}\t0\t0\t0\n")
        (self.proc / "pressure").mkdir()
        self.disturbances = Disturbances(root / RUN, self.proc, lambda: self.now)
        used = lambda _: SimpleNamespace(ru_utime=self.own_cpu_s, ru_stime=0.0)  # noqa: E731 (a stand-in)
        monkeypatch.setattr(disturbances, "resource", SimpleNamespace(
            RUSAGE_CHILDREN=resource.RUSAGE_CHILDREN, getrusage=used))

    def train(
        self, *, cpu: float | None = 0, memory: float | None = 0, io: float | None = 0, others: float = 0,
        own: float = 0, on_gpu: float = 0, percent: tuple[float | None, ...] = (50.0,), pids: tuple[int, ...] = (OWN,),
        seconds: int = SECONDS, state: RunState = RunState.RUNNING,
    ) -> str:
        """Train, with shares of the time, of the processors and of the looks; return the sentence."""
        shares = percent * (seconds // 5 + 1)
        for second in range(0, seconds + 1, 5):
            self.now = 1000.0 + second
            for name, share in (("cpu", cpu), ("memory", memory), ("io", io)):
                if share is not None:
                    (self.proc / "pressure" / name).write_text(
                        f"some avg10=0.00 avg60=0.00 avg300=0.00 total={int(5e9 + share * second * 1e6)}\n"
                        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
            busy = int((own + others) * 2 * second * TICKS_PER_S)
            idle = 2 * second * TICKS_PER_S - busy
            (self.proc / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
            is_used = (second // 5 + 1) * on_gpu >= int(second // 5 * on_gpu) + 1
            other = Process(OTHER, 1, shares[second // 5] if is_used else 0.0)
            listed = (*(Process(pid, 1, 30.0) for pid in pids), other)
            sample = Sample(device_id="GPU-aa", time=self.now, processes=listed)
            self.disturbances.watch(Survey(devices=(GPU,), samples=(sample,)), replace(FACTS, state=state))
        self.own_cpu_s = own * 2 * seconds
        return self.disturbances.settle()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return StandIn(tmp_path, monkeypatch)


OF_GPU = "other programs used GPU 2 for 48 % of the time"
OF_CPU = "processor pressure 63 % of the time, while other programs used 40 % of the processors"


WAITED = "processes waited for a disk {} % of the time, perhaps its own"


@pytest.mark.parametrize(
    ("chosen", "marks"),
    [
        ({}, ""),
        ({"on_gpu": 0.5}, OF_GPU),
        ({"on_gpu": 0.1}, ""),
        ({"on_gpu": 1.0, "percent": (3.0,)}, ""),  # a desktop
        ({"on_gpu": 1.0, "percent": (None,)}, ""),  # the driver does not say whose the use is
        ({"on_gpu": 1.0, "percent": (None, 50.0)}, "other programs used GPU 2 for 100 % of the time"),
        ({"on_gpu": 1.0, "pids": ()}, ""),  # pids of another namespace
        ({"cpu": 0.63, "others": 0.4, "own": 0.5}, OF_CPU),
        ({"cpu": 0.63, "own": 1.0}, ""),  # it fills the machine itself
        ({"cpu": 0.1, "others": 0.9}, ""),
        ({"memory": 0.2, "io": 0.15},
         f"processes waited for memory 20 % of the time and {WAITED.format(15)}"),
        ({"memory": 0.14, "io": 0.14}, ""),
        ({"cpu": None, "memory": None, "io": None, "others": 0.9}, ""),  # a kernel without PSI
        ({"cpu": None, "memory": None, "io": 0.5}, "processes waited for a disk 50 % of the time, perhaps its own"),
        ({"io": 0.9, "seconds": 55}, ""),
        ({"io": 0.9, "state": RunState.STARTING}, ""),
        ({"on_gpu": 0.5, "cpu": 0.63, "others": 0.4}, f"{OF_GPU} and {OF_CPU}"),
    ],
)
def test_disturbance_is_told_from_a_share_of_the_time_on(machine: StandIn, chosen, marks: str) -> None:
    told = machine.train(**chosen)
    assert told == (f"The run may have been slowed down: {marks}." if marks else "")


def test_processor_is_not_judged_if_a_worker_was_killed(machine: StandIn, tmp_path: Path) -> None:
    group = WorkerGroup(tmp_path)
    group.members.append(SimpleNamespace(exit_code=-9))  # type: ignore[arg-type]
    machine.disturbances.start(group, make_spec("digits_mlp"))
    assert machine.train(cpu=0.63, others=0.4) == ""


def test_comparison_names_the_disturbed_run(machine: StandIn) -> None:
    told = machine.train(io=0.5)
    assert Message.read(told).say == (DISTURBED,)
    first, second = read_runs([RECORDED / "finished", RECORDED / "finished_ddp"])
    marked = replace(second, facts=replace(second.facts, notices=("The store has ended.", told)))
    without = compare([first, second], grouped=False).notices
    assert [each for each in compare([first, marked], grouped=False).notices if each not in without] == [
        f"{second.id}: The run may have been slowed down: {WAITED.format(50)}."]
