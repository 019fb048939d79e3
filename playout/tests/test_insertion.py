"""Where a clip nobody had planned comes to stand."""

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
    """The media worker says that these are on and next."""
    item = ItemOnAir(key=on_air) if on_air else None
    return PlayoutStatus(owner="x", generation=1, item=item, next=NextItem(key=following) if following else None)


def test_behind_what_is_on_or_before_what_comes_or_at_the_end(channel: Any, project: Any) -> None:
    """P-01: also where every item had the same position, and where what is on is no item of the list."""
    first, second = key(channel, 0), key(channel, 2)
    insert_behind(channel, Wish(made(project, "a")), status(f"{first}.2", second))
    insert_behind(channel, Wish(made(project, "b")), status(None, second))
    insert_behind(channel, Wish(made(project, "c")), status("filler"))
    assert titles(channel.playlist) == ["clip 0", "a", "clip 1", "b", "clip 2", "c"]


def test_a_days_own_list_is_the_one_that_is_changed(channel: Any, project: Any) -> None:
    now = database_now()
    yesterday, today = (
        Playlist.objects.create(name=name, project=project, channel=channel, on=day_of(now) - timedelta(days=days))
        for name, days in (("yesterday", 1), ("today", 0))
    )
    over = PlaylistItem.objects.create(playlist=yesterday, asset=made(project, "late show"))
    insert_behind(channel, Wish(made(project, "a")), status(str(over.pk)))
    assert titles(today) == ["a"]
    assert titles(yesterday) == ["late show"]


def test_a_recording_that_still_runs_can_be_shown(channel: Any, project: Any, recorder: Any) -> None:
    """P-09: it grows while it is played."""
    now = database_now()
    window = {"starts_at": now, "opens_at": now, "ends_at": now + HOUR, "closes_at": now + HOUR}
    booking = Booking.objects.create(recorder=recorder, state="recording", **window)
    live = made(project, "the match", state=Asset.State.LIVE, booking=booking)
    made(project, "an import", state=Asset.State.PROCESSING)
    assert live in Asset.objects.playable()
    assert not Asset.objects.playable().filter(title="an import").exists()
    insert_behind(channel, Wish(live), status(key(channel, 0)))
    assert titles(channel.playlist)[1] == "the match"


def test_what_cannot_be_played_or_has_no_list_is_refused_in_words(channel: Any, project: Any) -> None:
    broken = made(project, "broken", state=Asset.State.ERROR)
    with pytest.raises(CannotInsert, match="broken cannot be played"):
        insert_behind(channel, Wish(broken), status())
    channel.playlist = None
    with pytest.raises(CannotInsert, match="it has no list"):
        insert_behind(channel, Wish(made(project, "a")), status())
