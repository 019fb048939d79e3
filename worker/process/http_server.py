"""The worker's own HTTP: status, words from the control plane, and the preview's files, for who knows the token."""

import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from worker.wire.configuration import ConfigError, Control

BODY_LIMIT = 16 * 1024 * 1024
PREVIEW_FILE = re.compile(r"^(index\.m3u8|index\d+\.ts|frame\.jpg)$")
TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".jpg": "image/jpeg"}


# A program's answers by path. What is asked for comes as the query's values, what is told as the body's.
Get = Callable[[dict[str, str]], dict[str, Any]]
Post = Callable[[dict[str, Any]], None]


class Server(ThreadingHTTPServer):
    """`gets` and `posts` are the program's own; `/status` is one of the former, and what every post answers."""

    daemon_threads = True

    def __init__(
        self, control: Control, gets: Mapping[str, Get], posts: Mapping[str, Post], preview: Path | None
    ) -> None:
        self.control, self.gets, self.posts, self.preview = control, gets, posts, preview
        self.heard_at = time.monotonic()
        super().__init__((control.host, control.port), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "airlock-worker"
    sys_version = ""
    timeout = 10

    def do_GET(self) -> None:
        if not self._is_allowed():
            return
        path, _, query = self.path.partition("?")
        if path in self.server.gets:
            try:
                self._answer(200, self.server.gets[path](dict(parse_qsl(query))))
            except (ValueError, KeyError, TypeError) as error:
                self._answer(400, {"error": f"{type(error).__name__}: {error}"})
        elif path.startswith("/preview/") and self.server.preview:
            self._send_preview(path.removeprefix("/preview/"))
        else:
            self._answer(404, {"error": "no such page"})

    def do_POST(self) -> None:
        if not self._is_allowed():
            return
        if self.path not in self.server.posts:
            self._answer(404, {"error": "no such page"})
            return
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if length > BODY_LIMIT:
                raise ValueError("the body is too long")
            told = json.loads(self.rfile.read(length) or b"{}")
            if not isinstance(told, dict):
                raise ValueError("the body is not an object")
            self.server.posts[self.path](told)
        except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            self._answer(400, {"error": f"{type(error).__name__}: {error}"})
            return
        self._answer(200, self.server.gets["/status"]({}))

    def _is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {self.server.control.token}".encode()):
            self.server.heard_at = time.monotonic()
            return True
        self._answer(401, {"error": "wrong or missing token"})
        return False

    def _send_preview(self, name: str) -> None:
        folder = self.server.preview
        try:
            if folder is None or not PREVIEW_FILE.match(name):
                raise FileNotFoundError
            content = (folder / name).read_bytes()
        except FileNotFoundError:
            self._answer(404, {"error": "not there (yet)"})
            return
        self._reply(200, TYPES[Path(name).suffix], content)

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        self._reply(status, "application/json", json.dumps(content).encode())

    def _reply(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Silent: a line per poll would drown the log."""
