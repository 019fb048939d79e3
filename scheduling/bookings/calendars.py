"""iCalendar: the bookings of a project as a feed, and the import of an .ics file as bookings.

Reading an uploaded file is limited in size, in days ahead, and in the number of events.
"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import recurring_ical_events
from icalendar import Calendar, Event

from scheduling.bookings.making import BookingRefused, book, draft, refuse_overlap
from scheduling.models import Booking, CalendarFeed, Recorder
from station.clock import house_time, house_zone
from station.models import Project

MAX_BYTES = 500_000
MAX_EVENTS = 500
MAX_DAYS = 92
MAX_HOURS = 24
FEED_PAST = timedelta(days=7)
FEED_AHEAD = timedelta(days=60)
MAX_TITLE = 120


class BadCalendar(ValueError):
    """The file cannot be used; the text says why."""


@dataclass(frozen=True)
class Entry:
    """One event as it would be booked. `problem` says why it cannot be booked."""

    title: str
    starts_at: datetime | None
    ends_at: datetime | None
    problem: str = ""

    @property
    def starts(self) -> str:
        return house_time(self.starts_at) if self.starts_at else "–"

    @property
    def ends(self) -> str:
        return house_time(self.ends_at) if self.ends_at else "–"


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
    if len(content) > MAX_BYTES:
        raise BadCalendar(f"The file is larger than {MAX_BYTES // 1000} kB.")
    try:
        calendar = Calendar.from_ical(content)
        until = now + timedelta(days=min(days, MAX_DAYS))
        _refuse_flood(calendar)
        events = recurring_ical_events.of(calendar).between(now, until)
    except BadCalendar:
        raise
    except Exception as error:  # whatever the parsers raise, the file cannot be used
        raise BadCalendar(f"This is not an iCalendar file Airlock can read: {error or type(error).__name__}") from error
    if len(events) > MAX_EVENTS:
        raise BadCalendar(f"There are {len(events)} events in that time; at most {MAX_EVENTS} can be imported at once.")
    entries = sorted(
        (_entry(event) for event in events), key=lambda each: (each.starts_at is None, str(each.starts_at))
    )
    return list(_with_problems(entries, recorder, now))


def _refuse_flood(calendar: Calendar) -> None:
    """Refuse rules that repeat every second or minute: they are not programmes, and take long to expand."""
    for event in calendar.walk("VEVENT"):
        rule = event.get("RRULE")
        if not rule:
            continue
        is_dense = bool({str(word).upper() for word in rule.get("FREQ", [])} & {"SECONDLY", "MINUTELY"})
        many = (len(rule.get(name, [])) > 1 for name in ("BYMINUTE", "BYSECOND"))
        if is_dense or any(many) or len(rule.get("BYHOUR", [])) > MAX_HOURS:
            raise BadCalendar(f"“{event.get('SUMMARY', '')}” repeats every minute or second, which cannot be imported.")


def _entry(event: Event) -> Entry:
    title = " ".join(str(event.get("SUMMARY", "")).split())[:MAX_TITLE]
    begins, ends = event.start, event.end
    if not isinstance(begins, datetime) or not isinstance(ends, datetime):
        return Entry(title, None, None, problem=f"it has no times, only the day {_day(begins)}")
    return Entry(title, _aware(begins), _aware(ends))


def _day(moment: date | datetime) -> str:
    return moment.isoformat()[:10]


def _aware(moment: datetime) -> datetime:
    """A time without a zone is taken as house time."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=house_zone())).astimezone(UTC)


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
        return "it ends before it starts"
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
