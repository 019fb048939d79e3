"""Cron expressions with five plain fields. They are checked here because croniter accepts much more than that."""

import re
from collections.abc import Iterator
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
ITEM = re.compile(r"^(?:\*|(?P<first>[0-9A-Z]{1,3})(?:-(?P<last>[0-9A-Z]{1,3}))?)(?:/(?P<step>[0-9]{1,3}))?$", re.ASCII)
# 29 February can be eight years away (1896-1904, 2096-2104); a date that has not matched by then never matches.
YEARS_BETWEEN = 9


class BadCron(ValueError):
    """The expression cannot be used; the text says which field and why."""


@lru_cache(maxsize=1024)
def normalise(expression: str) -> str:
    """The expression with single spaces and capitals, or BadCron."""
    fields = expression.upper().split()
    if len(fields) != len(FIELDS):
        raise BadCron(f"Enter five fields (minute, hour, day, month, weekday); there are {len(fields)}.")
    for text, (name, low, high, words) in zip(fields, FIELDS, strict=True):
        for item in text.split(","):
            _check_item(item, name, low, high, words)
    plain = " ".join(fields)
    try:
        croniter(plain, datetime(2024, 1, 1), max_years_between_matches=YEARS_BETWEEN).get_next(datetime)  # noqa: DTZ001
    except CroniterBadDateError:
        raise BadCron("No day in the calendar ever matches this.") from None
    except (ValueError, KeyError) as error:
        raise BadCron(f"This is not a valid cron expression: {error}") from error
    return plain


def _check_item(item: str, name: str, low: int, high: int, words: tuple[str, ...]) -> None:
    match = ITEM.match(item)
    if match is None:
        raise BadCron(f"“{item}” is not a valid {name}. Use *, 5, 1-5, */10 or lists like 1,3,5.")
    first, last, step = match["first"], match["last"], match["step"]
    if step is not None and not 1 <= int(step) <= high:
        raise BadCron(f"The step of the {name} must be between 1 and {high}.")
    if first is None:
        return
    if step is not None and last is None:
        raise BadCron(f"“{item}”: a step needs * or a range, like */{step} or {first}-{high}/{step}.")
    numbers = [_number(text, name, low, high, words) for text in (first, last) if text is not None]
    if len(numbers) == 2 and numbers[0] > numbers[1]:
        raise BadCron(f"The {name} range {item} runs backwards.")


def _number(text: str, name: str, low: int, high: int, words: tuple[str, ...]) -> int:
    if text in words:
        return words.index(text) + low
    if not text.isdigit() or not low <= int(text) <= high:
        raise BadCron(f"The {name} must be between {low} and {high}, not {text}.")
    return int(text)


def local_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The matching naive local times strictly after `after`. Ends when there are no more."""
    moments = croniter(normalise(expression), after, max_years_between_matches=YEARS_BETWEEN)
    while True:
        try:
            moment: datetime = moments.get_next(datetime)
        except CroniterBadDateError:
            return
        yield moment


def describe(expression: str) -> str:
    """The expression as a phrase, in 24-hour time: "At 20:15, only on Monday"."""
    options = Options()
    options.use_24hour_time_format = True
    return str(get_description(normalise(expression), options))
