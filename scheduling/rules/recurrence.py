"""Recurrence: pure functions from a rule to windows in UTC, without database, clock or state.

A rule is in local time. Croniter and the calendar work on naive local times only; `zones.to_utc` converts them. Two
starts with the same UTC time (because the clock skipped both) are one start, and a window that the clock skipped
entirely is dropped, so the windows of a rule are strictly ordered and never overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from station.clock import cron
from station.clock.zones import Change, next_changes, to_local, to_utc, zone_of

DAY = timedelta(days=1)
MIDNIGHT = time(0)
MAX_COUNT = 10_000
WEEKDAY_WORDS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Kind(StrEnum):
    ONCE = "once"
    DAILY = "daily"
    WEEKLY = "weekly"
    CRON = "cron"


@dataclass(frozen=True)
class Rule:
    """`exceptions` are naive local starts that are skipped; they still count towards `count`."""

    kind: Kind
    zone: str
    first_on: date
    length: timedelta
    start_time: time = MIDNIGHT
    weekdays: frozenset[int] = frozenset()  # Monday is 0
    cron: str = ""
    until_on: date | None = None
    count: int | None = None
    is_elapsed: bool = False
    exceptions: frozenset[datetime] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Occurrence:
    """One window, and its naive local start, which identifies it permanently."""

    local_start: datetime
    starts_at: datetime
    ends_at: datetime
    is_exception: bool = False


def occurrences(rule: Rule, after: datetime, *, with_exceptions: bool = False) -> Iterator[Occurrence]:
    """The windows that start strictly after `after`, in order. They may touch but never overlap."""
    zone = zone_of(rule.zone)
    # No earlier local time can give a start after `after`: `to_utc` never goes backwards.
    found = _resolved(rule, to_local(after, zone))
    current = next(found, None)
    while current is not None:
        following = next(found, None)
        if following is not None and following.starts_at < current.ends_at:
            current = Occurrence(current.local_start, current.starts_at, following.starts_at, current.is_exception)
        if current.starts_at > after and (with_exceptions or not current.is_exception):
            yield current
        current = following


def windows_between(rule: Rule, start: datetime, end: datetime) -> list[Occurrence]:
    """The windows that start in (start, end]."""
    found = []
    for occurrence in occurrences(rule, start):
        if occurrence.starts_at > end:
            break
        found.append(occurrence)
    return found


def _resolved(rule: Rule, from_local: datetime) -> Iterator[Occurrence]:
    if rule.length <= timedelta(0):
        return  # a form that is not saved yet may ask: without this, every day until the year 9999 is tried
    zone = zone_of(rule.zone)
    previous: datetime | None = None
    for local in _local_starts(rule, from_local):
        starts_at = to_utc(local, zone)
        ends_at = starts_at + rule.length if rule.is_elapsed else to_utc(local + rule.length, zone)
        if ends_at <= starts_at or (previous is not None and starts_at <= previous):
            continue
        previous = starts_at
        yield Occurrence(local, starts_at, ends_at, local in rule.exceptions)


def _local_starts(rule: Rule, from_local: datetime) -> Iterator[datetime]:
    last = _last_by_count(rule) if rule.count is not None else None
    for local in _calendar(rule, from_local):
        if rule.until_on is not None and local.date() > rule.until_on:
            return
        if last is not None and local > last:
            return
        yield local


@lru_cache(maxsize=4096)
def _last_by_count(rule: Rule) -> datetime:
    """The naive start of the count-th occurrence, including exceptions."""
    count = min(rule.count or 0, MAX_COUNT)
    beginning = datetime.combine(rule.first_on, MIDNIGHT)
    starts = list(islice(_calendar(rule, beginning), count))
    return starts[-1] if starts else beginning - DAY


def _calendar(rule: Rule, from_local: datetime) -> Iterator[datetime]:
    """The naive starts from `from_local` on, never before the first day."""
    beginning = max(from_local, datetime.combine(rule.first_on, MIDNIGHT))
    if rule.kind == Kind.CRON:
        yield from cron.local_times(rule.cron, beginning - timedelta(seconds=1))
        return
    if rule.kind == Kind.ONCE:
        yield datetime.combine(rule.first_on, rule.start_time)
        return
    if rule.kind == Kind.WEEKLY and not rule.weekdays:
        return
    day = beginning.date()
    while day < date.max - DAY:
        if rule.kind == Kind.DAILY or day.weekday() in rule.weekdays:
            start = datetime.combine(day, rule.start_time)
            if start >= beginning:
                yield start
        day += DAY


def describe(rule: Rule) -> str:
    """The rule as a phrase, like "Every day at 20:15, Europe/Berlin"."""
    at = f"at {rule.start_time:%H:%M:%S}".removesuffix(":00")
    if rule.kind == Kind.ONCE:
        words = f"Once on {rule.first_on} {at}"
    elif rule.kind == Kind.DAILY:
        words = f"Every day {at}"
    elif rule.kind == Kind.WEEKLY:
        words = f"Every {', '.join(WEEKDAY_WORDS[day] for day in sorted(rule.weekdays))} {at}"
    else:
        words = cron.describe(rule.cron)
    until = f", until {rule.until_on}" if rule.until_on else ""
    times = f", {rule.count} times" if rule.count else ""
    return f"{words}, {rule.zone}{until}{times}"


def describe_changes(rule: Rule, after: datetime) -> list[str]:
    """One sentence for each of the next two clock changes: what it does to this rule."""
    changes = next_changes(rule.zone, after)
    if not changes:
        return [f"{rule.zone} does not change its clocks in the next year."]
    return [_describe_change(rule, change) for change in changes]


def _describe_change(rule: Rule, change: Change) -> str:
    direction = "forward" if change.by > timedelta(0) else "back"
    head = (
        f"On {change.local_before.date()} the clocks go {direction} from {change.local_before:%H:%M} "
        f"to {change.local_after:%H:%M}: "
    )
    zone = zone_of(rule.zone)
    touched = []
    for window in occurrences(rule, change.at - 2 * DAY):
        if window.starts_at > change.at + DAY:
            break
        starts, ends = to_local(window.starts_at, zone), to_local(window.ends_at, zone)
        is_moved = starts != window.local_start
        is_across = window.starts_at <= change.at < window.ends_at
        if not (is_moved or is_across):
            continue
        length = window.ends_at - window.starts_at
        moved = f"the {window.local_start:%H:%M} recording starts at {starts:%H:%M}, " if is_moved else ""
        shown = moved or f"the {starts:%H:%M} recording "
        touched.append(f"{shown}ends at {ends:%H:%M} and lasts {_span(length)} instead of {_span(rule.length)}")
        if len(touched) == 3:
            break
    kept = [
        text for text in touched if not text.endswith(f"lasts {_span(rule.length)} instead of {_span(rule.length)}")
    ]
    moved_only = [text.partition(" and lasts")[0] for text in touched if text not in kept]
    return head + ("; ".join([*kept, *moved_only]) or "nothing changes for this schedule") + "."


def _span(length: timedelta) -> str:
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    words = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else "", f"{seconds} s" if seconds else ""]
    return " ".join(word for word in words if word) or "0 s"
