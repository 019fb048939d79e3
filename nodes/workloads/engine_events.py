"""Engines say when a container of ours dies: then it is looked at at once instead of at the next poll."""

import logging
import threading
from collections.abc import Iterable

from django.db import close_old_connections, connections

from nodes.models import Node
from nodes.runtimes import runtime_for
from nodes.runtimes.base import Runtime, RuntimeFault
from station.redaction import redact

logger = logging.getLogger(__name__)

_threads: dict[int, threading.Thread] = {}


def keep(nodes: Iterable[Node]) -> None:
    """A listener for each engine that is up. One that has ended is started again with the next turn."""
    for node in nodes:
        if node.parsed_address.is_process:
            continue
        thread = _threads.get(node.pk)
        if thread is None or not thread.is_alive():
            arguments = (node.name, runtime_for(node))
            thread = threading.Thread(target=_listen, args=arguments, daemon=True, name=f"events-{node.name}")
            _threads[node.pk] = thread
            thread.start()


def _listen(name: str, runtime: Runtime) -> None:
    from nodes.workloads.reconcile import reconcile_soon

    try:
        for owner in runtime.follow_ends():
            close_old_connections()
            try:
                reconcile_soon(owner)
            finally:
                connections.close_all()
    except RuntimeFault as fault:
        logger.debug("No longer listening. node=%s error=%s", name, redact(str(fault)))
    except Exception:  # polling finds out as well, a moment later
        logger.exception("Listening failed. node=%s", name)
