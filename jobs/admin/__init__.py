"""Admin pages of jobs, runs and job workers."""

from jobs.admin.jobs import JobAdmin, JobWorkerAdmin
from jobs.admin.runs import RunAdmin

__all__ = ["JobAdmin", "JobWorkerAdmin", "RunAdmin"]
