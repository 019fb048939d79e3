"""Which nodes answer? A ping of every node, shared by all who ask at the same time.

A node is pinged once at a time. While its ping hangs, everybody who asks is told that it does not answer. So there is
one thread for each node at most, however many media workers are silent.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from django.db import connections

from nodes.models import Node
from nodes.runtimes import here, runtime_for

# The answer to a ping is used again for this long.
FRESH_SECONDS = 1.0
MOST_THREADS = 256


@dataclass(frozen=True)
class Ping:
    node: Node
    began: float
    answer: "Future[str]"

    def is_usable(self) -> bool:
        return not self.answer.done() or time.monotonic() - self.began < FRESH_SECONDS

    def is_good(self) -> bool:
        return self.answer.done() and self.answer.exception() is None


@dataclass(frozen=True)
class Roll:
    """One ping of each node."""

    pings: list[Ping]

    @property
    def nodes(self) -> list[Node]:
        return [ping.node for ping in self.pings]

    def missing(self, seconds: float) -> list[Node]:
        """The nodes that did not answer within `seconds` of their ping."""
        now = time.monotonic()
        pending = [ping for ping in self.pings if not ping.answer.done() and ping.began + seconds > now]
        if pending:
            longest = max(ping.began for ping in pending) + seconds - now
            wait([ping.answer for ping in pending], timeout=longest)
        return [ping.node for ping in self.pings if not ping.is_good()]


def _ping(node: Node) -> str:
    try:
        return runtime_for(node).ping()
    finally:
        connections.close_all()


class RollCall:
    """The leader's pings. Safe to use from several threads."""

    def __init__(self) -> None:
        self._pings: dict[int, Ping] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(MOST_THREADS, "ping")

    def call(self) -> Roll:
        """Ping every node that has no ping yet that can be used. Returns at once."""
        nodes = [node for node in Node.objects.all() if not node.is_elsewhere(here())]
        with self._lock:
            for node in nodes:
                known = self._pings.get(node.pk)
                if known is None or not known.is_usable():
                    answer = self._threads.submit(_ping, node)
                    self._pings[node.pk] = Ping(node, time.monotonic(), answer)
            return Roll([self._pings[node.pk] for node in nodes])
