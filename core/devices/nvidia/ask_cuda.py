"""Ask the CUDA driver's library which devices this process sees, and print the answer as a line of JSON.

    PYTHON -I ask_cuda.py SECONDS

A program of its own, started by its path with a worker's Python and environment: the library reads
`CUDA_VISIBLE_DEVICES` once per process, and can hang or crash its caller. Standard library only, Python 3.10.
Function names, the 16 bytes of a `CUuuid` and the error codes are from NVIDIA's documentation of the driver API.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

LIBRARY = "libcuda.so.1"
NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE, which means an empty list rather than a failure."""
UUID_BYTES = 16


class CallError(Exception):
    """A call of the library that returned an error."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(call, code, words)
        self.call, self.code, self.words = call, code, words


class Driver:
    """The driver's library."""

    def __init__(self) -> None:
        """Load it. Raises `OSError` if it is missing."""
        self._library = ctypes.CDLL(LIBRARY)

    def uuids(self) -> list[str]:
        """Return the UUIDs of the devices in the driver's order, in the format of `nvidia-smi -L`."""
        try:
            self._call("cuInit", ctypes.c_uint(0))
        except CallError as error:
            if error.code == NO_DEVICE:
                return []
            raise
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._uuid(number) for number in range(count.value)]

    def _uuid(self, number: int) -> str:
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
        # For a MIG device the newer function returns its own UUID, the older one that of its GPU.
        found = [self._uuid_by(name, device) for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid") if self._has(name)]
        kind = "MIG" if len(set(found)) > 1 else "GPU"
        return f"{kind}-{_text(found[0])}"

    def _uuid_by(self, name: str, device: ctypes.c_int) -> bytes:
        uuid = (ctypes.c_ubyte * UUID_BYTES)()
        self._call(name, ctypes.byref(uuid), device)
        return bytes(uuid)

    def _has(self, name: str) -> bool:
        return hasattr(self._library, name)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CallError(name, code, self._words(code))

    def _words(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._has("cuGetErrorString") and not self._library.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text)):
            return (text.value or b"").decode(errors="replace")
        return ""


def _text(uuid: bytes) -> str:
    digits = uuid.hex()
    ends = (8, 12, 16, 20, 32)
    return "-".join(digits[start:end] for start, end in zip((0, *ends), ends, strict=False))


def main() -> None:
    """Print `{"uuids": [...]}`, or the error."""
    answers = os.dup(1)
    os.dup2(2, 1)  # driver libraries print now and then, which must not mix with the answer
    signal.alarm(int(sys.argv[1]))  # the client may be gone by then; the default action also ends a hanging call
    answer: dict[str, object]
    try:
        answer = {"uuids": Driver().uuids()}
    except CallError as error:
        answer = {"call": error.call, "code": error.code, "words": error.words}
    except (OSError, AttributeError) as error:  # the library is missing, or one of its functions
        answer = {"missing": str(error)}
    os.write(answers, json.dumps(answer).encode() + b"\n")
    os._exit(0)  # the library's clean-up can crash


if __name__ == "__main__":
    main()
