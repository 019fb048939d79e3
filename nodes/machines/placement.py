"""Choose the node for a workload: healthy, with the labels, the port and the disk space; or explain why none fits."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.db.models import Count, Q

from nodes.models import Node, Reservation, Workload
from nodes.runtimes import here, installation
from nodes.runtimes.base import MayNotAct
from station.clock import house_time
from station.redaction import redact

MEGABYTE = 1024 * 1024


class NoPlace(Exception):
    """No node can take the workload; the text gives the reason for each node."""


class NodeFull(NoPlace):
    """The chosen node has become full since: choose again."""


# How often `place` chooses a node when other workloads fill the chosen one first.
TRIES = 4
T = TypeVar("T")


@dataclass(frozen=True)
class Needs:
    """The requirements of a workload. Ports are (kind, number)."""

    owner: str
    labels: frozenset[str] = frozenset()
    node: Node | None = None
    ports: tuple[tuple[str, int], ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    avoid: frozenset[int] = frozenset()
    room_bytes: int = 0


def choose(needs: Needs, now: datetime) -> Node:
    """The suitable node with the fewest workloads. A node to avoid is chosen only if there is no other."""
    try:
        installation()
    except MayNotAct as refusal:
        raise NoPlace(str(refusal)) from refusal
    live = Count("workloads", filter=Q(workloads__state__in=Workload.live_states()))
    silent = Count("workloads", filter=Q(workloads__state=Workload.State.RUNNING, workloads__missed_looks__gt=0))
    nodes = Node.objects.annotate(live_workloads=live, silent_workloads=silent)
    if needs.node is not None:
        nodes = nodes.filter(pk=needs.node.pk)
    refusals: list[str] = []
    fitting: list[Node] = []
    for node in nodes:
        reason = why_not(node, needs, now)
        if reason:
            refusals.append(f"{node.name}: {reason}")
        else:
            fitting.append(node)
    if not fitting:
        raise NoPlace("; ".join(refusals) or "No node is set up.")
    return min(fitting, key=lambda node: _rank(node, needs))


def place(needs: Needs, now: datetime, want: Callable[[Node], T]) -> T:
    """Choose a node and call `want` with it. If other workloads filled that node first (NodeFull), choose again."""
    for _ in range(TRIES):
        node = choose(needs, now)
        with contextlib.suppress(NodeFull):
            return want(node)
    raise NoPlace("Other workloads took every suitable node at the same time.")


def _rank(node: Node, needs: Needs) -> tuple[bool, bool, bool, int, str]:
    live: int = node.live_workloads  # type: ignore[attr-defined]
    return node.pk in needs.avoid, lacks_room(node, needs), _may_be_gone(node), live, node.name


def _may_be_gone(node: Node) -> bool:
    """Did it, or a workload on it, not answer when last asked? When many machines fail at once, they become silent
    together and are found to be down one after the other: what moves away from the first must not move to the next."""
    silent: int = node.silent_workloads  # type: ignore[attr-defined]
    return bool(node.missed_checks or silent)


def lacks_room(node: Node, needs: Needs) -> bool:
    """Is less disk free than the forecast needs? Such a node is chosen only if there is no other (R-18)."""
    return node.free_bytes is not None and node.free_bytes < needs.room_bytes


def why_not(node: Node, needs: Needs, now: datetime) -> str:
    """Empty if the node can take the workload, otherwise the reason."""
    missing = needs.labels - node.label_set
    if missing:
        return f"lacks the label {', '.join(sorted(missing))}"
    if node.is_elsewhere(here()):
        return "is managed by the scheduler of another machine"
    if node.is_draining:
        return "is being drained"
    if node.state == Node.State.DOWN:
        return f"is down ({redact(node.last_error) or 'no answer'})"
    if node.state == Node.State.UNKNOWN and needs.node is None:
        return "has not answered yet"
    live: int = node.live_workloads  # type: ignore[attr-defined]
    if live >= node.max_workloads:
        return f"already runs {live} of {node.max_workloads} workloads"
    if node.free_bytes is not None and node.free_bytes < settings.MIN_FREE_DISK_MB * MEGABYTE:
        return f"has only {node.free_bytes // MEGABYTE} MB free"
    return next((reason for port in needs.ports if (reason := _why_not_port(node, needs, port, now))), "")


def _why_not_port(node: Node, needs: Needs, port: tuple[str, int], now: datetime) -> str:
    """Somebody else has reserved the port, or still uses it although its reservation has ended then."""
    since = max(now, needs.since or now)
    others = Reservation.objects.standing().on(node.pk, *port).exclude(owner=needs.owner).select_related("port__node")
    held = others.overlapping(since, needs.until).order_by("starts_at").first()
    if held:
        return held.in_words
    for held in others.filter(is_cut_short=True, ends_at__lte=since):
        if Workload.objects.live().filter(node=node, owner=held.user).exists():
            by = house_time(held.ends_at) if held.ends_at else "then"
            return f"{held.port} is in use by {held.holder}, which must be stopped or moved by {by}"
    return ""
