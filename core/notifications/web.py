"""Post a message to a webhook, or to a topic of ntfy."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from core.language import tr
from core.notifications.channels import NotDeliveredError, TemporaryError, host_of
from core.notifications.message import Message
from core.text import one_line, replace_control_characters

AGENT = "Trainyard"
NTFY_LIMIT, NTFY_NORMAL, NTFY_HIGH = 3500, 3, 4
"""Characters of a text that ntfy shows as such, and two of its priorities."""
TAGS = {"failed": "x", "lost": "x", "stalled": "warning", "finished": "white_check_mark"}
"""The emoji that ntfy shows, by occasion."""
MAX_REASON = 80
TEMPORARY = (408, 425, 429)
"""Answers of a server that may take the message later, besides those from 500 on."""


class _NoRedirect(HTTPRedirectHandler):
    """Redirects are errors: urllib would follow one without the message."""

    def redirect_request(self, *_: object) -> None:
        return None


def post_to_webhook(address: str, message: Message, timeout_s: float) -> None:
    """Post a message as JSON. Raises `NotDeliveredError`."""
    _post(address, message.to_json(), timeout_s)


def post_to_ntfy(address: str, message: Message, timeout_s: float) -> None:
    """Publish a message in the topic of this address. Raises `NotDeliveredError`.

    As JSON, since headers, in which the title would otherwise be, have no other letters than Latin ones.
    """
    parts = urlsplit(address)
    folder, _, topic = parts.path.rstrip("/").rpartition("/")
    server = urlunsplit(parts._replace(path=f"{folder}/", fragment=""))
    document = {
        "topic": unquote(topic), "title": message.title, "message": message.text[:NTFY_LIMIT],
        "priority": NTFY_HIGH if message.is_bad else NTFY_NORMAL,
    }  # fmt: skip
    if tag := TAGS.get(message.occasion):
        document["tags"] = [tag]
    _post(server, document, timeout_s)


def _post(address: str, document: object, timeout_s: float) -> None:
    host = host_of(urlsplit(address))
    try:
        request = _request(address, json.dumps(document).encode())
        with build_opener(_NoRedirect).open(request, timeout=timeout_s):
            return
    except HTTPError as error:
        reason = replace_control_characters(one_line(str(error.reason or ""), MAX_REASON))
        error.close()
        kind = TemporaryError if error.code in TEMPORARY or error.code >= 500 else NotDeliveredError
        raise kind(
            tr("{host} answered {code} {reason}.", host=host, code=error.code, reason=reason).replace(" .", ".")
        ) from None
    except TimeoutError:
        raise _did_not_answer(host, timeout_s) from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _did_not_answer(host, timeout_s) from None
        kind = NotDeliveredError if isinstance(error.reason, ssl.SSLError) else TemporaryError
        raise kind(tr("{host} cannot be reached: {why}.", host=host, why=_why(error.reason))) from None
    except (HTTPException, ValueError):  # their texts may repeat the address
        raise NotDeliveredError(tr("{host} did not answer as a web server does.", host=host)) from None
    except OSError as error:
        raise TemporaryError(tr("{host} cannot be reached: {why}.", host=host, why=_why(error))) from None


def _request(address: str, body: bytes) -> Request:
    """Return a request. A user and a password in the address become a header."""
    parts = urlsplit(address)
    headers = {"Content-Type": "application/json", "User-Agent": AGENT}
    if parts.username is not None or parts.password is not None:
        secret = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(secret.encode()).decode()}"
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
    return Request(plain, data=body, headers=headers, method="POST")  # noqa: S310 (checked: http or https)


def _did_not_answer(host: str, timeout_s: float) -> TemporaryError:
    return TemporaryError(tr("{host} did not answer within {seconds:g} s.", host=host, seconds=timeout_s))


def _why(reason: object) -> str:
    if isinstance(reason, ssl.SSLError):
        return str(getattr(reason, "verify_message", "") or reason.reason or type(reason).__name__)
    return (reason.strerror if isinstance(reason, OSError) else None) or type(reason).__name__
