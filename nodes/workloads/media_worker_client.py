"""Talking to a worker over its own HTTP: bounded in time and size, believed only if it names itself rightly."""

import http.client
import json
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from nodes.models import Workload
from nodes.runtimes import simulated
from nodes.workloads import token_of

ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
# Closed parts are told a few times over, should a look have been lost; then they are not asked for any more.
PARTS_AGAIN = 10


class WorkerSilent(Exception):
    """No answer, a wrong answer, or an answer from somebody else."""


class WorkerHangs(WorkerSilent):
    """Nothing came within the time: neither an answer nor a refusal."""


@dataclass(frozen=True)
class Reply:
    status: int
    kind: str
    body: bytes


def _call(
    workload: Workload, method: str, path: str, body: bytes | None = None, *, seconds: float | None = None
) -> Reply:
    world = simulated.current_world()
    if world is not None:
        return Reply(http.client.OK, "application/json", json.dumps(world.status(workload.name)).encode())
    host = workload.node.worker_host
    limit = settings.WORKER_ANSWER_SECONDS if seconds is None else seconds
    connection = http.client.HTTPConnection(host, workload.control_port, timeout=limit)
    try:
        connection.request(method, path, body, headers={"Authorization": f"Bearer {token_of(workload)}"})
        response = connection.getresponse()
        content = response.read(ANSWER_LIMIT_BYTES + 1)
        if len(content) > ANSWER_LIMIT_BYTES:
            raise WorkerSilent("the answer is too long")
        return Reply(response.status, response.getheader("Content-Type", ""), content)
    except (OSError, http.client.HTTPException) as error:
        kind = WorkerHangs if isinstance(error, TimeoutError) else WorkerSilent
        raise kind(f"no answer from {host}:{workload.control_port}: {error or type(error).__name__}") from error
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


def fetch_status(workload: Workload, seconds: float | None = None) -> dict[str, Any]:
    known = _closed_parts(workload) - PARTS_AGAIN
    path = f"/status?parts_after={known}" if known > 0 else "/status"
    return _json(workload, _call(workload, "GET", path, seconds=seconds))


def _closed_parts(workload: Workload) -> int:
    """The number up to which every part of its recording is known for good."""
    return max((part["number"] for part in workload.progress.get("parts", []) if part.get("ended_at")), default=0)


def send_end(workload: Workload, ends_at: str) -> dict[str, Any]:
    """Tell the worker when to end by itself; answers its status after that."""
    return _json(workload, _call(workload, "POST", "/end", json.dumps({"ends_at": ends_at}).encode()))


def fetch(workload: Workload, path: str) -> dict[str, Any]:
    """Any other answer of its program; it names itself in it."""
    return _json(workload, _call(workload, "GET", path))


class WorkerRefused(Exception):
    """It understood and said no; the text says why."""


def tell(workload: Workload, path: str, told: dict[str, Any]) -> dict[str, Any]:
    """A word to the worker; answers its status after that."""
    reply = _call(workload, "POST", path, json.dumps(told, ensure_ascii=False).encode())
    if reply.status == http.client.BAD_REQUEST:
        try:
            raise WorkerRefused(str(json.loads(reply.body)["error"]))
        except (ValueError, KeyError, TypeError) as error:
            raise WorkerSilent("the answer makes no sense") from error
    return _json(workload, reply)


def fetch_preview(workload: Workload, name: str) -> Reply:
    """A file of the worker's preview (`frame.jpg`, `index.m3u8`, a segment)."""
    return _call(workload, "GET", f"/preview/{name}")
