"""Inserts a clip into the list directly after the item on air."""

from dataclasses import dataclass

from django.db import transaction

from assets.models import Asset
from playout.lists.rundown import MOST_ITEMS, lists_of
from playout.models import Channel, Playlist, PlaylistItem
from station.clock import database_now, spoken
from worker.wire.status import ItemOnAir, NextItem, PlayoutStatus


class CannotInsert(Exception):
    """The clip cannot be inserted. The text says why."""


@dataclass(frozen=True)
class Wish:
    """The clip to insert, with its in and out points."""

    asset: Asset
    in_seconds: float = 0.0
    out_seconds: float | None = None


def insert_behind(channel: Channel, wish: Wish, status: PlayoutStatus) -> PlaylistItem:
    """Insert after the item on air; if that is not in the list, before the next item, or at the end.

    On filler after the last item of the day, the next item is in the list of the next day, but this day's is on air.
    """
    if not (wish.asset.is_usable or wish.asset.is_growing):
        raise CannotInsert(f"{wish.asset} cannot be played: it is {wish.asset.condition_word}")
    length = wish.asset.duration_seconds
    if length and wish.asset.is_over and wish.in_seconds >= length:
        raise CannotInsert(f"{wish.asset} ends after {spoken(length)}, before its in point")
    now = database_now()
    lists = lists_of(channel, now)
    if not lists:
        raise CannotInsert("it has no list")
    behind, before = _row_of(status.item, lists), _row_of(status.next, lists[:1])
    anchor = behind or before
    playlist = anchor.playlist if anchor is not None else lists[0]
    with transaction.atomic():
        Playlist.objects.select_for_update().get(pk=playlist.pk)  # serialises two insertions at the same time
        rows = list(playlist.items.order_by("position", "id"))
        if len(rows) >= MOST_ITEMS:
            raise CannotInsert(f"{playlist} has {len(rows)} items, the most a list may have")
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


def _row_of(reported: ItemOnAir | NextItem | None, lists: list[Playlist]) -> PlaylistItem | None:
    """The row of an item that the media worker reports; None if it is deleted or in another list."""
    number = reported.key.partition(".")[0] if reported is not None else ""
    rows = PlaylistItem.objects.filter(playlist__in=lists).select_related("playlist")
    return rows.filter(pk=int(number)).first() if number.isdigit() else None
