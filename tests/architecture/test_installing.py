"""Check what `make run` would install with and without a driver, and which Python then trains. Nothing is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import core
from core.catalog.frameworks import framework
from core.catalog.installed import has, interpreter
from tests.support import packages
from tests.support.pythons import install, make_environment, write_program

ROOT = Path(core.__file__).resolve().parents[1]
DRIVER = ROOT / "resources" / "install" / "nvidia_driver.sh"
BUILDS = ROOT / "resources" / "install" / "gpu_builds.py"
ENVIRONMENT = ROOT / "resources" / "install" / "environment.sh"
PYTHON = """\
#!{python} -S
import sys, sysconfig
from pathlib import Path

sys.version_info, sys.base_prefix = {version}, {prefix!r}
sysconfig.get_config_vars()["CONFIG_ARGS"] = {built!r}
sysconfig.get_path = lambda name: {headers!r}
option, code, sys.argv = sys.argv[1], sys.argv[2], sys.argv[2:]
if option == "-c":
    exec(code)
else:
    Path(sys.argv[1]).write_text({name!r})
"""
"""A program that poses as a Python of some version and build. In place of a virtual environment, it writes its name."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that make reads, without an environment. CUDA=1 simulates a driver."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "resources" / "install").mkdir(parents=True)
    (tmp_path / "resources" / "install" / DRIVER.name).write_bytes(DRIVER.read_bytes())
    return tmp_path


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for environments. The current one is `.venv`, and no variable selects another Python."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    for name in ("TENSORFLOW", "KERAS", "PYTORCH", "TORCH"):
        monkeypatch.delenv(f"TRAINYARD_PYTHON_{name}", raising=False)
    return tmp_path


def would_do(project: Path, *arguments: str) -> list[str]:
    """Return the commands of a dry run of `make run`."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "CUDA"))}
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "run", *arguments],
        cwd=project, env=variables, capture_output=True, text=True, check=True,
    )
    return done.stdout.splitlines()


def installed(commands: list[str]) -> list[tuple[str, str]]:
    """Return (environment, installed packages) pairs in order."""
    installs = [line for line in commands if " -m pip install " in line]
    assert all("--constraint constraints.txt" in line for line in installs)
    return [(line.split("/", 1)[0], line.split("constraints.txt ", 1)[1]) for line in installs]


def driver(root: Path, **variables: str) -> str:
    """Return what the driver script prints for the machine in `root`."""
    path = f"{root}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", str(DRIVER), str(root)], env={"PATH": path, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def machine(root: Path, *, module: bool = False, libraries: tuple[str, ...] = ()) -> Path:
    """Simulate a machine with or without the kernel module, whose `ldconfig` lists these libraries."""
    if module:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").touch()
    lines = "".join(f"echo '\tlibcuda.so.1 (libc6,x86-64) => {library}'\n" for library in libraries)
    (root / "ldconfig").write_text(f"#!/bin/sh\n{lines}", encoding="utf-8")
    (root / "ldconfig").chmod(0o755)
    return root


def test_driver_decides_how_many_environments_are_installed(project: Path) -> None:
    """An installation without a driver is replaced once a driver appears; a second start installs nothing."""
    commands = would_do(project, "CUDA=0")
    assert installed(commands) == [(".venv", "--editable '.[torch,tensorflow]'")]
    assert "no CUDA packages are chosen" in "\n".join(commands)
    assert "and-cuda" not in "\n".join(commands)
    commands = would_do(project, "CUDA=1")
    assert installed(commands) == [
        (".venv-tensorflow", "\"tensorflow[and-cuda]; python_version < '3.14'\""), (".venv", "--editable '.[torch]'"),
    ]
    echoes = [line for line in commands if line.startswith("echo") and "An NVIDIA driver was found" in line]
    assert len(echoes) == 2
    assert "TensorFlow" in echoes[0]
    assert "PyTorch" in echoes[1]
    for number, name in enumerate(("bin/python", "run-plain", "test")):
        stamp = project / ".venv" / name
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
        os.utime(stamp, (4_000_000_000 + number,) * 2)
    assert would_do(project, "CUDA=0") == [".venv/bin/trainyard"]
    assert len(installed(would_do(project, "CUDA=1"))) == 2


def made_with(root: Path, *pythons: str) -> tuple[str, str]:
    """Run the script that makes an environment. Return the name of the Python that made it, and the messages."""
    done = subprocess.run(
        ["sh", str(ENVIRONMENT), str(root / "made"), *pythons],
        env={"PATH": f"{root}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False,
    )
    assert (done.returncode, done.stdout) in ((0, ""), (2, ""))
    return (root / "made").read_text() if done.returncode == 0 else "", done.stderr


def make_python(path: Path, **facts: object) -> str:
    """Simulate a Python: by default 3.12, compiled by hand without optimizations, with headers. Return its path."""
    built: dict[str, object] = {
        "version": (3, 12, 1), "prefix": "/opt/python", "built": "'--prefix=/opt/python'", "headers": str(path.parent)
    }
    write_program(path, PYTHON.format(python=sys.executable, name=path.name, **built | facts))
    (path.parent / "Python.h").touch()
    return str(path)


@pytest.mark.parametrize(
    ("python", "system", "name"),
    [
        ({}, {}, "system"),
        ({"built": "'--enable-optimizations' '--with-lto'"}, {}, "python3"),
        ({"prefix": "/usr"}, {}, "python3"),
        ({"version": (3, 13, 0)}, {}, "python3"),
        ({"version": (3, 10, 1)}, {"version": (3, 10, 1)}, ""),
        ({}, {"headers": "/nowhere"}, "python3"),
    ],
    ids=["slow", "optimized", "the-system's", "newer", "both-too-old", "no-headers"],
)
def test_environment_is_made_with_a_python_that_was_compiled_with_optimizations(tmp_path, python, system, name) -> None:
    make_python(tmp_path / "python3", **python)
    used, told = made_with(tmp_path, "", make_python(tmp_path / "usr" / "system", **system))
    assert used == name
    assert ("python3 (3.12.1) was compiled without optimizations" in told) == (name == "system")
    assert ("Trainyard needs Python 3.11 or later, and python3 is older or missing." in told) == (not name)


def test_environment_is_made_with_the_python_that_is_named(tmp_path: Path) -> None:
    named = make_python(tmp_path / "named")
    assert made_with(tmp_path, named, make_python(tmp_path / "usr" / "system")) == ("named", "")
    used, told = made_with(tmp_path, "/nowhere/python3")
    assert used == ""
    assert "/nowhere/python3 is older or missing. Name another Python" in told


def test_driver_is_detected_by_kernel_module_or_library(tmp_path: Path) -> None:
    for number, (facts, variables, seen) in enumerate([
        ({}, {}, "0"),
        ({"module": True}, {}, "1"),
        ({"libraries": ("/usr/lib/x86_64-linux-gnu/libcuda.so.1",)}, {}, "1"),
        ({"libraries": ("/usr/lib/wsl/lib/libcuda.so.1",)}, {}, "1"),
        ({"libraries": ("/usr/local/cuda/compat/libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so.1")}, {}, "0"),
        ({"module": True}, {"CUDA": "0"}, "0"),
        ({"module": True}, {"CUDA": "/usr/local/cuda"}, "1"),  # which is none of its values
    ]):
        root = tmp_path / str(number)
        root.mkdir()
        assert driver(machine(root, **facts), **variables) == seen, (facts, variables)


TORCH = (
    "class version: cuda = '13.0'\n"
    "class cuda: is_available = staticmethod(lambda: {}); device_count = staticmethod(lambda: 2)"
)


@pytest.mark.parametrize(
    ("module", "code", "says"),
    [
        ("torch", "class version: cuda = None\nclass cuda: is_available = staticmethod(lambda: False)", "without CUDA"),
        ("torch", TORCH.format(False), "sees no GPU: is the driver new enough for CUDA 13.0?"),
        ("torch", TORCH.format(True), "is built for CUDA 13.0 and sees 2 GPUs."),
        ("tensorflow", (
            "class sysconfig: get_build_info = staticmethod(lambda: {'cuda_version': '12.5.1'})\n"
            "class config: list_physical_devices = staticmethod(lambda kind: [kind])"),
         "is built for CUDA 12.5.1 and sees 1 GPU."),
        ("tensorflow", "raise ImportError('libcudnn.so.9 is missing')", "does not start: ImportError: libcudnn.so.9"),
    ],
)
def test_installed_build_is_described(tmp_path: Path, module: str, code: str, says: str) -> None:
    assert says in build_sentence(machine(tmp_path, libraries=("/usr/lib/libcuda.so.1",)), module, code)


def test_cuda_build_without_driver_does_not_suggest_a_driver_update(tmp_path: Path) -> None:
    """The state after `make run CUDA=1`, before the driver is installed."""
    sentence = build_sentence(machine(tmp_path), "torch", TORCH.format(False), CUDA="1")
    if os.path.exists("/proc/driver/nvidia/version"):  # noqa: PTH110
        pytest.skip("This machine has the driver.")
    assert "is built for CUDA 13.0. No NVIDIA driver was found, so it trains on CPU devices." in sentence


def build_sentence(root: Path, module: str, code: str, **variables: str) -> str:
    """Return the description of a framework with this code on the machine in `root`."""
    (root / f"{module}.py").write_text(f"__version__ = '1.0'\n{code}\n", encoding="utf-8")
    path = f"{root}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, str(BUILDS), module],
        env={**os.environ, "PYTHONPATH": str(root), "PATH": path, **variables},
        capture_output=True, text=True, check=True,
    )
    assert done.stdout.count("\n") == 1
    return done.stdout


def test_framework_with_its_own_environment_trains_there(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def used() -> list[str]:
        return [interpreter(framework(name)) for name in ("pytorch", "tensorflow", "keras")]

    assert used() == [sys.executable] * 3, "no other environment"
    python = make_environment(environment / ".venv-tensorflow")
    assert used() == [sys.executable] * 3, "it has no framework"
    for module in ("tensorflow", "keras"):
        install(python, module)
    assert used() == [sys.executable, str(python), str(python)]
    monkeypatch.setenv("TRAINYARD_PYTHON_TENSORFLOW", "/somewhere/bin/python")
    assert used() == [sys.executable, *["/somewhere/bin/python"] * 2]
    monkeypatch.setenv("TRAINYARD_PYTHON_KERAS", "~/keras/bin/python")
    assert used()[2] == str(Path.home() / "keras/bin/python")


def test_module_detection_does_not_import_the_module(tmp_path: Path) -> None:
    python = str(make_environment(tmp_path / "other"))
    install(Path(python), "tensorflow")
    assert has(python, "tensorflow")
    assert has(python, "json")  # not in its packages folder: that Python is run to find it
    assert not has(python, "no_such_framework")
    assert not has(str(tmp_path / "missing" / "bin" / "python"), "tensorflow")
    assert has(sys.executable, "pytest")
    assert not has(sys.executable, "no_such_framework")


def test_missing_packages_are_named_with_the_tests_that_were_skipped(monkeypatch, capsys) -> None:
    reasons = ["Skipped: needs the package openssh-server"] * 2 + ["needs the package xvfb openbox", "root reads all"]
    assert packages.summary(reasons) == (
        "3 tests were skipped: 2 without openssh-server, 1 without xvfb. "
        "To run them: apt install openssh-server xvfb openbox"
    )
    assert packages.summary(["root reads all"]) == ""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(packages, "PACKAGES", (packages.COMPILER, packages.BROWSER))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert packages.main() == 0
    assert capsys.readouterr().err == (
        "Tests that need these system packages will be skipped (only root can install packages, with apt-get): "
        "gcc libc6-dev chromium\n"
    )
    assert packages.missing(packages.COMPILER) == "needs the package gcc libc6-dev"
