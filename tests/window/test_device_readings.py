"""Device rows: current users, why a device cannot be ticked, the age of readings; eight GPUs, and their check."""

import math
import os
import signal
from dataclasses import fields, replace
from functools import partial

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from core.catalog.strategies import find_strategy
from core.config import validation
from core.config.examination import BAD_S, GOOD_S, GpuCheck
from core.devices.cpu import cpu_devices
from core.devices.device import Device, Sample, Survey
from core.devices.nvidia import preflight
from core.devices.sampler import HelperTimeouts
from core.errors import RunError
from core.history.index import directories
from core.language import tr
from core.runs.facts import RunState
from core.series import recent
from gui.features.devices.chosen import ChosenDevices
from gui.features.devices.delegate import without_label
from gui.features.devices.panel import DeviceView
from gui.features.devices.rows import spoken, tip
from gui.machine.device_rows import DeviceRow, DeviceRows, OnDevices, obstacle
from gui.machine.monitor import DeviceMonitor
from tests.nvml.standin import mig_uuid, uuid
from tests.support.acting import played
from tests.support.devices import device_line, index_of, place_of, show_devices
from tests.support.helper_pids import helper_pids
from tests.support.running import LONG, make_spec, start, write_recipe
from tests.support.waiting import PATIENCE_S

GB = 2**30


def row(device: str, **values) -> DeviceRow:
    defaults = {"label": device, "name": "A100", "full_name": "A100", "colour": "#4d9bff"}
    return DeviceRow(id=device, is_mig=device.startswith("MIG-"), **defaults, **values)


@pytest.fixture
def view(hold) -> DeviceView:
    return hold(DeviceView(ChosenDevices()))


# -- row contents --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "sample", "known", "status"),
    [
        ({}, {}, {"used_by": {"g": "digits_cnn"}}, "runs digits_cnn"),
        ({}, {}, {"held_by": {"g": "blender (anna)"}}, "used by blender (anna)"),
        ({}, {}, {"used_by": {"g": "digits_cnn"}, "held_by": {"g": "blender (anna)"}}, "runs digits_cnn"),
        ({}, {}, {"stale_age_s": {"g": 12}}, "12 s old"),
        ({}, {"asleep": True}, {}, "asleep"),
        ({"shared_memory": True}, {}, {}, "shared memory"),
        ({"shared_memory": True}, {}, {"used_by": {"g": "digits_cnn"}}, "runs digits_cnn · shared memory"),
        ({"blocked": "It is in MIG mode."}, {}, {}, "blocked"),
        ({"blocked": "It is Anna's."}, {}, {"held_by": {"g": "blender (anna)"}}, "blocked · used by blender (anna)"),
        ({"blocked": "It is Anna's."}, {}, {"used_by": {"g": "mnist"}, "stale_age_s": {"g": 5}},
         "blocked · 5 s old · runs mnist"),
        ({}, {"lost": "It fell off the bus."}, {"used_by": {"g": "x"}}, "lost: It fell off the bus."),
    ],
)
def test_row_status_shows_use_block_and_age(device, sample, known, status):
    gpu = Device(id="g", kind="nvidia", label="GPU 0", name="RTX", **device)
    survey = Survey(devices=(gpu,), samples=(Sample(device_id="g", time=1, utilisation_percent=82, **sample),))
    (found,) = DeviceRows().make(survey, {"g": "#ffffff"}, OnDevices(**known))
    assert found.status == status
    assert (found.tip.count(status), status in found.accessible_text or found.lost is not None) == (1, True)
    for text in (found.tip, found.accessible_text):
        assert device.get("blocked", "") in text


def test_row_of_a_lost_gpu_has_the_words_of_the_driver_and_its_tooltip_the_sentence():
    gpu = Device(id="g", kind="nvidia", label="GPU 0", name="RTX")
    sentence = tr("{label} does not answer: the driver says “{words}”.", label="GPU 0", words="GPU is lost")
    survey = Survey(devices=(gpu,), samples=(Sample(device_id="g", time=1, lost=sentence),))
    (found,) = DeviceRows().make(survey, {"g": "#ffffff"}, OnDevices())
    assert (found.status, sentence in found.tip) == ("lost: GPU is lost", True)


def test_row_is_rebuilt_only_when_its_data_changes_and_outdated_ones_are_dashes():
    gpus = [Device(id=name, kind="nvidia", label=name.upper(), name="RTX") for name in ("g", "h")]
    samples = tuple(Sample(device_id=gpu.id, time=1, utilisation_percent=82) for gpu in gpus)
    colours = {"g": "#ffffff", "h": "#000000"}
    survey, maker = Survey(devices=tuple(gpus), samples=samples), DeviceRows()
    first, second = maker.make(survey, colours, OnDevices())
    later = tuple(sample.at(2) for sample in samples)
    for changed in (
        (replace(survey, samples=(replace(later[0], utilisation_percent=5), later[1])), colours, OnDevices()),
        (replace(survey, samples=(replace(later[0], lost="Gone."), later[1])), colours, OnDevices()),
        (replace(survey, samples=later[1:]), colours, OnDevices()),
        (replace(survey, devices=(replace(gpus[0], blocked="It is Anna's."), gpus[1])), colours, OnDevices()),
        (survey, {**colours, "g": "#ff0000"}, OnDevices()),
        *((survey, colours, OnDevices(**{field.name: {"g": 7}})) for field in fields(OnDevices)),
    ):
        new, same = maker.make(*changed)
        assert new != first
        assert same is second
        assert [new, same] == DeviceRows().make(*changed)
        first_again, same = maker.make(replace(survey, samples=later), colours, OnDevices())
        assert (first_again, same) == (first, second)
        assert same is second
    gpu = Device(id="g", kind="nvidia", label="GPU 0", name="RTX", memory_total_bytes=24 * GB)
    sample = Sample(device_id="g", time=1, utilisation_percent=82, memory_used_bytes=9 * GB, temperature_celsius=60)
    survey = Survey(devices=(gpu,), samples=(sample,))
    (found,) = DeviceRows().make(survey, {"g": "#ffffff"}, OnDevices(stale_age_s={"g": 12}))
    assert (found.utilisation, found.memory) == ("–", "– / 24 GB")
    assert (found.memory_fraction, found.temperature_and_power) == (None, "")
    assert "Last read 12 s ago: 82 %, 9.0 / 24 GB" in found.tip


class StalledSampler:
    """A sampler that never returns a new sample."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def poll(self) -> Survey:
        return self._survey

    def new_samples(self) -> list[Sample]:
        return []


def test_age_of_readings_and_times_of_samples_use_the_monotonic_clock(monkeypatch):
    gpu = Device(id="g", kind="nvidia", label="GPU 0", name="RTX")
    sample = Sample(device_id="g", time=4e9)  # the wall clock was set back since
    monitor = DeviceMonitor(StalledSampler(Survey(devices=(gpu,), samples=(sample,), arrived={"g": 100.0})))
    for now, stale_age_s in ((100.5, {}), (102.9, {}), (112.2, {"g": 12}), (113.2, {"g": 13})):
        monkeypatch.setattr("gui.machine.monitor.time.monotonic", lambda now=now: now)
        changed = monitor.poll()
        assert monitor.stale_age_s == stale_age_s
        assert changed or not stale_age_s

    class BusySampler(StalledSampler):
        def new_samples(self) -> list[Sample]:
            return [Sample(device_id="g", time=1.0)]

    sampler = BusySampler(Survey(devices=(gpu,)))
    monitor = DeviceMonitor(sampler)
    reported = []
    for quarter in range(10):
        monkeypatch.setattr("gui.machine.monitor.time.monotonic", lambda quarter=quarter: 100 + quarter / 4)
        reported.append(monitor.poll())
    assert reported == [True, False, False, False, True, False, False, False, True, False]
    sampler._survey = Survey(devices=())  # a change of devices is reported at once
    assert monitor.poll()


@pytest.fixture
def _patient_with_helper(monkeypatch) -> None:
    """Let a helper hang for as long as a test likes, and tell its end until the test has seen it."""
    limits = partial(HelperTimeouts, hang_s=PATIENCE_S, notice_s=PATIENCE_S)
    monkeypatch.setattr("core.devices.sampler.HelperTimeouts", limits)


@pytest.mark.slow
@pytest.mark.usefixtures("_patient_with_helper")
def test_hanging_driver_ages_readings_and_window_keeps_polling(assemble, nvml):
    nvml.write(gpus=1, gpu0={"utilisation": 82})
    panel = assemble("devices")
    panel.until(lambda: panel.devices[0].utilisation == "82 %")
    (pid,) = helper_pids()
    helper = psutil.Process(pid)
    helper.suspend()  # as while a call of the driver does not return
    panel.until(lambda: "s old" in panel.devices[0].status, "the age of the readings")
    panel.until_polled(5)  # during one driver call
    assert panel.devices[0].utilisation == "–"
    assert panel.device("cpu:0").status == ""
    first = panel.devices[0].status
    panel.until(lambda: panel.devices[0].status not in {first, ""}, "the age to grow")
    helper.resume()
    panel.until(lambda: panel.devices[0].utilisation == "82 %", "the driver to answer again")


@pytest.mark.usefixtures("_patient_with_helper")
def test_window_does_not_wait_for_slow_calls_and_survives_killed_helper(assemble, nvml):
    """Each NVML call takes 100 ms, longer than a poll may take; then the helper is killed."""
    nvml.write(gpus=1, slow_ms=100, gpu0={"utilisation": 82})
    panel = assemble("devices")
    panel.until(lambda: panel.devices[0].utilisation == "82 %", "the first reading")
    (pid,) = helper_pids()
    assert pid not in {os.getpid(), os.getppid()}
    os.kill(pid, signal.SIGKILL)
    panel.until(lambda: "signal KILL" in panel.window.panels.devices.banner.text(), "the end of the helper")
    panel.until_polled()
    assert len(panel.devices) >= 2


# -- devices that cannot be ticked ---------------------------------------------------------------


@pytest.mark.slow
def test_ticked_device_that_is_blocked_is_reported_once_and_once_unticked_cannot_be_ticked(assemble, nvml):
    nvml.write(gpus=2)
    panel = assemble("start", "devices")
    panel.until(lambda: len(panel.devices) == 4, "the devices")
    panel.tick(uuid(0))
    panel.until_ready()
    nvml.write(gpu0={"mig": 1})
    panel.until(lambda: "MIG mode" in panel.start_status.text(), "the reason why not")
    assert panel.start_status.text().count("is in MIG mode") == 1
    assert panel.chosen.ticked == (uuid(0),)
    assert not panel.start_button.isEnabled()
    panel.tick()
    panel.until(lambda: not device_line(panel.table, uuid(0)).can_be_ticked, "GPU 0 to be blocked")
    line = device_line(panel.table, uuid(0))
    index = index_of(panel.table, line)
    assert "MIG mode" in index.data(Qt.ItemDataRole.ToolTipRole)
    assert "MIG mode" in index.data(Qt.ItemDataRole.AccessibleTextRole)
    assert not index.flags() & Qt.ItemFlag.ItemIsUserCheckable
    assert device_line(panel.table, uuid(1)).can_be_ticked
    middle = place_of(panel.table, line).center()
    panel.qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    assert panel.chosen.ticked == ()


def test_second_mig_device_cannot_be_ticked_and_first_stays_ticked(assemble, nvml):
    nvml.write(gpus=1, gpu0={"mig": 1, "mig_count": 2})
    panel = assemble("devices")
    one, other = mig_uuid(0, 0), mig_uuid(0, 1)
    panel.until(lambda: {one, other} <= {each.id for each in panel.devices}, "the MIG devices")
    panel.tick(one)
    assert not device_line(panel.table, other).can_be_ticked
    assert "Untick GPU 0 MIG 0 first" in tip(device_line(panel.table, other))
    assert "Untick GPU 0 MIG 0 first" in spoken(device_line(panel.table, other))
    assert device_line(panel.table, one).can_be_ticked
    assert panel.chosen.ticked == (one,)
    panel.tick()
    assert device_line(panel.table, other).can_be_ticked
    assert "untick" not in tip(device_line(panel.table, other))


def obstacles(rows, ticked) -> dict[str, str]:
    chosen = [each for each in rows if each.id in ticked]
    return {each.id: why for each in rows if (why := obstacle(each, chosen))}


def test_obstacles_have_reasons_without_labels_and_drop_remembered_ticks():
    rows = [row("cpu:0"), row("MIG-1"), row("MIG-2"), row("GPU-1", blocked="Not yours."), row("GPU-2", lost="Gone.")]
    assert obstacles(rows, []) == {"GPU-1": "Not yours.", "GPU-2": "Gone."}
    assert set(obstacles(rows, ["MIG-2"])) == {"GPU-1", "GPU-2", "MIG-1", "cpu:0"}
    assert set(obstacles(rows, ["cpu:0"])) == {"GPU-1", "GPU-2", "MIG-1", "MIG-2"}
    assert "MIG device" in obstacles(rows, ["cpu:0"])["MIG-1"]
    assert "Untick cpu:0 first" in obstacles(rows, ["cpu:0"])["MIG-1"]
    assert "Untick the other devices first" in obstacles([*rows, row("GPU-3")], ["cpu:0", "GPU-3"])["MIG-1"]
    assert set(obstacles(rows, ["MIG-1", "MIG-2"])) == {"GPU-1", "GPU-2", "cpu:0"}, "a ticked device can be unticked"
    chosen = ChosenDevices()
    chosen.tick(["MIG-1", "MIG-2", "GPU-1"])
    chosen.show_rows((row("GPU-1", blocked="It is in MIG mode."), row("MIG-1"), row("MIG-2")))
    assert chosen.ticked == ("MIG-1",), "ticks that were remembered"
    assert without_label("GPU 3", "GPU 3 is in MIG mode.") == "In MIG mode."
    assert without_label("GPU 3", "GPU 30 is ticked.") == "GPU 30 is ticked."


@pytest.mark.parametrize("ticked", [(), ("GPU-1",), ("MIG-1",), ("MIG-1", "MIG-2"), ("MIG-1", "GPU-1"), ("cpu:0",)])
def test_mig_obstacles_match_validation(ticked):
    devices = {name: Device(id=name, kind="nvidia", label=name, name="A100") for name in ("GPU-1", "MIG-1", "MIG-2")}
    devices["cpu:0"] = Device(id="cpu:0", kind="cpu", label="CPU 0", name="Xeon")
    found = obstacles([row(name) for name in devices], ticked)

    def is_refused(chosen: tuple[str, ...]) -> bool:
        spec, strategy = replace(make_spec("digits_mlp"), devices=chosen), find_strategy("pytorch", "ddp")
        problems = validation._device_problems(spec, strategy, [*devices.values()]) if chosen else []
        return any("only one MIG device" in each.sentence for each in problems)

    for name in devices.keys() - set(ticked):
        assert is_refused((*ticked, name)) == (name in found) or is_refused(ticked)


@pytest.mark.styled
@pytest.mark.parametrize("held_by", [None, "blender (anna)"])
@pytest.mark.parametrize("count", [3, 6])
def test_reason_of_blocked_row_is_painted_even_if_device_is_in_use(view, count, held_by):
    view.resize(340, 400)
    view.show()
    shown = []
    long = "GPU 0 is hidden by CUDA_VISIBLE_DEVICES=1: start Trainyard without it to use this GPU. " * 3
    for reason in (long, "It is in MIG mode."):
        show_devices(view, [row(f"GPU-{number}", blocked=reason, held_by=held_by) for number in range(count)])
        shown.append(view.grab().toImage())
    assert shown[0] != shown[1]


# -- devices in use ------------------------------------------------------------------------------


@pytest.mark.slow
def test_row_names_a_live_run_and_a_second_one_on_its_device_needs_confirmation_naming_both(drive, runs_root, tmp_path):
    start(played(tmp_path / "actor", name="first"), runs_root).until(RunState.RUNNING)
    panel = drive()
    panel.until_state("Running")
    panel.until(lambda: panel.devices[0].status == "runs first", "the run in the row")
    assert panel.devices[1].status == ""
    panel.tick("cpu:0")
    panel.open_recipe(write_recipe(tmp_path, LONG, "second"))
    panel.set_number("epochsBox", 1)
    panel.until(lambda: "CPU 0 is used by" in panel.start_status.text(), "that it is in use")
    panel.start()
    asked = panel.asked().text
    assert "Start second and share CPU 0 with" in asked
    assert "first" in asked
    panel.answer("noButton")
    panel.until(lambda: panel.question() is None)
    assert len(directories(runs_root)) == 1
    panel.start()
    panel.answer("yesButton")
    panel.until(lambda: len(directories(runs_root)) == 2, "the second run")
    panel.until(lambda: panel.window.services.session.spec.name == "second", "the second run to be selected")
    panel.until_state("Finished")


@pytest.mark.slow
def test_new_process_on_ticked_gpu_is_named_and_checked_and_forbids_nothing(assemble, nvml, launch):
    nvml.write(gpus=1, gpu0={"memory_used": GB})
    panel = assemble("memory", "start", "devices")
    panel.until(lambda: len(panel.devices) == 3, "the devices")
    panel.tick(uuid(0))
    panel.until(lambda: "GPU 0 is free" in panel.start_status.text(), "the choices to be ready")
    nvml.write(gpu0={"memory_used": 18 * GB, "compute": f"{launch().pid}:{17 * GB}"})
    panel.until(lambda: "GPU 0 is held by python" in panel.start_status.text(), "the new process")
    panel.until(lambda: panel.devices[0].status.startswith("used by python"), "the process in the row")
    panel.tick()
    assert device_line(panel.table, uuid(0)).can_be_ticked


# -- with the stand-in for NVML --------------------------------------------------------------------


def test_eight_gpus_are_listed_plotted_and_chosen_and_one_that_is_lost_stays_ticked(assemble, nvml):
    nvml.write(gpus=8, gpu0={"utilisation": 82, "memory_used": int(9.1 * 2**30), "temperature": 64, "power_mw": 312000})
    panel = assemble("run", "start", "devices")
    panel.until(lambda: len(panel.devices) == 10, "8 GPUs and 2 CPU devices")
    assert panel.device(uuid(0)).label == "GPU 0"
    panel.until(lambda: panel.device(uuid(0)).utilisation == "82 %")
    assert panel.device(uuid(0)).memory == "9.1 / 24 GB"
    panel.until(lambda: uuid(7) in panel.plot("memoryPlot")._beside, "8 strips")
    assert panel.plot("utilisationPlot").colours == {row.id: row.colour for row in panel.devices}
    panel.tick(uuid(5), uuid(2))
    panel.until(lambda: "Ready: GPU 2 and GPU 5 are free" in panel.start_status.text())
    assert panel.spec().devices == (uuid(2), uuid(5))
    panel.tick(uuid(5), "cpu:0")
    panel.until(lambda: "cannot be used together" in panel.start_status.text())
    panel.tick(uuid(2))
    nvml.write(gpu2={"lost": 1})
    panel.until(lambda: panel.device(uuid(2)).status.startswith("lost: "))
    panel.until(lambda: "GPU 2 is lost" in panel.start_status.text())
    lost, other = (device_line(panel.table, uuid(number)) for number in (2, 0))
    assert "lost" in spoken(lost)
    assert (lost.is_ticked, lost.row.utilisation, other.can_be_ticked) == (True, "–", True)
    nvml.write(gpu0={"utilisation": 17})
    panel.until(lambda: panel.device(uuid(0)).utilisation == "17 %", "new readings of the other GPUs")
    panel.tick()
    panel.until(lambda: "No device is ticked" in panel.start_status.text())
    assert not device_line(panel.table, uuid(2)).can_be_ticked


def test_readings_of_the_last_window_are_there_in_the_next_one_unless_it_reads_on(assemble, nvml):
    nvml.write(gpus=1, gpu0={"utilisation": 82, "temperature": 61})
    past = recent.path_of("")

    def values(panel) -> list[float]:
        series = panel.window.services.device_monitor.series.utilisation.get(uuid(0))
        return [] if series is None else series.values.tolist()

    panel = assemble("devices")
    monitor, controller = panel.window.services.device_monitor, panel.window.controllers.devices
    panel.until(lambda: monitor.has_past and values(panel).count(82.0) >= 2, "readings")
    monitor.has_past = False
    controller.end()
    assert not past.exists(), "a window that has not read what there is does not replace it"
    monitor.has_past = True
    controller.end()
    assert past.exists()
    nvml.write(gpu0={"utilisation": 17})
    again = assemble("devices")
    again.until(lambda: 82.0 in values(again) and 17.0 in values(again)[values(again).index(82.0) :], "both readings")
    found = values(again)
    new = found.index(17.0, found.index(82.0))
    assert any(math.isnan(each) for each in found[found.index(82.0) : new]), "and a gap between them"
    again.window.controllers.devices.opened()  # as when another language is chosen
    again.until_polled(3)
    assert len(values(again)) >= len(found)


def test_driver_mismatch_shows_banner(assemble, nvml):
    nvml.write(gpus=2, init_error=18)
    panel = assemble("devices")
    banner = panel.window.findChild(QLabel, "driverBanner")
    panel.until(lambda: banner.isVisible() and "mismatch" in banner.toolTip(), "the banner")


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, ...]]:
    """The GPUs that the driver was asked about; it refuses the first time."""
    asked: list[tuple[str, ...]] = []

    def check(ids, environment, *, python):
        assert "TRAINYARD_RUN" not in environment
        assert environment["CUDA_VISIBLE_DEVICES"] == ",".join(ids)
        asked.append(tuple(ids))
        if len(asked) == 1:
            raise RunError("The library is missing.")

    monkeypatch.setattr(preflight, "check", check)
    return asked


def test_answers_are_remembered_and_bad_ones_only_for_a_moment(asked):
    now = [0.0]
    gpus = GpuCheck(lambda: now[0])
    devices = [Device(id=uuid(0), kind="nvidia", label="GPU 0", name="H100"), *cpu_devices()]
    on_cpu = make_spec("digits_mlp")
    spec = replace(on_cpu, devices=(uuid(0),))
    assert gpus.problem(on_cpu, devices) == ""
    assert asked == []
    assert [gpus.problem(spec, devices) for _ in range(3)] == ["The library is missing."] * 3
    assert len(asked) == 1
    now[0] += BAD_S
    assert [gpus.problem(spec, devices) for _ in range(3)] == [""] * 3
    assert len(asked) == 2
    now[0] += GOOD_S - 1
    assert gpus.problem(spec, devices) == ""
    assert len(asked) == 2


def test_start_is_not_offered_without_the_cuda_library(assemble, nvml, nvml_library, monkeypatch):
    nvml.write(gpus=1)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))  # without the folder of the CUDA library
    panel = assemble("start", "devices")
    panel.until(lambda: len(panel.devices) == 3, "the GPU")
    panel.tick(uuid(0))
    panel.until(lambda: "The CUDA driver's library cannot be used" in panel.start_status.text(), "the reason")
    assert not panel.start_button.isEnabled()
