"""Makes the running containers match the wanted workloads: checks each workload and takes the next action.

Level-triggered: a check compares the row (wanted, state) with the container on the node and does one thing: start,
adopt, watch, stop, collect or remove. Any process may check (the loop, or a request in the admin), at any time, and
after a crash at any point. Calls to a node happen outside transactions: write the intent, call, write the result.

- A call that timed out has an unknown result: the name is deterministic, so the next check finds out.
- One actor at a time acts on a workload (a lease on the row). The lease of a crashed actor expires by itself.
- A container with our label and no live row is an orphan: stopped, then killed, then removed.
"""

import contextlib
import logging
import time
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.models import Q
from django.utils.module_loading import import_string

from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from nodes.runtimes import here, runtime_for
from nodes.workloads import engine_events, poll, stop
from nodes.workloads.orphans import sweep_node
from nodes.workloads.start import start
from station.clock import database_now
from station.leader_term import Term

logger = logging.getLogger(__name__)

State = Workload.State
HURRY = timedelta(seconds=0.5)
# A workload lost less than FENCED ago is checked in every turn, an older one every LEFT_BEHIND.
FENCED = timedelta(minutes=3)
LEFT_BEHIND = timedelta(seconds=5)
SWEEP_SECONDS = 5.0
LEASE_MARGIN_SECONDS = 4.0
DUE_SQL = "SELECT clock_timestamp() FROM nodes_node LIMIT 1"
LOOKED_AT = (
    *("node_id", "owner", "state", "is_wanted", "heartbeat_at", "missed_looks", "state_since_at"),
    *("poll_seconds", "is_fenced"),
)


class Checks:
    """The monotonic times of the last sweeps and checks."""

    def __init__(self) -> None:
        self.node_swept_at: dict[int, float] = {}
        self.left_behind_checked_at: dict[int, float] = {}  # by workload


def step(term: Term, now: datetime) -> datetime | None:
    """Check every workload that is not removed, on the threads of its node; the loop does not wait for them."""
    checks = term.memory(Checks)
    left_behind = checks.left_behind_checked_at
    for pk in [pk for pk, at in left_behind.items() if time.monotonic() - at > 60]:
        del left_behind[pk]
    nodes = {node.pk: node for node in Node.objects.all() if not node.is_elsewhere(here())}
    checks_due = []
    for workload in Workload.objects.to_look_at().filter(node__in=nodes).only(*LOOKED_AT):
        is_away = nodes[workload.node_id].state != Node.State.UP
        if (
            is_away
            and workload.is_over
            and workload.state_since_at < now - FENCED
            and not _is_time(left_behind, workload)
        ):
            checks_due.append(now + LEFT_BEHIND)
            continue
        interval = timedelta(seconds=workload.poll_seconds)
        if workload.is_settled and workload.heartbeat_at is not None and workload.heartbeat_at > now - interval:
            checks_due.append(workload.heartbeat_at + interval)  # it answered within its poll interval
        else:
            _submit(term, workload)
            is_calm = workload.is_settled and not (workload.is_fenced and workload.missed_looks)
            checks_due.append(now + (interval if is_calm else HURRY))
    up = [node for node in nodes.values() if node.state == Node.State.UP]
    engine_events.keep_listening(term, up, partial(reconcile_soon, term))
    for node in up:
        if time.monotonic() - checks.node_swept_at.get(node.pk, -SWEEP_SECONDS) >= SWEEP_SECONDS:
            checks.node_swept_at[node.pk] = time.monotonic()
            pools.submit(node.pk, "sweep", partial(sweep_node, term, node))
    return min([*checks_due, now + timedelta(seconds=SWEEP_SECONDS)]) if nodes else None


def _is_time(left_behind: dict[int, float], workload: Workload) -> bool:
    """Is this ended workload on a node that is down due for a check? It can wait until the node is back."""
    clock = time.monotonic()
    is_due = clock - left_behind.get(workload.pk, -1e9) >= LEFT_BEHIND.total_seconds()
    if is_due:
        left_behind[workload.pk] = clock
    return is_due


def reconcile_soon(term: Term, owner: str) -> None:
    """Check all workloads of this owner now, on the threads of their nodes. Only the scheduler calls this."""
    for workload in Workload.objects.to_look_at().filter(owner=owner).select_related("node"):
        if not workload.node.is_elsewhere(here()):
            _submit(term, workload)


def _submit(term: Term, workload: Workload) -> None:
    task = partial(reconcile_and_tell, term, workload.pk, workload.owner)
    pools.submit(workload.node_id, f"workload:{workload.pk}", task, is_urgent=not workload.is_settled)


def reconcile_and_tell(term: Term, pk: int, owner: str) -> None:
    """Take the next action, then let the app that owns the workload react."""
    if reconcile(pk, term) is None:
        return
    callback = settings.WORKLOAD_OWNERS.get(owner.partition(":")[0])
    if callback:
        import_string(callback)(term, owner)


def reconcile(pk: int, term: Term | None = None) -> Workload | None:
    """Take the next action for one workload. None if another actor holds its lease."""
    term = term or Term()
    lease = _take_lease(term, pk)
    if lease is None:
        return None
    try:
        workload = Workload.objects.select_related("node").get(pk=pk)
        _act(term, workload)
        return workload
    finally:
        _give_back(pk, lease)


def _act(term: Term, workload: Workload) -> None:
    runtime = runtime_for(workload.node)
    if workload.is_over:
        stop.clean_up(workload, runtime)
    elif not workload.is_wanted or workload.state == State.STOPPING:
        stop.stop(workload, runtime)
    elif workload.state == State.RUNNING:
        poll.poll(term, workload, runtime)
    else:
        start(workload, runtime)


def _take_lease(term: Term, pk: int) -> datetime | None:
    now = database_now()
    until = now + timedelta(seconds=settings.NODE_CALL_SECONDS + LEASE_MARGIN_SECONDS)
    # The lease of an earlier leader is void, even one that its late thread took after our term began.
    free = Q(leased_until_at=None) | Q(leased_until_at__lt=now) | Q(lease_epoch__gt=0, lease_epoch__lt=term.epoch)
    rows = Workload.objects.filter(free, pk=pk, removed_at=None)
    return until if rows.update(leased_until_at=until, lease_epoch=term.epoch) else None


def _give_back(pk: int, lease: datetime) -> None:
    """Try a second time on a new connection: a lease that is not given back blocks every actor until it expires."""
    rows = Workload.objects.filter(pk=pk, leased_until_at=lease)
    try:
        rows.update(leased_until_at=None)
    except (OperationalError, InterfaceError):
        connection.close()
        with contextlib.suppress(OperationalError, InterfaceError):
            rows.update(leased_until_at=None)


def void_older_leases(term: Term) -> int:
    """At the start of a term, clear the leases of earlier leaders, which may be dead or frozen.

    If a frozen leader resumes in the middle of a call, the container's name prevents a second start.
    """
    held = Workload.objects.filter(leased_until_at__isnull=False, lease_epoch__gt=0, lease_epoch__lt=term.epoch)
    return held.update(leased_until_at=None)
