"""A stand-in for a Docker Engine that answers some calls only when a test says so."""

import contextlib
import json
import re
import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HELD = "held-"


class StandInEngine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Knows no container. Asked for one whose name begins with HELD, it answers after `release`.

    The list of containers is `containers`; it is answered while `lists` is set.
    """

    daemon_threads = True
    request_queue_size = 128  # sshd does not wait when the queue is full

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Calls)
        self.asked: set[str] = set()
        self.calls: list[str] = []  # the paths, without the version of the API
        self.containers: list[dict[str, object]] = []
        self.lists = threading.Event()
        self.lists.set()
        self._open: set[socket.socket] = set()
        self._released: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def release(self, name: str) -> None:
        self.gate(name).set()

    def gate(self, name: str) -> threading.Event:
        with self._lock:
            return self._released.setdefault(name, threading.Event())

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def close(self) -> None:
        """As when an engine stops: its connections end, too."""
        self.lists.set()
        for gate in list(self._released.values()):
            gate.set()
        self.shutdown()
        self.server_close()
        for request in self._open:
            with contextlib.suppress(OSError):  # it has ended
                request.shutdown(socket.SHUT_RDWR)


class _Calls(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandInEngine

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.server.calls.append(re.sub(r"^/v[0-9.]+", "", path))
        if path.endswith("/version"):
            self._answer(200, {"Version": "stand-in", "ApiVersion": "1.41"})
            return
        if path.endswith("/containers/json"):
            self.server.lists.wait(60)
            self._answer(200, self.server.containers)
            return
        name = path.split("/")[-2]
        self.server.asked.add(name)
        if name.startswith(HELD):
            self.server.gate(name).wait(60)
        self._answer(404, {"message": f"No such container: {name}"})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        with contextlib.suppress(OSError):  # the caller has given up
            self._send(status, body)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *args: object) -> None:
        """Print nothing."""
