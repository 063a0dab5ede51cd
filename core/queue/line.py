"""The line at a machine's devices: folders in which users put tickets and claims. What counts is which file is locked.

    trainyard-BOOT-UID/tickets/RUN     one for each run that waits or trains: JSON, locked by its process
    trainyard-BOOT-UID/devices/ID      empty; locked exclusively by the run that trains on the device
    trainyard-BOOT-UID/held            there while all queued runs of the user are held: why
    trainyard-BOOT-UID/use             how long the user's runs have used devices, and how runs of late have ended

Each user has a folder of their own in /var/tmp, which belongs to root and has the sticky bit, so other users cannot
remove or replace it. In one shared folder, its maker could remove the claims of others. Where another user made the
plain name first, the user's folder is trainyard-BOOT-UID-RANDOM (`core.queue.folder`). A folder is that of its owner,
and each user has one: what other users can add to the work and to the memory of a process is bounded in total.

A process claims a device by locking its user's own file and then finding that of every other user unlocked. If two
users try at once, both may have to try again, but never do both succeed. The folders of another boot have other names,
so what is left from before a reboot is ignored.

Loaded by each waiting run: only a few modules of the standard library, and no dataclasses, to stay small.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import json
import os
import stat
import time
from itertools import islice

from core.queue.decision import Ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    _Stamp = tuple[int, int, int]  # inode, size and time of a file

PREFIX = "trainyard-"
TICKETS, DEVICES, HELD, USE = "tickets", "devices", "held", "use"
MAX_TICKET_BYTES = 32 * 1024
MAX_HELD_BYTES = 16_384
MAX_ANSWER = 16_000
"""Bytes of the answer to which devices are not free by their driver."""
MAX_EVENTS_BYTES = 256 * 1024
MAX_TICKETS = 1000
"""Tickets of one user that are looked at."""
MAX_OTHERS = 2000
"""Tickets of all other users that are looked at."""
MAX_OTHERS_BYTES = 192 * 1024
"""Bytes of the tickets of all other users that are read: about 150 that wait for any of 8 GPUs. The smallest of a user
come first, which are those of runs that train. A user who has less than an equal share leaves the rest. A byte may take
twenty in memory, and a process that waits stays below 16 MB."""
LEAST_BYTES = 256
"""Bytes that a ticket counts at least."""
MAX_NAMES = 65_536
"""Names of folders that are looked at."""
MAX_USERS = 2048
"""Other users whose folders are looked at, those with the lowest ids: ids that users give to containers are high."""
MAX_PASSED = 100
"""Folders that are named as passed over."""
FOLDER_MODE, FILE_MODE = 0o755, 0o644
OTHERS_S = 5.0
"""Seconds between two looks for folders of other users."""
TRIES = 3
TRY_AGAIN_S = 0.02
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Line:
    """The line, as one process sees it. `own`: this user's folder.

    `parent` and `prefix`: where the folders of all users are, and how their names begin; an empty prefix: this user's
    folder is used alone.
    """

    def __init__(self, own: str, parent: str, prefix: str) -> None:
        self.own, self.parent, self.prefix = own, parent, prefix
        self.uid = os.getuid()
        self.refused: dict[str, str] = {}
        """By path, why a ticket is passed over: `owner`, `kind`, `size`, `content` or `many`."""
        self.passed: dict[str, str] = {}
        """By path, why a folder is passed over: `name`, `second` or `many`."""
        self.removed: list[str] = []
        """Runs of this user whose tickets `tickets` has removed, since their processes have ended."""
        self._folders: list[tuple[int, str]] = []
        self._looked_at = float("-inf")
        self._known: dict[str, tuple[_Stamp, Ticket | None, bool]] = {}
        """By path of a ticket, its stamp, what was in it, and whether that is a ticket, or was gone."""

    def folders(self) -> list[tuple[int, str]]:
        """Return each user and the path of their folder, this user's own first."""
        now = time.monotonic()
        if now - self._looked_at >= OTHERS_S:
            self._looked_at = now
            self._folders = [(self.uid, self.own), *(self._others() if self.prefix else ())]
        return self._folders

    def _others(self) -> list[tuple[int, str]]:
        self.passed.clear()
        found: dict[int, str] = {}
        for uid, path in self._owned():
            known = found.setdefault(uid, path)
            if known != path:  # every process takes the same: that of the plain name, or the first of the others
                found[uid], second = sorted((known, path))
                self._pass_over(second, "second")
            if len(found) > MAX_USERS * 5 / 4:
                found = dict(heapq.nsmallest(MAX_USERS, found.items()))
                self._pass_over(self.parent, "many")
        return heapq.nsmallest(MAX_USERS, found.items())

    def _owned(self) -> Iterator[tuple[int, str]]:
        """Generate the owner and the path of each folder of other users whose name is that of its owner."""
        for place, name in enumerate(_scan(self.parent, self.prefix)):
            path = f"{self.parent}/{name}"
            if place == MAX_NAMES:
                self._pass_over(self.parent, "many")
                return
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if found.st_uid == self.uid:
                continue
            if stat.S_ISDIR(found.st_mode) and f"{name}-".startswith(f"{self.prefix}{found.st_uid}-"):
                yield found.st_uid, path
            else:
                self._pass_over(path, "name")

    def _pass_over(self, path: str, why: str) -> None:
        if why == "many" or len(self.passed) < MAX_PASSED:
            self.passed[path] = why

    def mark(self) -> tuple[object, ...]:
        """Return what changes when a ticket is added, changed or removed; not when a process was killed."""
        return tuple(_modified(f"{path}/{TICKETS}") for _, path in self.folders()), _modified(self.own)

    def keep(self) -> None:
        """Keep systemd-tmpfiles from removing old files of this user's folder while this process is there.

        It passes a folder over while a process has it locked (tmpfiles.d(5)); a claim on a removed file is no claim.
        """
        try:
            handle = os.open(self.own, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return  # it is being cleaned up right now, or gone

    # -- tickets -------------------------------------------------------------------------------------

    def put(self, run: str, fields: dict[str, Any], old: int | None = None) -> int:
        """Write the locked ticket of a run in place of the one that `old` has open; return its descriptor.

        The lock lasts until the descriptor, and all that are inherited from it, are closed. Raises `OSError`.
        """
        path = f"{self.own}/{TICKETS}/{run}"
        temporary = f"{self.own}/{TICKETS}/.{run}.{os.getpid()}"
        data = json.dumps(fields).encode()
        if len(data) > MAX_TICKET_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        _unlink(temporary)
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
        try:
            os.write(handle, data)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before another user can open it, and lock it first
            os.fchmod(handle, FILE_MODE)  # whatever the umask
            os.rename(temporary, path)
        except OSError:
            _unlink(temporary)
            os.close(handle)
            raise
        if old is not None:
            os.close(old)
        return handle

    def has(self, run: str, handle: int) -> bool:
        """Return whether the ticket of a run is still the file that this descriptor has open."""
        return _is_same(f"{self.own}/{TICKETS}/{run}", handle)

    def remove(self, run: str, handle: int) -> None:
        """Remove the ticket of a run that this descriptor has, or had, open, and unlock it."""
        path = f"{self.own}/{TICKETS}/{run}"
        if self.has(run, handle):
            _unlink(path)
        else:  # it was replaced by a process that may have ended
            _remove_dead(path)
        release(handle)

    def tickets(self, *, remove: bool = False) -> list[Ticket]:
        """Return the tickets of all users whose processes are alive.

        `remove` this user's others, whose runs `removed` then names: only by a process that starts theirs again.
        """
        self.refused.clear()
        live = self._live(remove=remove)
        shares = _shares({uid: sum(map(_cost, live[uid].values())) for uid in live if uid != self.uid})
        found, seen = [], set()
        for uid, tickets in live.items():
            for path, stamp in sorted(tickets.items(), key=lambda ticket: ticket[1][1]):
                if uid in shares:
                    shares[uid] -= _cost(stamp)
                    if shares[uid] < 0:
                        self.refused[path] = "many"
                        continue
                seen.add(path)
                ticket = self._ticket(uid, path, stamp)
                found += [] if ticket is None else [ticket]
        for path in self._known.keys() - seen:
            del self._known[path]
        return found

    def _live(self, *, remove: bool) -> dict[int, dict[str, _Stamp]]:
        """Return by user and path the stamps of the tickets whose processes are alive. No ticket is read."""
        live: dict[int, dict[str, _Stamp]] = {}
        left = MAX_OTHERS
        for uid, folder in self.folders():
            is_own = uid == self.uid
            for path in _names(f"{folder}/{TICKETS}"):
                if not is_own and (left := left - 1) < 0:
                    self._pass_over(self.parent, "many")
                    return live
                try:
                    found = os.lstat(path)
                except OSError:
                    continue
                why = "kind" if not stat.S_ISREG(found.st_mode) else "owner" if found.st_uid != uid else ""
                if why or found.st_size > MAX_TICKET_BYTES:
                    self.refused[path] = why or "size"
                elif is_locked(path):
                    live.setdefault(uid, {})[path] = found.st_ino, found.st_size, found.st_mtime_ns
                    continue
                if remove and is_own and _remove_dead(path) and path not in self.refused:
                    self.removed.append(os.path.basename(path))
        return live

    def is_waiting(self, run: str) -> bool:
        """Return whether a process of this user holds a ticket for a run."""
        return is_locked(f"{self.own}/{TICKETS}/{run}")

    def _ticket(self, uid: int, path: str, stamp: _Stamp) -> Ticket | None:
        """Return a ticket that may be of another user, and anything."""
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            data = read_small(path, stamp[1], uid=uid)
            try:
                ticket = None if data is None else Ticket(uid, os.path.basename(path), json.loads(data.decode()))
                known = stamp, ticket, True
            except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
                known = stamp, None, False
            self._known[path] = known
        if not known[2]:
            self.refused[path] = "content"
        return known[1]

    def held_users(self) -> dict[int, str]:
        """Return for each user whose queue is held, why; the reasons of other users are not read."""
        found = {}
        for uid, folder in self.folders():
            text = read_small(f"{folder}/{HELD}", MAX_HELD_BYTES, uid=uid)
            if text is not None:
                found[uid] = text.decode(errors="replace") if uid == self.uid else ""
        return found

    def use(self, now: float) -> dict[int, float]:
        """Return for each user the seconds for which runs have used devices, as `decayed` says."""
        found = {}
        for uid, folder in self.folders():
            data = read_small(f"{folder}/{USE}", MAX_HELD_BYTES, uid=uid)
            try:
                fields = json.loads(data.decode()) if data else {}
                seconds, at = float(fields["seconds"]), float(fields["at"])
                found[uid] = decayed(seconds, now - at) if 0.0 <= seconds < float("inf") and at <= now else 0.0
            except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
                found[uid] = 0.0
        return found

    # -- devices -------------------------------------------------------------------------------------

    def claim(self, device: str) -> int | None:
        """Lock a device; return the descriptor that holds it, or None while another run does. Raises `OSError`."""
        for left in reversed(range(TRIES)):
            handle = self._lock(device)
            if handle is not None and not self._is_claimed_by_others(device):
                return handle
            if handle is not None:
                os.close(handle)
            if left:  # a look of another process at the lock takes a moment, and holds it
                time.sleep(TRY_AGAIN_S)
        return None

    def _lock(self, device: str) -> int | None:
        path = f"{self.own}/{DEVICES}/{file_name(device)}"
        while True:
            try:
                handle = os.open(path, os.O_RDONLY | _SAFELY)
            except FileNotFoundError:
                try:
                    handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | _SAFELY, FILE_MODE)
                except FileExistsError:
                    continue
                os.fchmod(handle, FILE_MODE)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            if _is_same(path, handle):
                return handle
            os.close(handle)  # the file was removed before it was locked

    def _is_claimed_by_others(self, device: str) -> bool:
        self._looked_at = float("-inf")
        paths = [f"{folder}/{DEVICES}/{file_name(device)}" for uid, folder in self.folders() if uid != self.uid]
        return any(map(is_locked, paths))


HALF_LIFE_S = 24 * 3600.0
"""Seconds after which past use of devices counts half."""


def decayed(seconds: float, age_s: float) -> float:
    """Return use of devices after some time: it halves every `HALF_LIFE_S`."""
    return seconds * float(0.5 ** (max(0.0, age_s) / HALF_LIFE_S))


def _cost(stamp: _Stamp) -> int:
    """Return how many bytes a ticket counts."""
    return max(LEAST_BYTES, stamp[1])


def _shares(wanted: dict[int, int]) -> dict[int, int]:
    """Return by user how many bytes of their tickets are read: all of those who want less than an equal share."""
    shares, left = {}, MAX_OTHERS_BYTES
    for place, uid in enumerate(sorted(wanted, key=wanted.__getitem__)):
        shares[uid] = min(wanted[uid], left // (len(wanted) - place))
        left -= shares[uid]
    return shares


def file_name(device: str) -> str:
    """Return the name of the file of a device."""
    return "".join(each if each.isalnum() or each in ":.-_" else f"%{ord(each):x}" for each in device)


def release(handle: int) -> None:
    """Give up a claim, also that of a process that has inherited it."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def read_small(path: str, max_bytes: int, *, uid: int | None = None, end: bool = False) -> bytes | None:
    """Return what is in a small regular file; None if there is none, or if it is larger or of another user than `uid`.

    `end`: of a larger one, return the last bytes. Never blocks and follows no link.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        left_out = max(0, found.st_size - max_bytes)
        if not stat.S_ISREG(found.st_mode) or (left_out and not end) or uid not in {None, found.st_uid}:
            return None
        return os.pread(handle, max_bytes, left_out)
    except OSError:
        return None
    finally:
        os.close(handle)


def last_state(path: str) -> str | None:
    """Return the last state in the events of a supervisor; None if there is none."""
    for line in reversed((read_small(path, MAX_EVENTS_BYTES, end=True) or b"").split(b"\n")):
        if b'"state"' in line:
            try:
                event = json.loads(line)
                if event["kind"] == "state":
                    return str(event["state"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
    return None


def _names(folder: str) -> list[str]:
    """Return the paths of tickets. Their user may have put millions there, which are not collected."""
    return [f"{folder}/{name}" for name in sorted(islice(_scan(folder), MAX_TICKETS)) if not name.startswith(".")]


def _scan(folder: str, prefix: str = "") -> Iterator[str]:
    """Generate the names in a folder that begin so."""
    try:
        with os.scandir(folder) as entries:
            yield from (each.name for each in entries if each.name.startswith(prefix))
    except OSError:
        return


def _remove_dead(path: str) -> bool:
    """Remove a file of this user's that no process has locked; return whether it was removed here."""
    try:
        handle = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_same(path, handle):  # it was replaced by a new one, or removed by another process
            return False
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def is_locked(path: str) -> bool:
    """Return whether a process has a regular file locked."""
    try:
        handle = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return False
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _is_same(path: str, handle: int) -> bool:
    try:
        found, held = os.lstat(path), os.fstat(handle)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def _modified(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
