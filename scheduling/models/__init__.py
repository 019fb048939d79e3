"""Recorders, schedules and bookings, the leadership row, and calendar links."""

from scheduling.models.booking import Booking, BookingEvent
from scheduling.models.feed import CalendarFeed
from scheduling.models.leadership import Leadership
from scheduling.models.recorder import Recorder
from scheduling.models.schedule import Schedule

__all__ = [
    "Booking",
    "BookingEvent",
    "CalendarFeed",
    "Leadership",
    "Recorder",
    "Schedule",
]
