"""As-run entries and their exports (P-10)."""

import csv
import io
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User

from playout.asrun import collection, exports
from playout.lists.broadcast_days import begin_of
from playout.models import AsRunEntry, Channel
from playout.tests.test_lists import DAY, make_asset, make_list
from station.clock import database_now
from worker.wire.asrun import AsRunRecord

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def channel(project: Any) -> Channel:
    return Channel.objects.create(name="One", project=project)


LINE = {"kind": "asset", "title": "Clip", "from_seconds": 0.0, "frames": 0, "repeats": 0, "reason": "", "note": ""}


def line(key: str, began: datetime, ended: datetime | None = None, **more: Any) -> AsRunRecord:
    values = {"generation": 1, "seq": 1, "kind": "asset", "title": "Clip", **more}
    return AsRunRecord(key=key, started_at=began, ended_at=ended, **values)


def test_an_as_run_entry_reported_twice_is_written_once_and_only_one_is_open(channel: Channel) -> None:
    """P-10: one open entry per channel."""
    now = database_now()
    collection.write(channel, line("1", now), {})
    collection.write(channel, line("1", now), {})
    collection.write(channel, line("2", now + timedelta(seconds=5), seq=2), {})
    first, second = AsRunEntry.objects.order_by("seq")
    assert (first.reason, first.ended_at) == ("lost", now + timedelta(seconds=5))
    assert second.ended_at is None
    collection.write(channel, line("1", now, now + timedelta(seconds=4), reason="played", frames=100), {})
    first.refresh_from_db()
    assert (first.reason, first.frames) == ("played", 100), "the media worker's report replaces the assumed end"
    assert collection.close_open(channel, now + timedelta(seconds=9), "lost", "gone") == 1
    collection.write(channel, line("2", now + timedelta(seconds=5), seq=2), {})
    second.refresh_from_db()
    assert second.reason == "lost", "an old report does not open it again"
    assert AsRunEntry.objects.count() == 2


def test_the_entry_on_air_stays_open_when_another_item_is_skipped(channel: Channel) -> None:
    """P-10: a fixed start that could not be played has an entry that began later; the film continues."""
    now = database_now()
    collection.write(channel, line("film", now, frames=100), {})
    collection.write(
        channel, line("bad", now + timedelta(seconds=5), now + timedelta(seconds=5), seq=2, reason="bad"), {}
    )
    collection.write(channel, line("film", now, frames=250), {})
    film = AsRunEntry.objects.get(seq=1)
    assert (film.ended_at, film.frames, film.reason) == (None, 250, "")


@pytest.mark.parametrize("is_late", [False, True])
def test_the_entry_of_a_lost_media_worker_ends_at_its_last_known_frame(channel: Channel, is_late: bool) -> None:
    """P-08, P-10: the time off air is in no entry, also if the lost generation's entry is reported late."""
    now = database_now()
    lines = [line("1", now, frames=100), line("1", now + timedelta(seconds=30), generation=2)]
    for told in reversed(lines) if is_late else lines:
        collection.write(channel, told, {})
    first = AsRunEntry.objects.get(generation=1)
    assert (first.ended_at, first.reason) == (now + timedelta(seconds=4), "lost")
    assert AsRunEntry.objects.get(generation=2).ended_at is None


def test_as_run_has_planned_and_actual_times_and_is_exported(channel: Channel, project: Any, client: Any) -> None:
    """P-10: as CSV, JSON and a page to print; a title that looks like a formula stays text."""
    clip = make_asset(project, "=Clip <b>", 60)
    playlist = make_list(project, {"asset": clip}, {"asset": clip}, channel=channel, on=DAY)
    second = playlist.items.order_by("position")[1]
    began = begin_of(DAY) + timedelta(seconds=61.5)
    ended = began + timedelta(seconds=60)
    told = line(str(second.pk), began, ended, title=clip.title, reason="played", note="fine")
    collection.write(channel, told, {})
    entry = AsRunEntry.objects.get()
    assert entry.planned_at == begin_of(DAY) + timedelta(seconds=60)
    [row] = [exports.row_of(each) for each in exports.entries_of(channel, DAY)]
    assert (row["difference"], row["seconds"], row["reason"]) == (1.5, 60.0, "played")
    assert exports.entries_of(channel, DAY - timedelta(days=1)) == []
    assert "'=Clip" in exports.as_csv([entry])
    client.force_login(User.objects.create_superuser("boss"))
    for form, kind in (("csv", "text/csv"), ("json", "application/json"), ("html", "text/html")):
        answer = client.get(f"/channels/{channel.pk}/as-run/{DAY}.{form}")
        assert answer.status_code == 200
        assert answer["Content-Type"].startswith(kind)
        assert b"Clip" in answer.content
    assert b"<b>" not in client.get(f"/channels/{channel.pk}/as-run/{DAY}.html").content
    for bad in ("nonsense.csv", f"{DAY}.exe", "2026-13-40.csv"):
        assert client.get(f"/channels/{channel.pk}/as-run/{bad}").status_code == 404


def test_the_plan_is_exported_as_a_programme_guide(channel: Channel, project: Any) -> None:
    """P-10: as XMLTV."""
    clip = make_asset(project, "News & more\x01", 1800)
    make_list(project, {"asset": clip}, {"asset": clip}, channel=channel, on=DAY)
    root = ElementTree.fromstring(exports.as_xmltv(channel, begin_of(DAY)))
    programmes = root.findall("programme")
    assert [each.get("start") for each in programmes] == ["20261117060000 +0100", "20261117063000 +0100"]
    assert programmes[0].findtext("title") == "News & more"


def test_a_spreadsheet_reads_the_times_of_the_as_run_log(channel: Channel, client: Any) -> None:
    """P-10: house time as spreadsheets know it, with its offset, also in the hour that comes twice; exact in UTC."""
    first = datetime(2026, 10, 25, 0, 30, 0, 240000, tzinfo=UTC)
    for number, began in enumerate((first, first + timedelta(hours=1)), 1):
        ended = began + timedelta(seconds=90.5) if number == 1 else None
        told = line(f"x{number}", began, ended, title="Übersicht; “A”", reason="played" if ended else "")
        collection.write(channel, replace(told, seq=number), {})
    client.force_login(User.objects.create_superuser("boss"))
    content = client.get(f"/channels/{channel.pk}/as-run/2026-10-24.csv").content
    assert content.startswith(b"\xef\xbb\xbf"), "Excel knows by it that this is UTF-8"
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [row["began"] for row in rows] == ["2026-10-25 02:30:00", "2026-10-25 02:30:00"]
    assert [row["zone"] for row in rows] == ["UTC+02:00", "UTC+01:00"]
    assert (rows[0]["ended"], rows[0]["seconds"], rows[0]["title"]) == ("2026-10-25 02:31:30", "90.5", "Übersicht; “A”")
    assert [row["began_utc"] for row in rows] == ["2026-10-25T00:30:00.240Z", "2026-10-25T01:30:00.240Z"]
    assert (rows[1]["ended"], rows[1]["ended_utc"], rows[1]["planned"]) == ("", "", "")
    for row in rows:
        local = datetime.fromisoformat(row["began"] + row["zone"].removeprefix("UTC"))
        assert local.astimezone(UTC) == datetime.fromisoformat(row["began_utc"]).replace(microsecond=0)


def guide_with_odd_titles(channel: Channel, project: Any) -> bytes:
    clips = [make_asset(project, title, 1800) for title in ("News & <more>\x01\u00a0“x”", "Ünïcode 中文 🎬", " ")]
    short = make_asset(project, "blip", 0.3)
    make_list(project, *({"asset": clip} for clip in [*clips, short]), channel=channel, on=DAY)
    return exports.as_xmltv(channel, begin_of(DAY))


def test_the_programme_guide_keeps_the_rules_of_xmltv(channel: Channel, project: Any) -> None:
    """P-10: those that tv_validate_file checks: ids, times, titles, order and attributes."""
    root = ElementTree.fromstring(guide_with_odd_titles(channel, project))
    assert [child.tag for child in root] == ["channel", "programme", "programme", "programme"]
    ids = [child.get("id") for child in root.findall("channel")]
    assert re.fullmatch(r"[-a-zA-Z0-9]+(\.[-a-zA-Z0-9]+)+", ids[0] or "")
    for programme in root.findall("programme"):
        assert set(programme.attrib) == {"start", "stop", "channel"}
        assert programme.get("channel") in ids
        assert all(re.fullmatch(r"\d{14} [+-]\d{4}", programme.get(name) or "") for name in ("start", "stop"))
        assert (programme.findtext("title") or "").strip()
