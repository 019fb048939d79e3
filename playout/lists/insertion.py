"""A clip nobody had planned: into the list, right behind what is on."""

from dataclasses import dataclass

from django.db import transaction

from assets.models import Asset
from playout.lists.rundown import MOST_ITEMS, lists_of
from playout.models import Channel, Playlist, PlaylistItem
from station.clock import database_now, spoken
from worker.wire.status import ItemOnAir, NextItem, PlayoutStatus


class CannotInsert(Exception):
    """The text is for a person."""


@dataclass(frozen=True)
class Wish:
    """What is to be shown, and which stretch of it."""

    asset: Asset
    in_seconds: float = 0.0
    out_seconds: float | None = None


def insert_behind(channel: Channel, wish: Wish, status: PlayoutStatus) -> PlaylistItem:
    """Behind what the worker says is on; if that is not of the list, before what comes next, or at the end."""
    if not (wish.asset.is_usable or wish.asset.is_growing):
        raise CannotInsert(f"{wish.asset} cannot be played: it is {wish.asset.state_word}")
    length = wish.asset.duration_seconds
    if length and wish.asset.is_over and wish.in_seconds >= length:
        raise CannotInsert(f"{wish.asset} ends after {spoken(length)}, before its in point")
    now = database_now()
    lists = lists_of(channel, now)
    if not lists:
        raise CannotInsert("it has no list")
    behind, before = _row_of(status.item, lists), _row_of(status.next, lists)
    anchor = behind or before
    playlist = anchor.playlist if anchor is not None else lists[0]
    with transaction.atomic():
        Playlist.objects.select_for_update().get(pk=playlist.pk)  # two people, one after the other
        rows = list(playlist.items.order_by("position", "id"))
        if len(rows) >= MOST_ITEMS:
            raise CannotInsert(f"{playlist} has {len(rows)} items; there is no room for more")
        places = [row.pk for row in rows]
        at = len(rows)
        if anchor is not None and anchor.pk in places:
            at = places.index(anchor.pk) + (1 if behind is not None else 0)
        item = PlaylistItem(playlist=playlist, asset=wish.asset, position=at, inserted_at=now)
        item.in_seconds, item.out_seconds = wish.in_seconds, wish.out_seconds
        item.full_clean()
        item.save()
        for position, row in enumerate([*rows[:at], item, *rows[at:]]):
            row.position = position
        PlaylistItem.objects.bulk_update(rows, ["position"])
    return item


def _row_of(told: ItemOnAir | NextItem | None, lists: list[Playlist]) -> PlaylistItem | None:
    """The row a worker speaks of; the parts of a recording are one. It may be gone, or of a list that is over."""
    number = told.key.partition(".")[0] if told is not None else ""
    rows = PlaylistItem.objects.filter(playlist__in=lists).select_related("playlist")
    return rows.filter(pk=int(number)).first() if number.isdigit() else None
