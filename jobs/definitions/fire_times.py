"""When a job is due: pure functions of its trigger (a fixed interval, or cron in a time zone) and a moment."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal

from station.clock import cron
from station.clock.cron_instants import instants
from station.clock.zones import zone_of

DAY = 86400.0
ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Every:
    """A fixed interval, counted from midnight UTC 1970-01-01, plus a delay."""

    seconds: float
    delay_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.seconds >= 0.1 or not self.delay_seconds >= 0:
            raise ValueError("every: the interval must be at least 0.1 s, and the delay must not be negative")

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Fire times strictly after a moment, in whole microseconds, so that each is always the same instant."""
        step, delay = timedelta(seconds=self.seconds), timedelta(seconds=self.delay_seconds)
        number = (moment - ORIGIN - delay) // step + 1
        while True:
            yield ORIGIN + delay + number * step
            number += 1

    def latest(self, earliest: datetime, moment: datetime) -> datetime:
        """The last fire time not after `moment`. `earliest` must be a fire time."""
        step = timedelta(seconds=self.seconds)
        return max(earliest, _last(self.after(max(earliest, moment - step - step)), moment) or earliest)


@dataclass(frozen=True)
class Cron:
    """Five-field cron in a time zone, with the same instants as a schedule (station/clock/cron_instants)."""

    expression: str
    zone: str

    def __post_init__(self) -> None:
        cron.normalise(self.expression)
        zone_of(self.zone)

    def after(self, moment: datetime) -> Iterator[datetime]:
        return (instant.at for instant in instants(self.expression, self.zone, moment))

    def latest(self, earliest: datetime, moment: datetime) -> datetime:
        """The last fire time not after `moment`. `earliest` must be a fire time. Searches back in growing steps."""
        stride = timedelta(hours=1)
        while moment - stride > earliest:
            found = _last(self.after(moment - stride), moment)
            if found is not None:
                return found
            stride *= 8
        return _last(self.after(earliest), moment) or earliest


When = Every | Cron


@dataclass(frozen=True)
class CatchUp:
    """How missed fire times are caught up: only the latest, or each within a window, oldest first (J-05)."""

    mode: Literal["latest", "every"] = "latest"
    window_seconds: float = DAY
    per_turn: int = 10


def _last(fires: Iterator[datetime], moment: datetime) -> datetime | None:
    last = None
    for fire in fires:
        if fire > moment:
            break
        last = fire
    return last


def first_after(when: When, moment: datetime) -> datetime | None:
    """None if there is no such time."""
    return next(when.after(moment), None)


def between(when: When, earliest: datetime, latest: datetime, limit: int) -> list[datetime]:
    """At most `limit` fire times from `earliest` to `latest`, both included, oldest first."""
    fires = when.after(earliest - timedelta(microseconds=1))
    found = []
    for fire in islice(fires, limit):
        if fire > latest:
            break
        found.append(fire)
    return found
