"""The job that deletes old finished runs and the records of ended processes (J-22)."""

from datetime import timedelta
from typing import Any

from jobs.definitions.job_decorator import MINOR, Keep, every, job, registry
from jobs.definitions.run_context import RunContext
from jobs.models import Job, JobWorker, Run, Scheduler
from station.clock import database_now

State = Run.State
BATCH = 1000
PROCESSES_KEPT = timedelta(days=14)


@job("runs.retention", when=every(3600, delay_seconds=90), timeout_seconds=600, keep=MINOR)
def delete_old_runs(run: RunContext) -> dict[str, Any]:
    """Delete old finished runs and the records of ended processes, in small batches."""
    deleted = {}
    jobs = list(Job.objects.all())
    for number, row in enumerate(jobs):
        spec = registry.get(row.name)
        count = delete_finished(row, spec.keep if spec else Keep(), run)
        if count:
            deleted[row.name] = count
        run.report(100 * (number + 1) / len(jobs), f"{row.name}: {count} deleted")
    old = database_now() - PROCESSES_KEPT
    JobWorker.objects.filter(ended_at__lt=old).delete()
    Scheduler.objects.filter(heartbeat_at__lt=old).delete()
    return deleted


def delete_finished(row: Job, keep: Keep, run: RunContext | None = None) -> int:
    """J-22: by age, with separate limits for succeeded and failed runs, at most 1,000 rows per statement."""
    now, count = database_now(), 0
    for states, seconds in (
        ([State.SUCCEEDED], keep.succeeded_seconds),
        ([State.FAILED, State.CANCELLED], keep.failed_seconds),
    ):
        old = row.runs.filter(state__in=states, finished_at__lt=now - timedelta(seconds=seconds))
        while pks := list(old.order_by("finished_at").values_list("pk", flat=True)[:BATCH]):
            if run is not None:
                run.check()
            count += len(pks)
            Run.objects.filter(pk__in=pks, state__in=states).delete()
    return count
