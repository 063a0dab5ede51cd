"""A machine that does not exist. Everything that a picture shows of a machine is fixed here.

Eight GPUs of four models come from the stand-in for NVIDIA's driver, read once by the real reader. CPU devices, memory
of the host, processes of others and the clock are played.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from core.devices.device import KINDS, Device, Process, Sample, Survey
from core.devices.sampler import Sampler
from core.schema.event_kinds import ProcessInfo
from core.series import recent
from tests.nvml.standin import StandIn, build, build_cuda, uuid
from tests.support import fake_worker, packages

from .references import CHINESE

NOW = 1_772_734_571.0
"""Unix seconds: 2026-03-05 18:16:11 UTC."""
GB = 1 << 30
HOUR_S = 3600
FONTS = Path(__file__).with_name("fonts")
MORE_FONTS = {CHINESE: packages.FONT}
"""By language, the font with its characters, which is too large for the repository."""
SCREEN = {"name": "screen", "x": 0, "y": 0, "width": 2800, "height": 1700, "logicalDpi": 96, "dpr": 1}
FONT_SETTINGS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <dir>{more}</dir>
  <cachedir>{cache}</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <match target="font">
    <edit name="antialias" mode="assign"><bool>true</bool></edit>
    <edit name="hinting" mode="assign"><bool>false</bool></edit>
    <edit name="hintstyle" mode="assign"><const>hintnone</const></edit>
    <edit name="rgba" mode="assign"><const>none</const></edit>
  </match>
</fontconfig>
"""
MODELS = (
    *[("NVIDIA H100 80GB HBM3", 80, 700)] * 4, *[("NVIDIA GeForce RTX 4090", 24, 450)] * 2,
    ("NVIDIA GeForce RTX 3090", 24, 350), ("Tesla T4", 16, 70),
)
"""Name, memory in GB and power limit in watts of each GPU."""
GPUS = tuple(uuid(number) for number in range(len(MODELS)))
CPUS = tuple(
    Device(
        id=f"cpu:{number}", kind="cpu", label=f"CPU {number}", name="AMD EPYC 9354 32-Core Processor, 16 cores",
        memory_total_bytes=512 * GB, cores=tuple(range(16 * number, 16 * number + 16)),
    )
    for number in range(2)
)
HOST_AVAILABLE, DISK_FREE = 416 * GB, 1200 * GB
BLENDER = 4711
OTHERS = {BLENDER: ("blender", "anna", "blender -b scene.blend -a")}
"""Name, user and command line of processes that are no runs, by pid."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a GPU does: per cent, share of its memory in use, degrees Celsius, watts, MHz, reasons for low clocks."""

    utilisation: int = 0
    memory: float = 0.01
    temperature: int = 36
    watts: int = 22
    clock_mhz: int = 210
    reasons: int = 0
    processes: tuple[tuple[int, float], ...] = ()
    """Pid and share of the memory."""


IDLE = tuple(Load(temperature=34 + number % 4, watts=(68 if number < 4 else 21) + number) for number in range(8))


def environment(folder: Path, scale: int, language: str) -> dict[str, str]:
    """Return the environment of the process that takes pictures. `folder`: an empty one for its files."""
    home = folder / "home"
    home.mkdir(parents=True)
    fonts, screens = folder / "fonts.conf", folder / "screens.json"
    more = folder / "more-fonts"
    more.mkdir()
    if language in MORE_FONTS:
        (more / MORE_FONTS[language].name).symlink_to(MORE_FONTS[language])
    fonts.write_text(FONT_SETTINGS.format(fonts=FONTS, more=more, cache=folder / "fonts"))
    screens.write_text(json.dumps({"windowFrameMargins": False, "screens": [SCREEN]}))
    own = {
        "FONTCONFIG_FILE": str(fonts), "HOME": str(home), "LANGUAGE": language, "LC_ALL": "C.UTF-8", "TZ": "UTC",
        "QT_QPA_PLATFORM": f"offscreen:configfile={screens}", "QT_SCALE_FACTOR": str(scale),
        "TRAINYARD_CACHE_DIR": str(folder / "cache"), "XDG_CONFIG_HOME": str(home / "config"),
    }
    kept = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "PYTHONPATH", "TESTS_OF_TRAINYARD", "COVERAGE_PROCESS_START")
    return {**{name: os.environ[name] for name in kept if name in os.environ}, **own}


class Machine:
    """Take the place of the real machine in this process, which is for pictures alone."""

    def __init__(self, folder: Path) -> None:
        libraries = [folder / "nvml", folder / "cuda", folder / "hardware"]
        for each in libraries:
            each.mkdir()
        self._standin = StandIn(build(libraries[0]), libraries[2], build_cuda(libraries[1]))
        self.python = fake_worker.install(folder / "cats-env")
        self.sampler = PlayedSampler()
        self.processes: dict[int, ProcessInfo] = {}
        os.environ.update(self._standin.env)
        os.environ["TRAINYARD_PYTHON_PYTORCH"] = os.environ["TRAINYARD_PYTHON_TENSORFLOW"] = str(self.python)
        self._replace()

    def _replace(self) -> None:
        """Replace what the program asks of the machine."""
        import core.notifications.start
        import core.system.processes
        import gui.features.devices.panel
        import gui.features.devices.rows
        import gui.features.memory.processes
        import gui.features.memory.scanner
        import gui.machine.monitor

        replaced: Mapping[Any, Mapping[str, Any]] = {
            time: {"time": lambda: NOW},
            core.notifications.start: {"low_disk_words": lambda *_, **__: ""},
            core.system.processes: {"describe": self._describe},
            gui.features.devices.panel: {"available_bytes": lambda: HOST_AVAILABLE},
            gui.features.devices.rows: {"free_bytes": lambda _: DISK_FREE},
            gui.features.memory.processes: {"available_bytes": lambda: HOST_AVAILABLE},
            gui.machine.monitor: {"Sampler": lambda **_: self.sampler},
            gui.features.memory.scanner: {
                "find_orphans": lambda _: [], "_scan_proc": _no_scan, "_usage": lambda *_: {}, "_is_there": bool,
            },
        }
        for module, names in replaced.items():
            for name, value in names.items():
                assert hasattr(module, name), f"{module.__name__} has no {name} any more"
                setattr(module, name, value)

    def _describe(self, pid: int, *_: object) -> ProcessInfo:
        return self.processes.get(pid, ProcessInfo(pid=pid))

    def set_up(self, loads: Sequence[Load], run_id: str = "", past_s: int = 120) -> None:
        """Make the devices do this. `run_id`: the run of processes that are not in `OTHERS`; `past_s`: see `play`."""
        recent.path_of("").unlink(missing_ok=True)  # of the picture before
        self.processes = {pid: _process(pid, run_id) for load in loads for pid, _ in load.processes}
        self.sampler.play(self._read(tuple(loads)), past_s)

    @cache  # noqa: B019 (one machine a process)
    def _read(self, loads: tuple[Load, ...]) -> Survey:
        """Return what the reader of NVIDIA's driver reads, and CPU devices."""
        settings = {f"gpu{number}": _settings(number, load) for number, load in enumerate(loads)}
        self._standin.write(gpus=len(loads), driver_version="570.86.15", **settings)
        with Sampler(kinds=[kind for kind in KINDS if kind.isolated]) as sampler:
            survey = sampler.survey(60.0)
        assert survey.banner is None, survey.banner
        cpus = [Sample(device_id=cpu.id, time=NOW, utilisation_percent=12.0) for cpu in CPUS]
        samples = tuple(replace(sample, time=NOW) for sample in survey.samples)
        return Survey(devices=(*survey.devices, *CPUS), samples=(*samples, *cpus))


@dataclass
class PlayedSampler:
    """Takes the place of `Sampler`: the readings are always those of `NOW`."""

    survey: Survey = field(default_factory=Survey)
    unfetched: list[Sample] = field(default_factory=list)

    def play(self, survey: Survey, past_s: int) -> None:
        """Read this from now on; the window has been open for `past_s` seconds."""
        self.survey = survey
        self.unfetched = [*_past(survey, past_s), *survey.samples]

    def poll(self) -> Survey:
        return self.survey

    def new_samples(self) -> list[Sample]:
        fetched, self.unfetched = self.unfetched, []
        return fetched

    def set_period(self, period_s: float, *, processes_s: float = 0.0) -> None:
        pass

    def watch(self, pids: object) -> None:
        pass

    def close(self) -> None:
        pass


def _past(survey: Survey, past_s: int) -> list[Sample]:
    """Return earlier readings. In an hour, the devices that are busy now were so twice."""
    found = []
    for second in range(-past_s, 0, 10):
        works = second > -3000 and not -1900 < second < -1700
        for number, sample in enumerate(survey.samples):
            share = sample.utilisation_percent or 0.0
            is_idle = share > 20 and not works
            used = GB // 4 if is_idle and sample.memory_used_bytes is not None else sample.memory_used_bytes
            share = 0.0 if is_idle else min(max(share + 0.15 * share * wave(second, number), 0.0), 100.0)
            past = replace(sample, utilisation_percent=share, memory_used_bytes=used, clock_reasons=())
            found.append(past.at(NOW + second))
    return found


def wave(at: float, number: int) -> float:
    """Return a number between -1 and 1 that looks like chance and is none."""
    mixed = (int(at) * 0x9E3779B1 + number * 0x85EBCA77) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        mixed = ((mixed ^ mixed >> shift) * factor) & 0xFFFFFFFF
    return (mixed ^ mixed >> 16) / 2**31 - 1


def _settings(number: int, load: Load) -> dict[str, object]:
    name, size_gb, limit_w = MODELS[number]
    total = size_gb * GB
    return {
        "name": name, "memory_total": total, "memory_used": int(total * load.memory), "utilisation": load.utilisation,
        "temperature": load.temperature, "power_mw": load.watts * 1000, "power_limit_mw": limit_w * 1000,
        "sm_clock_mhz": load.clock_mhz, "clock_reasons": load.reasons,
        "compute": ",".join(f"{pid}:{int(total * share)}" for pid, share in load.processes),
    }


def _process(pid: int, run_id: str) -> ProcessInfo:
    name, user, command = OTHERS.get(pid, ("python", "ben", "python train.py"))
    return ProcessInfo(
        pid=pid, created=1.0, name=name, user=user, command=command, age_s=1500.0, state="S", listed=True,
        run_id=None if pid in OTHERS else run_id, ours=pid not in OTHERS,
    )


def _no_scan(gpus: object, listed: Mapping[str, Sequence[Process] | None], root: object, run_id: str | None) -> object:
    from gui.features.memory.scanner import ProcessScan

    return ProcessScan(run_id=run_id)
