"""A web server on this machine that records what is asked of it, and that may answer late or never."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Post:
    """A request."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class WebServer:
    """Answers with `status`; with `silent`, it hangs up without an answer when it is closed."""

    status: int = 200
    phrase: str | None = None
    silent: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    data: bytes = b""
    """What each path has."""
    fetched: list[str] = field(default_factory=list)
    """The paths that were asked for."""

    def __enter__(self) -> WebServer:
        self._let_go = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def host(self) -> str:
        """The host and the port."""
        return f"127.0.0.1:{self._server.server_port}"

    def hang_up(self) -> None:
        """Close the connections that wait for an answer."""
        self._let_go.set()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.fetched.append(self.path)
                self.send_response(outer.status)
                self.end_headers()
                self.wfile.write(outer.data)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posts.append(Post(self.path, dict(self.headers), json.loads(body)))
                if outer.silent:
                    outer._let_go.wait()
                    self.close_connection = True
                    return
                self.send_response(outer.status, outer.phrase)
                for name, text in outer.headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler
