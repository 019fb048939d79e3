"""Admin pages of jobs, runs, job workers and schedulers."""

from jobs.admin.jobs import JobAdmin
from jobs.admin.processes import JobWorkerAdmin, SchedulerAdmin
from jobs.admin.runs import RunAdmin

__all__ = ["JobAdmin", "JobWorkerAdmin", "RunAdmin", "SchedulerAdmin"]
