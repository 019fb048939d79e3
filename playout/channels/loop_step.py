"""The scheduler's step for channels: finds the channels that need a check and advances each one (see `lifecycle`)."""

import logging
from datetime import datetime, timedelta

from django.db import InterfaceError, OperationalError

from nodes import workloads
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
    """Advance each channel that needs it now. A channel on air is advanced with each status its media worker sends."""
    rows = list(Channel.objects.to_look_at().select_related(*WITH))
    for channel in rows:
        # Advancing a channel on air may call its media worker. `look` does that on other threads, not the leader's.
        if channel.state != State.ON_AIR or not _has_recent_status(channel, now):
            _check(term, channel)
    if any(channel.state in HURRIED for channel in rows):
        return now + HURRY
    return now + LOOK if rows else None


def _has_recent_status(channel: Channel, now: datetime) -> bool:
    workload = workloads.latest(channel.owner)
    if workload is None or workload.is_over or not workload.is_wanted or workload.heartbeat_at is None:
        return False
    return now - workload.heartbeat_at < LOOK


def look(term: Term, owner: str) -> None:
    """Advance one channel because its media worker has a new status (see WORKLOAD_OWNERS)."""
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
