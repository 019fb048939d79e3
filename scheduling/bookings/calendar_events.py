"""Reads the events of an iCalendar file, as Google, Outlook, Apple and others write them.

Reading is limited in size, in days ahead, and in the number of events. The parser keeps the zones that a file defines
for the life of the process, so files are read one at a time, and its memory is cleared for each.
"""

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import recurring_ical_events
from icalendar import Calendar, Event, vText
from icalendar.timezone import tzp

from station.clock import house_time, house_zone

MAX_BYTES = 500_000
MAX_EVENTS = 500
MAX_DAYS = 92
MAX_HOURS = 24
MAX_TITLE = 120
TIMES = ("DTSTART", "DTEND", "RECURRENCE-ID", "EXDATE", "RDATE")
CANCELLED = "it is cancelled"
one_file = threading.Lock()


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


def read_events(content: bytes, now: datetime, days: int) -> list[Entry]:
    """The events of the next days in order. Raises BadCalendar."""
    if len(content) > MAX_BYTES:
        raise BadCalendar(f"The file is larger than {MAX_BYTES // 1000} kB.")
    until = now + timedelta(days=min(days, MAX_DAYS))
    try:
        with one_file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # guesses at the names of zones
            tzp.use_default()
            entries = _expand(Calendar.from_ical(content), now, until)
            tzp.use_default()
    except BadCalendar:
        raise
    except Exception as error:  # whatever the parsers raise, the file cannot be used
        raise BadCalendar(f"This is not an iCalendar file Airlock can read: {error or type(error).__name__}") from error
    return sorted(entries, key=lambda each: (each.starts_at is None, str(each.starts_at)))


def _expand(calendar: Calendar, now: datetime, until: datetime) -> list[Entry]:
    _refuse_flood(calendar)
    _name_own_zone(calendar)
    refused = list(_take_out_faulty(calendar, now, until))
    for event in calendar.walk("VEVENT"):
        _include_last_day(event)
    events = recurring_ical_events.of(calendar).between(now, until)
    if len(events) > MAX_EVENTS:
        raise BadCalendar(f"There are {len(events)} events in that time; at most {MAX_EVENTS} can be imported at once.")
    is_off = str(calendar.get("METHOD", "")).upper() == "CANCEL"
    return [*refused, *(_entry(event, is_off=is_off) for event in events)]


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


def _name_own_zone(calendar: Calendar) -> None:
    """The zone of the calendar's floating times, by a name that the expansion knows (it may be Windows's)."""
    name = str(calendar.get("X-WR-TIMEZONE", ""))
    if not name:
        return
    zone = tzp.timezone(name)
    if zone is None:
        raise BadCalendar(f"The time zone of the calendar, “{name}”, is not known.")
    calendar["X-WR-TIMEZONE"] = vText(getattr(zone, "key", name))


def _take_out_faulty(calendar: Calendar, now: datetime, until: datetime) -> Iterator[Entry]:
    """Take out what the parsers would read as something else, with its reason.

    The whole series goes: without a changed event, the series would be booked at the old time.
    """
    faults: dict[str, str] = {}
    for event in calendar.walk("VEVENT"):
        if fault := _fault(event):
            faults.setdefault(str(event.get("UID", "")), fault)
    for event in calendar.walk("VEVENT"):
        fault = faults.get(str(event.get("UID", "")), "")
        if not fault:
            continue
        calendar.subcomponents.remove(event)
        day = _day(event["DTSTART"].dt)
        is_near = now.date() - timedelta(days=1) <= day <= until.date() + timedelta(days=1)
        if event.get("RRULE") or is_near:
            yield Entry(_title(event), None, None, fault)


def _fault(event: Event) -> str:
    if zone := _unknown_zone(event):  # would be a time without a zone, which is house time
        return f"its time zone “{zone}” is not known"
    if event.get("DTSTART") is not None and event.get("DTEND") is not None:
        begins, ends = event["DTSTART"].dt, event["DTEND"].dt
        if isinstance(begins, datetime) and isinstance(ends, datetime) and _aware(ends) < _aware(begins):
            return "it ends before it starts"  # would be turned round
    return ""


def _unknown_zone(event: Event) -> str:
    for name in TIMES:
        found = event.get(name, [])
        for each in found if isinstance(found, list) else [found]:
            zone = each.params.get("TZID", "")
            if zone and any(isinstance(moment, datetime) and moment.tzinfo is None for moment in _moments(each)):
                return str(zone)
    return ""


def _moments(value: Any) -> list[Any]:
    return [each.dt for each in value.dts] if hasattr(value, "dts") else [value.dt]


def _include_last_day(event: Event) -> None:
    """`UNTIL` without a time includes that day; the expansion would end at its midnight."""
    rule, begins = event.get("RRULE"), event.get("DTSTART")
    if not rule or begins is None or not isinstance(begins.dt, datetime):
        return
    for position, last in enumerate(rule.get("UNTIL", [])):
        if isinstance(last, date) and not isinstance(last, datetime):
            moment = datetime.combine(last, time(23, 59, 59), tzinfo=begins.dt.tzinfo)
            rule["UNTIL"][position] = moment.astimezone(UTC) if moment.tzinfo else moment


def _entry(event: Event, *, is_off: bool) -> Entry:
    title, begins, ends = _title(event), event.start, event.end
    is_day = str(event.get("X-MICROSOFT-CDO-ALLDAYEVENT", "")).upper() == "TRUE"
    if is_day or not isinstance(begins, datetime) or not isinstance(ends, datetime):
        return Entry(title, None, None, problem=f"it has no times, only the day {_day(begins)}")
    is_off = is_off or str(event.get("STATUS", "")).upper() == "CANCELLED"
    return Entry(title, _aware(begins), _aware(ends), problem=CANCELLED if is_off else "")


def _title(event: Event) -> str:
    return " ".join(str(event.get("SUMMARY", "")).split())[:MAX_TITLE]


def _day(moment: date | datetime) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _aware(moment: datetime) -> datetime:
    """A time without a zone is taken as house time."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=house_zone())).astimezone(UTC)
