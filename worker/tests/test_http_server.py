"""The HTTP server of a media worker: a refused command is answered with a text for people."""

import http.client
import json
import threading
from collections.abc import Iterator

import pytest

from worker.process.http_server import Post, Server
from worker.wire import codec
from worker.wire.commands import Cue
from worker.wire.configuration import Control
from worker.wire.status import WorkerStatus


def refuse(command: Cue) -> None:
    raise ValueError("there is no such item in the list")


@pytest.fixture
def server() -> Iterator[Server]:
    control = Control("channel:1", 1, "token", "127.0.0.1", 0)
    status = WorkerStatus(owner="channel:1", generation=1)
    with Server(control, {"/status": lambda query: status}, [Post(Cue, refuse)], None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (codec.dumps(Cue("7")), "there is no such item in the list"),
        ('{"wire": 1}', "key is missing"),
        ("", "this is not JSON"),
    ],
)
def test_a_refused_command_is_answered_without_the_name_of_an_exception(server: Server, body: str, text: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    connection.request("POST", "/cue", body, headers={"Authorization": "Bearer token"})
    answer = connection.getresponse()

    assert (answer.status, json.loads(answer.read())) == (400, {"error": text})
    connection.close()
