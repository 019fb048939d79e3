"""The database's clock, used for decisions, and house time, shown to people."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection

_pretended: ContextVar[Callable[[], datetime] | None] = ContextVar("pretended_clock", default=None)


@contextlib.contextmanager
def pretend(clock: Callable[[], datetime]) -> Iterator[None]:
    """For a rehearsal: inside this block, in this thread, `database_now` returns the time of `clock`."""
    before = _pretended.set(clock)
    try:
        yield
    finally:
        _pretended.reset(before)


def is_pretended() -> bool:
    return _pretended.get() is not None


def database_now() -> datetime:
    """The current time of the database, the one clock all machines share. Read it once, then pass it on as `now`."""
    pretended = _pretended.get()
    if pretended is not None:
        return pretended()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    assert row is not None
    moment: datetime = row[0]
    return moment


@lru_cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def house_zone() -> ZoneInfo:
    """The station's time zone."""
    return _zone(settings.HOUSE_TIME_ZONE)


def house_time(moment: datetime) -> str:
    """A time in the station's zone: `2026-03-29 20:15:00 CEST`."""
    return moment.astimezone(house_zone()).strftime("%Y-%m-%d %H:%M:%S %Z")


def spoken(seconds: float) -> str:
    """A duration as short text: `4 h 05 min`, `12 min`, `38 s`."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 120:
        return f"{whole // 60} min"
    return f"{whole} s"
