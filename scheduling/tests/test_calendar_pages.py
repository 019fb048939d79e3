"""Calendars: import of .ics files and the feed (R-09, S-07)."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduling.bookings.calendar_events import MAX_BYTES, BadCalendar
from scheduling.bookings.calendars import feed_of, import_entries, make_feed, read_calendar
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from scheduling.tests.test_scheduling_pages import HOUR

pytestmark = [pytest.mark.django_db]

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//y//EN
BEGIN:VEVENT
UID:1
SUMMARY:News <b>tonight</b>
DTSTART;TZID=Europe/Berlin:20260501T200000
DTEND;TZID=Europe/Berlin:20260501T201500
RRULE:FREQ=DAILY;COUNT=3
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Clash
DTSTART:20260502T180500Z
DTEND:20260502T190000Z
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:All day
DTSTART;VALUE=DATE:20260502
DTEND;VALUE=DATE:20260503
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n").encode()


NOW = datetime(2026, 5, 1, 8, 0, tzinfo=UTC)


def test_a_calendar_is_read_into_entries_with_their_problems(camera: Recorder) -> None:
    entries = read_calendar(ICS, camera, NOW, 28)
    assert [entry.title for entry in entries if not entry.problem] == ["News <b>tonight</b>"] * 3
    problems = {entry.title: entry.problem for entry in entries if entry.problem}
    assert "overlaps “News" in problems["Clash"]
    assert "only the day 2026-05-02" in problems["All day"]
    assert not Booking.objects.exists()

    made, left = import_entries(entries, camera, now=NOW, by="anna")
    assert (len(made), len(left)) == (3, 2)
    again = read_calendar(ICS, camera, NOW, 28)
    assert all("taken by" in entry.problem or "day" in entry.problem for entry in again)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an iCalendar file"),
        (b"\x00\xff\xfe not text", "not an iCalendar file"),
        (b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", "not an iCalendar file"),
        (b"x" * (MAX_BYTES + 1), "larger than"),
        (ICS.replace(b"FREQ=DAILY;COUNT=3", b"FREQ=SECONDLY"), "every minute or second"),
        (ICS.replace(b"FREQ=DAILY;COUNT=3", b"FREQ=HOURLY"), "at most 500"),
    ],
)
def test_a_bad_calendar_is_refused_with_a_message(camera: Recorder, content: bytes, words: str) -> None:
    """S-07."""
    with pytest.raises(BadCalendar, match=words):
        read_calendar(content, camera, NOW, 92)


def test_the_import_page_shows_a_preview_before_it_books(boss: Client, camera: Recorder) -> None:
    from django.core.files.uploadedfile import SimpleUploadedFile

    day = timezone.now() + timedelta(days=3)
    ics = ICS.replace(b"20260501", f"{day:%Y%m%d}".encode()).replace(b"20260502", f"{day:%Y%m%d}".encode())
    url = reverse("import-calendar")
    upload = SimpleUploadedFile("week.ics", ics)
    page = boss.post(url, {"recorder": camera.pk, "days": 28, "file": upload}).content.decode()
    assert "News &lt;b&gt;tonight&lt;/b&gt;" in page
    assert not Booking.objects.exists()
    start = page.index('name="content" value="', page.index('name="days" value="28"')) + len('name="content" value="')
    content = page[start : page.index('"', start)]
    boss.post(url, {"recorder": camera.pk, "days": 28, "content": content, "book": "1"})
    assert Booking.objects.filter(title__startswith="News").count() == 3
    assert "Choose a file." in boss.post(url, {"recorder": camera.pk, "days": 28}).content.decode()


def test_the_feed_needs_only_its_link(camera: Recorder, boss: Client, noon: datetime) -> None:
    """The token is stored only as a hash, shown once, and replaced by a new one."""
    book(camera, noon, noon + HOUR, now=timezone.now(), title="News; tonight, at 8")
    token = make_feed(camera.project, now=timezone.now(), by="anna")
    answer = Client().get(reverse("calendar-feed", args=[token]))
    assert answer["Content-Type"].startswith("text/calendar")
    text = answer.content.decode()
    assert "SUMMARY:News\\; tonight\\, at 8" in text
    assert noon.strftime("DTSTART:%Y%m%dT%H%M%SZ") in text
    assert Client().get(reverse("calendar-feed", args=["wrong"])).status_code == 404
    assert Client().post(reverse("calendar-feed", args=[token])).status_code == 405
    make_feed(camera.project, now=timezone.now(), by="anna")
    assert feed_of(token) is None

    feed = camera.project.calendar_feed
    page = boss.post(reverse("admin:scheduling_calendarfeed_renew", args=[feed.pk]), {"_form_submitted": "on"})
    assert "HX-Redirect" in page.headers
    shown = boss.get(reverse("admin:scheduling_calendarfeed_changelist")).content.decode()
    assert "/calendar/" in shown
    assert "shown only this once" in shown
