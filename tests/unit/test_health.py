"""What the driver says about the health of a GPU, asked in a fresh process of a stand-in for the driver's library."""

from textwrap import dedent

import pytest

from core.devices.device import Device
from core.devices.nvidia.health import ROWS, Problem, xid_problem

PREAMBLE = """
import json
import pynvml
from core.devices.device import Device
from core.devices.nvidia.health import XidEvents, health, problems
from tests.nvml.standin import StandIn

nvml = StandIn.inherited()
pynvml.nvmlInit()
handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
GPU = Device(id="GPU-3", kind="nvidia", label="GPU 3", name="H100", pci_bus_id="0000:41:00.0")

def wrong(answers):
    return [[each.id, each.sentence, each.remedy] for each in problems(answers, GPU)]
"""


@pytest.fixture
def asked(nvml):
    """Run code with handles of the stand-in's GPUs in a process of its own; return the value of its last line."""

    def run(code):
        *before, last = dedent(code).strip().splitlines()
        return nvml.python("\n".join([PREAMBLE, *before, f"print(json.dumps({last}))"]))

    return run


GPU = Device(id="GPU-3", kind="nvidia", label="GPU 3", name="H100", pci_bus_id="0000:41:00.0")
RESET = "When its runs are over, reset it (nvidia-smi --gpu-reset -i 0000:41:00.0, as root) or restart the machine."
REPLACE = "Ask the seller of the card or of the machine for a replacement."
FABRIC = "Start the fabric manager in the version of the driver: systemctl restart nvidia-fabricmanager, as root."
END = "End what runs on it first. The command for a reset: nvidia-smi --gpu-reset -i 0000:41:00.0, as root."
MODE = "Set the mode back, as root: nvidia-smi -i 0000:41:00.0 -c DEFAULT"

WRONG = {
    "recovery-action": [
        ({"recovery": 1}, "The driver says that GPU 3 needs a reset (its recovery action).", END),
        ({"recovery": 2}, "The driver says that GPU 3 needs a restart of the machine (its recovery action).", END),
        ({"recovery": 3},
         "The driver says that GPU 3 needs an end of all transfers between GPUs (its recovery action).", END),
        ({"recovery": 4},
         "The driver says that GPU 3 needs a reset once its programs have ended (its recovery action).", END),
        ({"recovery": 99}, "The driver says that GPU 3 needs 99 (its recovery action).", END),
    ],
    "remap-failure": [
        ({"remapped_failure": 1}, "A faulty row of the memory of GPU 3 could not be replaced by a spare one.", REPLACE),
    ],
    "remap-pending": [
        ({"remapped_pending": 1}, "A faulty row of the memory of GPU 3 is only replaced by its next reset.", RESET),
    ],
    "retired-pages": [
        ({"retired_pending": 1}, "A faulty page of the memory of GPU 3 is only retired by its next reset.", RESET),
    ],
    "ecc-errors": [
        ({"ecc_volatile": 2},
         "Memory errors of GPU 3 since the driver was loaded that could not be corrected: 2.", RESET),
    ],
    "unrepairable-memory": [
        ({"unrepairable": 1}, "The driver says that the memory of GPU 3 cannot be repaired.", REPLACE),
    ],
    "compute-mode": [
        ({"compute_mode": 2}, "GPU 3 admits no program (its compute mode), so runs may fail to start on it.", MODE),
        ({"compute_mode": 3},
         "GPU 3 admits one process at a time (its compute mode), so runs may fail to start on it.", MODE),
    ],
    "fabric": [
        ({"fabric": 1},
         "GPU 3 has not joined the NVLink fabric of this machine (not started): CUDA fails (802).", FABRIC),
        ({"fabric": 2},
         "GPU 3 has not joined the NVLink fabric of this machine (in progress): CUDA fails (802).", FABRIC),
        ({"fabric": 3, "fabric_status": 999},
         "GPU 3 has not joined the NVLink fabric of this machine (failed): CUDA fails (802).", FABRIC),
    ],
}
"""By row, settings of the stand-in, and the sentence and the remedy."""
FUNCTIONS = {
    "recovery-action": "nvmlDeviceGetFieldValues",
    "remap-failure": "nvmlDeviceGetRemappedRows",
    "remap-pending": "nvmlDeviceGetRemappedRows",
    "retired-pages": "nvmlDeviceGetRetiredPagesPendingStatus",
    "ecc-errors": "nvmlDeviceGetTotalEccErrors",
    "ecc-errors-ever": "nvmlDeviceGetTotalEccErrors",
    "unrepairable-memory": "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "compute-mode": "nvmlDeviceGetComputeMode",
    "fabric": "nvmlDeviceGetGpuFabricInfoV",
    "persistence-mode": "nvmlDeviceGetPersistenceMode",
    "mig-mode": "nvmlDeviceGetMigMode",
    "virtualisation-mode": "nvmlDeviceGetVirtualizationMode",
    "gsp-firmware": "nvmlDeviceGetGspFirmwareMode",
}


def test_every_row_has_a_case_here():
    assert [row.id for row in ROWS] == list(FUNCTIONS)
    assert {row.id for row in ROWS if row.well is not None} == WRONG.keys()


@pytest.mark.parametrize("row", WRONG)
def test_what_is_wrong_is_said_with_its_remedy(nvml, asked, row):
    cases = WRONG[row]
    nvml.write(gpus=len(cases), **{f"gpu{index}": gpu for index, (gpu, *_) in enumerate(cases)})
    found = asked("[wrong(health(handle)) for handle in handles]")
    assert found == [[[row, sentence, remedy]] for _, sentence, remedy in cases]


def test_healthy_gpu_has_no_problem_and_information_is_none(nvml, asked):
    """Modes of operation, and errors of earlier years, are read and no problem."""
    gpu = {"fabric": 3, "persistence": 1, "virtualisation": 1, "gsp": 0, "mig": 1, "ecc_aggregate": 7}
    nvml.write(gpus=2, gpu0=gpu)
    answers, others, found = asked("[*(each := [health(handle) for handle in handles]), [*map(wrong, each)]]")
    assert {name: answer["value"] for name, answer in answers.items()} == dict.fromkeys(FUNCTIONS, 0) | {
        "fabric": 3, "persistence-mode": 1, "virtualisation-mode": 1, "mig-mode": 1, "ecc-errors-ever": 7,
    }
    assert others["fabric"] == {}, "a machine without a fabric"
    assert found == [[], []]


@pytest.mark.parametrize("answer", ["unsupported", "deprecated", "missing"])
def test_question_that_does_not_apply_is_neither_well_nor_wrong(nvml, asked, answer):
    nvml.write(gpus=1, **{answer: ",".join(set(FUNCTIONS.values()))}, gpu0={"recovery": 1, "ecc_volatile": 3})
    answers, found = asked("[each := health(handles[0]), wrong(each)]")
    assert answers == {name: {} for name in FUNCTIONS}
    assert found == []


def test_field_that_the_driver_does_not_know_does_not_apply(nvml, asked):
    nvml.write(gpus=2, gpu0={"unsupported": "recovery"}, gpu1={"error.recovery": 2})
    answers = asked("[health(handle) for handle in handles]")
    assert [(each["recovery-action"], each["ecc-errors"]) for each in answers] == [({}, {"value": 0})] * 2


def test_question_without_permission_could_not_be_answered_and_the_others_are(nvml, asked):
    nvml.write(gpus=1, gpu0={"error.ecc": 4, "remapped_pending": 1})
    answers, found = asked("[each := health(handles[0]), wrong(each)]")
    assert answers["ecc-errors"] == answers["ecc-errors-ever"] == {"could_not": "Insufficient Permissions"}
    assert answers["gsp-firmware"] == {"value": 1}
    assert [row for row, *_ in found] == ["remap-pending"]


@pytest.mark.parametrize(("code", "driver_says"), [(15, "GPU is lost"), (999, "Unknown Error")])
def test_after_an_error_of_the_gpu_nothing_more_is_asked(nvml, asked, code, driver_says):
    """The stand-in crashes its caller at the next use of the handle, as the driver may."""
    nvml.write(gpus=1, gpu0={"recovery": 1, "error.retired": code})
    answers, found = asked("[each := health(handles[0]), wrong(each)]")
    after = list(FUNCTIONS)[3:]
    assert {name: answers[name] for name in after} == {name: {"could_not": driver_says} for name in after}
    assert [row for row, *_ in found] == ["recovery-action"]


def test_mig_device_has_no_health_of_its_own(nvml, asked):
    nvml.write(gpus=1, gpu0={"mig": 1, "mig_count": 1})
    answers = asked("health(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handles[0], 0))")
    assert answers == {name: {} for name in FUNCTIONS}


# -- errors while watching -----------------------------------------------------------------------------


def test_xid_errors_are_those_since_the_registration_and_each_is_reported_once(nvml, asked):
    nvml.write(gpus=2, gpu0={"xids": "13"})
    found = asked("""
        events = [XidEvents(handle) for handle in handles]
        seen = [[each.take() for each in events]]
        nvml.write(gpu0={"xids": "13,31,94"}, gpu1={"xids": "43"})
        seen += [[each.take() for each in events] for _ in range(2)]
        [each.close() for each in events]
        seen
    """)
    assert found == [[[], []], [[31, 94], [43]], [[], []]]


def test_last_error_of_a_gpu_is_reported_before_that_it_is_lost(nvml, asked):
    nvml.write(gpus=1)
    found = asked("""
        events = XidEvents(handles[0])
        nvml.write(gpu0={"xids": "79", "lost": 1})
        seen = [events.take()]
        try:
            events.take()
        except pynvml.NVMLError as error:
            seen.append(str(error))
        seen
    """)
    assert found == [[79], "GPU is lost"]


def test_gpu_without_events_says_so_and_keeps_nothing(nvml, asked):
    nvml.write(gpus=1, gpu0={"unsupported": "events"})
    assert asked("""
        seen = []
        for _ in range(20):  # more than the stand-in has room for
            try:
                XidEvents(handles[0])
            except pynvml.NVMLError as error:
                seen.append(str(error))
        seen
    """) == ["Not Supported"] * 20


@pytest.mark.parametrize(
    ("number", "sentence", "remedy"),
    [
        (79, "GPU 3 does not answer on the PCIe bus any more (Xid 79).",
         "Check its power cables, its seat in the slot and its cooling, and restart the machine."),
        (94, "An error in the memory of GPU 3 hit one program (Xid 94).", RESET),
        (7, "The driver reported an error of GPU 3 (Xid 7).",
         "NVIDIA's catalogue of Xid errors says what the number means."),
    ],
)
def test_xid_errors_are_explained(number, sentence, remedy):
    assert xid_problem(number, GPU) == Problem(id="xid", sentence=sentence, remedy=remedy)


# -- in the readings -----------------------------------------------------------------------------------

SICK = "The driver says that GPU 1 needs a reset (its recovery action)."


def test_only_problems_are_in_a_reading_and_they_are_read_rarely(nvml, reading):
    nvml.write(gpus=3, gpu1={"recovery": 1, "remapped_pending": 1}, gpu2={"mig": 1, "mig_count": 1})
    first, load, cured = reading("""
        reader = open_reader(Options())
        read(reader)
        nvml.write(gpu1={"recovery": 0, "remapped_pending": 0})
        read(reader, Tier.LOAD, Tier.HEAT, Tier.PROCESSES, Tier.LIMITS)
        read(reader, Tier.HEALTH)
    """)
    assert [bool(sample["fault"]) for sample in first] == [False, True, False, False]
    assert first[1]["fault"].startswith(f"{SICK} End what runs on it first.")
    assert "A faulty row of the memory of GPU 1 is only replaced by its next reset. When its runs" in first[1]["fault"]
    assert load[1]["fault"] == first[1]["fault"]
    assert [sample["fault"] for sample in cured] == [None] * 4
    assert nvml.calls()["nvmlDeviceGetFieldValues gpu1"] == 2
    assert not nvml.calls()["nvmlDeviceGetFieldValues gpu2.mig0"]


def test_error_of_a_question_about_health_does_not_lose_the_gpu(nvml, reading):
    """The stand-in crashes its caller at the next use of the handle, as the driver may."""
    nvml.write(gpus=1, gpu0={"error.retired": 999, "remapped_pending": 1, "power_limit_mw": 300_000})
    rounds = reading("reader = open_reader(Options())\nfor _ in range(3): read(reader)")
    assert [(sample["lost"], sample["power_limit_watts"]) for (sample,) in rounds] == [(None, 300.0)] * 3
    assert all("is only replaced by its next reset" in sample["fault"] for (sample,) in rounds)


def test_errors_that_the_driver_reports_are_read_on_the_gpus_of_a_run_alone(nvml, reading):
    nvml.write(gpus=2)
    rounds = reading("""
        reader = open_reader(Options(wake=frozenset({"GPU-00000001-0000-4000-8000-000000000001"})))
        read(reader)
        nvml.write(gpu0={"xids": "31"}, gpu1={"xids": "31"})
        read(reader, Tier.HEALTH)
        nvml.write(gpu1={"xids": "31,79", "lost": 1})
        read(reader, Tier.LOAD)
        read(reader, Tier.LOAD)
    """)
    used = "A program used memory of GPU 1 that is not its own (Xid 31)."
    assert [samples[0]["fault"] for samples in rounds] == [None] * 4
    began, told, lost, still = (samples[1] for samples in rounds)
    assert began["fault"] is None
    assert told["fault"].startswith(used)
    assert lost["lost"].startswith("GPU 1 does not answer")
    assert used in lost["fault"]
    assert "GPU 1 does not answer on the PCIe bus any more (Xid 79)." in lost["fault"]
    assert still["fault"] == lost["fault"]


# -- what else the stand-in answers ---------------------------------------------------------------------


def test_stand_in_answers_about_links_and_energy(nvml, asked):
    links = {"pcie_generation": 4, "pcie_width": 8, "pcie_max_generation": 5, "pcie_replays": 3}
    peers = {"p2p.2": 3, "topology.2": 50}
    nvml.write(gpus=3, **{"gpu*.energy_mj": 5_000_000}, gpu1={**links, **peers, "energy_mj": 2**40})
    found = asked("""
        names = ["CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth"]
        names += ["PcieReplayCounter", "TotalEnergyConsumption"]
        own = [[getattr(pynvml, f"nvmlDeviceGet{name}")(each) for name in names] for each in handles]
        status = [pynvml.nvmlDeviceGetP2PStatus(each, handles[2], 0) for each in handles]  # 0: read
        [own, status, [pynvml.nvmlDeviceGetTopologyCommonAncestor(each, handles[2]) for each in handles]]
    """)
    assert found == [
        [[1, 16, 4, 16, 0, 5_000_000], [4, 8, 5, 16, 3, 2**40], [1, 16, 4, 16, 0, 5_000_000]], [0, 3, 0], [30, 50, 0],
    ]


def test_stand_in_answers_as_each_call_is_set(nvml, asked):
    nvml.write(gpus=2, deprecated="nvmlDeviceGetTemperature", unsupported="nvmlDeviceGetPowerUsage",
               gpu1={"unsupported": "nvmlDeviceGetTotalEnergyConsumption"})
    found = asked("""
        def answer(name, *arguments):
            try:
                return getattr(pynvml, f"nvmlDeviceGet{name}")(*arguments)
            except pynvml.NVMLError as error:
                return pynvml.nvmlErrorString(error.value)
        calls = [("Temperature", 0), ("TemperatureV", 0), ("PowerUsage",), ("TotalEnergyConsumption",)]
        [[answer(name, handle, *arguments) for name, *arguments in calls] for handle in handles]
    """)
    assert found == [["Deprecated", 35, "Not Supported", energy] for energy in (0, "Not Supported")]
