"""The worker's own HTTP: status, a new end time, and the preview's files, for whoever knows the workload's token."""

import hmac
import json
import re
from collections.abc import Callable
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from worker.config import Control

BODY_LIMIT = 64 * 1024
PREVIEW_FILE = re.compile(r"^(index\.m3u8|index\d+\.ts|frame\.jpg)$")
TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t", ".jpg": "image/jpeg"}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        control: Control,
        status: Callable[[], dict[str, Any]],
        set_end: Callable[[datetime], None],
        preview: Path | None,
    ) -> None:
        self.control, self.status, self.set_end, self.preview = control, status, set_end, preview
        super().__init__((control.host, control.port), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "airlock-worker"
    sys_version = ""
    timeout = 10

    def do_GET(self) -> None:
        if not self._is_allowed():
            return
        if self.path == "/status":
            self._answer(200, self.server.status())
        elif self.path.startswith("/preview/") and self.server.preview:
            self._send_preview(self.path.removeprefix("/preview/"))
        else:
            self._answer(404, {"error": "no such page"})

    def do_POST(self) -> None:
        if not self._is_allowed():
            return
        if self.path != "/end":
            self._answer(404, {"error": "no such page"})
            return
        try:
            length = min(int(self.headers.get("Content-Length", "0")), BODY_LIMIT)
            ends_at = datetime.fromisoformat(json.loads(self.rfile.read(length))["ends_at"])
            if ends_at.tzinfo is None:
                raise ValueError("ends_at needs a zone")
        except (ValueError, KeyError, TypeError) as error:
            self._answer(400, {"error": str(error)})
            return
        self.server.set_end(ends_at)
        self._answer(200, self.server.status())

    def _is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {self.server.control.token}".encode()):
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
