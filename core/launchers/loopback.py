"""Make a network for the processes of one run: Linux namespaces with nothing but a loopback interface.

TensorFlow's server listens on all addresses, whichever address it is given, and executes what any client sends. No
other process can connect to it in this network. This file is also a program, started by its path. A process must enter
a user namespace before it starts a thread, so the program enters it, and then becomes the worker:

    python loopback.py create SOCKET                     make the namespaces; send their descriptors
    python loopback.py enter USER,NET PROGRAM ARGUMENT   enter them, and become the program

It imports the standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
CANNOT_START = 127  # as a shell reports a program that it cannot start
WAIT_S = 20.0
"""Seconds to wait for the program that makes the namespaces; it takes a twentieth of a second."""
MADE = b"made"
FORBIDDING = (
    ("user/max_user_namespaces", "0"), ("user/max_net_namespaces", "0"), ("kernel/unprivileged_userns_clone", "0"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1"),
)
"""Settings below /proc/sys, and the values with which they forbid namespaces."""
ALLOW = "--allow-open-ports"


class NoLoopbackNetworkError(Exception):
    """This machine does not allow such a network; the text says why."""


class LoopbackNetwork:
    """The network of one run. It exists as long as this object is open or a process is in it."""

    def __init__(self) -> None:
        """Make the network. Raises `NoLoopbackNetworkError` if this machine does not allow it or it does not work."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(WAIT_S)
            try:
                with subprocess.Popen(
                    _program("create", str(theirs.fileno())), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                ) as program:
                    theirs.close()
                    try:
                        answer, found, *_ = socket.recv_fds(ours, 4096, 2)
                    finally:
                        program.kill()  # it has answered, or hangs
            except OSError as error:
                raise NoLoopbackNetworkError(str(error)) from error
        self.descriptors: tuple[int, ...] = tuple(found)
        """Descriptors of the namespaces, for the `pass_fds` of a process that enters them."""
        if answer != MADE:
            from core.language import tr  # imported here: the program below runs without our packages

            self.close()
            raise NoLoopbackNetworkError(answer.decode(errors="replace") or tr("the program that makes it was ended"))

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command line of a process that enters the network, and then becomes the program `command`."""
        return _program("enter", ",".join(map(str, self.descriptors)), *command)

    def close(self) -> None:
        """Release the network; the processes in it keep it."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()


def obstacle(strategy: str) -> str:
    """Return why a strategy that opens ports cannot have its own network here; the empty string if it can.

    It makes a network to find out, which takes a twentieth of a second.
    """
    try:
        LoopbackNetwork().close()
    except NoLoopbackNetworkError as error:
        return refusal(strategy, error)
    return ""


def refusal(strategy: str, why: NoLoopbackNetworkError) -> str:
    """Return the sentences that refuse a strategy which opens ports."""
    from core.language import tr  # imported here: the program below runs without our packages

    return tr(
        "Strategy {strategy} opens network ports without a password: other users of this machine and of its network "
        "could read and write your files through them. Trainyard runs it in a network of its own, but this machine "
        "does not allow one ({why}). Choose strategy mirrored, or allow open ports ({allow}).",
        strategy=strategy, why=why, allow=ALLOW,
    )


def refusal_over_machines(strategy: str) -> str:
    """Return the sentences that refuse a strategy which opens ports over several machines, as it was not allowed."""
    from core.language import tr  # imported here: the program below runs without our packages

    return tr(
        "Strategy {strategy} over several machines opens network ports without a password on each of them: everybody "
        "who can connect to one could read and write your files there. In a network that you trust, allow open ports "
        "({allow}), or choose devices of one machine.",
        strategy=strategy, allow=ALLOW,
    )


def enter(descriptors: Sequence[int]) -> None:
    """Enter the namespaces for good. Call it before any thread is started. Raises `OSError`."""
    for descriptor in descriptors:
        _call("setns", descriptor, 0)
        os.close(descriptor)


# -- in the program ------------------------------------------------------------------------------


def _program(*arguments: str) -> list[str]:
    # -I: nothing in the working folder or in PYTHON variables is imported in place of the standard library.
    return [sys.executable, "-I", "-S", __file__, *arguments]


def _create(channel: socket.socket) -> None:
    """Send the descriptors of new namespaces, or why there are none.

    A child makes them and this process enters them from outside, as the workers will, to see that this works.
    """
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        answer, made = _attempt(_make)
        socket.send_fds(theirs, [answer], made)
        os._exit(0)
    theirs.close()
    answer, found, *_ = socket.recv_fds(ours, 4096, 2)
    os.wait()
    if answer == MADE:
        answer, _ = _attempt(lambda: _try(found))
    socket.send_fds(channel, [answer], found)


def _attempt(act: Callable[[], list[int]]) -> tuple[bytes, list[int]]:
    try:
        return MADE, act()
    except OSError as error:
        return _why(error).encode(), []


def _make() -> list[int]:
    """Make the namespaces and return their descriptors.

    Root needs no user namespace, in which it would lose its rights over the files of others.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", CLONE_NEWNET)
        kinds = ["net"]
    except PermissionError:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        _write("setgroups", "deny")  # the kernel's condition for the next line
        _write("gid_map", f"{group} {group} 1")
        _write("uid_map", f"{user} {user} 1")
        kinds = ["user", "net"]
    _raise_loopback()
    return [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in kinds]


def _write(name: str, text: str) -> None:
    try:
        Path("/proc/self", name).write_text(text, encoding="ascii")
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from error


def _raise_loopback() -> None:
    """Switch the loopback interface on (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        state = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        (flags,) = struct.unpack_from("h", state, 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def _try(descriptors: Sequence[int]) -> list[int]:
    """Enter the namespaces, and connect to a port there."""
    enter([os.dup(each) for each in descriptors])
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=WAIT_S).close()
    return []


def _why(error: OSError) -> str:
    """Return why the kernel refused, with the setting that forbids it if there is one."""
    text = f"{error.filename or 'lo'}: {error.strerror or error}"
    for name, value in FORBIDDING:
        with contextlib.suppress(OSError):  # this kernel does not have it
            if Path("/proc/sys", name).read_text(encoding="ascii").strip() == value:
                return f"{text}; {name.replace('/', '.')} is {value}"
    return text


def _call(name: str, *arguments: int) -> None:
    """Call a function of the C library, which Python has only since 3.12. Raises `OSError`."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    code = errno.ENOSYS if function is None else ctypes.get_errno() if function(*arguments) else 0
    if code:
        raise OSError(code, os.strerror(code), name)


def _main() -> None:
    action, text, *command = sys.argv[1:]
    if action == "create":
        _create(socket.socket(fileno=int(text)))
        return
    try:
        enter([int(each) for each in text.split(",")])
        os.execv(command[0], command)  # noqa: S606 (no shell is needed)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}", file=sys.stderr)  # noqa: T201 (into the run's log)
        sys.exit(CANNOT_START)


if __name__ == "__main__":
    _main()
