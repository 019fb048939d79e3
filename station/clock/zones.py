"""Time zones people may choose, and the one way from local time to UTC.

`to_utc` never goes backwards: a later local time never resolves to an earlier instant. A repeated hour takes its first
pass; a time that the clock jumps over becomes the moment of the jump. Starts and ends both go through it, so windows
that touch on the wall clock touch in UTC.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

REGIONS = ("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
SECOND = timedelta(seconds=1)
# No zone puts its clocks forth and back within a few days.
STRIDE = timedelta(days=4)


class UnknownZone(ValueError):
    """Not a name from the list of real zones."""


@lru_cache
def zone_names() -> tuple[str, ...]:
    """Real places and UTC. `localtime`, `Factory`, `posixrules` and the like are not places."""
    return ("UTC", *sorted(name for name in available_timezones() if name.partition("/")[0] in REGIONS and "/" in name))


@lru_cache
def zone_of(name: str) -> ZoneInfo:
    if name not in zone_names():
        raise UnknownZone(f"“{name}” is not a time zone. Choose one like Europe/Berlin.")
    return ZoneInfo(name)


def to_utc(local: datetime, zone: tzinfo) -> datetime:
    """The instant of a naive local time."""
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if to_local(instant, zone) == local:
        return instant
    # Jumped over: `instant` lies after the jump, and so the jump lies between the two readings.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _first_with_new_offset(zone, before, instant)


def to_local(instant: datetime, zone: tzinfo) -> datetime:
    """What a clock on the wall shows, naive."""
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
    """The clocks of a zone are put forward (positive `by`) or back at `at`."""

    at: datetime
    by: timedelta
    local_before: datetime
    local_after: datetime


def next_changes(name: str, after: datetime, count: int = 2, within: timedelta = timedelta(days=400)) -> list[Change]:
    """The next clock changes strictly after a moment; fewer if the zone has none."""
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
