"""Playlists: times, warnings, rundowns, outputs, copies and uses. No media worker runs."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from assets.library.usage import uses_of, withdraw
from assets.models import Asset, AssetPart
from playout.channels.outputs import output_config, parse_output, port_needed
from playout.lists import controls
from playout.lists.broadcast_days import begin_of, day_of, moment_on
from playout.lists.copies import DayTaken, copy_to
from playout.lists.list_timing import on_air_today, plan, plan_of
from playout.lists.rundown import rundown_of
from playout.models import Channel, ChannelOutput, Playlist, PlaylistItem
from scheduling.models import Recorder
from station.clock import database_now
from worker.wire import codec
from worker.wire.configuration import Output

pytestmark = [pytest.mark.django_db, pytest.mark.database]

DAY = date(2026, 11, 17)


@pytest.fixture
def channel(project: Any) -> Channel:
    return Channel.objects.create(name="One", project=project)


def make_asset(project: Any, title: str, seconds: float = 60.0, *, parts: int = 1, **more: Any) -> Asset:
    now = database_now()
    fields = {"state": "ready", "state_since_at": now, "origin": "import", "created_at": now, **more}
    asset = Asset.objects.create(project=project, title=title, duration_seconds=seconds, **fields)
    for number in range(1, parts + 1):
        path = f"imports/{title}-{number}.mp4"
        AssetPart.objects.create(asset=asset, number=number, path=path, seconds=seconds / parts)
    return asset


def make_list(project: Any, *items: dict[str, Any], **fields: Any) -> Playlist:
    playlist = Playlist.objects.create(name="List", project=project, **fields)
    for position, item in enumerate(items):
        PlaylistItem.objects.create(playlist=playlist, position=position, **item)
    return playlist


def test_a_broadcast_day_begins_at_six() -> None:
    """P-10."""
    assert day_of(datetime(2026, 11, 17, 4, 59, tzinfo=UTC)) == date(2026, 11, 16)
    assert day_of(datetime(2026, 11, 17, 5, 0, tzinfo=UTC)) == DAY
    assert begin_of(DAY) == datetime(2026, 11, 17, 5, 0, tzinfo=UTC)
    assert moment_on(DAY, time(20, 15)) == datetime(2026, 11, 17, 19, 15, tzinfo=UTC)
    assert moment_on(DAY, time(1, 0)) == datetime(2026, 11, 18, 0, 0, tzinfo=UTC)
    changes = date(2026, 10, 24)
    assert begin_of(changes + timedelta(days=1)) - begin_of(changes) == timedelta(hours=25)


def test_a_plan_has_times_a_total_and_warnings(project: Any) -> None:
    """P-09: warnings for gaps, cuts and unusable assets."""
    hour = make_asset(project, "Film", 3600)
    broken = make_asset(project, "Broken", 10, state="error")
    playlist = make_list(
        project,
        {"asset": hour},
        {"asset": hour, "start_time": time(7, 30)},
        {"asset": hour, "start_time": time(8, 0), "in_seconds": 60, "out_seconds": 120},
        {"asset": broken},
        {"kind": "slate", "length_seconds": 5},
    )
    planned = plan(playlist.items.select_related("asset"), begin_of(DAY), DAY)
    starts = [row.starts_at - begin_of(DAY) for row in planned.rows if row.starts_at]
    assert starts == [timedelta(hours=each) for each in (0, 1.5, 2)] + [
        timedelta(hours=2, seconds=60),
        timedelta(hours=2, seconds=70),
    ]
    assert planned.seconds == 3600 + 3600 + 60 + 10 + 5
    assert planned.warnings == [
        "Film: 30 min of filler or slate come before it",
        "Film: cuts 30 min off the item before it",
        "Broken: cannot be used: error",
        "Slate: is followed by 21 h 58 min of filler or slate",
    ]


def test_a_clip_in_another_format_gets_a_warning(project: Any, channel: Channel) -> None:
    """P-09: compared with the channel that plays it; an asset that is not probed yet gets no warning."""
    picture = {"codec": "h264", "width": 1280, "height": 720, "fps": 25.0, "is_interlaced": False}
    sound = [{"codec": "aac"}]
    kinds = {
        "Fits": {"pictures": [picture], "sounds": sound},
        "Larger": {"pictures": [{**picture, "width": 1920, "height": 1080}], "sounds": sound},
        "Film": {"pictures": [{**picture, "fps": 23.98}], "sounds": sound},
        "Tape": {"pictures": [{**picture, "width": 720, "height": 576, "is_interlaced": True}], "sounds": []},
        "Radio": {"pictures": [], "sounds": sound},
        "New": {},
    }
    assets = [make_asset(project, title, 10, technical=technical) for title, technical in kinds.items()]
    playlist = make_list(project, *({"asset": asset} for asset in assets))
    assert plan_of(playlist, database_now()).warnings == [], "no channel plays it"
    Channel.objects.filter(pk=channel.pk).update(playlist=playlist, picture="1280x720p25")
    assert plan_of(playlist, database_now()).warnings == [
        "Film: is 1280x720p23.98 and will be converted to 1280x720p25",
        "Tape: has no sound",
        "Tape: is 720x576i25.0 and will be converted to 1280x720p25",
        "Radio: has no picture",
    ]


def test_a_playlist_of_another_project_is_never_played(channel: Channel, project: Any) -> None:
    """S-01."""
    from station.models import Project

    sport = Project.objects.create(name="Sport", slug="sport")
    foreign = Playlist(name="Ours", project=sport, channel=channel, on=DAY)
    with pytest.raises(ValidationError, match="belongs to another project"):
        foreign.full_clean()
    foreign.save()  # without validation
    assert rundown_of(channel, begin_of(DAY)).rundown.items == ()


def test_the_list_of_the_next_day_is_in_the_rundown_of_today(channel: Channel, project: Any) -> None:
    """P-13: the media worker changes to it by itself, and later back to the list for any day."""
    clip = make_asset(project, "Clip")
    daily = make_list(project, {"asset": clip})
    Channel.objects.filter(pk=channel.pk).update(playlist=daily)
    channel.refresh_from_db()
    today = begin_of(DAY) + timedelta(hours=3)
    assert rundown_of(channel, today).rundown.following is None
    dated = make_list(project, {"asset": clip}, channel=channel, on=DAY + timedelta(days=1))
    told = rundown_of(channel, today).rundown
    assert told.following_at == begin_of(DAY + timedelta(days=1))
    assert told.following is not None
    assert told.following.begins_at == told.following_at
    assert not told.following.is_loop
    Playlist.objects.filter(pk=dated.pk).update(on=DAY)
    told = rundown_of(channel, today).rundown
    assert told.following is not None
    assert told.following.is_loop
    assert told.following.begins_at is None


def test_all_parts_of_a_recording_belong_to_its_first_item(channel: Channel, project: Any) -> None:
    playlist = make_list(project, {"asset": make_asset(project, "Film", 60, parts=3), "start_time": time(20, 15)})
    Channel.objects.filter(pk=channel.pk).update(playlist=playlist)
    channel.refresh_from_db()
    first, *others = rundown_of(channel, database_now()).rundown.items
    assert len(first.fixed_at) == 3
    assert {(each.part_of, len(each.fixed_at)) for each in others} == {(first.key, 0)}


def test_the_rundown_of_a_long_list_needs_few_queries(
    channel: Channel, project: Any, django_assert_max_num_queries: Any
) -> None:
    """It is made every few seconds while the channel is on air."""
    playlist = make_list(project, *({"asset": make_asset(project, f"{number}")} for number in range(40)))
    Channel.objects.filter(pk=channel.pk).update(playlist=playlist)
    channel.refresh_from_db()
    with django_assert_max_num_queries(6):
        assert len(rundown_of(channel, database_now()).rundown.items) == 40


def test_the_rundown_has_the_lists_of_today_and_of_the_next_day(channel: Channel, project: Any) -> None:
    """P-01, P-09: daily playlists by date."""
    clip = make_asset(project, "Clip")
    now = begin_of(DAY) + timedelta(hours=3)
    make_list(project, {"asset": clip}, channel=channel, on=DAY)
    make_list(project, {"asset": clip}, {"asset": clip}, channel=channel, on=DAY + timedelta(days=1))
    told = rundown_of(channel, now).rundown
    assert told.begins_at == begin_of(DAY)
    assert not told.is_loop
    assert [item.fixed_at for item in told.items] == [(), (begin_of(DAY + timedelta(days=1)),), ()]
    assert rundown_of(channel, now).version == told.version, "the version is stable"
    channel.playlist = make_list(project, {"asset": clip, "start_time": time(20, 0)})
    told = rundown_of(channel, now + timedelta(days=5)).rundown
    assert told.is_loop
    assert len(told.items[0].fixed_at) == 3, "an isolated media worker knows the fixed starts of the next days"


def test_each_part_of_an_interrupted_recording_is_an_item_of_the_rundown(channel: Channel, project: Any) -> None:
    """P-09: in and out points count across all parts."""
    asset = make_asset(project, "Match", 90, parts=3)
    channel.playlist = make_list(project, {"asset": asset, "in_seconds": 40, "out_seconds": 70})
    rows = rundown_of(channel, database_now()).rundown.items
    assert [(row.file[-5:], row.in_seconds, row.seconds) for row in rows] == [
        ("2.mp4", 10.0, 20.0),
        ("3.mp4", 0.0, 10.0),
    ]
    assert len({row.key for row in rows}) == 2


def test_secrets_of_live_sources_are_not_in_the_rundown(channel: Channel, project: Any) -> None:
    """S-05: they are sent separately."""
    source = Recorder.objects.create(
        name="OB", project=project, source_type="srt", address="srt://10.0.0.1:9000?passphrase=averysecretword"
    )
    channel.playlist = make_list(project, {"kind": "live", "source": source, "length_seconds": 60})
    prepared = rundown_of(channel, database_now())
    assert "averysecretword" not in codec.dumps(prepared.rundown)
    [told] = prepared.sources.values()
    assert "averysecretword" in told.url
    assert "averysecretword" in prepared.redact


def test_outputs_are_validated_and_their_secrets_separated(channel: Channel) -> None:
    """S-03, S-04, S-05, R-14."""
    for kind, address in [
        ("srt", "file:///etc/passwd"),
        ("srt", "srt://host"),
        ("rtmp", "rtmp://0.0.0.0/live?listen=1"),
        ("file", "../../etc/passwd"),
        ("file", ""),
        ("hls", "a/b"),
        ("decklink", "x"),
        ("udp", "udp://host:1?whatever=1"),
    ]:
        with pytest.raises(ValidationError):
            parse_output(kind, address)
    with pytest.raises(
        ValidationError, match=r"srt://receiver\.example:9000"
    ):  # the example for outputs, not for sources
        parse_output("srt", "http://x")
    ChannelOutput.objects.create(channel=channel, type="hls", address="web")
    with pytest.raises(ValidationError, match="already has this output"):
        ChannelOutput(channel=channel, type="hls", address="web").full_clean()
    output = ChannelOutput.objects.create(channel=channel, type="rtmp", address="rtmp://server.example/live/KEY123")
    assert output.address == "rtmp://server.example/live"
    told = output_config("1", output.type, output.address, output.secrets, channel.pk)
    assert told == Output(key="1", type="rtmp", url=output.address, secret={"rtmp_playpath": "KEY123"})
    assert port_needed("srt", "srt://0.0.0.0:9000?mode=listener") == ("udp", 9000)
    assert port_needed("srt", "srt://host:9000") is None
    assert port_needed("decklink", "2") == ("decklink", 2)


def test_a_list_is_copied_to_a_day_that_has_none(channel: Channel, project: Any) -> None:
    """P-01: an existing list is not replaced."""
    playlist = make_list(project, {"asset": make_asset(project, "Clip")}, channel=channel, on=DAY)
    copy = copy_to(playlist, DAY + timedelta(days=1), database_now())
    assert (copy.on, copy.items.count(), copy.is_loop) == (DAY + timedelta(days=1), 1, False)
    assert playlist.items.count() == 1
    with pytest.raises(DayTaken, match="already"):
        copy_to(playlist, DAY + timedelta(days=1), database_now())
    with pytest.raises(DayTaken, match="Give a day between"):
        copy_to(playlist, date.max, database_now())


def test_a_list_of_no_channel_cannot_be_copied(project: Any) -> None:
    outcome = controls.copy(make_list(project), by="anna", day=DAY)

    assert (outcome.result, outcome.text) == ("refused", "List is not a list of a channel.")


def test_a_list_for_today_shows_its_effect_on_a_channel_on_air(channel: Channel, project: Any) -> None:
    """P-01, P-09: it replaces the list for any day at once; the text warns if it has no item for this time."""
    now = database_now()
    today = make_list(project, {"asset": make_asset(project, "Clip")}, channel=channel, on=day_of(now))
    assert on_air_today(today, now) == "", "the channel is off air"
    channel.is_wanted = True
    today.channel = channel
    begin = begin_of(day_of(now))
    assert on_air_today(today, begin + timedelta(seconds=1)).endswith("plays it from now on, by the clock.")
    assert "It has no item for this time" in on_air_today(today, begin + timedelta(hours=20))
    today.on = day_of(now) + timedelta(days=1)
    assert on_air_today(today, now) == ""


def test_an_asset_in_a_list_is_shown_as_used_and_can_be_replaced(channel: Channel, project: Any) -> None:
    """A-07, A-08: uses, withdraw and replace."""
    clip, other = make_asset(project, "Clip"), make_asset(project, "Other")
    playlist = make_list(project, {"asset": clip}, {"asset": clip})
    Channel.objects.update(filler=clip)
    assert {use.what for use in uses_of([clip.pk])[clip.pk]} == {"playlist List", "filler of One"}
    assert withdraw(clip, reason="rights", now=database_now(), by="anna", replacement=other) == 3
    assert {item.asset for item in playlist.items.all()} == {other}
    assert uses_of([clip.pk])[clip.pk] == []
