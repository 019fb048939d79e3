"""The scheduler's step for channels: finds the channels that need a check and advances each one (see `lifecycle`)."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from django.db import InterfaceError, OperationalError

from nodes.machines.call_pools import NO_NODE, pools
from nodes.models import Workload
from nodes.workloads.reconcile import reconcile_soon
from playout.channels.channel_alerts import alert, resolve
from playout.channels.lifecycle import advance
from playout.models import Channel
from station.clock import database_now
from station.leader_term import Term
from station.redaction import redact

logger = logging.getLogger(__name__)

State = Channel.State
WITH = ("project", "node", "playlist", "filler")
HURRIED = (State.STARTING, State.FAILING_OVER, State.STOPPING)
HURRY = timedelta(seconds=0.5)
LOOK = timedelta(seconds=15)
DUE_SQL = f"""SELECT clock_timestamp() WHERE EXISTS (
    SELECT FROM playout_channel WHERE is_wanted OR state <> '{State.OFF_AIR}')"""  # noqa: S608  (our own states)


class Troubled:
    """The leader's memory of the channels whose last check failed."""

    def __init__(self) -> None:
        self.channels: set[int] = set()


def step(term: Term, now: datetime) -> datetime | None:
    """Have each channel advanced that needs it now, on other threads: advancing may call its media worker (P-18).

    A channel on air is advanced with each status its media worker sends.
    """
    rows = list(Channel.objects.to_look_at().only("state"))
    current = _current_workloads(rows)
    is_hurried = False
    for channel in rows:
        workload = current.get(channel.owner)
        if channel.state != State.ON_AIR or not _has_recent_status(workload, now):
            # Without a media worker there is nothing to call, and its last node may hang.
            node_id = workload.node_id if workload and workload.is_wanted_and_live else NO_NODE
            pools.submit_soon(node_id, channel.owner, partial(look, term, channel.owner))
            is_hurried |= channel.state != State.ERROR
    if is_hurried:
        return now + HURRY
    return now + LOOK if rows else None


def _current_workloads(channels: Iterable[Channel]) -> dict[str, Workload]:
    """The newest workload of each channel, with one query."""
    rows = Workload.objects.filter(owner__in=[channel.owner for channel in channels])
    newest = rows.order_by("owner", "-generation").distinct("owner")
    return {row.owner: row for row in newest.only("owner", "state", "is_wanted", "heartbeat_at", "node_id")}


def _has_recent_status(workload: Workload | None, now: datetime) -> bool:
    if workload is None or not workload.is_wanted_and_live or workload.heartbeat_at is None:
        return False
    return timedelta(0) <= now - workload.heartbeat_at < LOOK


def look(term: Term, owner: str) -> None:
    """Advance one channel: its turn has come, or its media worker has a new status (see WORKLOAD_OWNERS)."""
    channel = Channel.objects.to_look_at().select_related(*WITH).filter(pk=int(owner.partition(":")[2])).first()
    if channel is not None:
        _check(term, channel)


def _check(term: Term, channel: Channel) -> None:
    before, troubled = channel.state, term.memory(Troubled).channels
    try:
        advance(channel, database_now(), term)
        if channel.state != before or channel.state in HURRIED:
            reconcile_soon(term, channel.owner)
        if channel.pk in troubled:
            troubled.discard(channel.pk)
            resolve(channel, "channel_trouble", database_now(), "the check works again")
    except (OperationalError, InterfaceError):
        raise  # the database is away
    except Exception as error:  # a fault in one channel must not stop the others
        logger.exception("A channel could not be checked. channel=%s", channel.pk)
        text = redact(f"{type(error).__name__}: {error}")
        troubled.add(channel.pk)
        alert(channel, "channel_trouble", f"{channel} could not be checked", text, database_now())
