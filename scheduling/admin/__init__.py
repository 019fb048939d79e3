"""Admin pages of recorders, schedules and bookings; of jobs, runs and workers."""

from scheduling.admin.bookings import BookingAdmin
from scheduling.admin.feeds import CalendarFeedAdmin
from scheduling.admin.jobs import JobAdmin, JobWorkerAdmin
from scheduling.admin.recorders import RecorderAdmin
from scheduling.admin.runs import RunAdmin
from scheduling.admin.schedules import ScheduleAdmin

__all__ = [
    "BookingAdmin",
    "CalendarFeedAdmin",
    "JobAdmin",
    "JobWorkerAdmin",
    "RecorderAdmin",
    "RunAdmin",
    "ScheduleAdmin",
]
