"""The pre-flight check: which GPUs will the CUDA driver show a process that is about to be started?

The driver's library is loaded in a subprocess (`ask_cuda.py`) with exactly the environment of that process, because
it reads `CUDA_VISIBLE_DEVICES` once per process, and may hang or crash.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.devices.reader import KERNEL_LOG
from core.errors import RunError
from core.language import join_sentences, tr, tr_noop
from core.system.helper_process import HelperProcess

ASK = Path(__file__).with_name("ask_cuda.py")
VISIBLE, ORDER, BY_BUS = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"
TIMEOUT_S = 20.0
"""Seconds to wait for the driver's answer, and for the GPUs of a run to be listed: an idle driver wakes up slowly."""
OWN_END_S = 5.0
"""Seconds after the timeout at which the subprocess ends itself, if nothing has ended it."""


def check(
    ids: Sequence[str], environment: Mapping[str, str], *, python: str = sys.executable, timeout_s: float = TIMEOUT_S
) -> None:
    """Make sure that a process in this environment will see exactly these devices, in this order.

    Raises `RunError` with both lists if they differ, or with the driver's error.
    """
    shown = visible(environment, python=python, timeout_s=timeout_s)
    if [plain(each) for each in shown] == [plain(each) for each in ids]:
        return
    what = tr_noop("The CUDA driver would not show this run the chosen GPUs: chosen: {chosen}; shown: {shown}.")
    if sorted(map(plain, shown)) == sorted(map(plain, ids)):
        what = tr_noop(
            "The CUDA driver would not show this run the chosen GPUs in the chosen order: "
            "chosen: {chosen}; shown: {shown}."
        )
    remedy = tr(
        "Check what else selects GPUs here, such as a container, MIG mode or the scheduler of a "
        "cluster (nvidia-smi -L lists them), or choose other GPUs."
    )
    raise RunError(join_sentences([tr(what, chosen=_list(ids), shown=_list(shown)), remedy]))


def numbers(ids: Sequence[str], environment: Mapping[str, str], *, python: str = sys.executable) -> dict[str, str]:
    """Return, by UUID, the devices' numbers for a CUDA_VISIBLE_DEVICES that may only contain numbers (vLLM).

    The numbers are in bus order: the process needs CUDA_DEVICE_ORDER=PCI_BUS_ID. Raises `RunError` if one has none.
    """
    whole = {name: value for name, value in environment.items() if name != VISIBLE}  # which shows all of them
    found = visible({**whole, ORDER: BY_BUS}, python=python)
    number_of = {plain(uuid): str(number) for number, uuid in enumerate(found)}
    missing = [each for each in ids if plain(each) not in number_of]
    if missing:
        raise RunError(
            tr(
                "The CUDA driver has no number for {missing}, only for {found}. "
                "Let the run name its GPUs by UUID, or choose other GPUs.",
                missing=_list(missing), found=_list(found),
            )
        )
    return {each: number_of[plain(each)] for each in ids}


def visible(environment: Mapping[str, str], *, python: str = sys.executable, timeout_s: float = TIMEOUT_S) -> list[str]:
    """Return the UUIDs that the CUDA driver shows a process in this environment, in order. Raises `RunError`."""
    answer = _ask(environment, python, timeout_s)
    if "uuids" in answer:
        return [str(uuid) for uuid in answer["uuids"]]
    if "missing" in answer:
        raise RunError(
            tr(
                "The CUDA driver's library cannot be used, so nothing can train on a GPU: {error}. "
                "Install libcuda.so.1, which comes with the NVIDIA driver (in a container: its “compute” capability).",
                error=answer["missing"],
            )
        )
    words = tr("“{words}” ({call}, error {code})", words=answer["words"], call=answer["call"], code=answer["code"])
    sentence = tr_noop("The CUDA driver cannot say which GPUs this run would see: {words}. {remedy}")
    raise RunError(tr(sentence, words=words, remedy=tr(KERNEL_LOG)))


def _ask(environment: Mapping[str, str], python: str, timeout_s: float) -> dict[str, Any]:
    command = [python, "-I", str(ASK), str(math.ceil(timeout_s + OWN_END_S))]
    try:
        process = HelperProcess(command, environment=environment)
    except OSError as error:
        raise RunError(
            tr(
                "The interpreter {python} could not be started to ask which GPUs it will see: {strerror}.",
                python=python, strerror=error.strerror,
            )
        ) from error
    with process:
        try:
            process.wait(timeout_s)
            answer: dict[str, Any] = json.loads(process.output)
        except TimeoutError:
            raise RunError(
                tr(
                    "The CUDA driver did not answer within {seconds:g} s which GPUs this run would see. {remedy}",
                    seconds=timeout_s, remedy=tr(KERNEL_LOG),
                )
            ) from None
        except ValueError:
            how = process.ending() or tr("no answer")
            raise RunError(
                tr(
                    "The process that asks the CUDA driver which GPUs this run would see ended with {how}. {remedy}",
                    how=how, remedy=tr(KERNEL_LOG),
                )
            ) from None
    return answer


def plain(uuid: str) -> str:
    """Return the digits of a UUID: CUDA gives no prefix, and old drivers add two numbers for a MIG device."""
    return uuid.lower().removeprefix("mig-").removeprefix("gpu-").partition("/")[0]


def _list(ids: Sequence[str]) -> str:
    return ", ".join(ids) or tr("none")
