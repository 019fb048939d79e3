"""Cron expressions with five plain fields. They are checked and expanded here: croniter gets lists of numbers only.

Croniter accepts much more than five plain fields, and reads a range of one value (`12-12`) as “always”.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from cron_descriptor import Options, get_description
from croniter import CroniterBadDateError, croniter

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, MONTHS),
    ("day of the week", 0, 7, WEEKDAYS),
)
HOUR, DAY, WEEKDAY = 1, 2, 4
SUNDAY = 7  # 0 and 7 are the same day
ITEM = re.compile(r"^(?:\*|(?P<first>[0-9A-Z]{1,3})(?:-(?P<last>[0-9A-Z]{1,3}))?)(?:/(?P<step>[0-9]{1,3}))?$", re.ASCII)
EVEN = re.compile(r"^\*/([0-9]+)$", re.ASCII)
# 29 February can be eight years away (1896-1904, 2096-2104); a date that has not matched by then never matches.
YEARS_BETWEEN = 9


class BadCron(ValueError):
    """The expression cannot be used; the text says which field and why."""


@dataclass(frozen=True)
class CronField:
    """The values that one field allows, in order. `is_free`: it has a plain `*`, so it restricts nothing."""

    text: str
    ranges: tuple[range, ...]
    values: tuple[int, ...]
    is_free: bool
    is_full: bool

    @property
    def plain(self) -> str:
        return "*" if self.is_free else ",".join(map(str, self.values))


@lru_cache(maxsize=1024)
def parse(expression: str) -> tuple[CronField, ...]:
    """The five fields, or BadCron."""
    texts = expression.upper().split()
    if len(texts) != len(FIELDS):
        raise BadCron(f"Enter five fields (minute, hour, day, month, weekday); there are {len(texts)}.")
    fields = []
    for text, (name, low, high, words) in zip(texts, FIELDS, strict=True):
        items, size = text.split(","), high - low + 1
        ranges = tuple(_range(item, name, low, high, words) for item in items)
        found = {value for each in ranges for value in each}
        if words is WEEKDAYS:
            found, size = {value % SUNDAY for value in found}, SUNDAY
        is_free = "*" in items or "*/1" in items
        fields.append(CronField(text, ranges, tuple(sorted(found)), is_free, len(found) == size))
    return tuple(fields)


@lru_cache(maxsize=1024)
def normalise(expression: str) -> str:
    """The expression with single spaces and capitals, or BadCron."""
    fields = parse(expression)
    try:
        croniter(_plain(fields), datetime(2024, 1, 1), max_years_between_matches=YEARS_BETWEEN).get_next(datetime)  # noqa: DTZ001
    except CroniterBadDateError:
        raise BadCron("No day in the calendar ever matches this.") from None
    except (ValueError, KeyError) as error:
        raise BadCron(f"This is not a valid cron expression: {error}") from error
    return " ".join(field.text for field in fields)


def _plain(fields: tuple[CronField, ...]) -> str:
    return " ".join(field.plain for field in fields)


def _range(item: str, name: str, low: int, high: int, words: tuple[str, ...]) -> range:
    match = ITEM.match(item)
    if match is None:
        raise BadCron(f"“{item}” is not a valid {name}. Use *, 5, 1-5, */10 or lists like 1,3,5.")
    first, last, step = match["first"], match["last"], match["step"]
    if step is not None and not 1 <= int(step) <= high:
        raise BadCron(f"The step of the {name} must be between 1 and {high}.")
    if first is None:
        return range(low, SUNDAY if words is WEEKDAYS else high + 1, int(step or 1))
    if step is not None and last is None:
        raise BadCron(f"“{item}”: a step needs * or a range, like */{step} or {first}-{high}/{step}.")
    begin = _number(first, name, low, high, words)
    end = _number(last or first, name, low, high, words)
    if last == "SUN" and begin:  # FRI-SUN
        end = SUNDAY
    if begin > end:
        raise BadCron(f"The {name} range {item} runs backwards.")
    return range(begin, end + 1, int(step or 1))


def _number(text: str, name: str, low: int, high: int, words: tuple[str, ...]) -> int:
    if text in words:
        return words.index(text) + low
    if not text.isdigit() or not low <= int(text) <= high:
        raise BadCron(f"The {name} must be between {low} and {high}, not {text}.")
    return int(text)


def is_every_hour(expression: str) -> bool:
    """The hour is not chosen (`*`, `*/2`, `0-23`): cron runs such rules in real time on the days of a clock change."""
    field = parse(expression)[HOUR]
    return field.is_full or any(item.startswith("*") for item in field.text.split(","))


def local_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The matching naive local times strictly after `after`. Ends when there are no more."""
    normalise(expression)
    return _times(croniter(_plain(parse(expression)), after, max_years_between_matches=YEARS_BETWEEN))


def _times(moments: croniter) -> Iterator[datetime]:
    while True:
        try:
            moment: datetime = moments.get_next(datetime)
        except CroniterBadDateError:
            return
        yield moment


def describe(expression: str) -> str:
    """The expression as a phrase, in 24-hour time: "At 20:15, only on Monday"."""
    normalise(expression)
    options = Options()
    options.use_24hour_time_format = True
    fields = parse(expression)
    words = str(get_description(" ".join(map(_for_words, range(len(fields)), fields)), options))
    # A day matches if one of both fields matches, as in crontab(5).
    is_either = not fields[DAY].is_free and not fields[WEEKDAY].is_free
    return f"{words} (on each day that matches either)" if is_either else words


def _for_words(number: int, field: CronField) -> str:
    """The field so that its description is true: ranges of one value are values, uneven steps are lists."""
    if field.is_free or (field.is_full and number not in {DAY, WEEKDAY}):
        return "*"
    even = EVEN.match(field.text)
    if even and number <= HOUR and (FIELDS[number][2] + 1) % int(even[1]) == 0:
        return field.text
    whole = field.ranges[0]
    if len(field.ranges) == 1 and whole.step == 1 and len(whole) > 1:
        return f"{whole.start}-{whole.stop - 1}"
    return field.plain
