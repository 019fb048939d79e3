"""A list for another day: "copy to…"."""

from datetime import date

from django.db import transaction

from playout.models import Playlist, PlaylistItem


class DayTaken(Exception):
    """That day has a list already; the text says which."""


def copy_to(playlist: Playlist, day: date) -> Playlist:
    """The same items in a list for `day` of the same channel. Never over one that is there."""
    if playlist.channel is None:
        raise DayTaken("Only a list that belongs to a channel can be copied to a day.")
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
        PlaylistItem.objects.bulk_create(rows)
    return copy
