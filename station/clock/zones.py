"""The time zones people may choose, and the conversion from local time to UTC.

`to_utc` never goes backwards: a later local time never gives an earlier UTC time. In a repeated hour it takes the first
pass; a time that the clock skips becomes the moment of the clock change. Starts and ends both use it, so windows that
touch in local time also touch in UTC.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

REGIONS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
SECOND = timedelta(seconds=1)
# No zone changes its clocks twice within this time.
STRIDE = timedelta(days=4)


class UnknownZone(ValueError):
    """The name is not in `zone_names`."""


@lru_cache
def zone_names() -> tuple[str, ...]:
    """UTC and the zones of real places, without entries such as `localtime`, `Factory` and `posixrules`."""
    return ("UTC", *sorted(name for name in available_timezones() if name.partition("/")[0] in REGIONS and "/" in name))


@lru_cache
def zone_of(name: str) -> ZoneInfo:
    if name not in zone_names():
        raise UnknownZone(f"“{name}” is not a time zone. Choose one like Europe/Berlin.")
    return ZoneInfo(name)


def to_utc(local: datetime, zone: tzinfo) -> datetime:
    """The UTC time of a naive local time."""
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if to_local(instant, zone) == local:
        return instant
    # The clock skips this local time: fold=1 gives a time before the change, fold=0 one after it.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _first_with_new_offset(zone, before, instant)


def second_pass(local: datetime, zone: tzinfo) -> datetime | None:
    """The UTC time at which the clock shows a local time for the second time; None if it shows it only once."""
    first, second = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return second if second > first else None


def to_local(instant: datetime, zone: tzinfo) -> datetime:
    """The naive local time of an instant."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _first_with_new_offset(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    new = _offset(after, zone)
    while after - before > SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle == before:
            break
        if _offset(middle, zone) == new:
            after = middle
        else:
            before = middle
    return after


@dataclass(frozen=True)
class Change:
    """A clock change in a zone at `at`: forward if `by` is positive, otherwise back."""

    at: datetime
    by: timedelta
    local_before: datetime
    local_after: datetime


def next_changes(name: str, after: datetime, count: int = 2, within: timedelta = timedelta(days=400)) -> list[Change]:
    """Up to `count` clock changes strictly after `after`."""
    zone = zone_of(name)
    found: list[Change] = []
    moment = after.astimezone(UTC).replace(microsecond=0)
    end = moment + within
    old = _offset(moment, zone)
    while moment < end and len(found) < count:
        following = moment + STRIDE
        new = _offset(following, zone)
        if old != new:
            at = _first_with_new_offset(zone, moment, following)
            found.append(Change(at, new - old, (at + old).replace(tzinfo=None), (at + new).replace(tzinfo=None)))
        moment, old = following, new
    return found
