"""Recurrence: pure functions from a rule to windows in UTC, without database, clock or state.

A rule is in local time. The calendar works on naive local times only; `zones.to_utc` converts them, `cron_instants`
those of cron. Two starts with the same UTC time (because the clock skipped both) are one start, and a window that the
clock skipped entirely is dropped, so the windows of a rule are strictly ordered and never overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice, takewhile

from station.clock import cron
from station.clock.cron_instants import Instant, instants
from station.clock.zones import Change, next_changes, to_local, to_utc, zone_of

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
MIDNIGHT = time(0)
MAX_COUNT = 10_000
SHOWN = 3
KEY_FORMAT = "%Y-%m-%dT%H:%M:%S"
WEEKDAY_WORDS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Kind(StrEnum):
    ONCE = "once"
    DAILY = "daily"
    WEEKLY = "weekly"
    CRON = "cron"


@dataclass(frozen=True)
class Rule:
    """`exceptions` are keys of occurrences that are skipped; they still count towards `count`."""

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
    exceptions: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_every_hour(self) -> bool:
        """It runs in real time when the clocks change, see `cron_instants`."""
        return self.kind == Kind.CRON and cron.is_every_hour(self.cron)


@dataclass(frozen=True)
class Occurrence:
    """One window, and its naive local start. `key` identifies it permanently, whatever the UTC offset."""

    local_start: datetime
    starts_at: datetime
    ends_at: datetime
    is_exception: bool = False
    is_second: bool = False

    @property
    def key(self) -> str:
        return key_of(self.local_start, is_second=self.is_second)


def key_of(local: datetime, *, is_second: bool = False) -> str:
    """A naive local start as text; `/2` is the second pass of a repeated hour."""
    return local.strftime(KEY_FORMAT) + ("/2" if is_second else "")


def occurrences(rule: Rule, after: datetime, *, with_exceptions: bool = False) -> Iterator[Occurrence]:
    """The windows that start strictly after `after`, in order. They may touch but never overlap."""
    found = _resolved(rule, after)
    current = next(found, None)
    while current is not None:
        following = next(found, None)
        if following is not None and following.starts_at < current.ends_at:
            current = replace(current, ends_at=following.starts_at)
        if with_exceptions or not current.is_exception:
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


def _resolved(rule: Rule, after: datetime) -> Iterator[Occurrence]:
    if rule.length <= timedelta(0):
        return  # a form that is not saved yet may ask: without this, every day until the year 9999 is tried
    last = _last_by_count(rule) if rule.count is not None else None
    previous = after
    for start in _starts(rule, after):
        if rule.until_on is not None and start.local.date() > rule.until_on:
            return
        if last is not None and start.at > last:
            return
        ends_at = _end(rule, start)
        if ends_at > start.at > previous:
            previous = start.at
            key = key_of(start.local, is_second=start.is_second)
            yield Occurrence(start.local, start.at, ends_at, key in rule.exceptions, start.is_second)


def _end(rule: Rule, start: Instant) -> datetime:
    if rule.is_elapsed:
        return start.at + rule.length
    zone, local = zone_of(rule.zone), start.local + rule.length
    if rule.is_every_hour:  # in the pass of its start; a time that the clock skips is counted in real time
        return local.replace(tzinfo=zone, fold=int(start.is_second)).astimezone(UTC)
    return to_utc(local, zone)


@lru_cache(maxsize=4096)
def _last_by_count(rule: Rule) -> datetime:
    """The start of the count-th occurrence, including exceptions."""
    count = min(rule.count or 0, MAX_COUNT)
    beginning = to_utc(datetime.combine(rule.first_on, MIDNIGHT), zone_of(rule.zone)) - SECOND
    starts = list(islice(_starts(rule, beginning), count))
    return starts[-1].at if starts else beginning


def _starts(rule: Rule, after: datetime) -> Iterator[Instant]:
    """The starts strictly after `after`, in order, never before the first day."""
    zone, midnight = zone_of(rule.zone), datetime.combine(rule.first_on, MIDNIGHT)
    after = max(after, to_utc(midnight, zone) - SECOND)
    if rule.kind == Kind.CRON:
        yield from instants(rule.cron, rule.zone, after)
        return
    # No earlier local time can give a start after `after`: `to_utc` never goes backwards.
    for local in _calendar(rule, max(to_local(after, zone), midnight)):
        starts_at = to_utc(local, zone)
        if starts_at > after:
            yield Instant(starts_at, local)


def _calendar(rule: Rule, beginning: datetime) -> Iterator[datetime]:
    """The naive starts from `beginning` on; not for cron."""
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
    touched = [*(_left_out_or_twice(rule, change) if rule.is_every_hour else []), *_moved_or_longer(rule, change)]
    return head + ("; ".join(touched) or "nothing changes for this schedule") + "."


def _left_out_or_twice(rule: Rule, change: Change) -> list[str]:
    """For a rule that runs in real time."""
    low, high = sorted((change.local_before, change.local_after))
    times = takewhile(lambda local: local < high, cron.local_times(rule.cron, low - SECOND))
    shown = [f"{local:%H:%M}" for local in islice(times, SHOWN + 1)]
    if not shown:
        return []
    named = ", ".join(shown[:SHOWN]) + (" and so on" if len(shown) > SHOWN else "")
    return [f"there is no recording at {named}" if change.by > timedelta(0) else f"it records twice at {named}"]


def _moved_or_longer(rule: Rule, change: Change) -> list[str]:
    zone, usual = zone_of(rule.zone), _span(rule.length)
    longer: list[str] = []
    moved: list[str] = []
    for window in occurrences(rule, change.at - 2 * DAY):
        if window.starts_at > change.at + DAY or len(longer) + len(moved) == SHOWN:
            break
        starts, ends = to_local(window.starts_at, zone), to_local(window.ends_at, zone)
        is_moved = starts != window.local_start
        is_across = window.starts_at <= change.at < window.ends_at
        if not (is_moved or (is_across and not window.is_second)):
            continue
        length = _span(window.ends_at - window.starts_at)
        moving = f"the {window.local_start:%H:%M} recording starts at {starts:%H:%M}, " if is_moved else ""
        text = f"{moving or f'the {starts:%H:%M} recording '}ends at {ends:%H:%M}"
        if length != usual:
            longer.append(f"{text} and lasts {length} instead of {usual}")
        elif not rule.is_every_hour:
            moved.append(text)
    return [*longer, *moved]


def _span(length: timedelta) -> str:
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    words = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else "", f"{seconds} s" if seconds else ""]
    return " ".join(word for word in words if word) or "0 s"
