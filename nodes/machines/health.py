"""Health checks of the nodes, every few seconds and in parallel: three misses mean down, one answer means up."""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from nodes.machines.call_pools import pools
from nodes.models import Node
from nodes.runtimes import here, runtime_for
from nodes.runtimes.base import RuntimeFault
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.leader_term import Term
from station.models.alert import Severity
from station.redaction import redact

logger = logging.getLogger(__name__)

MISSES_UNTIL_DOWN = 3
DUE_SQL = "SELECT min(COALESCE(next_check_at, clock_timestamp())) FROM nodes_node"


def step(term: Term, now: datetime) -> datetime | None:
    """Check the nodes that are due, in parallel; return when the next check is due."""
    wakes = []
    for node in Node.objects.all():
        if node.is_elsewhere(here()):
            continue
        if node.next_check_at is None or node.next_check_at <= now:
            pools.submit(node.pk, "health", partial(check_by_id, node.pk))
            wakes.append(now + timedelta(seconds=settings.NODE_CHECK_SECONDS))
        else:
            wakes.append(node.next_check_at)
    return min(wakes, default=None)


def check_by_id(pk: int) -> None:
    node = Node.objects.filter(pk=pk).first()
    if node is not None:
        check(node)


def check(node: Node) -> bool:
    """Check the node once and store the result. True if it answered."""
    try:
        version = runtime_for(node).ping()
    except RuntimeFault as fault:
        _note_miss(node, redact(str(fault)))
        return False
    now = database_now()
    if node.parsed_address.is_process and not node.process_home:
        Node.objects.filter(pk=node.pk, process_home="").update(process_home=here())
    changes: dict[str, Any] = {
        "missed_checks": 0,
        "last_seen_at": now,
        "engine_version": version,
        "next_check_at": now + timedelta(seconds=settings.NODE_CHECK_SECONDS),
    }
    if node.state != Node.State.UP:
        with transaction.atomic():
            if node.move(Node.State.UP, now=now, note=version, last_error="", **changes):
                logger.info("Node is up. node=%s version=%s", node.name, version)
                resolve_alert(f"node_down:{node.pk}", now=now, note="the node answers again")
                resolve_alert("nodes_vanished", now=now, note=f"{node.name} answers again")
    else:
        Node.objects.filter(pk=node.pk).update(**changes)
    if node.disk_checked_at is None or now - node.disk_checked_at >= _disk_interval():
        check_disk(node)
    return True


@dataclass(frozen=True)
class RollCall:
    """A ping of all nodes at the same time. The results are not stored."""

    nodes: list[Node]
    answers: "dict[Future[str], Node]"
    began: float

    def missing(self, seconds: float) -> list[Node]:
        """The nodes that did not answer within `seconds` of the ping."""
        done, _ = wait(self.answers, timeout=max(0.0, self.began + seconds - time.monotonic()))
        return [node for answer, node in self.answers.items() if answer not in done or answer.exception() is not None]


def call_roll() -> RollCall:
    nodes = [node for node in Node.objects.all() if not node.is_elsewhere(here())]
    pool = ThreadPoolExecutor(max(1, len(nodes)), "ping")
    answers = {pool.submit(runtime_for(node).ping): node for node in nodes}
    pool.shutdown(wait=False)
    return RollCall(nodes, answers, time.monotonic())


def check_disk(node: Node) -> None:
    """Read the free disk space. If that fails, the node keeps its last figure and shows the error."""
    now = database_now()
    try:
        disk = runtime_for(node).free_disk()
    except RuntimeFault as fault:
        Node.objects.filter(pk=node.pk).update(disk_checked_at=now, last_error=redact(str(fault)))
        raise_alert(
            f"node_disk:{node.pk}",
            f"The free disk space of node {node.name} cannot be read",
            now=now,
            text=redact(str(fault)),
            subject=f"node:{node.pk}",
        )
        return
    resolve_alert(f"node_disk:{node.pk}", now=now)
    Node.objects.filter(pk=node.pk).update(
        free_bytes=disk.free_bytes, total_bytes=disk.total_bytes, disk_checked_at=now, last_error=""
    )


def _note_miss(node: Node, error: str) -> None:
    now = database_now()
    missed = node.missed_checks + 1
    changes: dict[str, Any] = {
        "missed_checks": missed,
        "last_error": error,
        "next_check_at": now + timedelta(seconds=settings.NODE_CHECK_SECONDS),
    }
    is_bad = missed >= MISSES_UNTIL_DOWN or node.state == Node.State.UNKNOWN
    if is_bad and node.may_move(Node.State.DOWN):
        if node.move(Node.State.DOWN, now=now, note=error, **changes):
            logger.error("Node is down. node=%s error=%s", node.name, error)
    else:
        Node.objects.filter(pk=node.pk).update(**changes)
    if is_bad:
        raise_alert(
            f"node_down:{node.pk}",
            f"Node {node.name} does not answer",
            now=now,
            severity=Severity.CRITICAL,
            text=f"{error}\nIts workloads may still be running. Nothing new is placed on this node. Check the machine.",
            subject=f"node:{node.pk}",
        )


def _disk_interval() -> timedelta:
    return timedelta(seconds=settings.NODE_DISK_CHECK_SECONDS)
