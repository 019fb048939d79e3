"""Admin pages of recorders, schedules and bookings."""

from scheduling.admin.bookings import BookingAdmin
from scheduling.admin.feeds import CalendarFeedAdmin
from scheduling.admin.recorders import RecorderAdmin
from scheduling.admin.schedules import ScheduleAdmin

__all__ = ["BookingAdmin", "CalendarFeedAdmin", "RecorderAdmin", "ScheduleAdmin"]
