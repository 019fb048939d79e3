"""HTTP calls to a media worker, limited in time and size. An answer counts only if it names the right workload."""

import http.client
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from django.conf import settings

from nodes.models import Workload
from nodes.runtimes import installation, simulated
from nodes.runtimes.base import MayNotAct
from nodes.workloads import token_of
from station.database.roles import release_session
from worker.wire import codec
from worker.wire.commands import Command, End
from worker.wire.status import CaptureStatus, S, WorkerStatus, kind_of

ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
# A media worker reports closed parts in several answers, in case one is lost. Older parts are not asked for again.
PARTS_AGAIN = 10


class Named(Protocol):
    """An answer that says which workload it comes from."""

    @property
    def owner(self) -> str: ...

    @property
    def generation(self) -> int: ...


N = TypeVar("N", bound=Named)


class WorkerSilent(Exception):
    """No answer, an unreadable answer, or an answer from another workload."""


class WorkerHangs(WorkerSilent):
    """The time ran out without an answer or a refused connection."""


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
    headers = {"Authorization": f"Bearer {token_of(workload)}"}
    release_session()
    connection = http.client.HTTPConnection(host, workload.control_port, timeout=limit)
    try:
        connection.request(method, path, body, headers=headers)
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
    return read_reply(reply, kind, workload.owner, workload.generation)


def read_reply(reply: Reply, kind: type[N], owner: str, generation: int) -> N:
    """The answer, decoded. Raises WorkerSilent if it cannot be read, or if another workload answers there."""
    if reply.status != http.client.OK:
        raise WorkerSilent(f"answered {reply.status}")
    try:
        answer = codec.loads(kind, reply.body)
    except codec.WireError as error:
        raise WorkerSilent(f"the answer cannot be read: {error}") from error
    if (answer.owner, answer.generation) != (owner, generation):
        raise WorkerSilent(f"another workload answers there: {answer.owner}, generation {answer.generation}")
    return answer


def fetch_status(workload: Workload, seconds: float | None = None) -> WorkerStatus:
    """The status of the media worker, in the type of its program."""
    path = status_path(workload.status(CaptureStatus))
    return _read(workload, _call(workload, "GET", path, seconds=seconds), kind_of(workload.program))


def status_path(known: WorkerStatus | None) -> str:
    """Asks only for the parts that may have changed since the status that is known."""
    parts = known.parts if isinstance(known, CaptureStatus) else ()
    after = max((part.number for part in parts if part.ended_at), default=0) - PARTS_AGAIN
    return f"/status?parts_after={after}" if after > 0 else "/status"


def send_end(workload: Workload, ends_at: datetime) -> WorkerStatus:
    """Send the media worker a new end time; returns its status afterwards. Raises only WorkerSilent."""
    try:
        return tell(workload, End(ends_at), kind_of(workload.program))
    except WorkerRefused as refusal:
        raise WorkerSilent(f"refused its new end: {refusal}") from refusal


def fetch(workload: Workload, path: str, kind: type[N]) -> N:
    """Any other answer of the media worker."""
    return _read(workload, _call(workload, "GET", path), kind)


class WorkerRefused(Exception):
    """The media worker refused the command; the text says why."""


def tell(workload: Workload, command: Command, kind: type[S]) -> S:
    """Send a command; returns the status afterwards. A machine that may not act on nodes sends none (S-13)."""
    try:
        installation()
    except MayNotAct as refusal:
        raise WorkerRefused(str(refusal)) from refusal
    reply = _call(workload, "POST", command.path, codec.dumps(command).encode())
    if reply.status == http.client.BAD_REQUEST:
        try:
            raise WorkerRefused(str(json.loads(reply.body)["error"]))
        except (ValueError, KeyError, TypeError) as error:
            raise WorkerSilent("the answer cannot be read") from error
    return _read(workload, reply, kind)


def fetch_preview(workload: Workload, name: str) -> Reply:
    """A file of the media worker's preview (`frame.jpg`, `index.m3u8`, a segment)."""
    return _call(workload, "GET", f"/preview/{name}")
