"""Talking to a worker over its own HTTP: bounded in time and size, believed only if it names itself rightly."""

import http.client
import json
from dataclasses import dataclass
from typing import Any

from nodes.models import Workload
from nodes.runtimes import simulated
from nodes.workloads import token_of

ANSWER_LIMIT_BYTES = 512 * 1024
TIMEOUT_SECONDS = 2.0


class WorkerSilent(Exception):
    """No answer, a wrong answer, or an answer from somebody else."""


@dataclass(frozen=True)
class Reply:
    status: int
    kind: str
    body: bytes


def _call(workload: Workload, method: str, path: str, body: bytes | None = None) -> Reply:
    if simulated.world is not None:
        return Reply(http.client.OK, "application/json", json.dumps(simulated.world.status(workload.name)).encode())
    host = workload.node.worker_host
    connection = http.client.HTTPConnection(host, workload.control_port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body, headers={"Authorization": f"Bearer {token_of(workload)}"})
        response = connection.getresponse()
        content = response.read(ANSWER_LIMIT_BYTES + 1)
        if len(content) > ANSWER_LIMIT_BYTES:
            raise WorkerSilent("the answer is too long")
        return Reply(response.status, response.getheader("Content-Type", ""), content)
    except (OSError, http.client.HTTPException) as error:
        raise WorkerSilent(f"no answer from {host}:{workload.control_port}: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _json(workload: Workload, reply: Reply) -> dict[str, Any]:
    if reply.status != http.client.OK:
        raise WorkerSilent(f"answered {reply.status}")
    try:
        answer: dict[str, Any] = json.loads(reply.body)
        named = (answer["owner"], answer["generation"])
    except (ValueError, KeyError, TypeError) as error:
        raise WorkerSilent("the answer makes no sense") from error
    if named != (workload.owner, workload.generation):
        raise WorkerSilent(f"somebody else answers there: {named[0]}, generation {named[1]}")
    return answer


def fetch_status(workload: Workload) -> dict[str, Any]:
    return _json(workload, _call(workload, "GET", "/status"))


def send_end(workload: Workload, ends_at: str) -> dict[str, Any]:
    """Tell the worker when to end by itself; answers its status after that."""
    return _json(workload, _call(workload, "POST", "/end", json.dumps({"ends_at": ends_at}).encode()))


def fetch_preview(workload: Workload, name: str) -> Reply:
    """A file of the worker's preview (`frame.jpg`, `index.m3u8`, a segment)."""
    return _call(workload, "GET", f"/preview/{name}")
