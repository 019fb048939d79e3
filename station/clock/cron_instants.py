"""When a cron expression is due in a time zone: one answer for schedules and for jobs.

On the days of a clock change it does what cron does. A rule with chosen hours (`30 2 * * *`) is due once: at the first
pass of a repeated time, at the moment of the change instead of a skipped time. A rule for every hour (`30 * * * *`)
runs in real time: in both passes of a repeated hour, and not at times that the clock skips.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from station.clock import cron
from station.clock.zones import second_pass, to_local, to_utc, zone_of

# No clock goes back by more than this.
MOST_BACK = timedelta(hours=4)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Instant:
    """`at` in UTC, and the naive local time that it is due for. `is_second`: in the second pass of a repeated hour."""

    at: datetime
    local: datetime
    is_second: bool = False


def instants(expression: str, zone: str, after: datetime) -> Iterator[Instant]:
    """The instants strictly after `after`, each later than the one before. Ends when there are no more."""
    found = _in_real_time(expression, zone, after) if cron.is_every_hour(expression) else _once(expression, zone, after)
    return (instant for instant in found if instant.at > after)


def _once(expression: str, name: str, after: datetime) -> Iterator[Instant]:
    zone = zone_of(name)
    skipped: Instant | None = None
    # No earlier local time can give an instant after `after`: `to_utc` never goes backwards.
    for local in cron.local_times(expression, to_local(after, zone) - SECOND):
        instant = Instant(to_utc(local, zone), local)
        if skipped is not None and skipped.at < instant.at:
            yield skipped
        # Of several times that become one instant, the last counts: it may be one that the clock shows.
        is_skipped = to_local(instant.at, zone) != local
        skipped = instant if is_skipped else None
        if not is_skipped:
            yield instant
    if skipped is not None:
        yield skipped


def _in_real_time(expression: str, name: str, after: datetime) -> Iterator[Instant]:
    zone = zone_of(name)
    # If the clock goes back soon, the times of the second pass are earlier on the clock than now.
    begin = min(to_local(after, zone), to_local(after + MOST_BACK, zone) - MOST_BACK)
    waiting: list[tuple[datetime, datetime, bool]] = []
    for local in cron.local_times(expression, begin - SECOND):
        first = to_utc(local, zone)
        while waiting and waiting[0][0] <= first:
            yield Instant(*heapq.heappop(waiting))
        if to_local(first, zone) != local:
            continue  # the clock skips it
        yield Instant(first, local)
        if (second := second_pass(local, zone)) is not None:
            heapq.heappush(waiting, (second, local, True))
    while waiting:
        yield Instant(*heapq.heappop(waiting))
