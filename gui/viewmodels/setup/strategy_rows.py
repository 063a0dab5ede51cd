"""A row of the strategy box: what a strategy does, or why it cannot use the ticked devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.catalog import strategies
from core.catalog.strategies import Strategy
from core.config import validation
from core.config.validation import ProblemKind
from core.devices.device import Device
from core.language import tr


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRow:
    """One strategy, ready to be shown."""

    strategy: str
    title: str
    summary: str
    obstacle: str
    """Why it cannot be used; the empty string if it can."""


def strategy_rows(framework: str, devices: Sequence[Device]) -> list[StrategyRow]:
    """Return all strategies of a framework, those that can use these devices first."""
    rows = [
        StrategyRow(
            strategy=strategy.name,
            title=tr(strategy.title),
            summary=tr(strategy.summary),
            obstacle=_obstacle(strategy, devices),
        )
        for strategy in strategies.strategies_of(framework)
    ]
    return sorted(rows, key=lambda row: bool(row.obstacle))


def _obstacle(strategy: Strategy, devices: Sequence[Device]) -> str:
    """Return why a strategy cannot use these devices, below its title; the empty string if it can."""
    if reason := strategy.unavailable():
        return reason
    match validation.misfit(strategy, devices):
        case ProblemKind.OTHER_KIND:
            return tr("Runs on {names} only.", names=validation.device_kinds(strategy))
        case ProblemKind.TOO_FEW:
            return tr("Needs {count} devices or more.", count=strategy.min_devices)
        case ProblemKind.TOO_MANY:
            return tr("Trains on one device.")
        case _:
            return ""
