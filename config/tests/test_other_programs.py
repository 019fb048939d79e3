"""Programs of other people read what Airlock exports: XMLTV's validator and the calendar program khal."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from playout.models import Channel
from playout.tests.test_asrun_entries import guide_with_odd_titles
from scheduling.bookings.calendars import render_feed
from scheduling.bookings.making import book
from scheduling.models import Recorder
from testing.outside_tools import events_in_khal, xmltv_faults

pytestmark = [pytest.mark.django_db, pytest.mark.database]

HOUR = timedelta(hours=1)


def test_the_programme_guide_is_valid_for_the_tools_of_xmltv(project: Any, tmp_path: Path) -> None:
    """P-10."""
    channel = Channel.objects.create(name="One", project=project)
    file = tmp_path / "guide.xml"
    file.write_bytes(guide_with_odd_titles(channel, project))
    assert xmltv_faults(file) == ""


def test_a_calendar_program_reads_the_feed(recorder: Recorder, tmp_path: Path) -> None:
    """R-09: khal shows the bookings at the right local times, in summer and in winter."""
    now = datetime(2026, 10, 20, 8, tzinfo=UTC)
    for number in range(3):
        starts_at = datetime(2026, 10, 24 + number, 10, tzinfo=UTC)
        book(recorder, starts_at, starts_at + HOUR, now=now, title=f"Übertragung; Nr. {number}, “live”")
    listed = events_in_khal(render_feed(recorder.project, now), tmp_path, "Europe/Berlin", "2026-10-24")
    zone = ZoneInfo("Europe/Berlin")
    hours = [datetime(2026, 10, 24 + number, 10, tzinfo=UTC).astimezone(zone).hour for number in range(3)]
    assert hours == [12, 11, 11]
    wanted = [
        f"2026-10-{24 + number} {hour}:00 {hour + 1}:00 Übertragung; Nr. {number}, “live”"
        for number, hour in enumerate(hours)
    ]
    assert listed == wanted
