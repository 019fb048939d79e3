"""Calendars as Google, Outlook and Apple write them: what is booked, and at which time (R-09, S-07)."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduling.bookings.calendar_events import BadCalendar, read_events
from scheduling.bookings.calendars import import_entries, read_calendar
from scheduling.models import Booking, Recorder

pytestmark = [pytest.mark.django_db]

FOLDER = Path(__file__).parent / "calendars"
NOW = datetime(2026, 10, 19, 8, tzinfo=UTC)
MAGAZINE = ["20 18:15-19:00", "27 20:30-21:15", "29 19:15-20:00"]  # summer time until the 25th; the 22nd is left out


def calendar(name: str) -> bytes:
    return (FOLDER / f"{name}.ics").read_bytes().replace(b"\n", b"\r\n")


def one(event: str, *, head: str = "") -> bytes:
    """A calendar with one event; `head` comes before it."""
    lines = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{head}BEGIN:VEVENT\nUID:1\nSUMMARY:It\n{event}END:VEVENT\n"
    lines += "END:VCALENDAR\n"
    return lines.replace("\n", "\r\n").encode()


def times(bookings: Any) -> list[str]:
    return [f"{each.starts_at:%d %H:%M}-{each.ends_at:%H:%M}" for each in bookings]


@pytest.mark.parametrize("house", ["Europe/Berlin", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    ("name", "single"),
    [("google", "21 18:00-19:00"), ("outlook", "28 17:00-18:00"), ("apple", None)],
)
def test_a_calendar_is_booked_as_its_program_shows_it(
    camera: Recorder, settings: Any, name: str, single: str | None, house: str
) -> None:
    """Repetitions across the clock change, UNTIL in UTC, exceptions, a moved one; cancelled and all-day ones are not.

    Whatever the house's own zone: only a time without any zone is house time.
    """
    settings.HOUSE_TIME_ZONE = house
    floating = {"Europe/Berlin": "21 18:00-19:00", "Asia/Kathmandu": "21 14:15-15:15"}[house]
    entries = read_calendar(calendar(name), camera, NOW, 28)
    made, left = import_entries(entries, camera, now=NOW, by="anna")
    assert times(made) == sorted([*MAGAZINE, single or floating])
    assert {entry.problem for entry in left} == {"it is cancelled", "it has no times, only the day 2026-10-24"}
    assert next(each.title for each in made if each.starts_at.day == 27) == "Magazine, late"
    assert Booking.objects.count() == 4


@pytest.mark.parametrize(
    ("event", "zone"),
    [
        ("DTSTART;TZID=Mars/Base:20261020T200000\nDTEND;TZID=Mars/Base:20261020T210000\n", "Mars/Base"),
        ("DTSTART;TZID=Mars/Base:20261020T200000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3\n", "Mars/Base"),
        ("DTSTART:20261020T200000Z\nDTEND;TZID=Moon:20261020T210000\n", "Moon"),
        ("DTSTART:20261020T200000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY\nEXDATE;TZID=Moon:20261021T200000\n", "Moon"),
    ],
)
def test_an_unknown_zone_is_refused_by_name(camera: Recorder, event: str, zone: str) -> None:
    """It used to mean house time, without a word."""
    entries = read_calendar(one(event), camera, NOW, 28)
    assert [entry.problem for entry in entries] == [f"its time zone “{zone}” is not known"]


def test_a_series_with_one_moved_event_in_an_unknown_zone_is_not_booked_at_its_old_time(camera: Recorder) -> None:
    moved = "RECURRENCE-ID:20261021T200000Z\nDTSTART;TZID=Moon:20261021T230000\nDURATION:PT1H\n"
    series = "DTSTART:20261020T200000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3\n"
    entries = read_calendar(one(f"{series}END:VEVENT\nBEGIN:VEVENT\nUID:1\nSUMMARY:It\n{moved}"), camera, NOW, 28)
    assert {entry.problem for entry in entries} == {"its time zone “Moon” is not known"}


ZONE = """BEGIN:VTIMEZONE
TZID:Customized Time Zone
BEGIN:STANDARD
DTSTART:16010101T000000
TZOFFSETFROM:{0}
TZOFFSETTO:{0}
END:STANDARD
END:VTIMEZONE
"""
LOCAL = "DTSTART;TZID=Customized Time Zone:20261020T200000\nDTEND;TZID=Customized Time Zone:20261020T210000\n"


def test_a_zone_that_one_file_defines_does_not_reach_the_next_file() -> None:
    """The parser keeps such zones for the life of the process, for every file and every user."""
    hours = []
    for offset in ("+0500", "-0300"):
        entry = read_events(one(LOCAL, head=ZONE.format(offset)), NOW, 28)[0]
        assert entry.starts_at is not None
        hours.append(entry.starts_at.hour)
    assert hours == [15, 23]
    assert "is not known" in read_events(one(LOCAL), NOW, 28)[0].problem


def test_two_files_that_are_read_at_the_same_time_keep_their_own_zones() -> None:
    found: dict[str, set[int]] = {"+0500": set(), "-0300": set()}

    def read(offset: str) -> None:
        for _ in range(40):
            entry = read_events(one(LOCAL, head=ZONE.format(offset)), NOW, 28)[0]
            found[offset].add(entry.starts_at.hour if entry.starts_at else -1)

    threads = [threading.Thread(target=read, args=[offset]) for offset in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {"+0500": {15}, "-0300": {23}}


@pytest.mark.parametrize(
    ("event", "head", "problem"),
    [
        ("DTSTART:20261020T200000Z\nDTEND:20261020T210000Z\nSTATUS:cancelled\n", "", "it is cancelled"),
        ("DTSTART:20261020T200000Z\nDTEND:20261020T210000Z\n", "METHOD:CANCEL\n", "it is cancelled"),
        ("DTSTART:20261020T200000Z\nDTEND:20261020T210000Z\nSTATUS:TENTATIVE\n", "", ""),
        ("DTSTART:20261020T200000Z\n", "", "it has no length"),
        ("DTSTART:20261020T200000Z\nDTEND:20261020T190000Z\n", "", "it ends before it starts"),
    ],
)
def test_what_is_not_a_programme_is_not_booked(camera: Recorder, event: str, head: str, problem: str) -> None:
    assert [entry.problem for entry in read_calendar(one(event, head=head), camera, NOW, 28)] == [problem]


def test_one_cancelled_day_of_a_series_is_left_out_and_a_last_day_without_a_time_is_included(camera: Recorder) -> None:
    series = "DTSTART;TZID=Europe/Berlin:20261020T200000\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20261022\n"
    off = "RECURRENCE-ID;TZID=Europe/Berlin:20261021T200000\nDTSTART;TZID=Europe/Berlin:20261021T200000\n"
    off += "DURATION:PT1H\nSTATUS:CANCELLED\n"
    entries = read_calendar(one(f"{series}END:VEVENT\nBEGIN:VEVENT\nUID:1\nSUMMARY:It\n{off}"), camera, NOW, 28)
    made, left = import_entries(entries, camera, now=NOW, by="anna")
    assert times(made) == ["20 18:00-19:00", "22 18:00-19:00"]
    assert [entry.problem for entry in left] == ["it is cancelled"]


def test_the_zone_of_a_whole_calendar_may_have_a_windows_name_and_must_be_known(camera: Recorder) -> None:
    event = "DTSTART:20261020T200000\nDTEND:20261020T210000\n"
    entries = read_calendar(one(event, head="X-WR-TIMEZONE:Eastern Standard Time\n"), camera, NOW, 28)
    assert [each.starts_at and each.starts_at.hour for each in entries] == [0]
    with pytest.raises(BadCalendar, match="“Mars/Base”, is not known"):
        read_calendar(one(event, head="X-WR-TIMEZONE:Mars/Base\n"), camera, NOW, 28)
