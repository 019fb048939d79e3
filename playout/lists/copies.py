"""Rows of lists: a list for another day ("copy to…"), and a new list in the place of an old one."""

from collections import deque
from collections.abc import Sequence
from datetime import date
from typing import Any

from django.db import transaction

from playout.lists.broadcast_days import FIRST_DAY, LAST_DAY, is_plannable
from playout.models import Playlist, PlaylistItem
from station.actions import Refusal


class DayTaken(Refusal):
    """That day has a list already, or cannot have one; the text says which."""


def copy_to(playlist: Playlist, day: date) -> Playlist:
    """The same items in a list for `day` of the same channel. Never over one that is there."""
    if playlist.channel is None:
        raise DayTaken("Only a list that belongs to a channel can be copied to a day.")
    if not is_plannable(day):
        raise DayTaken(f"Give a day between {FIRST_DAY} and {LAST_DAY}.")
    taken = Playlist.objects.filter(channel=playlist.channel, on=day).first()
    if taken is not None:
        raise DayTaken(f"{playlist.channel} has a list for {day} already: {taken}.")
    with transaction.atomic():
        copy = Playlist.objects.create(
            name=playlist.name, project=playlist.project, channel=playlist.channel, on=day, is_loop=False
        )
        rows = list(playlist.items.order_by("position", "id"))
        for row in rows:
            row.pk = None
            row.playlist = copy
            row.inserted_at = None
        PlaylistItem.objects.bulk_create(rows)
    return copy


def keep_known(playlist: Playlist, items: Sequence[PlaylistItem]) -> list[PlaylistItem]:
    """Give the rows of a new list that were in the old one their old numbers; answers the old rows that are left over.

    A channel on air knows its place by the number: what stays in the list goes on from there instead of beginning anew.
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
    """Everything that is played of it, but not where it stands."""
    names = [field.attname for field in PlaylistItem._meta.concrete_fields]
    return tuple(getattr(item, name) for name in names if name not in {"id", "playlist_id", "position", "inserted_at"})
