"""Make run directories and presets as an attacker, a bug or a damaged disk would: random, from a seed."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from core.system.processes import identify
from tests.support.waiting import PATIENCE_S

BASES = Path(__file__).resolve().parents[1] / "recorded_runs"
MAX_READ_BYTES = 128 * 1024 * 1024
"""Bytes that looking at one run may read: hostile files claim to have terabytes."""
NAMES = (
    b"2026-plain", b"<img src=x>", b"new\nline", b"\xff\xfe", b"\x1b[2J", b"space name", b"-rf", b"x" * 200,
    "käse-🧀".encode(), b"%s%n", b"'quoted'", b".hidden",
)


def hostile_value(random: Random) -> Any:
    """Return a value that no writer writes."""
    deep: Any = 1
    for _ in range(random.choice([20, 90, 110, 400])):
        deep = [deep] if random.random() < 0.7 else {"a": deep}
    return random.choice([
        None, True, -1, 0, 2**31, 2**63, -(2**63), 10**400, 1e308, -1e308, float("nan"), float("inf"), float("-inf"),
        "", "x" * 300_000, "\ud800", "\0", "\x1b[31m\r\n", "<img src='/dev/zero'>", "../../etc/passwd", "/dev/zero",
        "nan", [], {}, [None], [[]], {"": {}}, deep, ["x"] * 5000, {f"k{each}": each for each in range(5000)},
        time.time(), time.time() + 1e9, os.getpid(), 1,
    ])


class Hostile:
    """Hostile runs and presets below one folder."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root, self.random = root, random
        self._bases = sorted(path for path in BASES.iterdir() if (path / "spec.json").exists())
        root.mkdir(parents=True, exist_ok=True)

    def run(self, number: int) -> Path:
        """Make a run."""
        name = os.fsdecode(self.random.choice(NAMES) + b"-%d" % number)
        run_dir = self.root / name
        shutil.copytree(self.random.choice(self._bases), run_dir, copy_function=shutil.copyfile)
        (run_dir / "control").mkdir(exist_ok=True)
        (run_dir / "checkpoints").mkdir(exist_ok=True)
        for _ in range(self.random.randint(1, 4)):
            self.random.choice([self._bytes, self._bytes, self._lines, self._lines, self._json, self._json, self._json,
                                self._replace, self._folder, self._more, self._pids])(run_dir)
        return run_dir

    def preset(self, number: int) -> Path:
        """Make a preset."""
        path = self.root / f"preset-{number}.json"
        shutil.copyfile(self.random.choice(self._bases) / "spec.json", path)
        self.random.choice([damage, rewrite, rewrite, put_in_place_of])(path, self.random)
        return path

    def clear(self) -> None:
        """Remove everything."""
        for folder, _, _ in os.walk(self.root):
            with contextlib.suppress(OSError):
                Path(folder).chmod(0o700)
        shutil.rmtree(self.root)
        self.root.mkdir()

    def _file(self, run_dir: Path) -> Path | None:
        found = [path for path in run_dir.rglob("*") if _is_small(path)]
        return self.random.choice(sorted(found)) if found else None

    def _bytes(self, run_dir: Path) -> None:
        if path := self._file(run_dir):
            damage(path, self.random)

    def _events(self, run_dir: Path) -> Path | None:
        folder = run_dir / "events"
        found = sorted(path for path in folder.glob("*.jsonl") if _is_small(path))
        return self.random.choice(found) if found else None

    def _lines(self, run_dir: Path) -> None:
        path = self._events(run_dir)
        if path is None:
            return
        lines = path.read_bytes().splitlines(keepends=True)
        match self.random.randrange(5):
            case 0:
                self.random.shuffle(lines)
            case 1:
                lines = [line for line in lines for _ in range(self.random.choice([1, 1, 2, 50]))]
            case 2:
                lines = [line for line in lines if self.random.random() < 0.7]
            case 3:
                lines = lines * 20
            case 4:
                lines = [
                    line[: self.random.randrange(len(line) + 1)] if self.random.random() < 0.2 else line
                    for line in lines
                ]
        path.write_bytes(b"".join(lines))

    def _json(self, run_dir: Path) -> None:
        path = self._file(run_dir)
        if path is not None and path.suffix in {".json", ".jsonl"}:
            rewrite(path, self.random)

    def _replace(self, run_dir: Path) -> None:
        if path := self._file(run_dir):
            put_in_place_of(path, self.random)

    def _folder(self, run_dir: Path) -> None:
        path = run_dir / self.random.choice(["events", "control", "checkpoints"])
        with contextlib.suppress(OSError):
            path.unlink() if path.is_symlink() or not path.is_dir() else shutil.rmtree(path)
        with contextlib.suppress(FileExistsError):
            match self.random.randrange(6):
                case 0:
                    path.symlink_to("/dev")
                case 1:
                    path.symlink_to(path.name)
                case 2:
                    os.mkfifo(path)
                case 3:
                    path.write_bytes(b"\0" * 100)
                case 4:
                    path.symlink_to("/proc/self/fd")

    def _more(self, run_dir: Path) -> None:
        """Add files that do not belong there."""
        with contextlib.suppress(OSError):
            match self.random.randrange(4):
                case 0:
                    for number in range(self.random.choice([3, 500])):
                        (run_dir / "events" / f"worker-{number * 10**9}.jsonl").write_text("{}\n")
                case 1:
                    (run_dir / "events" / os.fsdecode(b"\xff\n.jsonl")).write_text('{"t": 1, "kind": "plan"}\n')
                case 2:
                    saved = (
                        run_dir
                        / "checkpoints"
                        / self.random.choice(["step-1", "step-x", "step-" + "9" * 100, "step-00000007"])
                    )
                    saved.mkdir(parents=True)
                    files = {self.random.choice(["/dev/zero", "../x", "model"]): hostile_value(self.random)}
                    manifest = {
                        "version": 1,
                        "step": 7,
                        "epoch": 1,
                        "steps_per_epoch": 7,
                        "value": None,
                        "progress": {},
                        "files": files,
                    }
                    (saved / "checkpoint.json").write_text(json.dumps(manifest))
                    rewrite(saved / "checkpoint.json", self.random)
                case 3:
                    with (run_dir / "log.txt").open("ab") as file:
                        file.write(
                            self.random.choice([b"\r" * 100_000, b"\x1b[" * 50_000, b"x" * 3_000_000, b"\0\n" * 9000])
                        )

    def _pids(self, run_dir: Path) -> None:
        """Begin another part of the run under a pid that is another process's, or is none."""
        own = identify(os.getpid())
        assert own is not None
        pid = self.random.choice([own.pid, own.pid, 1, -1, 0, 2**40])
        created = self.random.choice([own.created, own.created, 0.0, -1e300])
        event = {"t": time.time(), "kind": "supervisor", "pid": pid, "created": created}
        for name, lines in (("supervisor.jsonl", [event]), ("worker-0.jsonl", [])):
            with contextlib.suppress(OSError):
                path = run_dir / "events" / name
                if _is_small(path):
                    path.write_bytes(path.read_bytes() + b"".join(json.dumps(each).encode() + b"\n" for each in lines))


def damage(path: Path, random: Random) -> None:
    """Change, cut or add some bytes of a file."""
    data, at = bytearray(path.read_bytes()), random.randrange(path.stat().st_size + 1)
    match random.randrange(6):
        case 0:
            del data[at:]
        case 1:
            data[at : at + 20] = random.randbytes(20)
        case 2:
            data[at:at] = random.choice([b"[" * 200_000, b'{"a":' * 200_000, b"\0" * 1000, b"\xff\xfe", b'"'])
        case 3:
            data = bytearray(data.decode(errors="replace").encode(random.choice(["utf-16", "utf-32", "utf-8-sig"])))
        case 4:
            data[at:at] = random.choice([b"\n" * 10_000, b"\r", b"1" * 100_000, b"9" * 5000, b"-", b"e999999"])
        case 5:
            data = data[at:]
    path.write_bytes(data)


def rewrite(path: Path, random: Random) -> None:
    """Change some values of a file of JSON, or of lines of JSON."""
    lines = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
    if not lines:
        return
    for _ in range(random.choice([1, 1, 5])):
        kinds: dict[bytes, list[int]] = {}
        for number, line in enumerate(lines):
            kinds.setdefault(line.partition(b'"kind":')[2][:14], []).append(number)
        at = random.choice(kinds[random.choice(sorted(kinds))])  # most lines are of one kind
        with contextlib.suppress(ValueError, RecursionError):
            document = json.loads(lines[at])
            change(document, random)
            lines[at] = json.dumps(document).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")


def change(document: Any, random: Random) -> None:
    """Replace, add or remove one value somewhere."""
    while isinstance(document, (dict, list)) and document:
        key = (
            random.choice(sorted(document))
            if isinstance(document, dict)
            else random.randrange(len(document))
        )
        if isinstance(document[key], (dict, list)) and document[key] and random.random() < 0.7:
            document = document[key]
            continue
        if isinstance(document, dict) and random.random() < 0.15:
            del document[key]
        else:
            document[key] = hostile_value(random)
        return


def put_in_place_of(path: Path, random: Random) -> None:
    """Replace a file or an empty folder by what is no file of a few bytes."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    match random.randrange(9):
        case 0:
            path.symlink_to("/dev/zero")
        case 1:
            path.symlink_to(path.name)
        case 2:
            path.symlink_to("/etc/passwd")
        case 3:
            os.mkfifo(path)
        case 4:
            path.mkdir()
        case 5:
            with contextlib.suppress(PermissionError):
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        case 6:
            path.touch()
            os.truncate(path, 1 << 40)
        case 7:
            path.touch(mode=0)
        case 8:
            _socket(path)


def _is_small(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & 0o400) and found.st_size < 10_000_000


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)  # the path itself may be too long for a socket
    try:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


@contextlib.contextmanager
def watched(what: Callable[[], str]) -> Iterator[None]:
    """Fail if the block hangs or reads too much. `what`: describes the block."""

    def hangs(*_: object) -> None:
        raise TimeoutError(f"{what()} took {PATIENCE_S:g} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(round(PATIENCE_S))
    read = _bytes_read()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert _bytes_read() - read < MAX_READ_BYTES, f"{what()} read {_bytes_read() - read} bytes"


def _bytes_read() -> int:
    """Return the bytes that this process has read so far; 0 where the system does not count them."""
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(text.split()[1])
