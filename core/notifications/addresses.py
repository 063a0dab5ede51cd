"""Check addresses of services, and name them without their secrets."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from core.language import tr

WEB = ("https", "http")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://\S", re.IGNORECASE)


def web_problem(address: str) -> str:
    """Return why a webhook cannot have this address; the empty string if it can, or if it is empty."""
    return _problem(address, tr("The webhook's address"))


def ntfy_problem(address: str) -> str:
    """Return why this cannot be the address of a topic of ntfy; the empty string if it can, or if it is empty."""
    named = tr("The address for ntfy")
    if problem := _problem(address, named):
        return problem
    if address and not urlsplit(address).path.strip("/"):
        return tr("{address} has no topic. Write it as https://ntfy.sh/TOPIC.", address=named)
    return ""


def apprise_problem(address: str) -> str:
    """Return why this cannot be an address for Apprise; the empty string if it can. Only Apprise knows its schemes."""
    if SCHEME.match(address) and address.isprintable():
        return ""
    return tr(
        "An address for Apprise must be SERVICE://..., for instance mailto://USER:PASSWORD@HOST. {name} is none.",
        name=repr(masked(address)),
    )


def masked(address: str) -> str:
    """Return an address for a log: the host of a web address, only the scheme of another. The rest may be secret."""
    try:
        parts = urlsplit(address)
        if parts.scheme in WEB and parts.hostname:
            return host_of(parts)
    except ValueError:
        return "…"
    return f"{parts.scheme}://…" if parts.scheme and address.isprintable() else "…"


def host_of(parts: SplitResult) -> str:
    """Return the host of a web address, and its port if it has one."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{host}:{parts.port}" if parts.port is not None else host


def _problem(address: str, named: str) -> str:
    if not address:
        return ""
    try:
        parts = urlsplit(address)
        has_host, _ = bool(parts.hostname), parts.port  # a wrong port raises
    except ValueError:
        return tr("{address} is malformed. Write it as https://HOST/PATH.", address=named)
    if parts.scheme not in WEB or not has_host:
        return tr("{address} must begin with https:// or http:// and a host.", address=named)
    if not address.isascii() or not address.isprintable() or " " in address:
        return tr(
            "{address} has a space or a character that addresses cannot have. Write it with percent signs, as a "
            "browser shows it when it is copied.",
            address=named,
        )
    return ""
