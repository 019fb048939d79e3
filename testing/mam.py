"""A MAM for tests: a real HTTP server that can delay, refuse or break off an answer, and that records all calls."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass
class Mam:
    """Stores assets by idempotency key: a second request with the same key returns the first asset."""

    port: int = 0
    calls: list[Call] = field(default_factory=list)
    assets: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_key: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    # How to answer the next calls, one word each: a status, or hang, half, drop, nonsense, redirect.
    moods: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def mood(self) -> str:
        with self.lock:
            return self.moods.pop(0) if self.moods else ""

    def store(self, key: str, content: dict[str, Any]) -> tuple[str, bool]:
        with self.lock:
            if key in self.by_key:
                return self.by_key[key], False
            number = f"mam-{len(self.assets) + 1}"
            self.assets[number], self.by_key[key] = content, number
            return number, True


class Handler(BaseHTTPRequestHandler):
    server: "Server"
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        mam = self.server.mam
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        path = self.path.removeprefix("/api")
        mam.calls.append(Call(self.command, path, dict(self.headers.items()), body))
        mood = mam.mood()
        if mood.isdigit():
            self._answer(int(mood), {"error": "not today"})
        elif mood == "hang":
            time.sleep(5)
            self._answer(200, {})
        elif mood == "drop":
            self.close_connection = True
            self.connection.close()
        elif mood == "redirect":
            self._answer(302, {}, {"Location": "http://127.0.0.1:1/elsewhere"})
        else:
            status, answer = self._do(path, body)
            if mood == "half":  # it did the work, but the answer breaks off
                self._half(status, answer)
            elif mood == "nonsense":
                self._answer(200, ["what?"])
            else:
                self._answer(status, answer)

    do_POST = do_PUT = do_PATCH = _serve  # noqa: N815

    def _do(self, path: str, body: bytes) -> tuple[int, Any]:
        mam = self.server.mam
        words = path.strip("/").split("/")
        if self.command == "POST" and words == ["assets"]:
            number, is_new = mam.store(self.headers["Idempotency-Key"], json.loads(body))
            return (201 if is_new else 409), {"id": number}
        if self.command == "PUT" and len(words) == 2 and words[1] in mam.assets:
            mam.assets[words[1]] = json.loads(body)
            return 200, {"id": words[1]}
        if "files" in words and words[1] in mam.assets:
            mam.uploads[path] = body
            return 200, {}
        return 404, {"error": "no such asset"}

    def _answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _half(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, mam: Mam) -> None:
        self.mam = mam
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients of these tests hang up on purpose."""


@contextlib.contextmanager
def running_mam(*moods: str) -> Iterator[Mam]:
    mam = Mam(moods=list(moods))
    server = Server(mam)
    mam.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield mam
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
