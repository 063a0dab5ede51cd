"""Open a file of HTML in a headless Chromium, and print what a script in it returns.

    python browser.py BROWSER FILE SCRIPT PICTURE

It is started by its path, so that it can be started without a network, and prints one JSON document: `result` of the
script, `asked`: addresses that the page asked for beside itself, and `said`: what the browser wrote to its console.
`PICTURE` becomes a PNG of the page. The browser is driven through two pipes with its DevTools protocol, JSON documents
that end with a zero byte.
"""

import base64
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until

WIDTH, HEIGHT = 1400, 1000
TO_BROWSER, FROM_BROWSER = 3, 4
"""The numbers of the files through which the browser is driven; it has no choice of others."""
OPTIONS = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-extensions",
    "--no-sandbox",  # which root cannot have, nor a process in a namespace of its own
)
CONSOLE = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
Json = dict[str, Any]


class Browser:
    """A browser with one page."""

    def __init__(self, command: str, profile: str) -> None:
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        os.dup2(requests, TO_BROWSER)
        os.dup2(answers, FROM_BROWSER)
        self._process = subprocess.Popen(
            [command, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(TO_BROWSER, FROM_BROWSER), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for each in (requests, answers, TO_BROWSER, FROM_BROWSER):
            os.close(each)
        self._received = b""
        self._number = 0
        self.events: list[Json] = []
        """What the browser has reported so far."""
        (target, *_) = wait_until(self._pages, "the page")
        self._page = self.call("Target.attachToTarget", page=False, targetId=target, flatten=True)["sessionId"]

    def _pages(self) -> list[str]:
        targets = self.call("Target.getTargets", page=False)["targetInfos"]
        return [each["targetId"] for each in targets if each["type"] == "page"]

    def call(self, method: str, *, page: bool = True, **given: object) -> Json:
        """Call a method of the protocol, of the page or else of the browser, and return its result."""
        self._number += 1
        session = {"sessionId": self._page} if page else {}
        text = json.dumps({"id": self._number, "method": method, "params": given, **session})
        os.write(self._requests, text.encode() + b"\0")
        while (document := self._read()).get("id") != self._number:
            self.events.append(document)
        if "error" in document:
            raise RuntimeError(f"{method}: {document['error']}")
        result: Json = document["result"]
        return result

    def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while not any(each.get("method") == method for each in self.events):
            self.events.append(self._read())

    def close(self) -> None:
        """End the browser."""
        self.call("Browser.close", page=False)
        self._process.wait()

    def _read(self) -> Json:
        while b"\0" not in self._received:
            part = os.read(self._answers, 1 << 20)
            if not part:
                raise RuntimeError("The browser has ended.")
            self._received += part
        text, _, self._received = self._received.partition(b"\0")
        document: Json = json.loads(text)
        return document


def _pipe() -> tuple[int, int]:
    """Return both ends of a pipe, with numbers that the browser does not need."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def look(browser: Browser, page: Path, script: str, picture: Path) -> Json:
    """Open a page, run a script in it, and take its picture."""
    for part in ("Page", "Network", "Runtime", "Log"):
        browser.call(f"{part}.enable")
    browser.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait_for("Page.loadEventFired")
    result = browser.call("Runtime.evaluate", expression=script, returnByValue=True)["result"]
    picture.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot")["data"]))
    asked = [e["params"]["request"]["url"] for e in browser.events if e.get("method") == "Network.requestWillBeSent"]
    return {
        "result": result.get("value"),
        "asked": [address for address in asked if address != page.as_uri()],
        "said": [event["params"] for event in browser.events if event.get("method") in CONSOLE],
    }


def main() -> None:
    """Open the page."""
    command, page, script, picture = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(command, profile)
        found = look(browser, Path(page), script, Path(picture))
        browser.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
