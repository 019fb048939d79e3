"""Lists with live items, and channels that are put on and off air without a media worker."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from nodes.models import Reservation, Workload
from playout.channels.lifecycle import advance
from playout.lists.broadcast_days import day_of
from playout.lists.reservations import ListChange, live_owner
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.models import Recorder
from station.clock import database_now, house_zone


def slate(seconds: float) -> dict[str, Any]:
    return {"kind": "slate", "length_seconds": seconds}


def live(source: Recorder, seconds: float | None = 3600, **more: Any) -> dict[str, Any]:
    return {"kind": "live", "source": source, "length_seconds": seconds, **more}


def at(moment: datetime) -> dict[str, Any]:
    return {"start_time": moment.astimezone(house_zone()).time()}


def make_list(channel: Channel, begins: datetime | None, now: datetime, *items: dict[str, Any]) -> Playlist:
    """Save a list as the pages and the API do; without a day it is the channel's own list."""
    on = day_of(begins) if begins else None
    with transaction.atomic():
        change = ListChange(None, now)
        playlist = Playlist.objects.create(name="List", project=channel.project, channel=channel if on else None, on=on)
        for position, values in enumerate(items):
            PlaylistItem.objects.create(playlist=playlist, position=position, **values)
        if on is None:
            Channel.objects.filter(pk=channel.pk).update(playlist=playlist)
        change.finish(playlist)
    channel.refresh_from_db()
    return playlist


def reserved(channel: Channel) -> list[tuple[str, datetime, datetime | None]]:
    rows = Reservation.objects.standing().filter(owner=live_owner(channel)).order_by("starts_at")
    return [(str(row.port), row.starts_at, row.ends_at) for row in rows.select_related("port__node")]


def put_on_air(channel: Channel, seconds: float = 0.0) -> Workload:
    """Start the channel as the loop does; its media worker reports frames."""
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True)
    channel.refresh_from_db()
    now = database_now() + timedelta(seconds=seconds)
    advance(channel, now)
    Workload.objects.filter(owner=channel.owner, state="requested").update(
        state="running", progress={"frames": 9, "asrun_revision": 0}, heartbeat_at=now
    )
    advance(channel, now)
    channel.refresh_from_db()
    assert channel.state == Channel.State.ON_AIR, channel.error
    return Workload.objects.filter(owner=channel.owner).latest("generation")


def take_off_air(channel: Channel) -> None:
    Channel.objects.filter(pk=channel.pk).update(is_wanted=False)
    channel.refresh_from_db()
    advance(channel, database_now())
    Workload.objects.update(state="exited", removed_at=database_now())
    advance(channel, database_now())
    channel.refresh_from_db()
    assert channel.state == Channel.State.OFF_AIR
