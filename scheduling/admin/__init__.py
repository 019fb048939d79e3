"""Admin pages of recorders, schedules, bookings and calendar links."""

from scheduling.admin.bookings import BookingAdmin
from scheduling.admin.feeds import CalendarFeedAdmin
from scheduling.admin.recorders import RecorderAdmin
from scheduling.admin.schedules import ScheduleAdmin

__all__ = ["BookingAdmin", "CalendarFeedAdmin", "RecorderAdmin", "ScheduleAdmin"]
