"""Pauses that are stored as a time."""

from datetime import datetime, timedelta


def is_pause_over(until: datetime | None, now: datetime, longest_seconds: float) -> bool:
    """Is it over? Also if it would last longer than any such pause: the database's clock was set back (R-23)."""
    return until is None or until <= now or until > now + timedelta(seconds=longest_seconds)
