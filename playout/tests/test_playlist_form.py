"""The playlist form while a user types: times and warnings are shown before anything is saved."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from playout.models import Channel, Playlist
from playout.tests.test_lists import make_asset

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def typed_lines(*assets: Any) -> dict[str, str]:
    """The form data that a browser sends for a list of these clips."""
    typed = {"items-TOTAL_FORMS": str(len(assets)), "name": "List", "on": "2026-11-17"}
    for number, asset in enumerate(assets):
        empty = ("title", "out_seconds", "length_seconds", "max_late_seconds")
        typed |= {f"items-{number}-{name}": "" for name in empty}
        typed |= {f"items-{number}-kind": "asset", f"items-{number}-asset": str(asset.pk)}
        typed |= {f"items-{number}-in_seconds": "0", f"items-{number}-start": "cut"}
        typed |= {f"items-{number}-position": str(number), f"items-{number}-start_time": ""}
    return typed


def test_times_are_updated_while_typing_and_nothing_is_saved(project: Any, client: Any, make_member: Any) -> None:
    """P-01, S-01, S-07: bad lines get an error; assets of other projects cannot be chosen."""
    from station.models import Project

    clip = make_asset(project, "Clip", 60)
    foreign = make_asset(Project.objects.create(name="Sport", slug="sport"), "Foreign", 60)
    client.force_login(make_member(project, "operator"))
    typed = typed_lines(clip, clip, foreign)
    typed |= {"items-1-start_time": "06:00:30", "items-1-in_seconds": "5", "items-1-out_seconds": "4"}
    page = client.post("/playlists/times/", typed).content.decode()
    assert "06:00:30" in page
    assert "cuts 30 s off the item before it" in page
    assert "Select a valid choice" in page
    assert "The out point must be after the in point." in page
    assert "Foreign" not in page
    typed |= {"items-1-in_seconds": "0:00:05", "items-1-out_seconds": "0:45", "items-0-out_seconds": "1:xx"}
    page = client.post("/playlists/times/", typed).content.decode()
    assert "06:01:10" in page, "the item after it starts forty seconds later"
    assert "is not a time like 12.5 or 0:01:30" in page
    assert client.get("/playlists/times/").status_code == 405
    assert not Playlist.objects.exists()
    odds = [{}, {"items-TOTAL_FORMS": "x"}, {"items-TOTAL_FORMS": "99999999"}, {"on": "nonsense"}, {"on": "9999-12-31"}]
    for odd in [*odds, {**typed, "items-0-asset": "9" * 40}]:
        assert client.post("/playlists/times/", odd).status_code == 200


@pytest.mark.parametrize(
    ("picture", "code", "ends"), [("1280x720p25", "02:12", "2.48"), ("1280x720p50", "02:12", "2.24")]
)
def test_a_timecode_with_frames_is_read_at_the_rate_of_the_channel(
    project: Any, client: Any, make_member: Any, picture: str, code: str, ends: str
) -> None:
    """P-01, S-07: in the times beside the form and when it is saved; without a channel it is refused."""
    channel = Channel.objects.create(name="One", project=project, picture=picture)
    playlist = Playlist.objects.create(name="List", project=project)
    client.force_login(make_member(project, "operator"))
    typed = typed_lines(make_asset(project, "Clip", 60)) | {"on": "", "items-INITIAL_FORMS": "0"}
    typed |= {"project": str(project.pk), "items-0-out_seconds": f"00:00:{code}"}
    url, times = f"/admin/playout/playlist/{playlist.pk}/change/", f"/playlists/times/?playlist={playlist.pk}"
    for page in (client.post(times, typed), client.post(url, typed)):
        assert page.status_code == 200
        assert "the frame rate is not known here" in page.content.decode()
    Channel.objects.filter(pk=channel.pk).update(playlist=playlist)
    assert "frame rate" not in client.post(times, typed).content.decode()
    assert client.post(url, typed).status_code == 302
    item = playlist.items.get()
    assert item.out_seconds == float(ends)


def test_a_long_list_needs_no_more_queries_than_a_short_one(project: Any, client: Any, make_member: Any) -> None:
    """P-01: a day has hundreds of items, and its times are updated at every keystroke."""
    clips = [make_asset(project, f"Clip {number}", 10) for number in range(40)]
    client.force_login(make_member(project, "operator"))

    def queries(*assets: Any) -> int:
        with CaptureQueriesContext(connection) as asked:
            page = client.post("/playlists/times/", typed_lines(*assets)).content.decode()
        assert f"Clip {len(assets) - 1}" in page
        return len(asked)

    assert queries(*clips) == queries(*clips[:2])


def test_two_new_outputs_with_the_same_address_are_refused_in_the_form(
    project: Any, client: Any, make_member: Any
) -> None:
    """P-09, S-07: neither of them is in the database yet."""
    client.force_login(make_member(project, "engineer"))
    typed = {"name": "One", "project": project.pk, "picture": "1280x720p25", "video_bitrate": "4M"}
    typed |= {"fit": "pad", "slate": "bars", "pause": "hold", "outputs-TOTAL_FORMS": "2", "outputs-INITIAL_FORMS": "0"}
    for table in ("recoveries", "events"):
        typed |= {f"{table}-TOTAL_FORMS": "0", f"{table}-INITIAL_FORMS": "0"}
    for number in range(2):
        typed |= {f"outputs-{number}-type": "hls", f"outputs-{number}-address": "web"}
    page = client.post("/admin/playout/channel/add/", typed)
    assert page.status_code == 200
    assert "The channel already has this output." in page.content.decode()
    assert not Channel.objects.exists()
    refused = {**typed, "outputs-1-type": "udp", "outputs-1-address": "udp://239.1.1.1:5000"}
    page = client.post("/admin/playout/channel/add/", {**refused, "outputs-1-constant_bitrate": "4M"})
    assert "Picture, sound and tables need at least" in page.content.decode()
    typed["outputs-1-address"] = "other"
    answer = client.post("/admin/playout/channel/add/", typed)
    assert answer.status_code == 302
    assert Channel.objects.get().outputs.count() == 2
