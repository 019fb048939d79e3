"""Recorders, schedules and bookings; jobs, their runs and workers; who leads; calendar links."""

from scheduling.models.booking import Booking, BookingEvent
from scheduling.models.feed import CalendarFeed
from scheduling.models.job import Job, JobCursor, JobWorker
from scheduling.models.leadership import Leadership
from scheduling.models.recorder import Recorder
from scheduling.models.run import Run, RunEvent
from scheduling.models.schedule import Schedule

__all__ = [
    "Booking",
    "BookingEvent",
    "CalendarFeed",
    "Job",
    "JobCursor",
    "JobWorker",
    "Leadership",
    "Recorder",
    "Run",
    "RunEvent",
    "Schedule",
]
