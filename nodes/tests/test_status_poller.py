"""Statuses of many media workers: asked for at once, stored together, one bad one hurts nobody (P-03, P-18)."""

import asyncio
import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from nodes import workloads
from nodes.models import Node, Workload
from nodes.workloads.heartbeats import Heartbeat, store
from nodes.workloads.host_addresses import HostAddresses
from nodes.workloads.media_worker_client import WorkerHangs
from nodes.workloads.status_poller import StatusPoller
from nodes.workloads.status_question import Question
from station.leader_term import Term
from testing.waiting import wait_until
from testing.workloads import like_a_channel
from worker.wire.status import PlayoutStatus

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def node() -> Node:
    return Node.objects.create(name="n", address="process", media_dir="/m", state="up", control_port_from=30_000)


def running(node: Node, number: int, port: int = 0) -> Workload:
    made = workloads.want(
        f"x:{number}",
        node=node,
        program="playout",
        spec={},
        secret={},
        now=timezone.now(),
        supervision=like_a_channel(),
    )
    Workload.objects.filter(pk=made.pk).update(state="running", control_port=port or made.control_port)
    made.refresh_from_db()
    return made


def status_of(workload: Workload, **values: Any) -> PlayoutStatus:
    return PlayoutStatus(owner=workload.owner, generation=workload.generation, **values)


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_a_status_that_the_database_refuses_does_not_hold_up_the_others(node: Node, text: str) -> None:
    bad, good = running(node, 1), running(node, 2)
    stored = store([Heartbeat(bad.pk, status_of(bad, error=text)), Heartbeat(good.pk, status_of(good, frames=7))])
    assert good.pk in stored
    good.refresh_from_db()
    assert good.progress["frames"] == 7
    assert good.progress_at is not None


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"wire": 1, "owner": "x:1", "generation": 1, "frames": 5}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def good_port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def test_silent_ones_delay_no_answer_and_each_is_asked_again(node: Node, good_port: int) -> None:
    """P-18: they accept the connection and say nothing."""
    term, told, checked = Term(), list[int](), list[int]()
    good = running(node, 1, good_port)

    def tell(question: Question, owner: str) -> bool:
        told.append(question.pk)
        return True

    def check(question: Question, owner: str, asked: Any) -> None:
        with pytest.raises(WorkerHangs):
            asked()
        checked.append(question.pk)

    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(8)]
        silent = [running(node, number, line.getsockname()[1]).pk for number, line in enumerate(lines, 2)]
        questions = [Question(pk, node, True, False, None) for pk in (*silent, good.pk)]
        poller = term.memory(StatusPoller)
        poller.ask(term, questions, tell, check)
        wait_until(lambda: told == [good.pk], 10, "the good one is stored")
        assert not checked, "the silent ones are still awaited"
        wait_until(lambda: sorted(checked) == silent, 10, "then they need a check")
        assert poller.wait_idle(10)
        poller.ask(term, questions, tell, check)
        wait_until(lambda: sorted(checked) == sorted(silent * 2), 10, "they are asked again")
    term.end()
    good.refresh_from_db()
    assert (good.progress["frames"], good.missed_looks) == (5, 0)


def test_a_name_that_hangs_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> int:
        calls = 0
        gate = asyncio.Event()

        async def hang(*args: object, **how: object) -> list[Any]:
            nonlocal calls
            calls += 1
            await gate.wait()
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang)
        addresses = HostAddresses()
        assert await addresses.find("127.0.0.1") == "127.0.0.1"
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await addresses.find("far.example")
        gate.set()
        assert await addresses.find("far.example") == "192.0.2.1"
        return calls

    assert asyncio.run(ask()) == 1
