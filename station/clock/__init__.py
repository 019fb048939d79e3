"""House time: the database's clock for decisions, the house's zone for people; zones, cron expressions, lengths."""

from station.clock.house_time import database_now, house_time, house_zone, is_pretended, pretend, spoken

__all__ = ["database_now", "house_time", "house_zone", "is_pretended", "pretend", "spoken"]
