"""Measures the loop's turns, and notices that the database's clock was set (R-23)."""

import logging
import time
from dataclasses import dataclass
from datetime import datetime

from station.alerts import raise_alert
from station.clock import spoken
from station.models.alert import Severity

logger = logging.getLogger(__name__)

# A difference between the database's clock and the monotonic clock that no delay explains.
JUMP_SECONDS = 1.0
PUBLISH_SECONDS = 15.0
# A turn that takes longer delays what is due meanwhile (P-18).
LONG_TURN_SECONDS = 0.25


class TurnTimes:
    """How long turns take: the worst one since the last report, and how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self.worst_seconds = 0.0
        self._publish_at = time.monotonic()

    def note(self, seconds: float, steps: dict[str, float]) -> None:
        """One turn, with the seconds that each of its steps took."""
        self.count += 1
        self.worst_seconds = max(self.worst_seconds, seconds)
        if seconds > LONG_TURN_SECONDS:
            slowest = " ".join(f"{path}={took:.3f}" for path, took in steps.items() if took > seconds / 10)
            logger.warning("A turn of the loop took long. seconds=%.3f %s", seconds, slowest)

    def take_report(self) -> tuple[int, float] | None:
        """The number of turns and the worst one, once a minute; then a new minute begins."""
        if time.monotonic() < self._publish_at or not self.count:
            return None
        report = self.count, self.worst_seconds
        self.count, self.worst_seconds, self._publish_at = 0, 0.0, time.monotonic() + PUBLISH_SECONDS
        return report


@dataclass(frozen=True)
class Reading:
    """The database's clock, read between two moments of the monotonic clock."""

    now: datetime
    asked: float
    answered: float

    def jump_since(self, before: "Reading") -> float:
        """By how many seconds the database's clock was set between the two readings; 0 if a delay explains it."""
        moved = (self.now - before.now).total_seconds()
        least, most = self.asked - before.answered, self.answered - before.asked
        if moved > most + JUMP_SECONDS:
            return moved - most
        if moved < least - JUMP_SECONDS:
            return moved - least
        return 0.0


def alert_of_jump(seconds: float, now: datetime) -> None:
    raise_alert(
        "database_clock",
        f"The database's clock was set {'forward' if seconds > 0 else 'back'} by {spoken(round(abs(seconds)))}",
        now=now,
        severity=Severity.CRITICAL,
        text="Bookings start and end by this clock. Check the time and the time service (NTP) of the database server, "
        "then the recordings of today. Resolve this alert by hand.",
    )
