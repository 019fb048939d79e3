"""Copies a list to another day, and keeps the ids of rows when a list is replaced."""

from collections import deque
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from django.db import transaction

from playout.lists.broadcast_days import FIRST_DAY, LAST_DAY, is_plannable
from playout.lists.reservations import ListChange
from playout.models import Playlist, PlaylistItem
from station.actions import Refusal


class DayTaken(Refusal):
    """That day already has a list, or cannot have one. The text says which."""


def copy_to(playlist: Playlist, day: date, now: datetime) -> Playlist:
    """Create a list for `day` of the same channel, with the same items. Raises DayTaken if there is one.

    Raises ListClash if others have reserved a device or port of a live item on that day (P-15).
    """
    if playlist.channel is None:
        raise DayTaken("Only a list that belongs to a channel can be copied to a day.")
    if not is_plannable(day):
        raise DayTaken(f"Give a day between {FIRST_DAY} and {LAST_DAY}.")
    with transaction.atomic():
        change = ListChange(None, now)
        # Of two users who copy at the same moment, the second is refused like any other.
        copy, is_new = Playlist.objects.get_or_create(
            channel=playlist.channel,
            on=day,
            defaults={"name": playlist.name, "project": playlist.project, "is_loop": False},
        )
        if not is_new:
            raise DayTaken(f"{playlist.channel} already has a list for {day}: {copy}.")
        rows = list(playlist.items.order_by("position", "id"))
        for row in rows:
            row.pk = None
            row.playlist = copy
            row.inserted_at = None
        PlaylistItem.objects.bulk_create(rows)
        change.finish(copy)
    return copy


def keep_known(playlist: Playlist, items: Sequence[PlaylistItem]) -> list[PlaylistItem]:
    """Give unchanged rows of a new list their old ids, and return the old rows that are left over.

    A channel on air knows its position by the id, so it can continue there instead of beginning again.
    """
    left: dict[tuple[Any, ...], deque[PlaylistItem]] = {}
    for row in playlist.items.order_by("position", "id"):
        left.setdefault(_content(row), deque()).append(row)
    for item in items:
        if known := left.get(_content(item)):
            row = known.popleft()
            item.pk, item.inserted_at = row.pk, row.inserted_at
            item._state.adding = False
    return [row for rows in left.values() for row in rows]


def _content(item: PlaylistItem) -> tuple[Any, ...]:
    """All fields that define what is played, without the position."""
    names = [field.attname for field in PlaylistItem._meta.concrete_fields]
    return tuple(getattr(item, name) for name in names if name not in {"id", "playlist_id", "position", "inserted_at"})
