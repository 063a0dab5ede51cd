"""Every record that is read by the codec, with JSON as a hostile or broken program could write it."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import getitem
from random import Random
from typing import Any

import pytest

from core.config.choices import RecipeChoices, ScriptChoices
from core.config.examination import Examination
from core.config.finding import BATCH, Cure, Finding, Mark, ProblemKind
from core.devices.device import Device, Process, Sample
from core.devices.helper import HelperAnswer, to_document
from core.hosts.connection import TimeThere
from core.hosts.parts.workload import Equipment
from core.hosts.protocol import Hello, HostUse, HostUses, unpack_readings
from core.hosts.run_files import FilePart, FileParts, Listing, RunEntry, unpack_listing
from core.notifications.message import RunNews
from core.queue.request import QueueRequest
from core.runs.directory import Part
from core.runs.foreign import There
from core.schema import event_kinds as kinds
from core.schema.codec import Limits, decode, encode
from core.schema.event_kinds import ModelPart, ProcessInfo, Release, Software, Source, TerminatedProcess, Verdict
from core.schema.files import parse_json
from core.schema.setting import Number, Whole, settings_of
from core.schema.settings import Script, Training
from core.schema.spec import RankAssignment, RunSpec
from core.system.processes import HostId, ProcessId
from tests.support.running import make_spec

HOST = HostId(host="lab", boot="1-2", pid_namespace="pid:[4026531836]")
PROCESS = ProcessInfo(pid=5, created=1.5, memory_used_bytes=7, name="python", user="anna", command="x", state="S")
RANK = RankAssignment(
    rank=1, world_size=2, devices=("cpu:0", "cpu:1"), own=("cpu:1",), kind="cpu", cores=(3, 4), target="pytorch.ddp"
)
GPU = Device(
    id="GPU-1", kind="nvidia", label="GPU 0", name="N", memory_total_bytes=8, pci_bus_id="01:00.0", cores=(1,), minor=3,
    shared_memory=True, compute_capability=(8, 9), blocked="hidden",
)
READING = Sample(
    device_id="GPU-1", time=1.0, utilisation_percent=3.0, memory_used_bytes=5, temperature_celsius=40.0,
    power_watts=9.0, power_limit_watts=10.0, sm_clock_mhz=5.0, clock_reasons=("too hot",), lost="gone",
    fault="bad", asleep=True,
    processes=(Process(pid=1), Process(2, 3)),
)
SCRIPT = Script(
    path="/s.py", arguments=("--lr", "3"), environment={"A": "b"}, inherited=("C",), rules=("a {step}",)
)
SPEC = make_spec("digits_cnn", settings={"width": 8}, epochs=3)
WITHOUT_DEFAULT = {Whole: 5, Number: 0.5}
"""Values of settings whose default is None."""
GIVEN = {name: WITHOUT_DEFAULT[type(row.kind)] for name, row in settings_of(Training).items() if row.default is None}
RECORDS = (
    replace(SPEC, training=replace(SPEC.training, **GIVEN), time_limit_s=60.0, recorded=True, imported="/runs/a"),
    replace(SPEC, recipe=None, framework="script", script=SCRIPT, training=Training()),
    SCRIPT,
    RANK,
    Part(head="head", run="20260101-digits", assignments=(RANK,), grace_s=5.0),
    ProcessId(pid=4, created=2.5),
    Hello(protocol=1, version="0.1.0", python="3.11.2", user="anna", identity=HOST, runs="/runs"),
    GPU,
    READING,
    HelperAnswer(devices=(GPU,), samples=(READING,), banner="A driver is old."),
    HostUses(by_device={"GPU-1": HostUse(runs=("a",), names=("a",), others=("pid 3",), program="x")}),
    FileParts(parts=(FilePart(size=3, mtime=4, data="eA=="),)),
    TimeThere(time=1.5),
    Listing(runs={"a": RunEntry(identity="1-2", live=True, files={"spec.json": (3, 4)})}, gone=("b",), complete=True),
    Equipment(version="2.9.0", paths={"/data": "missing"}),
    Release(
        device_id="GPU-1", verdict=Verdict.HELD_BY_OTHERS, before_bytes=None, peak_bytes=5, after_bytes=4, seconds=0.5,
        sentence="It is held.", holders=(PROCESS,),
    ),
    TerminatedProcess(pid=3, created=1.0, name=None, command="x", signal="SIGTERM", by="guard"),
    Software(version="3.12.3", packages={"torch": "2.9.0"}),
    Source(folder="/r", commit="5b1f", branch="main", changed=True),
    ModelPart(device="cpu:0", parameters=("a.weight",), where="cpu", size_bytes=4),
    RunNews(
        run_dir="/runs/a", name="a", occasion="finished", state="finished", time=1.0, duration_s=None, asked_s=2.5,
        last_loss=0.5, best_validation_loss=None, memory="", memory_verdict="", detail="",
    ),
    QueueRequest(any_of=("cpu:0", "cpu:1"), count=1, labels={"cpu:0": "CPU 0"}, order=3.0),
    There(host="lab", folder="/runs", lost={"a": "Its supervisor is gone."}),
    Examination(
        spec=make_spec("digits_cnn"), changed=(5, 6), findings=(
            Finding(sentence="Tick a device.", kind=ProblemKind.NO_DEVICE),
            Finding(sentence="A note.", mark=Mark.WARNING, remedy="Mend it.", cures=(
                Cure(does=BATCH, words="Batch 64", values=("64",)),
            )),
        ),
    ),
    RecipeChoices(recipe="digits_cnn", devices=("cpu:0",), training={"epochs": 3}),
    ScriptChoices(script="train.py", devices=("cpu:0",), environment={"A": "b"}),
    kinds.StateChange(time=3.0, state="failed", error="It broke.", traceback="Traceback", by_signal=True),
    kinds.SupervisorStart(time=3.0, pid=4, created=2.5, host="lab", guard={"pid": 5, "created": 2.5}),
    kinds.WorkerStart(time=3.0, rank=1, pid=4, created=2.5, devices=("cpu:0",), host="node2"),
    kinds.Moved(time=3.0, text="Resumed on CPU 1.", devices=("cpu:1",), where="CPU 1 (ddp)"),
    kinds.StopStep(time=3.0, name="SIGTERM", grace_s=5.0),
    kinds.Checkpoint(time=3.0, step=5, name="step-00000005", reason="asked", seconds=0.5, size_bytes=9, value=0.5),
    kinds.Phase(time=3.0, rank=1, name="import", python="3.12"),
    kinds.Plan(time=3.0, epochs=3, steps_per_epoch=10, samples_per_epoch=100),
    kinds.Metrics(time=3.0, since=2.0, first=1, values={"loss": (1.0, None)}),
    kinds.WorkerError(time=3.0, type_name="ValueError", message="It broke.", traceback="Traceback"),
    kinds.LinkSpeed(time=3.0, size_bytes=5, seconds=0.5, bytes_per_s=9.5, backend="gloo"),
    kinds.RunDevice(time=3.0, id="GPU-1", device_kind="nvidia", label="GPU 0", memory_total_bytes=8, cores=(1,)),
    kinds.WorkerExit(time=3.0, rank=1, exit_code=-9, signalled=True),
    kinds.UntickedDeviceUse(time=3.0, device_id="GPU-1", pids=(5,), sentence="It is used."),
    kinds.DeviceReading(time=3.0, device_id="GPU-1", memory_used_bytes=5, power_watts=9.5, slowdowns=("too hot",)),
    kinds.Slowed(time=3.0, device_id="GPU-1", sentence="", seconds=7.5),
    kinds.DeviceFault(time=3.0, device_id="GPU-1", sentence="GPU 0 needs a reset."),
    kinds.Reread(time=3.0, times={"recorded": 3}, kept=("loss",)),
    kinds.MarkChange(time=3.0, star=True, tags=("best",), note="Better."),
)
DEEP: Any = json.loads("[" * 90 + "]" * 90)
BAD = (
    None, True, False, 0, -1, 1.5, 2**63, -(10**400), 10**400, float("nan"), float("inf"), "", "x", "..", "a\0\n",
    "x" * 10_000, [], [1], ["x"], [[1]], [None], {}, {"a": 1}, {"..": "x"}, {"": None}, DEEP,
)

READERS: dict[type, Callable[[Any], Any]] = {
    RunSpec: RunSpec.from_json, HelperAnswer: unpack_readings, Listing: unpack_listing,
}
"""Functions that read a record and check more than its types; the codec itself reads the other records."""
WRITERS: dict[type, Callable[[Any], dict[str, Any]]] = {HelperAnswer: to_document}
ANYTHING = {
    (RunSpec, "recipe", "settings"), (RecipeChoices, "training"), (kinds.SupervisorStart, "guard"),
}
"""Objects whose values may be of any type."""


def document_of(record: object) -> dict[str, Any]:
    return json.loads(json.dumps(written(record)))


def written(record: Any) -> dict[str, Any]:
    if write := WRITERS.get(type(record)):
        return write(record)
    return record.to_json() if hasattr(record, "to_json") else encode(record)


def read(kind: type, data: object) -> Any:
    return READERS[kind](data) if kind in READERS else decode(kind, data)


def places(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each value inside a document."""
    inside: Mapping[Any, object] = (
        value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    )
    for name, each in inside.items():
        yield (*path, name)
        yield from places(each, *path, name)


def changed(document: Any, path: tuple[str | int, ...], value: object) -> Any:
    """Return a copy in which the value at `path` is another; `...`: in which there is none."""
    copied, (first, *rest) = copy.copy(document), path
    if rest:
        copied[first] = changed(document[first], tuple(rest), value)
    elif value is ...:
        del copied[first]
    else:
        copied[first] = value
    return copied


def may_be(right: object, value: object) -> bool:
    """Return whether a field with the value `right` may have this value, by its type in JSON; None may mean any."""
    are_numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (right, value))
    return right is None or value is None or are_numbers or type(right) is type(value)


def check(kind: type, document: object, path: tuple[str | int, ...]) -> str:
    """Read a document, which is taken and equal when it is written again, or refused; return why, or an empty text."""
    try:
        record = read(kind, document)
    except ValueError as error:
        names = {part for each in path if isinstance(each, str) for part in (each, each.replace("_", " "))}
        said = str(error).lower()
        # A class words its own checks: of several fields at once, or with a text that users know.
        assert said
        assert "\n" not in said
        is_checked_by_type = said.startswith(("its field", "it lacks"))
        assert not is_checked_by_type or not names or any(each.lower() in said for each in names), (path, said)
        return str(error)
    again = document_of(read(kind, document_of(record)))
    assert json.dumps(again) == json.dumps(document_of(record)), "NaN, which a recipe may take, is not equal to itself"
    return ""


@pytest.mark.parametrize("record", [GPU, READING], ids=["device", "reading"])
def test_samples_of_devices_have_a_value_in_each_field(record: object) -> None:
    assert all(getattr(record, each.name) for each in fields(record))  # type: ignore[arg-type]


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_record_is_equal_when_it_is_written_and_read(record: object) -> None:
    assert read(type(record), document_of(record)) == record


@pytest.mark.slow
@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_bad_values_are_refused_with_their_field_or_taken(record: object) -> None:
    document, kind = document_of(record), type(record)
    own = [path for path in places(document) if path[0] != "spec" or len(path) == 1]  # a spec is a record by itself
    assert not check(kind, {**document, "of a newer version": DEEP}, ())
    for path in own:
        right = reduce(getitem, path, document)
        for value in (..., *BAD):
            said = check(kind, changed(document, path, value), path)
            if value is not ... and not may_be(right, value) and (kind, *path[:-1]) not in ANYTHING:
                assert said.startswith(f"Its field {path[0]}"), (path, value, said)
                assert said.endswith(" is expected."), (path, value, said)
    for value in BAD:
        if not isinstance(value, dict):
            with pytest.raises(ValueError, match="It is not a JSON object"):
                read(kind, value)


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_cut_and_overwritten_files_are_refused_or_taken(record: object) -> None:
    random, data, kind = Random(0), json.dumps(document_of(record)).encode(), type(record)
    for _ in range(100):
        cut = data[: random.randrange(len(data))]
        at = random.randrange(len(data))
        mixed = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        with pytest.raises(ValueError, match="It is"):
            parse_json(cut)
        try:
            found = parse_json(mixed)
        except ValueError:
            continue
        check(kind, found, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A record with one field of each kind of number."""

    whole: int = 0
    number: float = 0.0
    flag: bool = False


@pytest.mark.parametrize(
    ("field", "value"),
    [("whole", True), ("whole", 1.0), ("whole", 2**63), ("whole", "1"), ("number", True), ("number", "1"),
     ("number", float("nan")), ("number", float("-inf")), ("number", 10**400), ("flag", 1), ("flag", None)],
)
def test_number_of_another_kind_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^Its field {field} is .* is expected\.$"):
        decode(Numbers, {field: value})
    assert decode(Numbers, {"number": 3}).number == 3, "a whole number is one"


def test_field_inside_a_record_is_named_with_the_record() -> None:
    document = document_of(RECORDS[0])
    with pytest.raises(ValueError, match=r"Its field training\.epochs is '5' where a whole number is expected\."):
        RunSpec.from_json(changed(document, ("training", "epochs"), "5"))
    with pytest.raises(ValueError, match=r"It lacks recipe\.path\."):
        RunSpec.from_json(changed(document, ("recipe", "path"), ...))


def test_what_is_longer_than_the_limits_is_cut() -> None:
    packages = {f"package-{number}": "x" * 50 for number in range(10)}
    found = decode(Software, {"version": "3" * 50, "packages": packages}, Limits(text=9, items=3))
    assert found == Software(version="3" * 9, packages={f"package-{number}": "x" * 9 for number in range(3)})
    assert decode(Source, {"folder": "/r", "commit": "", "branch": ""}, changed=True).changed
    assert Training() == decode(Training, {})
