"""Jobs and their cursors, the processes that declare them, the runs."""

from jobs.models.job import Job, JobCursor
from jobs.models.process import JobWorker, Process, Scheduler
from jobs.models.run import Run, RunEvent

__all__ = ["Job", "JobCursor", "JobWorker", "Process", "Run", "RunEvent", "Scheduler"]
