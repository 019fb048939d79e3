"""Jobs and their cursors, the job workers, the runs."""

from jobs.models.job import Job, JobCursor, JobWorker
from jobs.models.run import Run, RunEvent

__all__ = ["Job", "JobCursor", "JobWorker", "Run", "RunEvent"]
