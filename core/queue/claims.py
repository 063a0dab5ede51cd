"""What a supervisor holds of the line while its run trains: a ticket, and a lock on each of its devices."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from core.devices.device import Device
from core.devices.names import join_labels
from core.errors import RunError
from core.language import tr, tr_noop, tr_plural
from core.queue import folder
from core.queue.decision import HOLDING, Ticket, shown_name
from core.queue.line import Line, release
from core.runs.directory import keep_workload, workload_file
from core.runs.facts import RunFacts, RunState
from core.schema.event_kinds import Notice, Record
from core.schema.files import is_regular
from core.schema.paths import WORKLOAD_FILE
from core.schema.spec import RunSpec, read_spec, write_spec
from core.supervisor.companion import Companion
from core.system.own_processes import QUEUE, own_command
from core.text import duration, join_names

TELL_S = 30.0
"""Seconds between two estimates of the end of a run."""
CHANGED = 0.1
"""Share of the remaining time by which an estimate must change before the ticket is updated."""

HAS_CHANGED = tr_noop(
    "{file} has changed since the run was queued. Start what was queued with "
    "`trainyard queue release {run} --recorded`, or the file as it is with `trainyard queue release {run} --current`."
)
NOT_RECORDED = tr_noop(
    "{file} has changed since the run was queued, and it cannot be run from a copy. Start it as it is now with "
    "`trainyard queue release {run} --current`, or put the old text back."
)
GONE = tr_noop("{file} is gone since the run was queued. Put it back, or start what was queued with "
               "`trainyard queue release {run} --recorded`.")


class Claims(Companion):
    """The claims of one run. They last until `release`, or until supervisor and guard have ended."""

    def __init__(self, run: str, fields: dict[str, Any], line: Line | None = None) -> None:
        self._run, self._fields, self._line = run, fields, line
        self._ticket: int | None = None
        self._devices: dict[str, int] = {}
        self._apart = ""
        self._followed = ""
        """The folder of a run that this one follows since it finished."""
        self._since, self._is_late = time.monotonic(), False
        self._told_at = float("-inf")
        self._began: tuple[float, float] | None = None
        """When the progress was first looked at, and how much was done."""
        self.lock_descriptors: list[int] = []
        """The descriptors of the lock of a queued run, which its waiting process took."""
        self.was_queued = False

    @classmethod
    def take(cls, run_dir: Path, spec: RunSpec) -> Claims:
        """Claim the devices of a run that starts now, as far as they are free.

        The run starts in any case: the user was asked. A place without locks must not keep a run from training.
        """
        claims = cls(run_dir.name, _fields(spec))
        with contextlib.suppress(OSError, RunError):
            own = folder.own_line()
            line = own.line
            line.keep()
            claims._ticket = line.put(claims._run, claims._fields)
            claims._line = line
            for device in spec.devices:
                handle = line.claim(device)
                if handle is not None:
                    claims._devices[device] = handle
            claims._apart = own.apart
        return claims

    @classmethod
    def take_over(cls, run_dir: Path, text: str) -> Claims:
        """Return the claims that the process which waited for them has handed over; see `core.queue.waiter`."""
        given = json.loads(text)
        line = Line(*given["line"])
        claims = cls(run_dir.name, given["ticket_fields"], line)
        line.keep()
        claims._ticket, claims._devices = given["ticket"], dict(given["devices"])
        claims.lock_descriptors = list(given["lock"])
        for handle in (*claims.lock_descriptors, *claims.descriptors):
            os.set_inheritable(handle, False)
        claims.was_queued = True
        from core.queue.request import read_request  # other runs do not need it

        with contextlib.suppress(ValueError):
            request = read_request(run_dir)
            claims._followed = request.after if request is not None and request.after_mode == "ok" else ""
        return claims

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of the run: all of them are claimed unless it shares some."""
        return tuple(self._fields["devices"])

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What no process but the supervisor and its guard may keep open."""
        return tuple(filter(None, (self._ticket, *self._devices.values())))

    def find(self, devices: Sequence[Device], record: Callable[[Record], None], *, resumes: bool) -> Sequence[Device]:  # noqa: ARG002
        """Record which other runs have claimed devices of this run, that users are not seen, and what a run left.

        The tickets are read here and not before the start is recorded, since other users may have put many there.
        """
        if others := self._others():
            record(Notice(text=self._sharing(others, {device.id: device.label for device in devices})))
        if self._apart:
            record(Notice(text=self._apart))
        if self._followed and folder.facts_of(Path(self._followed)).traceback:
            text = tr("Run {run}, which this run follows, finished, but its output ends with an exception. Look at "
                      "it before you rely on its results.", run=self._followed.rpartition("/")[2])
            record(Notice(text=text))
        return ()

    def _others(self) -> dict[str, list[Ticket]]:
        """Return by device the runs that had claimed it before this run."""
        if self._line is None:
            return {}
        own = (self._line.uid, self._run)
        holding = [each for each in self._line.tickets() if each.state == HOLDING and each.key != own]
        before = [each for each in holding if each.since <= self._fields["since"]]
        found = {device: [each for each in before if device in each.devices] for device in self.devices}
        return {device: users for device, users in found.items() if users or device not in self._devices}

    def _sharing(self, others: Mapping[str, list[Ticket]], labels: Mapping[str, str]) -> str:
        from core.queue.listing import run_words  # imported here, so that the start of a run does not wait for it

        names = [labels.get(device, device) for device in others]
        users = dict.fromkeys(run_words(each) for each in chain.from_iterable(others.values()))
        return tr_plural(
            "{devices} was claimed by {runs} when this run started, so the runs shared it.",
            "{devices} were claimed by {runs} when this run started, so the runs shared them.", len(names),
            devices=join_labels(names), runs=join_names(users) if users else tr("another run"),
        )

    def poll(self, facts: RunFacts) -> str:
        """Tell the line at times when the run will end. Return once that its time limit is over."""
        self._tell(facts)
        limit_s = self._fields["limit_s"]
        if limit_s is None or self._is_late or time.monotonic() - self._since < limit_s:
            return ""
        self._is_late = True
        return tr("The time limit of {limit} is over, so the run is stopped.", limit=duration(limit_s))

    def _tell(self, facts: RunFacts) -> None:
        now = time.time()
        if self._line is None or self._ticket is None or time.monotonic() - self._told_at < TELL_S:
            return
        if facts.state is not RunState.RUNNING:
            return
        self._told_at = time.monotonic()
        expected, told = self._expected_end(facts, now), self._fields.get("ends_at")
        if expected is None or (told is not None and abs(expected - told) <= CHANGED * max(expected - now, TELL_S)):
            return
        self._fields["ends_at"] = expected
        with contextlib.suppress(OSError):
            self._ticket = self._line.put(self._run, self._fields, self._ticket)

    def _expected_end(self, facts: RunFacts, now: float) -> float | None:
        """Return when the run is expected to end, in unix seconds; None if that is not known yet."""
        if facts.plan is not None:
            done, total = float(facts.step), float(facts.plan.steps)
        else:
            done, total = (0.0, 0.0) if facts.progress is None else (facts.progress.done, facts.progress.total)
        limit_s = self._fields["limit_s"]
        limit = None if limit_s is None else self._fields["since"] + limit_s
        if self._began is None or done <= self._began[1] or total <= 0:
            self._began = self._began or (now, done)
            return limit
        since, before = self._began
        estimate = now + max(0.0, total - done) * (now - since) / (done - before)
        return estimate if limit is None else min(estimate, limit)

    def over(self, facts: RunFacts) -> None:
        """Give the devices up: who waits for this end may start a run on them."""
        self.release(facts)

    def lost(self) -> None:
        """Give the devices up, which the guard has inherited."""
        self.release()

    def spec(self, run_dir: Path) -> RunSpec:
        """Return the spec of a queued run whose turn has come; its devices become those of the spec.

        If the recipe or script has changed and nothing says what to do then, the run is held, and this process waits
        again. Raises `ValueError` or `OSError`.
        """
        from core.queue.request import change_request, hash_of, read_request  # other runs do not need these

        spec, request = read_spec(run_dir, changed=False), read_request(run_dir)
        new = replace(spec, devices=self.devices) if {*spec.devices} != {*self.devices} else spec
        path, now = workload_file(new), hash_of(new)
        if request is not None and path is not None and request.workload_hash and now != request.workload_hash:
            # A copy can be run in place of the file: not that of a notebook, or of a folder.
            can_run = path.suffix == ".py" and path.name != "__main__.py" and is_regular(run_dir / WORKLOAD_FILE)
            if request.if_changed == "hold" or (request.if_changed == "recorded" and not can_run):
                sentence = (HAS_CHANGED if now else GONE) if can_run else NOT_RECORDED
                why = tr(sentence, file=path, run=run_dir.name)
                change_request(run_dir, held=True, why_held=why, at_once=False)
                self.release()
                command = own_command(QUEUE, str(run_dir), "enter")
                os.execv(command[0], command)  # noqa: S606
            if request.if_changed == "recorded":
                new = replace(new, recorded=True)
            else:
                keep_workload(run_dir, new)
        if request is not None and request.at_once:
            change_request(run_dir, at_once=False)  # after a reboot it waits for its devices again
        if new != spec:
            write_spec(run_dir, new)
        return new

    def give_up(self, run_dir: Path, why: str) -> None:
        """Give the devices up, as the run could not be started. A queued run has failed, or it would wait again."""
        if self.was_queued:
            from core.queue.control import end_unstarted  # likewise

            with contextlib.suppress(OSError):
                end_unstarted(run_dir, why, RunState.FAILED)
        self.release()

    def release(self, facts: RunFacts | None = None) -> None:
        """Give the devices up, also for a process that has inherited the claims. `facts`: of a run that is over."""
        line, self._line = self._line, None
        if line is None or self._ticket is None:
            return
        with contextlib.suppress(OSError):
            ended = folder.outcome(self._run, facts) if self.was_queued and facts is not None else None
            folder.record(line, len(self._fields["devices"]) * (time.time() - self._fields["since"]), ended)
        for handle in self._devices.values():
            with contextlib.suppress(OSError):
                release(handle)
        with contextlib.suppress(OSError):
            line.remove(self._run, self._ticket)


def _fields(spec: RunSpec) -> dict[str, Any]:
    return {
        "state": HOLDING, "name": shown_name(spec.name), "devices": list(spec.devices), "since": time.time(),
        "limit_s": spec.time_limit_s,
    }
