"""Ask all machines of a run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.supervisor.hosts.part_link import PartLink

Answer = TypeVar("Answer")


def ask_all(links: Mapping[str, PartLink], ask: Callable[[PartLink], Answer]) -> dict[str, Answer]:
    """Return by machine what `ask` returns for it, each asked on a thread of its own.

    All are waited for. Raises what `ask` raised for the first machine in their order.
    """
    if len(links) == 1:
        return {name: ask(link) for name, link in links.items()}
    with ThreadPoolExecutor(len(links)) as pool:
        asked = {name: pool.submit(ask, link) for name, link in links.items()}
    return {name: each.result() for name, each in asked.items()}
