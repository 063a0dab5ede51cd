"""What every test stands on: an offscreen Qt, folders of its own, and nothing left behind."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import random
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from core.devices.cpu import CORES_VARIABLE
from core.system import logout
from tests.support import fake_worker, packages, two_users
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

for name in os.environ.keys() & {"LANGUAGE", "LC_ALL", "LC_MESSAGES", "OMP_NUM_THREADS"} | {
    name for name in os.environ
    if name.startswith("TRAINYARD_") and not name.startswith(("TRAINYARD_TEST_", "TRAINYARD_SOAK_"))
}:
    del os.environ[name]  # the user's own settings
os.environ["LANG"] = "C.UTF-8"
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# Read by PyTorch's threads, here and in all runs: else one that waits for another keeps the core that the other needs,
# since several tests run at once. A short run on two cores took five times its processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

SET_BY_OTHERS = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}  # by pytest; by torch's first optimizer

# Started in the background, as runners are, this process ignores SIGINT, and all that it starts would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.nvml.fixtures"]


FOLDERS = {"architecture": "unit", "unit": "unit", "process": "process", "window": "window", "framework": "framework"}
"""The marker of the tests in each folder."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of these tests."""
    parser.addoption("--styled", action="store_true", help="test all windows with their style sheet")
    parser.addoption("--shuffle", type=int, metavar="SEED", help="take the tests in a random order (see tests/hard.py)")


def pytest_sessionstart() -> None:
    """Collect no garbage while tests are collected: there is hardly any, and what is there stays to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage again, without going through the tests and modules each time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by its folder, and put them in the order in which several processes take them."""
    for item in items:
        item.add_marker(FOLDERS[item.path.relative_to(Path(__file__).parent).parts[0]])
    seed = config.getoption("--shuffle")
    items[:] = _in_order(items) if seed is None else _shuffled(items, random.Random(seed))


def pytest_report_header(config: pytest.Config) -> str:
    """Say how the same order can be had again."""
    seed = config.getoption("--shuffle")
    return "" if seed is None else f"random order: --shuffle {seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how many tests were skipped because a package of the system is missing."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", ()))
    if line := packages.summary(reason[2] for reason in skipped if isinstance(reason, tuple)):
        terminalreporter.write_line(line)


def _in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests so that all cores have work until the end.

    One process takes nearly all of a framework, so these come first. The slow ones, of which many wait, are spread
    among those that compute. The shortest come last, so that no process has to wait for another one's long test.
    """
    framework, slow, usual, short = [], [], [], []
    for item in items:
        if item.get_closest_marker("framework"):
            framework.append(item)
        elif item.get_closest_marker("e2e") or item.get_closest_marker("slow"):
            slow.append(item)
        else:
            (short if item.get_closest_marker("unit") else usual).append(item)
    places = {item: number / len(each) for each in (slow, usual) for number, item in enumerate(each)}
    return [*framework, *sorted(places, key=places.__getitem__), *short]


def _shuffled(items: list[pytest.Item], chance: random.Random) -> list[pytest.Item]:
    """Return the tests in a random order. Those of a module stay together, for its fixtures; those of a framework come
    first, since one process takes nearly all of them."""
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    for tests in modules.values():
        chance.shuffle(tests)
    order = list(modules.values())
    chance.shuffle(order)
    order.sort(key=lambda tests: tests[0].get_closest_marker("framework") is None)
    return [item for tests in order for item in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test with two users as root; other users run it in a user namespace, or skip it with the reason."""
    if os.geteuid() == 0 or pyfuncitem.get_closest_marker("two_users") is None:
        return None
    if why_not := two_users.obstacle():
        pytest.skip(why_not)
    if failure := two_users.run_in_namespace(pyfuncitem.nodeid):
        pytest.fail(f"In a user namespace:\n{failure}", pytrace=False)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Send the tests of a framework, with recorded runs, of Ray, the wheel, and the structure to one process each.

    That process has the pool of the framework. Each other test goes to whichever process is free.

    pytest-xdist's own groups (`loadgroup`) have no effect with pytest 9.2, which keeps a test's id elsewhere.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/process/test_recorded_runs.py"):
                return "recorded runs"  # a run's processes are known by its name: two of one name at once are one run
            if nodeid.startswith("tests/process/test_ray_hosts.py"):
                return "ray"  # they share a cluster
            if nodeid.startswith("tests/process/test_wheel.py"):
                return "wheel"  # they share an environment
            if nodeid.startswith("tests/architecture/test_structure.py"):
                return "structure"  # they look at the same syntax trees
            if not nodeid.startswith("tests/framework/"):
                return nodeid
            name = nodeid.lower()
            return "tensorflow" if "tensorflow" in name or "keras" in name else "torch"

        def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
            """Forget what is done: pytest-xdist would count all former tests of the process after each one."""
            nodeid = self.registered_collections[node][item_index]
            scope = self._split_scope(nodeid)
            unit = self.assigned_work[node][scope]
            unit[nodeid] = True
            if all(unit.values()):
                del self.assigned_work[node][scope]
            self._reschedule(node)

    return Scheduling(config, log)


def _cores_of_our_own() -> str:
    """All cores, in an order in which no other process of tests (pytest-xdist) has the same `cpu:0`."""
    cores = sorted(os.sched_getaffinity(0))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = number * len(cores) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return ",".join(str(core) for core in [*cores[first:], *cores[:first]])


os.environ[CORES_VARIABLE] = _cores_of_our_own()  # here, since modules of tests ask for devices when they are imported


@pytest.fixture
def runs_root(tmp_path: Path) -> Path:
    """An empty folder for runs."""
    return tmp_path / "runs"


@pytest.fixture
def qtbot(qtbot: QtBot) -> QtBot:
    """The fixture of pytest-qt, which waits as long as all tests do."""
    for name in ("waitUntil", "waitSignal", "waitExposed", "waitActive"):
        setattr(qtbot, name, functools.partial(getattr(qtbot, name), timeout=round(1000 * PATIENCE_S)))
    return qtbot


@pytest.fixture(scope="session", autouse=True)
def _plain_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The devices are those that a test makes, also where the tests themselves run under a scheduler, or in a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_QUEUE_DIR", str(tmp_path_factory.mktemp("line")))  # for runs of several tests
        for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def fake_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the fake worker: what runs with it loads no framework."""
    return fake_worker.install(tmp_path_factory.mktemp("fake") / "environment")


@pytest.fixture(autouse=True)
def _no_logout() -> Iterator[None]:
    """The tests behave as outside of a session, also where a log-out would end them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logout, "PROC", Path("/nowhere"))
        logout.at_logout.cache_clear()
        yield
        logout.at_logout.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path: Path) -> Iterator[None]:
    """Fails the test that leaves a thread, a process or a changed environment behind."""
    # Its own, not the fixture: that one is undone only after this, and would show as a change.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINYARD_CONFIG_DIR", str(tmp_path / "config"))
        patch.setenv("TRAINYARD_CACHE_DIR", str(tmp_path / "cache"))
        patch.setenv("TRAINYARD_QUEUE_DIR", str(tmp_path / "line"))
        # Inherited by every process that the test starts; helpers are not given what is named after the program.
        patch.setenv("TESTS_OF_TRAINYARD", str(tmp_path))
        before, threads, environment = set(psutil.pids()), set(threading.enumerate()), dict(os.environ)
        yield
        _check(tmp_path, before, threads, environment)


def _check(tmp_path: Path, before: set[int], threads: set[threading.Thread], environment: dict[str, str]) -> None:
    try:
        wait_until(lambda: not _processes(tmp_path, before), "the processes of the test to end")
    except AssertionError as error:
        left = _processes(tmp_path, before)
        told = [_told(pid) for pid in left]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"{error}\nThese processes were left, and were killed now: {told}") from None
    wait_until(lambda: not set(threading.enumerate()) - threads, "the threads of the test to end")
    changed = {name for name in environment.keys() | os.environ.keys() if environment.get(name) != os.environ.get(name)}
    assert not changed - SET_BY_OTHERS, "the test changed the environment"


def _processes(tmp_path: Path, before: set[int]) -> list[int]:
    """The ids of the processes that inherited the test's mark. `before`: those before the test, which cannot have it.

    To read the environments of all processes after each test took more time than most tests do.
    """
    mark = f"TESTS_OF_TRAINYARD={tmp_path}".encode()
    return [pid for pid in set(psutil.pids()) - before if _lives_with(mark, pid)]


def _told(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return f"{pid} {process.status()}, child of {process.ppid()}: {process.cmdline()}"
    return f"{pid}, which has ended since"


def _lives_with(mark: bytes, pid: int) -> bool:
    try:
        has_it = mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return has_it and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system needs the right to mount one: {mounted.stderr.strip()}")
    yield folder
    # A supervisor that has written its last word may still be leaving.
    wait_until(lambda: not subprocess.run(["umount", folder], check=False).returncode, "the file system to be free")
