"""Asks the CUDA driver's library which devices this process sees, and prints the answer: one line of JSON.

    PYTHON -I ask_cuda.py SECONDS

A program of its own, started by its path under a worker's Python and environment: the library reads
`CUDA_VISIBLE_DEVICES` once per process, and can hang or crash whoever calls it. Standard library only, Python 3.10.
Function names, the 16 bytes of a `CUuuid` and the error codes are from NVIDIA's documentation of the driver API.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

LIBRARY = "libcuda.so.1"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE: an answer, "none", rather than a failure
UUID_BYTES = 16


class CallError(Exception):
    """A call that the driver answered with an error."""

    def __init__(self, call: str, code: int, words: str) -> None:
        super().__init__(call, code, words)
        self.call, self.code, self.words = call, code, words


class Driver:
    """The library."""

    def __init__(self) -> None:
        """Load it. Raises `OSError` where it is not."""
        self._library = ctypes.CDLL(LIBRARY)

    def uuids(self) -> list[str]:
        """The UUIDs of the devices, in the driver's order, as `nvidia-smi -L` writes them."""
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
        # Of a MIG device the younger function tells its own UUID, the older that of its GPU.
        told = [self._uuid_by(name, device) for name in ("cuDeviceGetUuid_v2", "cuDeviceGetUuid") if self._has(name)]
        kind = "MIG" if len(set(told)) > 1 else "GPU"
        return f"{kind}-{_text(told[0])}"

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
    """Print `{"uuids": [...]}`, or what went wrong."""
    answers = os.dup(1)
    os.dup2(2, 1)  # driver libraries print now and then: no word of theirs may stand beside the answer
    signal.alarm(int(sys.argv[1]))  # who asks may be gone meanwhile; the default action ends a hanging call, too
    answer: dict[str, object]
    try:
        answer = {"uuids": Driver().uuids()}
    except CallError as error:
        answer = {"call": error.call, "code": error.code, "words": error.words}
    except (OSError, AttributeError) as error:  # no library; a library without one of the functions
        answer = {"missing": str(error)}
    os.write(answers, json.dumps(answer).encode() + b"\n")
    os._exit(0)  # no clean-up of the library's: it has crashed before


if __name__ == "__main__":
    main()
