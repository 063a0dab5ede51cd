"""Wait until the devices of a queued run are free; then become its supervisor, which inherits the locks.

    PYTHON -I -S waiter.py RUN_DIR STATE

STATE is JSON: what `core.queue.__main__` has locked, the command lines of the processes that follow, and the names of
files in the folder of a run. Without `-S` and with the modules that the rest of the program needs, this process would
take several times its 11 MB. It wakes up once a second, the first in the line more often. It reads tickets when one has
changed, and now and then in case a process was killed.
"""

from __future__ import annotations

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from core.queue.decision import GRANTED, decide
from core.queue.line import MAX_ANSWER, Line, is_locked, last_state, read_small, release

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import Any, NoReturn

    from core.queue.decision import Decision, Ticket

TICK_S, SOON_S = 1.0, 0.25
"""Seconds between two ticks; the second are those of the first runs in the line."""
LOOK_S = 10.0
"""Seconds between two readings of all tickets although none has changed: a process may have been killed."""
SPREAD_S = 0.1
"""Seconds by which a run's place in the line makes these readings rarer."""
RARELY_S = 5.0
"""Seconds between two readings by runs that are not among the first."""
FIRST = 4
MARGIN_S = 0.1
"""Seconds from the end of a block to the next look at the device."""
REFUSED_S = 2.0
"""Seconds after which a device that could not be claimed is tried again."""
REFUSALS = 3
"""Claims that must fail in a row before the ticket says why: another ticket may come or go shortly after its lock."""
LOST_S = 30.0
"""Seconds for which the supervisor of a run must be gone before its end counts."""
MAX_REQUEST_BYTES = 64 * 1024
NO_DRIVER = "cpu:"
"""The beginning of the ids of devices without a driver that says which processes use them."""
IN_BACKGROUND = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 &'
OVER = ("finished", "stopped", "failed")
CHANGEABLE = ("priority", "order", "held", "not_before")
"""Fields of the request that are also in the ticket."""


class Waiter:
    """Waits for one run."""

    def __init__(self, run_dir: str, given: dict[str, Any]) -> None:
        self._run_dir, self._run = run_dir, os.path.basename(run_dir)
        self._given = given
        self.line = Line(*given["line"])
        self._fields: dict[str, Any] = given["ticket_fields"]
        self._ticket: int = given["ticket"]
        self._request: dict[str, Any] = {}
        self._request_stamp: object = None
        self._mark: object = None
        self._looked_at = float("-inf")
        self._place = 0
        self._granted: dict[tuple[int, str], float] = {}
        """By key of a ticket, since when its run may take its devices, in seconds of `time.monotonic`."""
        self._devices: dict[str, int] = {}
        """The devices that are claimed while their driver is asked."""
        self._again_at = float("inf")
        """When a device that was not free by its driver is looked at again, in seconds of `time.monotonic`."""
        self._refused = 0
        """How often in a row a device could not be claimed although no ticket has it."""
        self._check: Popen[bytes] | None = None
        self._lost_since: float | None = None
        for handle in (*given["lock"], self._ticket):  # only what this process becomes inherits the locks
            os.set_inheritable(handle, False)

    def tick(self) -> None:
        """Look what has changed, and act. Returns unless this process becomes another."""
        if not os.path.isdir(self._run_dir):
            self._end_check()
            self.line.remove(self._run, self._ticket)
            sys.exit(0)
        if os.path.lexists(self._file("stop")):
            self._leave("stop", "")
        self._read_request()
        if self._request.get("at_once"):
            self._start_at_once()
        self._look_at_other()
        if self._check is not None:
            self._poll_check()
        elif self._is_due():
            self._look()

    @property
    def tick_s(self) -> float:
        """Seconds until the next tick."""
        return SOON_S if self._place < FIRST else TICK_S

    def _file(self, what: str, run_dir: str = "") -> str:
        return f"{run_dir or self._run_dir}/{self._given[what]}"

    # -- what was asked ------------------------------------------------------------------------------

    def _read_request(self) -> None:
        stamp = _stamp(self._file("request"))
        if stamp == self._request_stamp:
            return
        data = read_small(self._file("request"), MAX_REQUEST_BYTES, uid=os.getuid())
        try:
            request = json.loads(data or b"")
            changed = {name: request[name] for name in CHANGEABLE}
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # it is being replaced, or damaged; what was known stays
        self._request_stamp, self._request = stamp, request
        self._tell(**changed)

    def _tell(self, **changes: Any) -> None:  # noqa: ANN401 (JSON)
        """Change the ticket if that is needed."""
        if all(self._fields.get(name) == value for name, value in changes.items()):
            return
        fields = {**self._fields, **changes}
        try:
            self._ticket = self.line.put(self._run, fields, self._ticket)
        except OSError:
            return  # the disk may be full; what the others know is a little old
        self._fields = fields

    def _look_at_other(self) -> None:
        """Find out whether the run has ended that this one waits for."""
        other = self._request.get("after")
        if not other or not self._fields.get("after"):
            return
        state = self._state_of(other)
        if state is None:
            return
        if self._request.get("after_mode") == "ok" and state != "finished":
            self._leave("after", f"{os.path.basename(other)} {state}")
        self._tell(after="")

    def _state_of(self, run_dir: str) -> str | None:
        """Return how a run has ended; None if it has not."""
        if not os.path.isdir(run_dir):
            return "removed"
        state = last_state(self._file("events", run_dir))
        if state in OVER:
            return state
        # A supervisor holds the lock of its run.
        if state in {"queued", "paused"} or is_locked(self._file("lock_file", run_dir)):
            self._lost_since = None
            return None
        self._lost_since = self._lost_since or time.monotonic()
        return "lost" if time.monotonic() - self._lost_since > LOST_S else None

    # -- the line ------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        now = time.monotonic()
        passed = now - self._looked_at
        if now >= self._again_at or passed >= LOOK_S + SPREAD_S * self._place:
            return True
        soonest = 0.0 if self._place < FIRST else RARELY_S
        waits_for_time = (self._fields.get("not_before") or 0.0) > time.time() - 2 * TICK_S
        return passed >= soonest and (waits_for_time or self.line.mark() != self._mark)

    def _look(self) -> None:
        """Read the line, and take the devices if it is this run's turn."""
        self._looked_at, self._mark, now = time.monotonic(), self.line.mark(), time.time()
        if self._looked_at >= self._again_at:
            self._again_at = float("inf")
        if not self.line.has(self._run, self._ticket):  # somebody has cleaned the folder up
            try:
                self._ticket = self.line.put(self._run, self._fields, self._ticket)
            except OSError:
                return
        tickets = self.line.tickets(remove=True)
        self._revive_others()
        decision = self._decide(tickets, now)
        key = (self.line.uid, self._run)
        self._place = next((place for place, each in enumerate(decision.order) if each.key == key), 0)
        outcome = decision.outcomes.get(key)
        if outcome is None or outcome.reason != GRANTED or not self._claim(outcome.devices):
            return
        if all(device.startswith(NO_DRIVER) for device in self._devices):
            self._start()
        self._begin_check()

    def _decide(self, tickets: list[Ticket], now: float) -> Decision:
        """Decide about all waiting runs; without those that do not take the devices that they are given.

        Such a process may be stopped (SIGSTOP), and would keep all others waiting.
        """
        use, held = self.line.use(now), self.line.held_users()
        decision = decide(tickets, now, use=use, held=held)
        granted = [key for key, outcome in decision.outcomes.items() if outcome.reason == GRANTED]
        self._granted = {key: self._granted.get(key, self._looked_at) for key in granted}
        late = {key for key, since in self._granted.items() if self._looked_at - since > self._given["late_s"]}
        late.discard((self.line.uid, self._run))
        if not late:
            return decision
        return decide([each for each in tickets if each.key not in late], now, use=use, held=held)

    def _revive_others(self) -> None:
        """Start the processes of other queued runs again if they have ended, for example by a signal."""
        while self.line.removed:
            run_dir = f"{os.path.dirname(self._run_dir)}/{self.line.removed.pop()}"
            if last_state(self._file("events", run_dir)) != "queued":
                continue
            command = [run_dir if word == self._run_dir else word for word in self._given["enter"]]
            # By a shell that ends at once, so that it is no child of this process, whose guard would end it.
            words = ["/bin/sh", "-c", IN_BACKGROUND, "sh", self._file("log", run_dir), *command]
            os.waitpid(os.posix_spawn(words[0], words, os.environ, setsid=True), 0)

    def _claim(self, devices: tuple[str, ...]) -> bool:
        """Claim all of these devices or none."""
        self._mark = None  # if that fails, the next tick tries again
        for device in devices:
            try:
                handle = self.line.claim(device)
            except OSError:
                handle = None
            if handle is None:
                self._give_back()
                self._refused += 1
                if self._refused >= REFUSALS:
                    label, say = str(self._fields["labels"].get(device, device)), self._given["claimed"]
                    why = {"text": say.format(device=label), "say": say, "with": {"device": label}}
                    self._block({device: why}, REFUSED_S)
                return False
            self._devices[device] = handle
        self._refused = 0
        return True

    def _give_back(self) -> None:
        for handle in self._devices.values():
            release(handle)
        self._devices.clear()

    # -- the driver ----------------------------------------------------------------------------------

    def _begin_check(self) -> None:
        """Start the process that asks the driver whether the devices are free."""
        import subprocess  # imported here: most waiting runs never need it

        free = self._request.get("free_memory_bytes") or 0
        self._check = subprocess.Popen(
            [*self._given["check"], str(free), *self._devices], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )

    def _poll_check(self) -> None:
        assert self._check is not None
        if self._check.poll() is None:
            return
        answer = self._check.stdout.read(MAX_ANSWER) if self._check.stdout is not None else b""
        self._check = None
        try:
            busy = dict(json.loads(answer))
        except (ValueError, TypeError):
            busy = dict.fromkeys(self._devices, self._given["no_answer"])
        if self._fields["held"]:  # meanwhile
            self._give_back()
            return
        if not busy:
            self._start()
        self._give_back()
        self._block(busy, self._given["retry_s"])

    def _block(self, busy: dict[str, Any], retry_s: float) -> None:
        """Tell the line that devices are not free although no ticket has them, and try again later.

        `busy`: by device, why: the JSON of a message.
        """
        now, known = time.time(), self._fields.get("blocked", {})
        self._again_at = time.monotonic() + retry_s + MARGIN_S
        blocked = {name: block for name, block in known.items() if block[1] > now - 2 * retry_s and name not in busy}
        for device, why in busy.items():
            since = known[device][0] if device in known else now
            blocked[device] = [since, now + retry_s, why]
        self._tell(blocked=blocked)

    def _end_check(self) -> None:
        if self._check is not None:
            self._check.kill()
            self._check.wait()
            self._check = None

    # -- become another process ----------------------------------------------------------------------

    def _start_at_once(self) -> NoReturn:
        """Become the supervisor, also beside runs that use its devices; claim those that are free."""
        self._end_check()
        self._give_back()
        wanted = list(self._fields.get("among") or self._fields["devices"])
        count = self._fields.get("any") or len(wanted)
        for device in wanted:
            handle = self.line.claim(device) if len(self._devices) < count else None
            if handle is not None:
                self._devices[device] = handle
        others = [device for device in wanted if device not in self._devices][: count - len(self._devices)]
        self._start([device for device in wanted if device in self._devices or device in others])

    def _start(self, devices: list[str] | None = None) -> NoReturn:
        """Become the supervisor. `devices`: the devices of the run, unless they are the claimed devices."""
        chosen = devices or list(self._devices)
        holding = {"state": "holding", "devices": chosen, "any": 0, "among": [], "blocked": {}}
        self._tell(**holding, since=time.time())
        self._fields = {**self._fields, **holding}  # although the disk may be full
        self._become(self._given["start"], ticket_fields=self._fields, devices=self._devices)

    def _leave(self, why: str, about: str) -> NoReturn:
        """Become the process that ends a run which will not start. `why`: `stop` or `after`."""
        self._end_check()
        self._give_back()
        self._become(self._given["leave"], why=why, about=about)

    def _become(self, command: list[str], **more: Any) -> NoReturn:  # noqa: ANN401 (JSON)
        state = {"line": self._given["line"], "lock": self._given["lock"], "ticket": self._ticket, **more}
        for handle in (*self._given["lock"], self._ticket, *self._devices.values()):
            os.set_inheritable(handle, True)
        os.execv(command[0], [*command, json.dumps(state)])


def _stamp(path: str) -> object:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def main() -> None:
    """Wait until this process becomes another."""
    waiter = Waiter(sys.argv[1], json.loads(sys.argv[2]))
    waiter.line.keep()
    while True:
        waiter.tick()
        time.sleep(waiter.tick_s)


if __name__ == "__main__":
    main()
