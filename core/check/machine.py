"""The checks without work on a GPU. What real machines answer wrongly is from public reports; a comment names each."""

from __future__ import annotations

import os
import re
import resource
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from core.catalog.frameworks import FRAMEWORKS
from core.catalog.installed import interpreter
from core.check.check import CouldNotLook, NotApplicable, Problem, Scope
from core.config import builds
from core.config.finding import problems_of
from core.devices.device import Device
from core.devices.names import join_labels
from core.devices.nvidia import preflight
from core.devices.nvidia.health import problems
from core.devices.reader import KERNEL_LOG
from core.doctor.sources import XID, kernel_messages
from core.language import tr, tr_noop
from core.pythons.discovery import PythonSearch
from core.text import join_names, join_phrases, size

OLDEST_DRIVER = 525
"""The first major version whose NVML tells used memory apart from the driver's reserve, and that PyTorch 2 needs."""
KERNEL_MODULE = re.compile(r"Kernel Module(?: for \S+)?\s+(?P<version>\d[\d.]*)")
"""In the first line of /proc/driver/nvidia/version, with `Open Kernel Module` for the open one."""
SLOW_LOAD_MS, SLOW_LISTS_MS = 5.0, 50.0
"""Milliseconds per GPU from which watching is felt: 1 % of a core at the window's rates."""
HARDWARE_XIDS = frozenset({48, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 121, 136, 140, 143, 154})
"""Those that NVIDIA's catalogue of Xid errors lays at the GPU, its memory, links or firmware. Others, such as 13, 31,
43 and 45, are also written for faults of programs, and for processes that were terminated."""
SELECTION = tr_noop("Check what else selects GPUs here, such as a container, MIG mode or a cluster's scheduler.")
WSL = "dev/dxg"
"""What Linux in Windows (WSL2) has in the place of the driver's files."""
VERSIONS = {"driver": ["nvmlSystemGetDriverVersion"], "cuda": ["nvmlSystemGetCudaDriverVersion_v2"]}
MEMORY, PROCESSES = ["nvmlDeviceGetMemoryInfo", "nvmlMemory_v2"], ["nvmlDeviceGetComputeRunningProcesses_v3"]
LOAD = {"utilisation": ["nvmlDeviceGetUtilizationRates"], "memory": MEMORY, "power": ["nvmlDeviceGetPowerUsage"]}
TIMES = 10
"""Calls of which the median time is taken. More, of slow calls on eight GPUs, take longer than an answer may."""
PCI = "{domain:04x}:{bus:02x}:{device:02x}.0"
SHARED_MEMORY_BYTES = 1 << 30
"""What the loader processes of PyTorch need at least; containers have 64 MB by default."""
OPEN_FILES = 1024
CONTAINER = (".dockerenv", "run/.containerenv", "run/systemd/container", "var/run/secrets/kubernetes.io")
"""Files and folders in the root of containers."""
VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NCCL_P2P_DISABLE",
             "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables that change what trainings see of GPUs or take of their memory."""


def driver(scope: Scope) -> str:
    try:
        versions = scope.driver.ask(system=VERSIONS)
    except CouldNotLook as error:
        raise Problem(str(error), error.remedy or tr(KERNEL_LOG)) from error
    text = _read(scope.root / "proc/driver/nvidia/version")
    major, minor = versions["cuda"] // 1000, versions["cuda"] % 1000 // 10
    module = found["version"] if (found := KERNEL_MODULE.search(text)) else ""
    library = versions["driver"]
    if module and module != library:
        raise Problem(tr("kernel module {module}, library {library}", module=module, library=library),
                      tr("The driver was updated while in use: reboot, or reload its kernel module."))
    if int(library.partition(".")[0]) < OLDEST_DRIVER:
        raise Problem(tr("driver {version}", version=library),
                      tr("Install driver {oldest} or later.", oldest=OLDEST_DRIVER))
    words = tr("driver {version} for CUDA up to {cuda}", version=library, cuda=f"{major}.{minor}")
    if (scope.root / WSL).exists():
        raise NotApplicable(tr("{words}: the kernel module is that of Windows", words=words))
    if not module:
        raise CouldNotLook(tr("{words}: the version of the kernel module cannot be read", words=words))
    return join_phrases((words, tr("open kernel module") if "Open" in text else tr("proprietary kernel module")))


def census(scope: Scope) -> str:
    count = scope.driver.ask(system={"count": ["nvmlDeviceGetCount"]})["count"]
    listed = scope.driver.ask(each={"pci": ["nvmlDeviceGetPciInfo_v3"], "minor": ["nvmlDeviceGetMinorNumber"]})
    if (scope.root / WSL).exists():  # which has no device files, and no PCI bus of the GPUs
        raise NotApplicable(tr("WSL2 shows GPUs without device files; NVML lists {count}", count=count))
    if silent := [name for name, answers in listed.items() for each in answers.values() if is_error(each)]:
        raise Problem(tr("{names} do not say where they are", names=join_names(silent)), tr(KERNEL_LOG),
                      _named(scope, silent))
    if len(listed) < count:
        raise Problem(tr("{lost} of {count} GPUs do not answer", lost=count - len(listed), count=count), tr(KERNEL_LOG))
    on_bus = {file.parent.name for file in (scope.root / "sys/bus/pci/devices").glob("*/vendor")
              if _read(file) == "0x10de" and _read(file.with_name("class")).startswith("0x03")}
    found = {PCI.format(**answer["pci"]) for answer in listed.values()}
    files = [scope.root / f"dev/nvidia{answer['minor']}" for answer in listed.values()]
    # Some containers name device files otherwise, so one that is missing is no problem.
    if closed := [str(file) for file in files if file.exists() and not os.access(file, os.R_OK | os.W_OK)]:
        raise Problem(tr("{files} cannot be opened by this user", files=join_names(closed)),
                      tr("Ask for the right to open them (often the group video); in a container, pass them to it."))
    if not on_bus:
        raise CouldNotLook(tr("this system shows no GPU on its PCI bus; NVML lists {count}", count=len(found)))
    if not (missing := sorted(on_bus - found)):
        return tr("{count} on the bus, with NVML, and as device files", count=len(found))
    more = sorted(str(each) for each in {*(scope.root / "dev").glob("nvidia[0-9]*")}.difference(files))
    if more or not _container(scope):
        words = tr("NVML does not list the GPU at {addresses}", addresses=join_names(missing))
        raise Problem(tr("{words}, although there is {files}", words=words, files=join_names(more)) if more else words,
                      tr("A container or the scheduler of a cluster may keep it back. Otherwise: {log}",
                         log=tr(KERNEL_LOG)))
    instances = (device.id for device in scope.survey.devices if device.is_mig)
    known = set(map(preflight.plain, (*listed, *instances)))
    shown = preflight.visible({name: value for name, value in os.environ.items() if name != preflight.VISIBLE})
    if unknown := [each for each in shown if preflight.plain(each) not in known]:
        raise Problem(tr("CUDA shows {names}, which NVML does not list", names=join_names(unknown)), tr(SELECTION))
    return tr("this container sees {count} of {all} GPUs", count=len(found), all=len(on_bus))


def order(scope: Scope) -> str:
    if not (gpus := [gpu for gpu in scope.gpus if not gpu.blocked and not gpu.is_mig]):
        raise NotApplicable(tr("CUDA shows a process one MIG device at most"))
    every = ",".join(gpu.id for gpu in gpus)
    environments = [{preflight.VISIBLE: each, preflight.ORDER: preflight.BY_BUS} for each in (every, *every.split(","))]
    with ThreadPoolExecutor(len(environments)) as pool:  # each answer takes a second of a real driver
        shown = list(pool.map(lambda chosen: preflight.visible({**os.environ, **chosen}), environments))
    for chosen, found in zip(environments, shown, strict=True):
        asked = chosen[preflight.VISIBLE].split(",")
        if list(map(preflight.plain, found)) != list(map(preflight.plain, asked)):
            words = tr("asked for {asked}, CUDA shows {shown}", asked=join_names(asked), shown=join_names(found) or "-")
            raise Problem(words, tr(SELECTION), _named(scope, asked))
    return tr("CUDA shows {labels}, each alone and all in this order", labels=join_labels([gpu.label for gpu in gpus]))


def memory_api(scope: Scope) -> str:
    if not (gpus := {gpu.id: gpu for gpu in scope.gpus if not gpu.is_mig}):
        raise NotApplicable(tr("the driver tells the memory of whole GPUs only"))
    found = scope.driver.ask(each={"memory": MEMORY})
    if missing := [gpu.label for name, gpu in gpus.items() if name not in found]:
        raise CouldNotLook(tr("the driver does not list {labels}", labels=join_labels(missing)))
    answers = {gpu: found[name]["memory"] for name, gpu in gpus.items()}
    errors = {gpu: each for gpu, each in answers.items() if is_error(each)}
    labels = join_labels([gpu.label for gpu in errors])
    if any(not error["never"] for error in errors.values()):
        raise Problem(join_phrases(f"{gpu.label}: {error['error']}" for gpu, error in errors.items()), tr(KERNEL_LOG),
                      list(errors))
    if errors and all(gpu.shared_memory for gpu in errors):
        raise NotApplicable(tr("{labels}: the memory is that of the host", labels=labels))
    if errors:
        raise CouldNotLook(tr("{labels}: the driver does not tell used memory apart from its reserve, so “released” is "
                              "judged roughly", labels=labels))
    for gpu, each in answers.items():
        if each["used"] + each["free"] + each["reserved"] != each["total"] or not each["total"]:
            text = ", ".join(f"{key} {each[key]}" for key in ("total", "used", "free", "reserved"))
            raise Problem(tr("the figures do not add up: {text} bytes", text=text), tr(KERNEL_LOG), [gpu])
    reserved = sorted({size(each["reserved"]) for each in answers.values()})
    return tr("used + free + reserved = total; reserved: {sizes}", sizes=join_names(reserved))


def health(scope: Scope) -> str:
    whole = {gpu.pci_bus_id: gpu for gpu in scope.survey.devices if gpu.kind == "nvidia" and not gpu.is_mig}
    gpus = list(dict.fromkeys(whole.get(gpu.pci_bus_id, gpu) if gpu.is_mig else gpu for gpu in scope.gpus))
    answers = scope.driver.ask(health=True)
    if found := [(gpu, each) for gpu in gpus for each in problems(answers.get(gpu.id, {}), gpu)]:
        remedies = dict.fromkeys(each.remedy for _, each in found)
        raise Problem(" ".join(each.sentence for _, each in found), " ".join(remedies),
                      list(dict.fromkeys(gpu for gpu, _ in found)))
    rows = [(gpu, name, row) for gpu in gpus for name, row in answers.get(gpu.id, {}).items()]
    if failed := [f"{gpu.label} {name}: {row['could_not']}" for gpu, name, row in rows if "could_not" in row]:
        raise CouldNotLook(join_phrases(failed))
    if not (asked := sum("value" in row for _, _, row in rows)):
        raise NotApplicable(tr("the driver tells nothing of the health of these GPUs"))
    return tr("nothing is wrong by {count} answers of the driver", count=asked)


def latency(scope: Scope) -> str:
    answers = scope.driver.ask(each={**LOAD, "processes": PROCESSES}, times=TIMES)
    chosen = [answers.get(gpu.id, {}) for gpu in scope.gpus]
    known = [{name: ms for name, ms in each.items() if not is_error(ms)} for each in chosen]
    if not any(known):
        raise CouldNotLook(tr("the driver gives no readings"))
    load = max(sum(each.get(name, 0.0) for name in LOAD) for each in known)
    lists = max(each.get("processes", 0.0) for each in known)
    words = tr("utilisation, memory and power {load:.3f} ms, list of processes {lists:.2f} ms for the slowest GPU",
               load=load, lists=lists)
    if load > SLOW_LOAD_MS or lists > SLOW_LISTS_MS:
        raise Problem(words, tr("Switch persistence mode on (sudo nvidia-smi -pm 1), and look what else asks it."))
    return words


def kernel_log(scope: Scope) -> str:
    scope.driver.ask(system=VERSIONS)  # raises without a driver
    found = Counter((match["place"], int(match["number"])) for match in XID.finditer(kernel_messages(scope.root)))
    words = join_names(tr("Xid {number} at {place} ({count} times)", number=number, place=place, count=count)
                       for (place, number), count in found.items())
    if any(number in HARDWARE_XIDS for _, number in found):
        raise Problem(words, tr("Reset the GPU or reboot; if it comes again, have the GPU and its power looked at."))
    return words or tr("no Xid since the start of this system")


def frameworks(scope: Scope) -> str:
    """Return every Python with a framework. A problem: no build of a framework has code for the GPUs."""
    gpus = [device for device in scope.devices if device.kind == "nvidia"]
    search = PythonSearch()
    search.start()
    for row in FRAMEWORKS:
        search.add(interpreter(row))
    infos = [found.info for found in search.wait() if found.info is not None]
    seen, broken = [], list[str]()
    for row in {row.extra: row for row in reversed(FRAMEWORKS)}.values():  # Keras has the build of TensorFlow
        own = [(info.path, package.version or "") for info in infos if (package := info.package(row.extra)) is not None]
        seen += [tr("{title} {version} in {python}", title=row.title, version=version, python=python)
                 for python, version in own]
        verdicts = [builds.judge_build(row, python, gpus) for python, _ in own] if gpus else []
        against = problems_of(filter(None, verdicts))
        broken += against[:1] if len(against) == len(verdicts) else []
    if broken:
        raise Problem(join_phrases(seen), " ".join(broken), gpus)
    if not seen:
        raise Problem(tr("no Python here has PyTorch or TensorFlow"),
                      tr("Install a framework; docs/installing.md says how."))
    return join_phrases(seen)


def surroundings(scope: Scope) -> str:
    folder = scope.root / "dev/shm"
    shared = shutil.disk_usage(folder).total if folder.is_dir() else None
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wrong: dict[str, str] = {}
    if shared is not None and shared < SHARED_MEMORY_BYTES:
        wrong[tr("{size} of shared memory", size=size(shared))] = tr(
            "Loader processes need more (docker run --shm-size=8g; otherwise mount {folder} larger).", folder=folder)
    if files != resource.RLIM_INFINITY and files < OPEN_FILES:
        wrong[tr("at most {files} open files", files=files)] = tr("Raise the limit (ulimit -n 4096).")
    if wrong:
        raise Problem(join_phrases(wrong), " ".join(wrong.values()))
    kernel = scope.root / "proc/sys/kernel"
    limit = _read(Path("/sys/fs/cgroup/memory.max"))
    known = {
        tr("shared memory"): size(shared) if shared is not None else "-", tr("open files"): files,
        "ptrace_scope": _read(kernel / "yama/ptrace_scope"), "dmesg_restrict": _read(kernel / "dmesg_restrict"),
        tr("memory limit"): size(int(limit)) if limit.isdigit() else "", tr("container"): _container(scope),
        **{name: os.environ.get(name, "") for name in VARIABLES},
    }
    return ", ".join(f"{name} {value}" for name, value in known.items() if value != "")


# -- what they share -------------------------------------------------------------------------------


def is_error(answer: object) -> bool:
    """Return whether a call of NVML was answered by an error."""
    return isinstance(answer, dict) and "error" in answer


def _named(scope: Scope, ids: Sequence[str]) -> list[Device]:
    return [device for device in scope.devices if device.id in ids]


def _container(scope: Scope) -> str:
    """Return by what it is known that this is a container; the empty string if it is none."""
    return next((each for each in CONTAINER if (scope.root / each).exists()), "")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
