"""Call functions of NVML by their names, for the check of this machine.

The process reads a line of JSON for each question, and writes a line of JSON with the answer. It ends at the end of its
input. A question names functions by labels; names after the function are constants of NVML: `{"each": {"memory":
["nvmlDeviceGetMemoryInfo", "nvmlMemory_v2"]}}` is asked of each GPU and answered by UUID and label, `{"pairs": ...}`
of each two GPUs, by `UUID UUID`, and `{"system": ...}` once; `{"health": true}` is answered by
`core.devices.nvidia.health`. With `{"times": 10}`, the answers are the median milliseconds of so many calls, and with
`{"only": UUID}` no other GPU is asked. A call that fails is answered by `{"error": words, "never": whether it always
will}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import timeit
from itertools import permutations
from threading import Thread
from typing import Any

import pynvml  # noqa: TID251 (one of the few modules that talk to the driver)

from core.devices.nvidia import nvml
from core.devices.nvidia.health import health
from core.devices.nvidia.nvml import Handle
from core.devices.nvidia.reader import TRACES

GPUS = {"system": 0, "each": 1, "pairs": 2}
"""By kind of question, how many GPUs it is about."""


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    gpus: dict[str, Handle] = {}
    try:
        pynvml.nvmlInit()  # only the first call of a process does something
        only = question.pop("only", "")
        for index in range(pynvml.nvmlDeviceGetCount()):
            with contextlib.suppress(pynvml.NVMLError):  # a lost one must not hide the others
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                gpus[pynvml.nvmlDeviceGetUUID(handle)] = handle
        gpus = {uuid: handle for uuid, handle in gpus.items() if uuid.startswith(only)}
    except pynvml.NVMLError as error:
        absent = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND and not any(trace.exists() for trace in TRACES)
        remedy = nvml.REMEDIES.get(error.value, "")
        return {"absent": True} if absent else {"error": nvml.words(error), "remedy": remedy}
    if "health" in question:
        return {"answer": {name: health(handle) for name, handle in gpus.items()}}
    times = question.pop("times", 0)
    [(kind, calls)] = question.items()
    answers = {
        " ".join(names): {label: _call(words, [gpus[name] for name in names], times) for label, words in calls.items()}
        for names in permutations(gpus, GPUS[kind])
    }
    return {"answer": answers if GPUS[kind] else answers[""]}


def _call(words: list[str], handles: list[Handle], times: int) -> Any:  # noqa: ANN401 (JSON)
    function = getattr(pynvml, words[0], None)
    if function is None:
        return {"error": words[0], "never": True}  # pynvml is too old for it
    constants = [getattr(pynvml, name) for name in words[1:]]
    # pynvml has a comma after NVML_P2P_CAPS_INDEX_READ, which makes a tuple of it.
    arguments = [*handles, *(each[0] if isinstance(each, tuple) else each for each in constants)]
    try:
        if not times:
            return _plain(function(*arguments))
        return 1000 * statistics.median(timeit.repeat(lambda: function(*arguments), number=1, repeat=times))
    except pynvml.NVMLError as error:
        return {"error": nvml.words(error), "never": error.value in nvml.NEVER}


def _plain(value: Any) -> Any:  # noqa: ANN401 (JSON)
    """Return a value of NVML as JSON has it: structures as their fields."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if value is None or isinstance(value, (int, float, str)):
        return value
    names = [name for name, *_ in getattr(value, "_fields_", ())] or list(vars(value))
    return {name: _plain(getattr(value, name)) for name in names}


def main() -> None:
    """Answer until the input ends, which is noticed while the driver hangs: each question has a thread of its own."""
    answers = os.dup(1)
    os.dup2(2, 1)  # driver libraries print now and then, which must not mix with the answers

    def answer(line: str) -> None:
        try:
            found = _answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 (a binding of another version must not look like a driver that hangs)
            found = {"error": repr(error), "remedy": ""}
        os.write(answers, json.dumps(found).encode() + b"\n")

    for line in sys.stdin:
        Thread(target=answer, args=(line,), daemon=True).start()
    os._exit(0)


if __name__ == "__main__":
    main()
