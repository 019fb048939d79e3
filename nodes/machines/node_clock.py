"""Compares the clocks of nodes with the database's clock, stores the difference and raises an alert (R-23).

A media worker, or the short-lived one that measures the disk, tells what its clock shows. That was at some moment
between our question and its answer, so half of that time is the uncertainty. The database's clock is read the same way.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from nodes.models import Node
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.database.locks import free_rows

# A measurement is stored again after a minute. A vague one does not replace a better one for ten minutes.
STORED_FOR = timedelta(minutes=1)
VAGUE_AFTER = timedelta(minutes=10)


@dataclass(frozen=True)
class Span:
    """From the question to the answer of a call, by our monotonic clock."""

    began: float
    ended: float

    @property
    def middle(self) -> float:
        return (self.began + self.ended) / 2

    @property
    def half_seconds(self) -> float:
        return (self.ended - self.began) / 2


@dataclass(frozen=True)
class StationReading:
    """The database's time, and when it was read."""

    now: datetime
    span: Span

    def at(self, moment: float) -> datetime:
        """The station's time at another moment of our monotonic clock."""
        return self.now + timedelta(seconds=moment - self.span.middle)


@dataclass(frozen=True)
class Offset:
    """How many seconds a clock is ahead of the station's time."""

    seconds: float
    uncertainty_seconds: float

    def is_over(self, limit_seconds: float) -> bool | None:
        """None: the measurement is too vague to tell."""
        if abs(self.seconds) - self.uncertainty_seconds > limit_seconds:
            return True
        return False if abs(self.seconds) + self.uncertainty_seconds <= limit_seconds else None

    def contradicts(self, other: "Offset") -> bool:
        """The clock was changed between the two measurements."""
        return abs(self.seconds - other.seconds) > self.uncertainty_seconds + other.uncertainty_seconds


def read_station_time() -> StationReading:
    began = time.monotonic()
    now = database_now()
    return StationReading(now, Span(began, time.monotonic()))


def offset_of(shown: datetime, call: Span, station: StationReading) -> Offset:
    """The offset of a clock that showed `shown` during the call."""
    ahead = (shown - station.at(call.middle)).total_seconds()
    return Offset(ahead, call.half_seconds + station.span.half_seconds)


def note(node: Node, offset: Offset, now: datetime) -> None:
    """Store the offset if it is news, and raise or resolve the alert."""
    if not is_news(node, offset, now):
        return
    changes = {
        "clock_offset_seconds": offset.seconds,
        "clock_uncertainty_seconds": offset.uncertainty_seconds,
        "clock_measured_at": now,
    }
    with transaction.atomic():
        if not free_rows(Node, [node.pk]):
            return  # somebody has locked the row: the next check stores it
        Node.objects.filter(pk=node.pk).update(**changes)
    for name, value in changes.items():
        setattr(node, name, value)
    is_off = offset.is_over(settings.NODE_CLOCK_ALERT_SECONDS)
    if is_off:
        _alert(node, offset, now)
    elif is_off is False:
        resolve_alert(f"node_clock:{node.pk}", now=now, note="the clock is right again")


def stored_offset(node: Node) -> Offset | None:
    if node.clock_offset_seconds is None or node.clock_uncertainty_seconds is None:
        return None
    return Offset(node.clock_offset_seconds, node.clock_uncertainty_seconds)


def known_offset_seconds(node: Node) -> float:
    """The stored offset; 0 if none is known, or if the clock may as well be right."""
    stored = stored_offset(node)
    return stored.seconds if stored is not None and stored.is_over(0.0) else 0.0


def is_news(node: Node, offset: Offset, now: datetime) -> bool:
    """Most polls bring none. Otherwise every poll of every workload would write to the node's row."""
    stored = stored_offset(node)
    if stored is None or node.clock_measured_at is None or offset.contradicts(stored):
        return True
    is_off = offset.is_over(settings.NODE_CLOCK_ALERT_SECONDS)
    if is_off is not None and is_off != stored.is_over(settings.NODE_CLOCK_ALERT_SECONDS):
        return True
    kept_for = VAGUE_AFTER if offset.uncertainty_seconds > stored.uncertainty_seconds else STORED_FOR
    return not timedelta(0) <= now - node.clock_measured_at < kept_for


def _alert(node: Node, offset: Offset, now: datetime) -> None:
    direction = "ahead of" if offset.seconds > 0 else "behind"
    raise_alert(
        f"node_clock:{node.pk}",
        f"The clock of node {node.name} is {abs(offset.seconds):.1f} s {direction} the station's time",
        now=now,
        text="Recordings and channels on this node keep the station's time. The machine's own logs and file dates are "
        "wrong. Check its time synchronisation (chronyc tracking, or timedatectl). If all nodes report the same "
        "offset, check the machine of the database.",
        subject=f"node:{node.pk}",
    )
