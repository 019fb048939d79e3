"""Listens to Docker engine events, so that a container that ends is checked at once, not at the next poll."""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from django.db import close_old_connections, connections

from nodes.models import Node
from nodes.runtimes import runtime_for
from nodes.runtimes.base import Runtime, RuntimeFault
from station.leader_term import Term
from station.redaction import redact

logger = logging.getLogger(__name__)


# A listener that ended is started again after this time.
AGAIN_SECONDS = 5.0


class Listeners:
    """The listener thread of each node, and when it was started (monotonic)."""

    def __init__(self) -> None:
        self.threads: dict[int, threading.Thread] = {}
        self.began: dict[int, float] = {}


def keep_listening(term: Term, nodes: Iterable[Node], on_end: Callable[[str], None]) -> None:
    """One listener for each engine that is up; it calls `on_end` with the owner of each container that ends."""
    listeners = term.memory(Listeners)
    threads, began = listeners.threads, listeners.began
    for node in nodes:
        if node.parsed_address.is_process:
            continue
        thread = threads.get(node.pk)
        if thread is None or (not thread.is_alive() and time.monotonic() - began[node.pk] > AGAIN_SECONDS):
            runtime = runtime_for(node)
            _ = runtime.installation  # read it here, or the listener thread would keep a database connection open
            arguments = (term, node.name, runtime, on_end)
            thread = threading.Thread(target=_listen, args=arguments, daemon=True, name=f"events-{node.name}")
            threads[node.pk], began[node.pk] = thread, time.monotonic()
            thread.start()


def _listen(term: Term, name: str, runtime: Runtime, on_end: Callable[[str], None]) -> None:
    try:
        for owner in runtime.follow_ends():
            if term.is_over:
                return  # the next leader has its own listeners
            close_old_connections()
            try:
                on_end(owner)
            finally:
                connections.close_all()
    except RuntimeFault as fault:
        logger.debug("The event listener ended. node=%s error=%s", name, redact(str(fault)))
    except Exception:  # the poll finds the ended container too, a moment later
        logger.exception("The event listener failed. node=%s", name)
