"""A media worker's answer is accepted only if it names the right workload, in time, within the size limit."""

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
    send_end,
    tell,
)
from testing.workloads import like_a_channel
from worker.wire.codec import VERSION, VERSION_FIELD
from worker.wire.commands import Cue
from worker.wire.status import PlayoutStatus

pytestmark = [pytest.mark.django_db]


class Somebody(http.server.BaseHTTPRequestHandler):
    """Replies with the answer that the test sets."""

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
        with contextlib.suppress(OSError):  # the client may have closed the connection
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


def test_an_answer_with_the_right_owner_and_generation_is_accepted(worker: Any) -> None:
    """P-03: the answer names the channel and its generation; the request carries this media worker's token."""
    workload, it = worker
    it.answer = {"owner": "channel:1", "generation": 1, "frames": 7}
    assert fetch_status(workload, seconds=60).frames == 7
    assert it.asked == [f"Bearer {workloads.token_of(workload)}"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"owner": "channel:2", "generation": 1}, 200, "another workload answers there: channel:2, generation 1"),
        ({"owner": "channel:1", "generation": 2}, 200, "another workload answers there: channel:1, generation 2"),
        ({"frames": 7}, 200, "cannot be read"),
        ([], 200, "cannot be read"),
        (b"<html>", 200, "cannot be read"),
        (b"", 200, "cannot be read"),
        ({"owner": "channel:1", "generation": 1}, 500, "answered 500"),
        (b"x" * (ANSWER_LIMIT_BYTES + 1), 200, "too long"),
    ],
)
def test_any_other_answer_counts_as_silence(worker: Any, answer: Any, status: int, words: str) -> None:
    """P-03: too long a body, another program on the port, an old generation, invalid JSON."""
    workload, it = worker
    it.answer, it.status = answer, status
    with pytest.raises(WorkerSilent, match=words):
        fetch_status(workload, seconds=60)


def test_an_answer_after_the_deadline_counts_as_a_hang(worker: Any) -> None:
    """P-03: one deadline for the whole answer."""
    workload, it = worker
    it.delay = 3.0
    with pytest.raises(WorkerHangs):
        fetch_status(workload, seconds=0.3)


def test_a_refusal_carries_the_media_workers_text(worker: Any) -> None:
    workload, it = worker
    it.status, it.answer = 400, {"error": "there is no such item in the list"}
    with pytest.raises(WorkerRefused, match="no such item"):
        tell(workload, Cue("x"), PlayoutStatus)


def test_a_refused_end_counts_as_silence(worker: Any) -> None:
    """The poll sends the end; a refusal there must not escape from it."""
    workload, it = worker
    it.status, it.answer = 400, {"error": "ends_at must be a time"}
    with pytest.raises(WorkerSilent, match="ends_at must be a time"):
        send_end(workload, timezone.now())
