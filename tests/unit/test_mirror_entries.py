"""What an agent says of its runs is checked before anything of it is written: an agent may be hostile."""

import base64
import zlib

import pytest

from core.hosts.copies import Copies, Plan, folder_of
from core.hosts.host_list import Host
from core.hosts.run_files import MAX_PART_BYTES, FilePart, is_run_name, travels, unpack_listing, unpack_parts
from core.language import Message
from core.runs.foreign import There, copies_folder, is_copy, read_there, write_there

GOOD = {"runs": {"a": {"id": "1-2", "live": True, "files": {"spec.json": [3, 4]}}}, "gone": [], "complete": True}
BAD_NAMES = (
    "", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "new\nline", "\x1b[2J", "nul\0", "x" * 256, "\ud800",
    "\u202etxt", ".there.json", ".lock", "a\x7f",
)
BAD_FILES = (
    "", "..", "../spec.json", "/etc/passwd", "events/../spec.json", "events/x.jsonl", "events/", "lock", "control/stop",
    "checkpoints/a/state.json", "worker-0.jsonl", "events/worker--1.jsonl", "events/worker-1.jsonl\n", "log.txt\0",
    "log.../x.txt", "outputs/x.png", "events/reserve", ".there.json", "events/worker-1234567.jsonl",
)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_name_that_no_run_can_have_is_refused(name, tmp_path):
    assert not is_run_name(name)
    for item in ({**GOOD, "runs": {name: GOOD["runs"]["a"]}}, {**GOOD, "gone": [name]}):
        with pytest.raises(ValueError):  # noqa: PT011 (it has no sentence)
            unpack_listing(item)
    copies = Copies(tmp_path / "copies")
    for act in (
        lambda: copies.append(name, "log.txt", 0, b"x"), lambda: copies.replace(name, "spec.json", b"{}"),
        lambda: copies.remove(name), lambda: copies.rename("a", name), lambda: copies.rename(name, "a"),
        lambda: copies.drop(name, "log.txt"), lambda: copies.announce(name),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            act()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", BAD_FILES)
def test_file_that_does_not_travel_is_refused(file, tmp_path):
    assert not travels(file)
    with pytest.raises(ValueError):  # noqa: PT011
        unpack_listing({**GOOD, "runs": {"a": {"id": "", "files": {file: [1, 2]}}}})
    copies = Copies(tmp_path)
    for act in (lambda: copies.append("a", file, 0, b"x"), lambda: copies.replace("a", file, b"x")):
        with pytest.raises(ValueError):  # noqa: PT011
            act()
    assert not (tmp_path / "a" / "events").exists() or list((tmp_path / "a").rglob("*.*")) == []


def test_sentences_are_bounded_and_have_no_control_characters():
    entry = {"files": {}, "lost": "a\x1b[2J\n" + "x" * 10_000}
    lost = unpack_listing({**GOOD, "runs": {"a": entry}}).runs["a"].lost
    assert "\x1b" not in lost
    assert lost.startswith("a")
    assert "\n" in lost
    assert len(lost) < 5000
    for hidden in ("\x1b[31mred", "B" * 20_000):
        said = {"text": "It is lost.", "say": "It is {word}.", "with": {"word": hidden}}
        lost = unpack_listing({**GOOD, "runs": {"a": {"files": {}, "lost": said}}}).runs["a"].lost
        assert not isinstance(lost, Message) or list(lost.texts()) == ["It is lost."], "no language shows another text"


def zeros(size: int, times: int) -> bytes:
    """Return `times` times `size` zeros as zlib packs them, from one packed block: a gigabyte would take seconds."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = compressor.compress(bytes(size)) + compressor.flush(zlib.Z_FULL_FLUSH)
    checksum = times * size % 65521 << 16 | 1  # Adler-32 of zeros (RFC 1950)
    return b"\x78\x9c" + times * block + zlib.compressobj(wbits=-zlib.MAX_WBITS).flush() + checksum.to_bytes(4)


@pytest.mark.parametrize(
    "packed",
    [None, 3, "", "!", base64.b64encode(b"no zlib").decode(), base64.b64encode(zlib.compress(b"abc")[:-3]).decode(),
     base64.b64encode(zlib.compress(bytes(MAX_PART_BYTES + 1))).decode(),
     base64.b64encode(zeros(MAX_PART_BYTES, 1000)).decode()],
)
def test_part_that_is_damaged_or_unpacks_to_too_much_is_refused(packed):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack_parts({"parts": [{"data": packed}]}, 1)[0].unpacked()


def test_zeros_are_packed_as_by_zlib():
    assert zlib.decompress(zeros(MAX_PART_BYTES, 3)) == bytes(3 * MAX_PART_BYTES)
    part = FilePart(data=base64.b64encode(zeros(MAX_PART_BYTES // 2, 2)).decode())
    assert part.unpacked() == bytes(MAX_PART_BYTES)
    assert FilePart.packed(3, 0, b"abc").unpacked() == b"abc"


def test_copies_of_a_host_are_below_one_private_folder(tmp_path):
    host = Host(name="lab", address="lab")
    root = folder_of(host)
    assert root.parent == copies_folder()
    assert folder_of(Host(name="lab", address="lab", command="other")) != root
    copies, other = Copies(root), Copies(root)
    assert copies.keep()
    assert not other.keep()
    assert copies_folder().parent == tmp_path / "cache"
    assert root.stat().st_mode & 0o077 == 0
    copies.replace("a", "spec.json", b"{}")
    copies.append("a", "events/supervisor.jsonl", 0, b"one\n")
    with pytest.raises(OSError, match="Invalid argument"):
        copies.append("a", "events/supervisor.jsonl", 0, b"two\n")
    assert is_copy(root / "a")
    assert not is_copy(tmp_path / "a")
    assert not is_copy(root)
    write_there(root, There(host="lab", lost={"a": "gone"}))
    assert read_there(root).lost == {"a": "gone"}
    (root / ".there.json").write_text("[")
    assert read_there(root) == There()
    assert copies.names() == ["a"]
    copies.leave()
    assert other.keep()
    other.leave()


def test_what_lists_need_is_copied_first_and_measurements_up_to_a_limit(tmp_path):
    copies = Copies(tmp_path)
    plan = Plan(copies, max_bytes=40)
    files = {"spec.json": [3, 1], "events/supervisor.jsonl": [3, 1], "events/worker-0.jsonl": [30, 1]}
    entry = {"files": files, "id": "x"}
    for name, run in unpack_listing(
        {"runs": {"1": entry, "2": entry, "3": {**entry, "live": True}}, "gone": []}
    ).runs.items():
        plan.put(name, run)
    small = ["events/supervisor.jsonl", "spec.json"]
    assert plan.next(100) == [(name, file) for name in ("3", "2", "1") for file in small]
    plan.wanted = {"1"}
    assert plan.next(3) == [("1", small[0]), ("1", small[1]), ("1", "events/worker-0.jsonl")]
    plan.wanted = frozenset()
    for name in "123":
        for file in small:
            copies.append(name, file, 0, b"abc") if file != "spec.json" else copies.replace(name, file, b"abc")
            copies.complete(name, file, 3, 1)
        plan.look(name)
    assert plan.next(100) == [(name, "events/worker-0.jsonl") for name in ("3", "2", "1")]
    copies.append("3", "events/worker-0.jsonl", 0, bytes(30))
    copies.complete("3", "events/worker-0.jsonl", 30, 1)
    plan.look("3")
    assert plan.is_full()
    assert plan.next(100) == []
    plan.wanted = {"1"}
    assert plan.next(100) == [("1", "events/worker-0.jsonl")], "what is shown is copied in any case"
