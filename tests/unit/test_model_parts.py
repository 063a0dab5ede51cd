"""Which part of a model is on which device, from the events of the workers to words."""

import pytest

from core.runs.facts import RunFacts, part_sentences
from core.runs.fold import fold

LABELS = {"cpu:0": "CPU 0", "cpu:1": "CPU 1"}


def facts_of(*parts: object) -> RunFacts:
    devices = [{"t": 1.0, "kind": "device", "id": each, "label": label} for each, label in LABELS.items()]
    return fold(RunFacts(), [*devices, *parts])  # type: ignore[list-item]  # also damaged ones


def part(device: str, *parameters: str, where: str = "cpu") -> dict[str, object]:
    return {"t": 2.0, "kind": "parts", "rank": 0, "device": device, "parameters": list(parameters), "where": where}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([part("cpu:0", "body.0.weight", "body.0.bias"), part("cpu:1", "head/kernel", "scale")],
         ["2 of 4 parameters: body.0", "2 of 4 parameters: head and scale"]),
        ([part("cpu:0", *(f"blocks.{number}.weight" for number in range(20)))],
         ["20 of 20 parameters: 20 modules from blocks.0 to blocks.19"]),
        ([part("cpu:0", "a.weight", where="a shard of each on cpu"), part("cpu:1")],
         ["a shard of 1 parameter", "no parameter of the model"]),
        ([{**part("cpu:0", "a.weight", "b.weight", where="a shard of each on cpu"), "bytes": 2048}],
         ["a shard of each of 2 parameters (2 kB)"]),
        ([{**part("cpu:0", "a.weight"), "bytes": 3 << 20}, {**part("cpu:1"), "bytes": 0, "reads_from": "cpu:0"}],
         ["1 of 1 parameters: a (3 MB)", "no parameter: it reads those on CPU 0"]),
    ],
)
def test_parts_of_a_model_are_told_for_each_device(parts: list[object], words: list[str]) -> None:
    found = part_sentences(facts_of(*parts).parts.values(), LABELS)
    assert found == [*zip(LABELS.values(), words, strict=False)]


def test_damaged_parts_and_unknown_devices_are_left_out() -> None:
    damaged = {"t": 2.0, "kind": "parts", "device": "cpu:0", "parameters": "body"}
    sizes = {**part("cpu:0", "a.weight"), "bytes": "many"}
    facts = facts_of(damaged, part("cpu:7", "x"), {**part("cpu:1"), "parameters": [1]}, sizes)
    assert facts.parts == {}
    assert "parts" in facts.notices[0]
