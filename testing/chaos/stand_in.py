"""Machines that answer like a Docker Engine with one media worker of a channel each, until the process is frozen.

`python -m testing.chaos.stand_in` reads a JSON list of machines from standard input.
"""

import json
import socketserver
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FRAMES_PER_SECOND = 25
EVENT_STREAM_SECONDS = 100.0


@dataclass(frozen=True)
class Machine:
    """`labels` are those of the container."""

    socket: str
    port: int
    owner: str
    labels: dict[str, str]


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    machine: Machine

    def address_string(self) -> str:
        return "local"  # a Unix socket has no address of its own

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Engine(Handler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/version"):
            self.answer(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10.0"})
        elif path.endswith("/events"):
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            time.sleep(EVENT_STREAM_SECONDS)
        elif path.endswith("/containers/json"):
            self.answer(200, [])
        elif path.endswith("/json"):
            state = {"Status": "running", "ExitCode": 0}
            self.answer(200, {"State": state, "Config": {"Labels": self.machine.labels}})
        else:
            self.answer(404, {"message": "not found"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer(404, {"message": "not found"})


class MediaWorker(Handler):
    """One answer to everything: status and as-run page in one. Readers ignore fields that they do not know."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        moment = int(time.monotonic())
        self.answer(
            200,
            {
                "wire": 1,
                "owner": self.machine.owner,
                "generation": 1,
                "state": "playing",
                "frames": moment * FRAMES_PER_SECOND,
                "last_frame_age_seconds": 0.04,
                "rundown": "an older list",
                "asrun_revision": moment,
                "revision": moment,
                "is_all": True,
                "entries": [],
            },
        )

    def do_POST(self) -> None:
        self.do_GET()


def serve(machine: Machine) -> None:
    engine = UnixServer(machine.socket, type("OwnEngine", (Engine,), {"machine": machine}))
    own = type("OwnMediaWorker", (MediaWorker,), {"machine": machine})
    worker = ThreadingHTTPServer(("127.0.0.1", machine.port), own)
    for server in (engine, worker):
        threading.Thread(target=server.serve_forever, daemon=True).start()


if __name__ == "__main__":
    for given in json.load(sys.stdin):
        serve(Machine(**given))
    print("ready", flush=True)
    threading.Event().wait()
