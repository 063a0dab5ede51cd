"""The table of what an agent can be asked for; `core.config` has further tables with the start of runs.

Here are its clock and the devices of its machine, and what acts on runs as a command would.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

from core.devices.device import Survey
from core.devices.helper import HelperAnswer, to_document
from core.devices.sampler import Sampler
from core.errors import RunError
from core.history.device_use import UseFinder, devices_in_use
from core.history.marks import change_marks
from core.history.marks import rename as rename_run
from core.hosts.agent import runs
from core.hosts.agent.runs import run_folder
from core.hosts.agent.server import Abilities, Request
from core.hosts.protocol import pack_uses
from core.language import tr
from core.runs.facts import state_info
from core.runs.requests import REQUESTS
from core.runs.run import Run
from core.system.procfs import available_bytes

SURVEY_S = 15.0
"""Longest wait for the first readings: a driver that nothing uses takes seconds per GPU to wake up."""
MIN_PERIOD_S, MAX_PERIOD_S = 0.1, 60.0
"""Limits of the time between two readings."""
POLLS = 10
"""Looks for new readings per period."""
AVAILABLE_STEP = 64 * 2**20
"""Bytes by which the memory that programs can still get must change to be reported again."""


def devices(request: Request) -> dict[str, Any]:
    """Return the devices, a reading of each, and what uses them."""
    with Sampler() as sampler:
        survey = sampler.survey(SURVEY_S)
    return {**to_document(_answer(survey)), **pack_uses(devices_in_use(survey, request.runs_root))}


def readings(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the readings whenever there are new ones. `period_s`: seconds between two of them.

    With `uses_period_s`, an item also says what uses the devices if that is not as it was, looked for that often.
    """
    period_s = _seconds(request, "period_s", 1.0)
    uses_period_s = _seconds(request, "uses_period_s", 5.0) if "uses_period_s" in request.terms else None
    looks = None if uses_period_s is None else _UseLooks(request.runs_root, uses_period_s)
    sent = HelperAnswer(devices=())
    with Sampler(period_s=period_s) as sampler:
        while not request.cancelled.is_set():
            survey = sampler.poll()
            answer = _answer(survey)
            uses = looks.news(survey) if looks is not None and survey.devices else None
            if uses is not None or answer != sent:
                known = answer.devices == sent.devices
                yield {**to_document(replace(answer, devices=None) if known else answer, sent.samples), **(uses or {})}
                sent = answer
            request.cancelled.wait(period_s / POLLS)


class _UseLooks:
    """Looks on threads for what uses the devices: a file system that hangs holds up nothing but the next look."""

    def __init__(self, runs_root: Path, period_s: float) -> None:
        self._finder = UseFinder(runs_root)
        self._period_s = period_s
        self._due_at = float("-inf")
        self._thread: Thread | None = None
        self._found: dict[str, Any] | None = None
        self._reported: dict[str, Any] | None = None

    def news(self, survey: Survey) -> dict[str, Any] | None:
        """Return what was found, as JSON, if it is not as it was; None otherwise. Begin the next look when it is due.

        What uses the devices of an unchanged survey may change, too: runs on CPU devices.
        """
        if self._thread is not None and self._thread.is_alive():
            return None
        if time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + self._period_s
            self._thread = Thread(target=self._look, args=(survey,), daemon=True)
            self._thread.start()
        if self._found == self._reported:
            return None
        self._reported = self._found
        return self._reported

    def _look(self, survey: Survey) -> None:
        available = available_bytes()
        rounded = None if available is None else available // AVAILABLE_STEP * AVAILABLE_STEP
        self._found = pack_uses(self._finder.find(survey), rounded)


def _seconds(request: Request, name: str, default: float) -> float:
    value = request.terms.get(name, default)
    if isinstance(value, (int, float)) and MIN_PERIOD_S <= value <= MAX_PERIOD_S:
        return value
    raise ValueError(tr("Readings cannot be sent every {period} s. Ask for {least:g} to {most:g} s.", period=value,
                        least=MIN_PERIOD_S, most=MAX_PERIOD_S))


def _answer(survey: Survey) -> HelperAnswer:
    return HelperAnswer(devices=survey.devices, samples=survey.samples, banner=survey.banner)


MARKS = {"star": bool, "archived": bool, "add_tags": list, "remove_tags": list, "note": str}
"""The marks that can be changed, and the types of their values."""


def request(request: Request) -> dict[str, Any]:
    """Request something of a run: `name` is one of `core.runs.requests.REQUESTS`."""
    run_dir, name = _run_dir(request), _text(request, "name")
    if name not in REQUESTS:
        raise ValueError(tr("A run cannot be asked for this: {name}.", name=name))
    run = Run(run_dir)
    run.catch_up()
    if name == "stop" and state_info(run.facts.state).waits:
        from core.queue.control import cancel

        cancel(run_dir)
    else:
        run.request(name)
    return {}


def resume(request: Request) -> dict[str, Any]:
    """Resume a run, and answer when its new supervisor has started."""
    Run.resume(_run_dir(request), allow_open_ports=request.terms.get("allow_open_ports") is True)
    return {}


def rename(request: Request) -> dict[str, Any]:
    """Give a run another name."""
    return {"name": rename_run(_run_dir(request), _text(request, "name"))}


def mark(request: Request) -> dict[str, Any]:
    """Change the marks of a run; see `core.history.marks.change_marks` for the terms."""
    run_dir = _run_dir(request)
    given: dict[str, Any] = {name: request.terms[name] for name in MARKS if request.terms.get(name) is not None}
    for name, value in given.items():
        if not isinstance(value, MARKS[name]) or (
            isinstance(value, list) and not all(isinstance(each, str) for each in value)
        ):
            raise ValueError(tr("The mark {name} cannot be {value!r}.", name=name, value=value))
    change_marks(run_dir, **given)
    return {}


def remove(request: Request) -> dict[str, Any]:
    """Remove a run that is over, or with `ask` only say whether that is possible and what it would free."""
    from core.history import removal

    run_dir = _run_dir(request)
    if request.terms.get("ask") is True:
        why_not = removal.why_not(run_dir)
        return {"why_not": why_not, "size_bytes": 0 if why_not else removal.size_bytes(run_dir)}
    removed = removal.remove(run_dir)
    return {"freed_bytes": removed.freed_bytes, "problem": removed.problem}


def _run_dir(request: Request) -> Path:
    return run_folder(request.runs_root, request.terms.get("run"))


def _text(request: Request, name: str) -> str:
    value = request.terms.get(name)
    if not isinstance(value, str):
        raise RunError(tr("The request has no {name}.", name=name))
    return value


def clock(request: Request) -> dict[str, float]:
    """Return the time of this machine, in unix seconds."""
    del request
    return {"time": time.time()}


ABILITIES: Abilities = {
    "clock": clock,
    "devices": devices,
    "readings": readings,
    "runs": runs.runs,
    "read": runs.read,
    "request": request,
    "resume": resume,
    "rename": rename,
    "mark": mark,
    "remove": remove,
}
