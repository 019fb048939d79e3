"""Whom we believe: a worker that names itself rightly, in time, and in not too many words."""

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from nodes import workloads
from nodes.models import Node, Workload
from nodes.workloads.media_worker_client import (
    ANSWER_LIMIT_BYTES,
    WorkerHangs,
    WorkerRefused,
    WorkerSilent,
    fetch_status,
    tell,
)
from testing.workloads import like_a_channel
from worker.wire.codec import VERSION, VERSION_FIELD
from worker.wire.commands import Cue
from worker.wire.status import PlayoutStatus

pytestmark = [pytest.mark.django_db]


class Somebody(http.server.BaseHTTPRequestHandler):
    """Answers what the test says."""

    status = 200
    answer: Any = b""
    delay = 0.0
    asked: list[str] = []

    @property
    def message(self) -> Any:
        return {VERSION_FIELD: VERSION, **self.answer} if isinstance(self.answer, dict) else self.answer

    def do_GET(self) -> None:
        type(self).asked.append(self.headers["Authorization"])
        time.sleep(self.delay)
        self.send_response(self.status)
        with contextlib.suppress(OSError):  # whoever asked may have heard enough
            self.end_headers()
            self.wfile.write(self.answer if isinstance(self.answer, bytes) else json.dumps(self.message).encode())

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *words: Any) -> None:
        return


@pytest.fixture
def worker() -> Iterator[tuple[Workload, type[Somebody]]]:
    handler = type("It", (Somebody,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    node = Node.objects.create(name="a", address="unix:///a", media_dir="/m", state="up")
    made = workloads.want(
        "channel:1", node=node, program="playout", supervision=like_a_channel(), spec={}, secret={}, now=timezone.now()
    )
    made.control_port = server.server_port
    yield made, handler
    server.shutdown()
    server.server_close()


def test_who_names_itself_rightly_is_believed(worker: Any) -> None:
    """P-03: the answer names the channel and its generation; the question carries the token of this very worker."""
    workload, it = worker
    it.answer = {"owner": "channel:1", "generation": 1, "frames": 7}
    assert fetch_status(workload, seconds=60).frames == 7
    assert it.asked == [f"Bearer {workloads.token_of(workload)}"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"owner": "channel:2", "generation": 1}, 200, "somebody else answers there: channel:2, generation 1"),
        ({"owner": "channel:1", "generation": 2}, 200, "somebody else answers there: channel:1, generation 2"),
        ({"frames": 7}, 200, "makes no sense"),
        ([], 200, "makes no sense"),
        (b"<html>", 200, "makes no sense"),
        (b"", 200, "makes no sense"),
        ({"owner": "channel:1", "generation": 1}, 500, "answered 500"),
        (b"x" * (ANSWER_LIMIT_BYTES + 1), 200, "too long"),
    ],
)
def test_who_does_not_is_as_good_as_silent(worker: Any, answer: Any, status: int, words: str) -> None:
    """P-03: body limited; a stranger on the port, an old generation, nonsense."""
    workload, it = worker
    it.answer, it.status = answer, status
    with pytest.raises(WorkerSilent, match=words):
        fetch_status(workload, seconds=60)


def test_who_takes_too_long_hangs(worker: Any) -> None:
    """P-03: one deadline."""
    workload, it = worker
    it.delay = 3.0
    with pytest.raises(WorkerHangs):
        fetch_status(workload, seconds=0.3)


def test_a_refusal_is_told_in_its_own_words(worker: Any) -> None:
    workload, it = worker
    it.status, it.answer = 400, {"error": "there is no such item in the list"}
    with pytest.raises(WorkerRefused, match="no such item"):
        tell(workload, Cue("x"), PlayoutStatus)
