"""Health checks of the nodes, every few seconds and in parallel: three misses mean down, one answer means up."""

import logging
import time
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from nodes.machines import node_clock
from nodes.machines.call_pools import pools
from nodes.models import Node
from nodes.runtimes import here, runtime_for
from nodes.runtimes.base import RuntimeFault
from nodes.runtimes.process_home import take_home
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.leader_term import Term
from station.models.alert import Severity
from station.redaction import redact

logger = logging.getLogger(__name__)

MISSES_UNTIL_DOWN = 3
# A check that is due in less than this is due now: the loop may wake a little early.
NEARLY_SECONDS = 0.01
# `last_seen_at` is written at most this often while nothing else changes.
SEEN_INTERVAL = timedelta(seconds=15)
DUE_SQL = "SELECT clock_timestamp() FROM nodes_node LIMIT 1"


class Checks:
    """When each node was last checked (monotonic): a database clock that is set back must not delay checks (R-23)."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}


def step(term: Term, now: datetime) -> datetime | None:
    """Check the nodes that are due, in parallel; return when the next check is due."""
    checked, clock, interval = term.memory(Checks).at, time.monotonic(), settings.NODE_CHECK_SECONDS
    waits = []
    for node in Node.objects.all():
        if node.is_elsewhere(here()) and not take_home(node):
            continue
        if clock - checked.get(node.pk, -1e9) >= interval - NEARLY_SECONDS:
            # The first checks of a term come together, the later ones spread over the interval.
            checked[node.pk] = clock if node.pk in checked else clock - spread(node.pk, interval)
            pools.submit_soon(node.pk, "health", partial(check_by_id, node.pk))
        waits.append(checked[node.pk] + interval - clock)
    return now + timedelta(seconds=min(waits)) if waits else None


def spread(pk: int, interval: float) -> float:
    """A part of the interval that differs from node to node: fifty checks at the same moment would be a burst."""
    return interval * (pk % 10) / 10


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
    if not node.process_home:
        take_home(node)
    changes: dict[str, Any] = {"missed_checks": 0, "last_seen_at": now, "engine_version": version}
    if node.state != Node.State.UP:
        with transaction.atomic():
            if node.move(Node.State.UP, now=now, note=version, last_error="", **changes):
                logger.info("Node is up. node=%s version=%s", node.name, version)
                resolve_alert(f"node_down:{node.pk}", now=now, note="the node answers again")
                resolve_alert("nodes_vanished", now=now, note=f"{node.name} answers again")
    elif node.missed_checks or node.engine_version != version or not _is_recent(node.last_seen_at, now, SEEN_INTERVAL):
        Node.objects.filter(pk=node.pk).update(**changes)
    if not _is_recent(node.disk_checked_at, now, timedelta(seconds=settings.NODE_DISK_CHECK_SECONDS)):
        check_disk(node)
    return True


def _is_recent(at: datetime | None, now: datetime, span: timedelta) -> bool:
    """A time in the future is not recent: the clock was set back."""
    return at is not None and timedelta(0) <= now - at < span


def check_disk(node: Node) -> None:
    """Read the free disk space. If that fails, the node keeps its last figure and shows the error."""
    now = database_now()
    asked = time.monotonic()
    try:
        disk = runtime_for(node).free_disk()
        call = node_clock.Span(asked, time.monotonic())
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
    if disk.node_at is not None:
        station = node_clock.read_station_time()
        node_clock.note(node, node_clock.offset_of(disk.node_at, call, station), station.now)


def note_gone(node: Node, error: str) -> None:
    """A media worker on it was lost because neither of them answers: do not wait for three misses."""
    node.refresh_from_db()
    _note_miss(node, error, is_certain=True)


def _note_miss(node: Node, error: str, *, is_certain: bool = False) -> None:
    now = database_now()
    missed = node.missed_checks + 1
    changes: dict[str, Any] = {"missed_checks": missed, "last_error": error}
    is_bad = is_certain or missed >= MISSES_UNTIL_DOWN or node.state == Node.State.UNKNOWN
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
