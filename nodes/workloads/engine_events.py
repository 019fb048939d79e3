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


def unheard(term: Term, nodes: Iterable[Node]) -> list[Node]:
    """The engines that have no listener, or one that ended some time ago."""
    listeners = term.memory(Listeners)
    found = []
    for node in nodes:
        thread = listeners.threads.get(node.pk)
        has_ended = thread is not None and not thread.is_alive()
        is_again = has_ended and time.monotonic() - listeners.began[node.pk] > AGAIN_SECONDS
        if (thread is None or is_again) and not node.parsed_address.is_process:
            found.append(node)
    return found


def keep_listening(term: Term, nodes: Iterable[Node], on_end: Callable[[str], None]) -> None:
    """One listener for each engine that is up; it calls `on_end` with the owner of each container that ends."""
    listeners = term.memory(Listeners)
    for node in unheard(term, nodes):
        runtime = runtime_for(node)
        _ = runtime.installation  # read it here, or the listener thread would keep a database connection open
        arguments = (term, node.name, runtime, on_end)
        thread = threading.Thread(target=_listen, args=arguments, daemon=True, name=f"events-{node.name}")
        listeners.began[node.pk], listeners.threads[node.pk] = time.monotonic(), thread
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
