"""Time: the database's clock for decisions, house time for display, time zones, cron expressions, durations."""

from station.clock.house_time import database_now, house_time, house_zone, is_pretended, pretend, spoken
from station.clock.pauses import is_pause_over

__all__ = ["database_now", "house_time", "house_zone", "is_pause_over", "is_pretended", "pretend", "spoken"]
