"""Broadcast days: from a fixed hour of house time to the same hour of the next day."""

from datetime import date, datetime, time, timedelta

from django.conf import settings

from station.clock import house_zone
from station.clock.zones import to_local, to_utc

# Outside these days the arithmetic of dates and zones fails.
FIRST_DAY, LAST_DAY = date(1970, 1, 2), date(2199, 12, 31)


def is_plannable(day: date) -> bool:
    return FIRST_DAY <= day <= LAST_DAY


def day_of(moment: datetime) -> date:
    """The broadcast day of a time: 02:00 still belongs to yesterday."""
    local = to_local(moment, house_zone())
    return (local - timedelta(hours=settings.BROADCAST_DAY_HOUR)).date()


def begin_of(day: date) -> datetime:
    local = datetime.combine(day, time(settings.BROADCAST_DAY_HOUR))
    return to_utc(local, house_zone())


def moment_on(day: date, clock: time) -> datetime:
    """A clock time within a broadcast day. A time before the first hour of the day is after midnight."""
    after_midnight = clock < time(settings.BROADCAST_DAY_HOUR)
    return to_utc(datetime.combine(day + timedelta(days=int(after_midnight)), clock), house_zone())
