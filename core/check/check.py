"""What a check of this machine and its results are, what the checks share, and how they are done."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from core.check.keeper import end_runs, keep
from core.devices.device import Device, Survey
from core.devices.names import join_labels
from core.errors import RunError
from core.history.device_use import UseFinder, users_words
from core.language import tr
from core.runs.lock import try_lock
from core.system.folders import cache_folder, make_cache_folder
from core.system.helper_process import HelperProcess
from core.system.own_processes import QUESTIONS, own_command

ANSWER_S, START_S = 5.0, 30.0
"""Seconds to wait for an answer of the driver, and for its first: without persistence mode it prepares each GPU."""
LOCK, FOLDER = "check.lock", "trainyard-check-"
CPU_DEVICES = 2
"""Devices that are checked where there is no GPU."""


class State(Enum):
    """What a check came to. The distinction is that of NVIDIA's DCGM: what was not looked at is no pass."""

    PASS = "pass"  # noqa: S105 (no password)
    PROBLEM = "problem"
    COULD_NOT = "could_not"
    NOT_APPLICABLE = "not_applicable"


class Outcome(Exception):  # noqa: N818 (no error)
    """What a check comes to. `str()` is for people: what was seen, or why nothing was; `remedy` says what helps."""

    state = State.PASS

    def __init__(self, value: str, remedy: str = "", devices: Sequence[Device] = ()) -> None:
        super().__init__(value)
        self.remedy, self.devices = remedy, tuple(devices)


class Problem(Outcome):
    """Something is wrong."""

    state = State.PROBLEM


class CouldNotLook(Outcome):
    """It is not known whether something is wrong."""

    state = State.COULD_NOT


class NotApplicable(Outcome):
    """This machine or these devices have nothing of the kind."""

    state = State.NOT_APPLICABLE


class Driver:
    """Asks the driver in another process (`core.check.questions`). A question that fails ends it; the next starts one.

    So a driver that hangs or crashes ends one check, and no more.
    """

    def __init__(self) -> None:
        self._process: HelperProcess | None = None
        self._never_answered = ""
        """Why the first question had no answer: the others would have none, either."""

    def ask(self, **question: Any) -> Any:  # noqa: ANN401 (each question has an answer of its own)
        """Return the answer. Raises `NotApplicable` without a driver, and `CouldNotLook` if it fails as a whole."""
        if self._never_answered:
            raise CouldNotLook(self._never_answered)
        is_first = self._process is None
        self._process = process = self._process or HelperProcess(own_command(QUESTIONS), stdin=True)
        process.send(json.dumps(question).encode() + b"\n")
        limit_s, lives = START_S if is_first else ANSWER_S, True
        deadline = time.monotonic() + limit_s
        while not (lines := process.read_lines()) and lives and (left_s := deadline - time.monotonic()) > 0:
            lives = process.receive(left_s)
        if not lines:
            with contextlib.suppress(TimeoutError):  # how it ended is known a moment later
                process.wait(0.0 if lives else limit_s)
            how = process.ending()
            why = tr("the driver ended the process that asked it with {how}", how=how) if how else tr(
                "the driver did not answer in {seconds:g} s", seconds=limit_s)
            self._never_answered = why if is_first else ""
            self.close()
            raise CouldNotLook(why)
        answer = json.loads(lines[0])
        if answer.get("absent"):
            raise NotApplicable(tr("this machine has no NVIDIA driver"))
        if "error" in answer:
            raise CouldNotLook(tr("the driver says “{words}”", words=answer["error"]), tr(answer["remedy"]))
        return answer["answer"]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None


class Level(IntEnum):
    """How much work a check is; a level has the checks of the levels before it."""

    QUICK, WORK, FULL = range(3)  # no work on a GPU; computes on the GPUs; trains


@dataclass(kw_only=True)
class Scope:
    """What is checked, and what the checks share. Closing it ends all that they started."""

    devices: tuple[Device, ...]
    """The devices to check: GPUs, or CPU devices."""
    survey: Survey
    driver: Driver = field(default_factory=Driver)
    look_for_users: Callable[[], str] = str
    """Returns what else uses the devices now, in words; the empty string if nothing does."""
    shares: bool = False
    """Whether to compute also on devices that something else uses."""
    obstacle: str = ""
    """Why nothing may compute on the devices; the empty string if something may."""
    root: Path = Path("/")
    kept: dict[str, Any] = field(default_factory=dict)
    """By name, what one check has measured for others: the answer, or the outcome."""
    stack: ExitStack = field(default_factory=ExitStack)
    prefix: str = FOLDER
    """What the name of the folder begins with."""

    @cached_property
    def folder(self) -> Path:
        """The folder of all that the checks write, which a process of its own removes when this one has ended."""
        return keep(Path(tempfile.mkdtemp(prefix=self.prefix)), self.stack)

    @property
    def gpus(self) -> list[Device]:
        """The GPUs to check. Raises `NotApplicable` if there is none."""
        if not (found := [device for device in self.devices if device.kind == "nvidia"]):
            self.driver.ask(system={})  # raises if there is none, or if it cannot list its GPUs
            raise NotApplicable(tr("no NVIDIA GPU is checked"))
        return found

    @property
    def gpus_to_use(self) -> list[Device]:
        """The GPUs on which something may compute. Raises `NotApplicable`, or `CouldNotLook` if they are busy."""
        gpus = self.gpus
        self.refuse_if_busy()
        if not (found := [gpu for gpu in gpus if not gpu.blocked]):
            raise CouldNotLook(tr("{labels} cannot be used", labels=join_labels([gpu.label for gpu in gpus])))
        return found

    def refuse_if_busy(self) -> None:
        """Raise `CouldNotLook` if nothing may compute on the devices now."""
        users = "" if self.shares else self.look_for_users()
        if why := self.obstacle or (tr("left out, since {users}", users=users) if users else ""):
            raise CouldNotLook(why)


@contextlib.contextmanager
def scope_of(survey: Survey, ids: Sequence[str], *, computes: bool, runs: Path | None = None) -> Iterator[Scope]:
    """Yield a scope; what its checks have started is ended afterwards. `ids`: the devices; empty for the usual ones.

    `computes`: whether devices are used. `runs`: the folder of the runs that may use them, too. Raises `ValueError`
    with a sentence for an unknown device.
    """
    known = {device.id: device for device in survey.devices}
    if unknown := [each for each in ids if each not in known]:
        raise ValueError(tr("There is no device {unknown} here; `trainyard devices` lists them.",
                            unknown=", ".join(unknown)))
    gpus = [device for device in survey.devices if device.kind == "nvidia"]
    chosen = [known[each] for each in ids] or gpus or list(survey.devices[:CPU_DEVICES])
    if len({device.kind for device in chosen}) > 1:
        raise ValueError(tr("Name devices of one kind: GPUs, or CPU devices."))
    scope = Scope(survey=survey, devices=tuple(chosen))
    if runs is not None:
        finder = UseFinder(runs)
        scope.look_for_users = lambda: users_words(chosen, finder.find(survey))
    with scope.stack:
        scope.stack.callback(scope.driver.close)
        if computes and not _locked(scope):
            scope.obstacle = tr("another check is computing; check again when it has ended")
        yield scope


def _locked(scope: Scope) -> bool:
    """Keep others of this user from computing, and remove what killed ones have left. Return False if one computes."""
    with contextlib.suppress(OSError):  # a folder that cannot be written must not keep anybody from checking
        make_cache_folder(cache_folder())
        handle = os.open(cache_folder() / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        scope.stack.callback(os.close, handle)
        if not try_lock(handle):
            return False
        scope.prefix += f"{os.fstat(handle).st_ino}-"  # the folders of checks that share this lock
        for folder in Path(tempfile.gettempdir()).glob(f"{scope.prefix}*"):
            end_runs(folder)
    return True


@dataclass(frozen=True, slots=True)
class Check:
    """One check; `tr` translates `asks` and `expected` again."""

    id: str
    level: Level
    asks: str
    """The question in a few words."""
    look: Callable[[Scope], str]
    """Returns what was seen if that is as expected. Raises the other results."""
    expected: str
    """What a pass means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a check; see `Outcome`."""

    check: Check
    state: State
    value: str
    remedy: str = ""
    seconds: float
    devices: tuple[Device, ...] = ()
    """The devices that a problem is about."""


def run(checks: Iterable[Check], scope: Scope) -> Iterator[Result]:
    """Yield the result of each check as soon as it is known. No check can end the others."""
    for check in checks:
        began, is_work = time.monotonic(), check.level > Level.QUICK
        before = scope.look_for_users() if is_work else ""
        try:
            found = Outcome(check.look(scope))
        except Outcome as outcome:
            found = outcome
        except (RunError, OSError) as error:
            found = CouldNotLook(str(error))
        except Exception as error:  # noqa: BLE001 (a fault of one check must not hide the others)
            found = CouldNotLook(tr("the check itself failed: {error}", error=f"{type(error).__name__}: {error}"))
        value, is_problem = str(found), found.state is State.PROBLEM
        if is_work and (users := scope.look_for_users()) not in ("", before):
            value = tr("{value}; perhaps disturbed: {users}", value=value, users=users)
        yield Result(check=check, state=found.state, value=value, remedy=found.remedy if is_problem else "",
                     devices=found.devices if is_problem else (), seconds=time.monotonic() - began)
