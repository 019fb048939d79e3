"""One media worker to ask for its status, and the HTTP request that does it without a thread."""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from nodes.machines.node_clock import Span
from nodes.models import Node
from nodes.workloads.host_addresses import HostAddresses
from nodes.workloads.media_worker_client import (
    ANSWER_LIMIT_BYTES,
    Reply,
    WorkerHangs,
    WorkerSilent,
    read_reply,
    status_path,
)
from nodes.workloads.poll import Answer
from nodes.workloads.reachability import PATIENCE_SECONDS
from station.sealing import CannotOpen
from worker.wire.status import WorkerStatus, kind_of

logger = logging.getLogger(__name__)

# Without news the owner is told this often.
TELL_SECONDS = 3.0


@dataclass(frozen=True)
class Question:
    """One media worker to ask. `has_missed`: it did not answer the last time."""

    pk: int
    node: Node
    is_fenced: bool
    has_missed: bool
    ends_at: datetime | None

    @property
    def seconds(self) -> float:
        return PATIENCE_SECONDS if self.is_fenced else settings.WORKER_ANSWER_SECONDS


@dataclass
class Known:
    """What does not change about a workload, and its last status."""

    owner: str
    generation: int
    program: str
    port: int
    token: str | CannotOpen
    status: WorkerStatus | None = None
    asked_at: float = field(default_factory=time.monotonic)
    told: object = None  # the news that its owner has
    told_at: float = -1e9

    def must_tell(self, status: WorkerStatus) -> bool:
        """Does its owner want to know? If so, this is what it knows from now on."""
        news, clock = status.news(), time.monotonic()
        if news == self.told and clock - self.told_at < TELL_SECONDS:
            return False
        self.told, self.told_at = news, clock
        return True


async def fetch(question: Question, known: Known, addresses: HostAddresses) -> Answer | Exception:
    if isinstance(known.token, CannotOpen):
        return known.token
    host = question.node.worker_host
    where, began = f"{host}:{known.port}", time.monotonic()
    try:
        async with asyncio.timeout(question.seconds):
            address = await addresses.find(host)
            began = time.monotonic()
            reply = await _get(address, known.port, status_path(known.status), known.token)
        call = Span(began, time.monotonic())
        return Answer(read_reply(reply, kind_of(known.program), known.owner, known.generation), call)
    except TimeoutError:
        return WorkerHangs(f"no answer from {where} within {question.seconds:g} s")
    except (OSError, ValueError) as error:
        return WorkerSilent(f"no answer from {where}: {error or type(error).__name__}")
    except WorkerSilent as silence:
        return silence
    except Exception as error:  # a bug must not end the polling of this media worker
        logger.exception("A status could not be asked for. where=%s", where)
        return WorkerSilent(f"no answer from {where}: {type(error).__name__}")


async def _get(host: str, port: int, path: str, token: str) -> Reply:
    """HTTP/1.0: the answer ends with the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        content = bytearray()
        while piece := await reader.read(65536):
            content += piece
            if len(content) > ANSWER_LIMIT_BYTES:
                raise WorkerSilent("the answer is too long")
    finally:
        writer.transport.abort()
    head, _, body = bytes(content).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if not status:
        raise WorkerSilent("the answer is empty" if not content else "the answer is not HTTP")
    return Reply(int(status[0]), "", body)
