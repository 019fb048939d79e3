"""Makes what runs equal what is wanted: looks at each workload and takes the smallest next action.

Level-triggered: nothing here remembers where it was. Each look compares the row (wanted, state) with what the node
really runs, and does one thing: start, adopt, watch, stop, collect, remove. So it does not matter who looks (the loop,
or a request in the admin), how often, or where the last one was killed. Calls to a node happen outside of transactions:
the row says what we are about to do, then we do it, then the row says what came of it.

- A call that timed out is unknown, not failed: the name is deterministic, so the next look finds out.
- One actor at a time talks about a workload (a lease on the row). A crashed actor's lease runs out by itself.
- What carries our label and has no live row is an orphan: asked to end, then ended, then removed.
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
from nodes.workloads import engine_events, stop, watch
from nodes.workloads.orphans import sweep_node
from nodes.workloads.reachability import PLAYOUT
from nodes.workloads.start import start
from station.clock import database_now

logger = logging.getLogger(__name__)

State = Workload.State
HURRY = timedelta(seconds=0.5)
# What was just lost is told to end as soon as it can be reached; what was lost long ago, a little later.
FENCED = timedelta(minutes=3)
LEFT_BEHIND = timedelta(seconds=5)
SWEEP_SECONDS = 5.0
LEASE_MARGIN_SECONDS = 4.0
DUE_SQL = "SELECT clock_timestamp() FROM nodes_node LIMIT 1"
LOOKED_AT = ("node_id", "owner", "state", "is_wanted", "heartbeat_at", "program", "missed_looks", "state_since_at")
_swept_at: dict[int, float] = {}
_left_behind: dict[int, float] = {}  # workload -> when it was last looked at (monotonic)


def step(now: datetime) -> datetime | None:
    """Look at everything that is not finished, each node on its own threads; nobody waits for them."""
    for pk in [pk for pk, at in _left_behind.items() if time.monotonic() - at > 60]:
        del _left_behind[pk]
    nodes = {node.pk: node for node in Node.objects.all() if not node.is_elsewhere(here())}
    looks = []
    for workload in Workload.objects.to_look_at().filter(node__in=nodes).only(*LOOKED_AT):
        is_away = nodes[workload.node_id].state != Node.State.UP
        if is_away and workload.is_over and workload.state_since_at < now - FENCED and not _is_time(workload):
            looks.append(now + LEFT_BEHIND)
            continue
        is_channel = workload.program == PLAYOUT
        poll = timedelta(seconds=settings.PLAYOUT_POLL_SECONDS if is_channel else settings.STATUS_POLL_SECONDS)
        if workload.is_settled and workload.heartbeat_at is not None and workload.heartbeat_at > now - poll:
            looks.append(workload.heartbeat_at + poll)  # it was fine a moment ago
        else:
            _submit(workload)
            is_calm = workload.is_settled and not (is_channel and workload.missed_looks)
            looks.append(now + (poll if is_calm else HURRY))
    engine_events.keep(node for node in nodes.values() if node.state == Node.State.UP)
    for node in nodes.values():
        is_due = time.monotonic() - _swept_at.get(node.pk, -SWEEP_SECONDS) >= SWEEP_SECONDS
        if node.state == Node.State.UP and is_due:
            _swept_at[node.pk] = time.monotonic()
            pools.submit(node.pk, "sweep", partial(sweep_node, node))
    return min([*looks, now + timedelta(seconds=SWEEP_SECONDS)]) if nodes else None


def _is_time(workload: Workload) -> bool:
    """What was left behind on a machine that is away can wait; it is looked at in a hurry once that is back."""
    clock = time.monotonic()
    is_due = clock - _left_behind.get(workload.pk, -1e9) >= LEFT_BEHIND.total_seconds()
    if is_due:
        _left_behind[workload.pk] = clock
    return is_due


def reconcile_soon(owner: str) -> None:
    """Have everything of this owner looked at now, on the threads of its nodes. Only the scheduler calls this."""
    for workload in Workload.objects.to_look_at().filter(owner=owner).select_related("node"):
        if not workload.node.is_elsewhere(here()):
            _submit(workload)


def _submit(workload: Workload) -> None:
    task = partial(reconcile_and_tell, workload.pk, workload.owner)
    pools.submit(workload.node_id, f"workload:{workload.pk}", task, is_urgent=not workload.is_settled)


def reconcile_and_tell(pk: int, owner: str) -> None:
    """Take the next action, then let the app that owns the workload draw its conclusions."""
    if reconcile(pk) is None:
        return
    told = settings.WORKLOAD_OWNERS.get(owner.partition(":")[0])
    if told:
        import_string(told)(owner)


def reconcile(pk: int) -> Workload | None:
    """Take the smallest next action for one workload. None if somebody else is at it."""
    lease = _take_lease(pk)
    if lease is None:
        return None
    try:
        workload = Workload.objects.select_related("node").get(pk=pk)
        _act(workload)
        return workload
    finally:
        _give_back(pk, lease)


def _act(workload: Workload) -> None:
    runtime = runtime_for(workload.node)
    if workload.is_over:
        stop.clean_up(workload, runtime)
    elif not workload.is_wanted or workload.state == State.STOPPING:
        stop.stop(workload, runtime)
    elif workload.state == State.RUNNING:
        watch.watch(workload, runtime)
    else:
        start(workload, runtime)


def _take_lease(pk: int) -> datetime | None:
    now = database_now()
    until = now + timedelta(seconds=settings.NODE_CALL_SECONDS + LEASE_MARGIN_SECONDS)
    # An earlier leader's lease counts no more, even one that a late thread of it took after we came into office.
    free = Q(leased_until_at=None) | Q(leased_until_at__lt=now) | Q(lease_epoch__gt=0, lease_epoch__lt=_epoch)
    rows = Workload.objects.filter(free, pk=pk, removed_at=None)
    return until if rows.update(leased_until_at=until, lease_epoch=_epoch) else None


def _give_back(pk: int, lease: datetime) -> None:
    """With a second try on a new connection: a lease nobody gives back holds everybody up until it runs out."""
    rows = Workload.objects.filter(pk=pk, leased_until_at=lease)
    try:
        rows.update(leased_until_at=None)
    except (OperationalError, InterfaceError):
        connection.close()
        with contextlib.suppress(OperationalError, InterfaceError):
            rows.update(leased_until_at=None)


_epoch = 0


def take_office(epoch: int) -> int:
    """This process leads from now on: leases of earlier leaders, dead or frozen, count no more.

    Should a frozen one wake up in the middle of a call, the name decides, as it does between any two actors.
    """
    global _epoch
    _epoch = epoch
    held = Workload.objects.filter(leased_until_at__isnull=False, lease_epoch__gt=0, lease_epoch__lt=epoch)
    return held.update(leased_until_at=None)
