"""The position at which an unplanned clip is inserted into a playlist."""

from datetime import timedelta
from typing import Any

import pytest

from assets.models import Asset
from playout.lists.broadcast_days import day_of
from playout.lists.insertion import CannotInsert, Wish, insert_behind
from playout.models import Channel, Playlist, PlaylistItem
from scheduling.models import Booking
from station.clock import database_now
from worker.wire.status import ItemOnAir, NextItem, PlayoutStatus

pytestmark = [pytest.mark.django_db]

HOUR = timedelta(hours=1)


def made(project: Any, title: str, **more: Any) -> Asset:
    now = database_now()
    fields = {"state": Asset.State.READY, "state_since_at": now, "created_at": now, "duration_seconds": 60.0}
    return Asset.objects.create(project=project, title=title, **{**fields, **more})


@pytest.fixture
def channel(project: Any) -> Channel:
    playlist = Playlist.objects.create(name="Loop", project=project)
    for number in range(3):
        PlaylistItem.objects.create(playlist=playlist, position=7, asset=made(project, f"clip {number}"))
    return Channel.objects.create(name="One", project=project, playlist=playlist, state_since_at=database_now())


def titles(playlist: Playlist) -> list[str]:
    rows = list(playlist.items.order_by("position", "id"))
    assert [row.position for row in rows] == list(range(len(rows)))
    return [row.shown_title for row in rows]


def key(channel: Channel, number: int) -> str:
    assert channel.playlist is not None
    return str(channel.playlist.items.get(asset__title=f"clip {number}").pk)


def status(on_air: str | None = None, following: str | None = None) -> PlayoutStatus:
    """A status of the media worker with these items on air and next."""
    item = ItemOnAir(key=on_air) if on_air else None
    return PlayoutStatus(owner="x", generation=1, item=item, next=NextItem(key=following) if following else None)


def test_a_clip_is_inserted_after_the_item_on_air_or_before_the_next_item_or_at_the_end(
    channel: Any, project: Any
) -> None:
    """P-01: also if all items have the same position, and if the item on air is not in the list."""
    first, second = key(channel, 0), key(channel, 2)
    insert_behind(channel, Wish(made(project, "a")), status(f"{first}.2", second))
    insert_behind(channel, Wish(made(project, "b")), status(None, second))
    insert_behind(channel, Wish(made(project, "c")), status("filler"))
    assert titles(channel.playlist) == ["clip 0", "a", "clip 1", "b", "clip 2", "c"]


def test_a_clip_is_inserted_into_the_list_of_today(channel: Any, project: Any) -> None:
    now = database_now()
    yesterday, today = (
        Playlist.objects.create(name=name, project=project, channel=channel, on=day_of(now) - timedelta(days=days))
        for name, days in (("yesterday", 1), ("today", 0))
    )
    over = PlaylistItem.objects.create(playlist=yesterday, asset=made(project, "late show"))
    insert_behind(channel, Wish(made(project, "a")), status(str(over.pk)))
    assert titles(today) == ["a"]
    assert titles(yesterday) == ["late show"]


def test_on_filler_after_midnight_a_clip_is_inserted_into_the_list_on_air(channel: Any, project: Any) -> None:
    """P-01: the next item is the first one of the next broadcast day, but the list of this day is on air."""
    now = database_now()
    today, tomorrow = (
        Playlist.objects.create(name=name, project=project, channel=channel, on=day_of(now) + timedelta(days=days))
        for name, days in (("today", 0), ("tomorrow", 1))
    )
    PlaylistItem.objects.create(playlist=today, asset=made(project, "late show"))
    following = PlaylistItem.objects.create(playlist=tomorrow, asset=made(project, "breakfast"))
    for on_air in (None, "filler", "999999"):
        insert_behind(channel, Wish(made(project, f"on {on_air}")), status(on_air, str(following.pk)))
    assert titles(today) == ["late show", "on None", "on filler", "on 999999"]
    assert titles(tomorrow) == ["breakfast"]
    insert_behind(channel, Wish(made(project, "cued")), status(str(following.pk)))
    assert titles(tomorrow) == ["breakfast", "cued"], "an item of the next day that was cued is on air"


def test_a_recording_in_progress_can_be_inserted(channel: Any, project: Any, recorder: Any) -> None:
    """P-09: a growing recording is playable."""
    now = database_now()
    window = {"starts_at": now, "opens_at": now, "ends_at": now + HOUR, "closes_at": now + HOUR}
    booking = Booking.objects.create(recorder=recorder, state="recording", **window)
    live = made(project, "the match", state=Asset.State.LIVE, booking=booking)
    made(project, "an import", state=Asset.State.PROCESSING)
    assert live in Asset.objects.playable()
    assert not Asset.objects.playable().filter(title="an import").exists()
    insert_behind(channel, Wish(live), status(key(channel, 0)))
    assert titles(channel.playlist)[1] == "the match"


def test_an_unplayable_asset_or_a_channel_without_a_list_is_refused_with_a_reason(channel: Any, project: Any) -> None:
    broken = made(project, "broken", state=Asset.State.ERROR)
    with pytest.raises(CannotInsert, match="broken cannot be played"):
        insert_behind(channel, Wish(broken), status())
    channel.playlist = None
    with pytest.raises(CannotInsert, match="it has no list"):
        insert_behind(channel, Wish(made(project, "a")), status())
