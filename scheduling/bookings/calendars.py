"""iCalendar: the bookings of a project as a feed, and the import of an .ics file as bookings."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from icalendar import Calendar, Event

from scheduling.bookings.calendar_events import Entry, read_events
from scheduling.bookings.making import BookingRefused, book, draft, refuse_overlap
from scheduling.models import Booking, CalendarFeed, Recorder
from station.models import Project

FEED_PAST = timedelta(days=7)
FEED_AHEAD = timedelta(days=60)


def make_feed(project: Project, *, now: datetime, by: str) -> str:
    """Make a new secret link for the project's calendar and end the old one. Returns the token, which is not stored."""
    token = secrets.token_urlsafe(24)
    changes = {"token_hash": hash_of(token), "created_at": now, "created_by": by}
    CalendarFeed.objects.update_or_create(project=project, defaults=changes)
    return token


def hash_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def feed_of(token: str) -> CalendarFeed | None:
    return CalendarFeed.objects.select_related("project").filter(token_hash=hash_of(token)).first()


def render_feed(project: Project, now: datetime) -> bytes:
    """The bookings of a project as an iCalendar file."""
    rows = Booking.objects.filter(
        recorder__project=project, ends_at__gt=now - FEED_PAST, starts_at__lt=now + FEED_AHEAD
    )
    calendar = Calendar()
    calendar.add("prodid", "-//Airlock//Bookings//EN")
    calendar.add("version", "2.0")
    calendar.add("x-wr-calname", f"Airlock: {project.name}")
    for booking in rows.select_related("recorder").order_by("starts_at").iterator(chunk_size=500):
        calendar.add_component(_event(booking))
    content: bytes = calendar.to_ical()
    return content


def _event(booking: Booking) -> Event:
    event = Event()
    event.add("uid", f"booking-{booking.pk}@airlock")
    event.add("dtstamp", booking.state_since_at.astimezone(UTC))
    event.add("dtstart", booking.starts_at.astimezone(UTC))
    event.add("dtend", booking.ends_at.astimezone(UTC))
    event.add("summary", f"{booking} ({booking.state_word})" if booking.is_over else str(booking))
    event.add("location", booking.recorder.name)
    is_off = booking.state in {Booking.State.SKIPPED, Booking.State.CANCELLED}
    event.add("status", "CANCELLED" if is_off else "CONFIRMED")
    return event


def read_calendar(content: bytes, recorder: Recorder, now: datetime, days: int) -> list[Entry]:
    """The events of the next days, with the reason for each that cannot be booked. Nothing is stored."""
    return list(_with_problems(read_events(content, now, days), recorder, now))


def _with_problems(entries: Iterable[Entry], recorder: Recorder, now: datetime) -> Iterable[Entry]:
    taken: list[Entry] = []
    for entry in entries:
        problem = entry.problem or _problem(entry, recorder, taken, now)
        if not problem:
            taken.append(entry)
        yield Entry(entry.title, entry.starts_at, entry.ends_at, problem)


def _problem(entry: Entry, recorder: Recorder, taken: list[Entry], now: datetime) -> str:
    assert entry.starts_at is not None
    assert entry.ends_at is not None
    if entry.ends_at <= entry.starts_at:
        return "it has no length"
    if entry.starts_at < now:
        return "it has already started"
    if entry.ends_at - entry.starts_at > timedelta(days=7):
        return "it is longer than seven days"
    for other in taken:
        if other.starts_at and other.ends_at and other.starts_at < entry.ends_at and other.ends_at > entry.starts_at:
            return f"it overlaps “{other.title}” in this file"
    try:
        refuse_overlap(draft(recorder, entry.starts_at, entry.ends_at, now=now, by="", title=entry.title))
    except BookingRefused as refusal:
        return str(refusal)
    return ""


def import_entries(
    entries: Iterable[Entry], recorder: Recorder, *, now: datetime, by: str
) -> tuple[list[Booking], list[Entry]]:
    """Book the entries that can be booked; returns the bookings, and the other entries with their reasons."""
    made, left = [], []
    for entry in entries:
        if entry.problem or entry.starts_at is None or entry.ends_at is None:
            left.append(entry)
            continue
        try:
            made.append(book(recorder, entry.starts_at, entry.ends_at, now=now, by=by, title=entry.title))
        except BookingRefused as refusal:
            left.append(Entry(entry.title, entry.starts_at, entry.ends_at, str(refusal)))
    return made, left
