"""The health of a node: three misses mean down, one answer means up. `nodes.workloads.node_checks` asks."""

import logging
import time
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from nodes.machines import node_clock
from nodes.models import Node
from nodes.runtimes import runtime_for
from nodes.runtimes.base import RuntimeFault
from nodes.runtimes.process_home import take_home
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.models.alert import Severity
from station.redaction import redact

logger = logging.getLogger(__name__)

MISSES_UNTIL_DOWN = 3
# The times of answers, for all nodes that answered. A row that somebody else has locked is left out: the next answer
# comes soon.
STORE_SEEN = """
    WITH free AS MATERIALIZED (
        SELECT id FROM nodes_node WHERE id = ANY(%(pks)s::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE nodes_node AS node SET last_seen_at = %(now)s - make_interval(secs => seen.seconds_ago)
    FROM unnest(%(pks)s::bigint[], %(ago)s::float8[]) AS seen (id, seconds_ago) JOIN free USING (id)
    WHERE node.id = seen.id"""


def check(node: Node) -> bool:
    """Check the node once and store the result. True if it answered."""
    try:
        version = runtime_for(node).ping()
    except RuntimeFault as fault:
        note_miss(node, redact(str(fault)))
        return False
    note_answer(node, version)
    if is_disk_check_due(node, database_now()):
        check_disk(node)
    return True


def has_news(node: Node, version: str) -> bool:
    """Does an answer with this version change anything but the time of the last answer?"""
    is_homeless = node.parsed_address.is_process and not node.process_home
    return bool(node.state != Node.State.UP or node.missed_checks or node.engine_version != version or is_homeless)


def note_answer(node: Node, version: str) -> None:
    now = database_now()
    if not node.process_home:
        take_home(node)
    changes: dict[str, Any] = {"missed_checks": 0, "last_seen_at": now, "engine_version": version}
    if node.state == Node.State.UP:
        Node.objects.filter(pk=node.pk).update(**changes)
        return
    with transaction.atomic():
        if node.move(Node.State.UP, now=now, note=version, last_error="", **changes):
            logger.info("Node is up. node=%s version=%s", node.name, version)
            resolve_alert(f"node_down:{node.pk}", now=now, note="the node answers again")
            resolve_alert("nodes_vanished", now=now, note=f"{node.name} answers again")


def store_seen(seconds_ago: dict[int, float], now: datetime) -> None:
    """Store with one statement how long ago each of these nodes answered."""
    with connection.cursor() as cursor:
        cursor.execute(STORE_SEEN, {"pks": list(seconds_ago), "ago": list(seconds_ago.values()), "now": now})


def is_disk_check_due(node: Node, now: datetime) -> bool:
    return not is_recent(node.disk_checked_at, now, timedelta(seconds=settings.NODE_DISK_CHECK_SECONDS))


def is_recent(at: datetime | None, now: datetime, span: timedelta) -> bool:
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
    note_miss(node, error, is_certain=True)


def note_miss(node: Node, error: str, *, is_certain: bool = False) -> None:
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
