"""The devices of this machine: what they are, how they are doing, and what uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.devices.device import Survey
from core.devices.helper import HelperAnswer
from core.devices.sampler import Sampler
from core.history.device_use import devices_in_use
from core.hosts.agent.uses import UseLooks
from core.hosts.exchange import pack_readings, pack_uses
from core.language import tr

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.devices.device import Device
    from core.hosts.agent.request import Request

SURVEY_S = 15.0
"""Longest wait for the first readings: a driver that nothing uses takes seconds per GPU to wake up."""
MIN_PERIOD_S, MAX_PERIOD_S = 0.1, 60.0
"""Limits of the time between two readings."""
POLLS = 10
"""Looks for new readings per period."""


def devices(request: Request) -> dict[str, Any]:
    """Return the devices, a reading of each, and what uses them."""
    with Sampler() as sampler:
        survey = sampler.survey(SURVEY_S)
    return {**pack_readings(_answer(survey)), **pack_uses(devices_in_use(survey, request.runs_root))}


def readings(request: Request) -> Iterator[dict[str, Any]]:
    """Yield the readings whenever there are new ones. `period_s`: seconds between two of them.

    With `uses_period_s`, an item also says what uses the devices if that is not as it was, looked for that often.
    """
    period_s = _seconds(request, "period_s", 1.0)
    looks = (
        UseLooks(request.runs_root, _seconds(request, "uses_period_s", 5.0))
        if "uses_period_s" in request.terms
        else None
    )
    sent = Survey()
    with Sampler(period_s=period_s) as sampler:
        while not request.cancelled.is_set():
            survey = sampler.poll()
            uses = looks.news(survey) if looks is not None and survey.devices else None
            if uses is not None or _news(survey) != _news(sent):
                yield {**pack_readings(_answer(survey, sent.devices), sent.samples), **(uses or {})}
                sent = survey
            request.cancelled.wait(period_s / POLLS)


def _seconds(request: Request, name: str, default: float) -> float:
    value = request.terms.get(name, default)
    if isinstance(value, (int, float)) and MIN_PERIOD_S <= value <= MAX_PERIOD_S:
        return value
    raise ValueError(
        tr(
            "Readings cannot be sent every {period} s. Ask for {least:g} to {most:g} s.",
            period=value,
            least=MIN_PERIOD_S,
            most=MAX_PERIOD_S,
        )
    )


def _news(survey: Survey) -> tuple[object, ...]:
    return survey.devices, survey.samples, survey.banner


def _answer(survey: Survey, known: Sequence[Device] = ()) -> HelperAnswer:
    """Return a survey as it travels, without its devices if the other side knows them."""
    return HelperAnswer(
        devices=None if survey.devices == known else survey.devices, samples=survey.samples, banner=survey.banner
    )
