"""Our own connection to an engine."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from nodes.runtimes.engine_http import EngineConnection


class Closing(BaseHTTPRequestHandler):
    """Answers every call and says that the connection ends with it, as a proxy before an engine may do."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answer = {"Version": "27", "ApiVersion": "1.41"} if self.path == "/version" else {"path": self.path}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        return

    def address_string(self) -> str:
        return "local"


@pytest.fixture
def closing_engine(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "engine.sock")
    with socketserver.ThreadingUnixStreamServer(path, Closing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()


def test_an_engine_that_closes_after_each_answer_is_asked_over_new_connections(
    closing_engine: str, tmp_path: Path
) -> None:
    """Its node is not taken for dead."""
    connection = EngineConnection(closing_engine, tmp_path)
    for _ in range(3):
        assert connection.get("/containers/json")["path"].startswith("/v1.41/containers/json")
        assert json.loads(connection.call("POST", "/containers/x/start"))["path"] == "/v1.41/containers/x/start"
    connection.close()
