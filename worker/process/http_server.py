"""The HTTP server of a media worker: status, commands and preview files. Every request needs the token."""

import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from worker.process.config_line import ConfigError
from worker.wire import codec
from worker.wire.commands import Command
from worker.wire.configuration import Control

BODY_LIMIT = 16 * 1024 * 1024
PREVIEW_FILE = re.compile(r"^(index\.m3u8|index\d+\.ts|frame\.jpg)$")
TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".jpg": "image/jpeg"}


# Answers a GET with a message of worker.wire; the argument has the query's values.
Get = Callable[[dict[str, str]], object]


@dataclass(frozen=True)
class Post:
    """A command of the program, and the function that carries it out."""

    kind: type[Command]
    act: Callable[[Any], None]


class Server(ThreadingHTTPServer):
    """`gets` and `posts` belong to the program. `gets` includes `/status`, the answer to every command."""

    daemon_threads = True

    def __init__(self, control: Control, gets: Mapping[str, Get], posts: list[Post], preview: Path | None) -> None:
        self.control, self.gets, self.preview = control, gets, preview
        self.posts = {post.kind.path: post for post in posts}
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
                self._answer(self.server.gets[path](dict(parse_qsl(query))))
            except (ValueError, KeyError, TypeError) as error:
                self._refuse(400, f"{type(error).__name__}: {error}")
        elif path.startswith("/preview/") and self.server.preview:
            self._send_preview(path.removeprefix("/preview/"))
        else:
            self._refuse(404, "no such page")

    def do_POST(self) -> None:
        if not self._is_allowed():
            return
        if self.path not in self.server.posts:
            self._refuse(404, "no such page")
            return
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if length > BODY_LIMIT:
                raise ValueError("the body is too long")
            post = self.server.posts[self.path]
            post.act(codec.loads(post.kind, self.rfile.read(length)))
        except (ValueError, ConfigError) as error:
            self._refuse(400, str(error))  # shown to the person who gave the command
            return
        self._answer(self.server.gets["/status"]({}))

    def _is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {self.server.control.token}".encode()):
            self.server.heard_at = time.monotonic()
            return True
        self._refuse(401, "wrong or missing token")
        return False

    def _send_preview(self, name: str) -> None:
        folder = self.server.preview
        try:
            if folder is None or not PREVIEW_FILE.match(name):
                raise FileNotFoundError
            content = (folder / name).read_bytes()
        except FileNotFoundError:
            self._refuse(404, "the file is not there yet")
            return
        self._reply(200, TYPES[Path(name).suffix], content)

    def _answer(self, message: object) -> None:
        self._reply(200, "application/json", codec.dumps(message).encode())

    def _refuse(self, status: int, why: str) -> None:
        self._reply(status, "application/json", json.dumps({"error": why}).encode())

    def _reply(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: one line per poll would flood the log."""
