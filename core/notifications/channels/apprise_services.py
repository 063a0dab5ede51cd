"""Send a message to the services that the library Apprise knows. It is an extra: `pip install 'trainyard[apprise]'`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from core.language import tr
from core.notifications.addresses import masked
from core.notifications.channels.errors import NotDeliveredError
from core.text import join_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.notifications.message import Message


def send(addresses: Sequence[str], message: Message) -> None:
    """Send a message to each address, also after one that failed. Raises `NotDeliveredError`."""
    try:
        import apprise
    except ImportError:
        raise NotDeliveredError(tr("Apprise is not installed. Install it: pip install 'trainyard[apprise]'")) from None
    log = logging.getLogger("apprise")
    log.propagate, log.handlers = False, [logging.NullHandler()]  # its lines show addresses
    unknown, failed = [], []
    for address in addresses:
        service = apprise.Apprise.instantiate(address)  # a group of several would leave a thread behind
        if service is None:
            unknown.append(masked(address))
        elif not service.notify(title=message.title, body=message.text, body_format=apprise.NotifyFormat.TEXT):
            failed.append(masked(address))
    if unknown:
        raise NotDeliveredError(
            tr("Apprise does not know the address {names}. Its documentation lists all services.",
               names=join_names(unknown))
        )  # fmt: skip
    if failed:
        raise NotDeliveredError(tr("Apprise could not deliver to {names}.", names=join_names(failed)))
