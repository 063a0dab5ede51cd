"""The pre-flight check, with a fake CUDA driver library: a worker sees exactly the selected GPUs."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.devices.nvidia import preflight
from core.errors import RunError
from core.launchers import local
from core.schema.spec import RankAssignment
from tests.nvml.standin import StandIn, build_cuda, mig_uuid, uuid
from tests.support.running import make_spec
from tests.support.waiting import PATIENCE_S


def env(*ids: str, **changes: str) -> dict[str, str]:
    """Return the environment of a worker that should see these GPUs."""
    return {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(ids), **changes}


def refusal(ids: list[str], environment: dict[str, str], **options: object) -> str:
    with pytest.raises(RunError) as refused:
        preflight.check(ids, environment, **options)  # type: ignore[arg-type]
    return str(refused.value)


def test_check_passes_when_the_driver_shows_the_selected_gpus_in_order(nvml: StandIn, tmp_path: Path) -> None:
    nvml.write(gpus=4, gpu3={"speed": 9})
    preflight.check([uuid(3), uuid(1)], env(uuid(3), uuid(1)))
    preflight.check([uuid(3), uuid(1)], env("3", "1"))  # numbers in PCI bus order
    preflight.check([], env())
    old = build_cuda(tmp_path, "-DOLD")  # without the newer function for UUIDs
    preflight.check([uuid(1)], env(uuid(1), LD_LIBRARY_PATH=str(old)))


WOULD_SEE = "which GPUs this run would see"


@pytest.mark.parametrize(
    ("settings", "ids", "shown", "sentence"),
    [
        ({"gpu2": {"cuda_hidden": 1}}, (0, 2), (0, 2), (
            "The CUDA driver would not show this run the chosen GPUs: "
            f"chosen: {uuid(0)}, {uuid(2)}; shown: {uuid(0)}. "
            "Check what else selects GPUs here, such as a container, MIG mode or the scheduler of a cluster "
            "(nvidia-smi -L lists them), or choose other GPUs.")),
        ({"gpu2": {"cuda_hidden": 1}}, (2,), (2,), f"chosen GPUs: chosen: {uuid(2)}; shown: none."),
        ({}, (0, 1), (1, 0),
         f"the chosen GPUs in the chosen order: chosen: {uuid(0)}, {uuid(1)}; shown: {uuid(1)}, {uuid(0)}."),
        ({"cuda_slow_ms": 3_600_000}, (0,), (0,),
         f"The CUDA driver did not answer within 0.5 s {WOULD_SEE}. Look into"),
        ({"cuda_crash": "segv"}, (0,), (0,),
         f"The process that asks the CUDA driver {WOULD_SEE} ended with signal SEGV."),
        ({"cuda_crash": "abort"}, (0,), (0,), f"{WOULD_SEE} ended with signal ABRT."),
        ({"cuda_error": 999}, (0,), (0,),
         f"The CUDA driver cannot say {WOULD_SEE}: “unknown error” (cuInit, error 999). Look into"),
        ({"cuda_count_error": 999}, (0,), (0,),
         f"{WOULD_SEE}: “unknown error” (cuDeviceGetCount, error 999). Look into"),
    ],
)
def test_gpus_that_the_driver_does_not_show_are_refused(nvml, settings, ids, shown, sentence) -> None:
    nvml.write(gpus=3, **settings)
    timeout = {"timeout_s": 0.5} if "cuda_slow_ms" in settings else {}
    assert sentence in refusal([*map(uuid, ids)], env(*map(uuid, shown)), **timeout)


def test_integer_gpu_numbers_follow_the_pci_bus_order_and_the_default_is_fastest_first(nvml: StandIn) -> None:
    nvml.write(gpus=3, gpu0={"bus": 9}, gpu1={"speed": 5}, gpu2={"speed": 9})
    environment = env()
    del environment["CUDA_VISIBLE_DEVICES"]
    assert preflight.visible(environment) == [uuid(1), uuid(2), uuid(0)]
    del environment["CUDA_DEVICE_ORDER"]
    assert preflight.visible(environment) == [uuid(2), uuid(1), uuid(0)]
    names = preflight.numbers([uuid(0), uuid(2)], {**os.environ, "CUDA_VISIBLE_DEVICES": uuid(1)})
    assert names == {uuid(0): "2", uuid(2): "1"}
    preflight.check([uuid(0), uuid(2)], env("2", "1"))
    known = ", ".join(map(uuid, (1, 2, 0)))
    with pytest.raises(RunError, match=f"The CUDA driver has no number for {uuid(3)}, only for {known}"):
        preflight.numbers([uuid(3)], os.environ)


def test_mig_device_is_identified_by_its_id_and_cuda_shows_only_one(nvml: StandIn) -> None:
    nvml.write(gpus=2, gpu1={"mig": 1, "mig_count": 2})
    preflight.check([mig_uuid(1, 1)], env(mig_uuid(1, 1)))
    both = [mig_uuid(1, 0), mig_uuid(1, 1)]
    assert f"shown: {both[0]}. " in refusal(both, env(*both))
    assert preflight.visible(env(uuid(1))) == [both[0]]


def test_abandoned_query_process_terminates_itself(nvml: StandIn) -> None:
    nvml.write(gpus=1, cuda_slow_ms=3_600_000)
    left = subprocess.Popen([sys.executable, "-I", preflight.ASK, "1"], stdout=subprocess.DEVNULL)
    assert left.wait(PATIENCE_S) == -signal.SIGALRM


def test_missing_cuda_library_and_interpreter_are_reported_with_the_remedy(nvml: StandIn, nvml_library: Path) -> None:
    nvml.write(gpus=1)
    words = refusal([uuid(0)], env(uuid(0), LD_LIBRARY_PATH=str(nvml_library)))
    assert words.startswith("The CUDA driver's library cannot be used, so nothing can train on a GPU: libcuda")
    assert "Install libcuda.so.1, which comes with the NVIDIA driver" in words
    words = refusal([uuid(0)], env(uuid(0)), python="/nonexistent/python")
    assert words.startswith("The interpreter /nonexistent/python could not be started to ask which GPUs it will see")


def test_query_script_runs_under_other_python_versions_without_packages() -> None:
    ast.parse(preflight.ASK.read_text(encoding="utf-8"), feature_version=(3, 10))
    standard = set(sys.stdlib_module_names)
    tree = ast.parse(preflight.ASK.read_text(encoding="utf-8"))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported <= standard


def assignment(
    *own: str, devices: tuple[str, ...], kind: str = "nvidia", addresses: tuple[str, ...] = ()
) -> RankAssignment:
    return RankAssignment(
        rank=0, world_size=1, devices=devices, own=own, kind=kind, cores=(), target="x", addresses=addresses
    )


def test_worker_environment_has_uuids_or_integer_numbers() -> None:
    both = assignment("GPU-b", devices=("GPU-b", "GPU-a"))
    by_uuid = local.environment({"CUDA_VISIBLE_DEVICES": "7"}, "run", both)
    assert (by_uuid["CUDA_VISIBLE_DEVICES"], by_uuid["CUDA_DEVICE_ORDER"]) == ("GPU-b,GPU-a", "PCI_BUS_ID")
    by_number = local.environment({}, "run", both, {"GPU-a": "0", "GPU-b": "5"})
    assert (by_number["CUDA_VISIBLE_DEVICES"], by_number["CUDA_DEVICE_ORDER"]) == ("5,0", "PCI_BUS_ID")
    alone = assignment("GPU-b", devices=("GPU-b", "GPU-a"), addresses=("127.0.0.1:1",))
    assert local.environment({}, "run", alone)["CUDA_VISIBLE_DEVICES"] == "GPU-b"
    cpu = assignment("cpu:0", devices=("cpu:0",), kind="cpu")
    assert local.environment({}, "run", cpu)["CUDA_VISIBLE_DEVICES"] == ""


def test_integer_numbers_are_derived_from_uuids_and_pass_the_check(nvml: StandIn) -> None:
    nvml.write(gpus=3, gpu0={"bus": 9}, gpu2={"speed": 9})
    ticked = (uuid(0), uuid(2))
    workers = [assignment(each, devices=ticked) for each in ticked]
    names = local.cuda_names(workers, "integer", sys.executable)
    assert names == {uuid(0): "2", uuid(2): "1"}
    assert local.cuda_names(workers, "uuid", sys.executable) is None
    spec = make_spec("digits_mlp")
    local.check_visible_devices(spec, "run", workers, names)
    local.check_visible_devices(spec, "run", workers)


def test_each_worker_is_checked_with_its_own_visible_gpus(nvml: StandIn) -> None:
    nvml.write(gpus=2, gpu1={"cuda_hidden": 1})
    ticked = (uuid(0), uuid(1))
    workers = [assignment(each, devices=ticked, addresses=("127.0.0.1:1",)) for each in ticked]
    with pytest.raises(RunError, match=f"chosen: {uuid(1)}; shown: none"):
        local.check_visible_devices(make_spec("digits_mlp"), "run", workers)


def test_run_without_gpus_does_not_query_the_driver(nvml: StandIn) -> None:
    nvml.write(gpus=1, cuda_crash="segv")
    workers = [assignment("cpu:0", devices=("cpu:0",), kind="cpu")]
    local.check_visible_devices(make_spec("digits_mlp"), "run", workers)
    assert local.cuda_names(workers, "integer", sys.executable) is None
