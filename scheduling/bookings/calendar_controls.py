"""What people do with calendars by hand: a new secret link, bookings from a calendar file."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urljoin

from django.urls import reverse

from scheduling.bookings.calendar_events import Entry
from scheduling.bookings.calendars import import_entries, make_feed
from scheduling.bookings.controls import OPERATE
from scheduling.models import CalendarFeed, Recorder
from station.actions import Outcome, action, done, nothing
from station.models import Project

SHOWN = "The calendar of {} (shown only this once; who has it may read the bookings):"


@action("new calendar link", "New link", permission="scheduling.add_calendarfeed", makes_target=True)
def make_link(project: Project, *, now: datetime, by: str, base: str) -> Outcome:
    """The project's secret link; an old one ends."""
    token = make_feed(project, now=now, by=by)
    feed = CalendarFeed.objects.get(project=project)
    url = urljoin(base, reverse("calendar-feed", args=[token]))
    return done(SHOWN.format(project), target=feed, shown_once=url)


@action("new calendar link", "New link", permission="scheduling.change_calendarfeed")
def renew_link(feed: CalendarFeed, *, now: datetime, by: str, base: str) -> Outcome:
    token = make_feed(feed.project, now=now, by=by)
    url = urljoin(base, reverse("calendar-feed", args=[token]))
    return done(SHOWN.format(feed.project), shown_once=url)


@action("import", "Import", permission=OPERATE)
def import_calendar(recorder: Recorder, *, now: datetime, by: str, entries: Sequence[Entry]) -> Outcome:
    """Book what can be booked of a calendar file."""
    made, left = import_entries(entries, recorder, now=now, by=by)
    text = f"{len(made)} booked on {recorder}, {len(left)} left out."
    details = {"booked": len(made), "left_out": len(left)}
    return done(text, details=details, needs_attention=bool(left)) if made else nothing(text, details=details)
