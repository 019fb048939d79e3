"""HTTP calls to a media worker: limited in time and size; an answer counts only if it names the right workload."""

import http.client
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from django.conf import settings

from nodes.models import Workload
from nodes.runtimes import simulated
from nodes.workloads import token_of
from worker.wire import codec
from worker.wire.commands import Command, End
from worker.wire.status import CaptureStatus, S, WorkerStatus, kind_of

ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
# Closed parts are told a few times over, should a look have been lost; then they are not asked for any more.
PARTS_AGAIN = 10


class Named(Protocol):
    """An answer says which workload it comes from."""

    @property
    def owner(self) -> str: ...

    @property
    def generation(self) -> int: ...


N = TypeVar("N", bound=Named)


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
        return Reply(http.client.OK, "application/json", codec.dumps(world.status(workload.name)).encode())
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


def _read(workload: Workload, reply: Reply, kind: type[N]) -> N:
    if reply.status != http.client.OK:
        raise WorkerSilent(f"answered {reply.status}")
    try:
        answer = codec.loads(kind, reply.body)
    except codec.WireError as error:
        raise WorkerSilent(f"the answer makes no sense: {error}") from error
    if (answer.owner, answer.generation) != (workload.owner, workload.generation):
        raise WorkerSilent(f"somebody else answers there: {answer.owner}, generation {answer.generation}")
    return answer


def fetch_status(workload: Workload, seconds: float | None = None) -> WorkerStatus:
    """Its status, of the type its program answers."""
    known = _closed_parts(workload) - PARTS_AGAIN
    path = f"/status?parts_after={known}" if known > 0 else "/status"
    return _read(workload, _call(workload, "GET", path, seconds=seconds), kind_of(workload.program))


def _closed_parts(workload: Workload) -> int:
    """The number up to which every part of its recording is known and will not change."""
    parts = workload.status(CaptureStatus).parts
    return max((part.number for part in parts if part.ended_at), default=0)


def send_end(workload: Workload, ends_at: datetime) -> WorkerStatus:
    """Tell the media worker when to end by itself; returns its status after that."""
    return tell(workload, End(ends_at), kind_of(workload.program))


def fetch(workload: Workload, path: str, kind: type[N]) -> N:
    """Any other answer of its program."""
    return _read(workload, _call(workload, "GET", path), kind)


class WorkerRefused(Exception):
    """It understood and said no; the text says why."""


def tell(workload: Workload, command: Command, kind: type[S]) -> S:
    """Send a command; returns the status after it."""
    reply = _call(workload, "POST", command.path, codec.dumps(command).encode())
    if reply.status == http.client.BAD_REQUEST:
        try:
            raise WorkerRefused(str(json.loads(reply.body)["error"]))
        except (ValueError, KeyError, TypeError) as error:
            raise WorkerSilent("the answer makes no sense") from error
    return _read(workload, reply, kind)


def fetch_preview(workload: Workload, name: str) -> Reply:
    """A file of the worker's preview (`frame.jpg`, `index.m3u8`, a segment)."""
    return _call(workload, "GET", f"/preview/{name}")
