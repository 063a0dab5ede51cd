"""Alarms: each condition is raised once, in words, cleared when it ends, and raised again; a choice silences it."""

from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.devices.device import Device, Sample, Survey
from core.notifications import start
from core.notifications.__main__ import is_wanted
from core.notifications.channels import OCCASIONS
from core.notifications.message import message_about, news_of_trouble
from core.notifications.settings import NotificationSettings
from core.notifications.start import Notifier
from core.runs.facts import RunFacts
from core.schema.event_kinds import Checkpoint
from tests.unit.test_notification_messages import NEWS

GB = 2**30
GPUS = tuple(Device(id=f"GPU-{n}", kind="nvidia", label=f"GPU {n}", name="H100") for n in range(2))
Usage = namedtuple("Usage", "total used free")


class Stage:
    """The alarms of a run on GPU 1, with a clock and a disk of their own; records what is sent."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.free, self.facts, self.readings = 1000.0, 500 * GB, RunFacts(), dict[str, object]()
        self.sent: list[tuple[str, str]] = []
        self.notifier = Notifier(folder, ["GPU-1"])
        monkeypatch.setattr(Notifier, "notify", lambda _, what, *text: self.sent.append((what, *text)))
        monkeypatch.setattr(start, "time", SimpleNamespace(monotonic=lambda: self.now))
        usage = SimpleNamespace(disk_usage=lambda _: Usage(1000 * GB, 0, self.free))
        monkeypatch.setattr(start, "shutil", usage)

    def read(self, seconds: float, **given: object) -> None:
        """Take a reading of both GPUs each second."""
        for name, value in given.items():
            setattr(self, name, value)
        for _ in range(round(seconds)):
            self.now += 1
            samples = tuple(Sample(device_id=each.id, time=self.now, **self.readings) for each in GPUS)
            self.notifier.watch(Survey(devices=GPUS, samples=samples), self.facts)


LOW = "Only {free} are free on the disk of FOLDER. Delete old runs or checkpoints, or move them to another disk."
HOT = {"clock_reasons": ("too hot",), "temperature_celsius": 91.0}
CONDITIONS: dict[str, tuple[str, dict[str, object], dict[str, object], str]] = {
    "lost": ("gone", {"readings": {"lost": "GPU 1 does not answer."}}, {"readings": {}},
             "GPU 1 does not answer. Restart this machine if it stays away."),
    "lost with the driver's words": ("gone", {"readings": {"lost": "GPU 1 does not answer.", "fault": "Reset it."}},
                                     {"readings": {}}, "GPU 1 does not answer. Reset it."),
    "hot": ("hot", {"readings": HOT}, {"readings": {}}, "GPU 1 is slowed down: 91 °C. Check its cooling."),
    "disk": ("disk", {"free": 19 * GB}, {"free": 25 * GB},
             LOW.format(free="19.0 GB")),
    "checkpoint": ("disk", {"facts": RunFacts(checkpoint=Checkpoint(step=1, name="a", size_bytes=600 * GB))},
                   {"facts": RunFacts()},
                   LOW.format(free="500.0 GB").replace(". D", ". The next checkpoint takes 600.0 GB. D")),
    "stalled": ("stalled", {"facts": RunFacts(stalled="No step.")}, {"facts": RunFacts()}, "No step."),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_is_raised_once_until_it_has_ended(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    occasion, begun, ended, words = CONDITIONS[name]
    stage, told = Stage(tmp_path, monkeypatch), [(occasion, words.replace("FOLDER", str(tmp_path)))]
    stage.read(60)
    assert stage.sent == []
    stage.read(120, **begun)
    assert stage.sent == told
    stage.read(60, **ended)
    assert stage.sent == told
    stage.read(120, **begun)
    assert stage.sent == [*told, *told]


@pytest.mark.parametrize(
    ("begun", "seconds", "ended", "pause"),
    [
        ({"readings": HOT}, 29, {"readings": {}}, 60),
        ({"readings": {"clock_reasons": ("power supply",)}}, 120, {"readings": {}}, 60),
        ({"free": 21 * GB}, 60, {"free": 500 * GB}, 60),
    ],
    ids=["short heat", "no heat", "enough room"],
)
def test_what_is_short_or_no_trouble_is_no_alarm(begun, seconds, ended, pause, tmp_path, monkeypatch) -> None:
    stage = Stage(tmp_path, monkeypatch)
    for _ in range(3):
        stage.read(seconds, **begun)
        stage.read(pause, **ended)
    assert stage.sent == []


def test_to_and_fro_at_a_limit_is_one_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, monkeypatch)
    stage.read(40, readings=HOT, free=19 * GB)
    for _ in range(5):
        stage.read(11, readings={}, free=22 * GB)
        stage.read(11, readings=HOT, free=19 * GB)
    assert sorted(what for what, _ in stage.sent) == ["disk", "hot"]


def test_what_cannot_be_read_and_what_others_send_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, monkeypatch)

    def refuse(_: Path) -> Usage:
        raise OSError

    monkeypatch.setattr(start, "shutil", SimpleNamespace(disk_usage=refuse))
    lost = Survey(devices=GPUS, samples=(Sample(device_id="GPU-1", time=1.0, lost="It is lost."),))
    found = stage.notifier.look(lost, {("nan", "/runs/a"): "NaN."}, told={"GPU-1"})
    assert {*found} == {("gone", "GPU-1"), ("nan", "/runs/a")}
    assert [what for what, _ in stage.sent] == ["nan"]


@pytest.mark.parametrize("occasion", OCCASIONS)
def test_each_occasion_can_be_switched_off_and_names_the_machine_without_a_run(occasion: str, tmp_path: Path) -> None:
    news = replace(NEWS, occasion=occasion)
    others = tuple(each for each in OCCASIONS if each != occasion)
    assert is_wanted(news, NotificationSettings())
    assert not is_wanted(news, NotificationSettings(occasions=others))
    if OCCASIONS[occasion].states:
        return
    machine = news_of_trouble(tmp_path, occasion, "GPU 1 does not answer")
    assert machine is not None
    alone, several = message_about([machine]), message_about([machine, NEWS])
    assert alone.title == f"{machine.name}: {OCCASIONS[occasion].title}" or occasion in {"nan", "stalled", "held"}
    assert (alone.text, alone.to_json()["runs"]) == ("GPU 1 does not answer.", [])
    assert (several.title.endswith(", 1 finished"), "run" in several.title) == (True, False)
    assert several.text.splitlines()[0].endswith(f": {machine.name}.")
    assert several.text.splitlines()[2] == "GPU 1 does not answer."
