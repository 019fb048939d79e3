"""The scheduler's step for the ports of channels: live items reserve theirs, outputs keep theirs (P-15, R-14).

A channel is reviewed when something changed (`watch_soon`), and every minute while its times may shift. A review reads
the lists of today and tomorrow; the later ones are read only when the channel has another node. An output that a
booking needs later keeps its port until that booking begins. An alert says so ahead: nobody takes a channel off air.
"""

import contextlib
import logging
from datetime import datetime, timedelta
from functools import partial

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Min, Q

from nodes.machines.call_pools import PORT_REVIEWS, pools
from nodes.machines.ports import PortTaken, first_other, hold
from nodes.models import Reservation
from playout.channels.channel_alerts import alert, resolve
from playout.lists.broadcast_days import day_of
from playout.lists.live_windows import near_days
from playout.lists.reservations import Clash, live_owner, node_of, settle
from playout.models import Channel, PlaylistItem
from playout.models.channel import ChannelQuerySet
from scheduling.models import Booking
from station.clock import house_time
from station.database.locks import free_rows, is_busy
from station.leader_term import Term
from station.models.alert import Severity

logger = logging.getLogger(__name__)

State = Channel.State
ON_AIR_EVERY = timedelta(minutes=1)
OFF_AIR_EVERY = timedelta(minutes=10)
PAUSE = timedelta(seconds=1)
SOON = timedelta(hours=1)
DUE_SQL = "SELECT min(ports_due_at) FROM playout_channel"


class Settled:
    """The leader's memory: for which node it has reserved the ports of each channel's later days."""

    def __init__(self) -> None:
        self.nodes: dict[int, int | None] = {}


def step(term: Term, now: datetime) -> datetime | None:
    """Review the channels that are due, on another thread: a review takes some twenty statements (P-18)."""
    upcoming: datetime | None = _waiting().aggregate(next=Min("ports_due_at"))["next"]
    if upcoming is None:
        return None
    if upcoming > now:
        return upcoming
    pools.submit_soon(PORT_REVIEWS, "ports", partial(review_due, term, now))
    return now + PAUSE


def _waiting() -> ChannelQuerySet:
    return Channel.objects.filter(ports_due_at__isnull=False)


def review_due(term: Term, now: datetime) -> None:
    """Review the channels that are due."""
    due = _waiting().filter(ports_due_at__lte=now).order_by("ports_due_at")
    for channel in due.select_related("project", "node", "playlist"):
        if term.is_over:
            return
        try:
            review(term, channel, now)
        except (OperationalError, InterfaceError) as error:
            if not is_busy(error):
                raise  # the database is away
        except Exception:  # a fault in one channel must not stop the others
            logger.exception("The ports of a channel could not be reviewed. channel=%s", channel.pk)
            Channel.objects.filter(pk=channel.pk).update(ports_due_at=now + ON_AIR_EVERY)


def review(term: Term, channel: Channel, now: datetime) -> None:
    """Settle its reservations, raise or resolve the alert, and set the time of the next review."""
    memory, asked = term.memory(Settled).nodes, channel.ports_due_at
    with transaction.atomic():
        if channel.pk not in free_rows(Channel, [channel.pk]):
            return  # somebody else changes it: the next turn reviews it
        cut_short = keep_outputs(channel, now)
        node = node_of(channel)
        node_id = node.pk if node is not None else None
        is_known = channel.pk in memory and memory[channel.pk] == node_id
        clashes = settle(channel, now, near_days(now) if is_known else None)
        _tell(channel, cut_short, clashes, now)
        # Whoever asked for a review meanwhile gets one.
        upcoming = _next_review(channel, bool(cut_short), now)
        Channel.objects.filter(pk=channel.pk, ports_due_at=asked).update(ports_due_at=upcoming)
    memory[channel.pk] = node_id


def _next_review(channel: Channel, is_cut_short: bool, now: datetime) -> datetime | None:
    is_used = channel.is_wanted or channel.state != State.OFF_AIR
    if is_used and (is_cut_short or _has_live_items(channel, now)):
        return now + ON_AIR_EVERY
    has_reservations = Reservation.objects.standing().filter(owner=live_owner(channel)).exists()
    return now + OFF_AIR_EVERY if has_reservations or _has_live_items(channel, now) else None


def _has_live_items(channel: Channel, now: datetime) -> bool:
    lists = Q(playlist__channel=channel, playlist__on__gte=day_of(now)) | Q(playlist=channel.playlist_id)
    return PlaylistItem.objects.filter(lists, kind=PlaylistItem.Kind.LIVE).exists()


def keep_outputs(channel: Channel, now: datetime) -> list[tuple[Reservation, Reservation | None]]:
    """Hold the ports of the outputs for longer where they are free by now; returns the holds that others cut short."""
    held = Reservation.objects.standing().filter(owner=channel.owner, is_cut_short=True).select_related("port__node")
    found = []
    for row in held:
        with contextlib.suppress(PortTaken):  # the other one has it now, and the channel has not released it
            row = hold(row.port, owner=row.owner, holder=row.holder, now=now, project=channel.project)
        if row.is_cut_short:
            found.append((row, first_other(row.port, row.owner, row.ends_at or now, None)))
    return found


def warnings_of(cut_short: list[tuple[Reservation, Reservation | None]]) -> list[str]:
    """For each hold that ends because of another reservation: what happens, and what to do."""
    return [
        f"{row.holder[:1].upper()}{row.holder[1:]} uses {row.port}; {other.holder} needs it at "
        f"{house_time(other.starts_at)}. Stop or move the channel by then, or that recording cannot start."
        for row, other in cut_short
        if other is not None
    ]


def _tell(
    channel: Channel, cut_short: list[tuple[Reservation, Reservation | None]], clashes: list[Clash], now: datetime
) -> None:
    lines = warnings_of(cut_short)
    lines += [f"{clash.in_words} The live item has no picture while both need it." for clash in clashes]
    if not lines:
        resolve(channel, "port_clash", now, "nobody else needs its devices and ports")
        return
    begins = [row.ends_at for row, _ in cut_short if row.ends_at] + [clash.other.starts_at for clash in clashes]
    is_soon = min(begins, default=now) <= now + SOON
    title = f"{channel} and another booking need the same device or port"
    alert(channel, "port_clash", title, "\n".join(lines), now, Severity.CRITICAL if is_soon else Severity.WARNING)


def check_bookings_again(channel: Channel, now: datetime) -> None:
    """Repeat the pre-flight checks of the bookings that end one of its holds: Tonight shows what changed."""
    for row in Reservation.objects.standing().filter(owner=channel.owner, is_cut_short=True):
        other = first_other(row.port, row.owner, row.ends_at or now, None)
        kind, _, pk = other.owner.partition(":") if other is not None else ("", "", "")
        if kind == "booking":
            Booking.objects.filter(pk=int(pk), state=Booking.State.PLANNED).update(next_preflight_at=now)
