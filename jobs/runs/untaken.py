"""Alerts when runs wait and no live job worker can take them: otherwise the work would silently not happen (J-27)."""

from collections.abc import Collection
from datetime import datetime, timedelta

from jobs.models import Job, JobWorker, Run
from jobs.runs.declarations import resolve_others
from jobs.runs.process_records import live_workers
from station.alerts import raise_alert, resolve_alert
from station.models.alert import Severity

State = Run.State
WAITED = timedelta(seconds=60)
NO_WORKER = "no_job_worker"
UNTAKEN = "job_untaken:"
# Jobs with a run that should have begun by now. One probe of an index per job, however many runs are queued.
LATE = f"""SELECT j.* FROM jobs_job j WHERE NOT j.is_paused AND EXISTS (
    SELECT FROM jobs_run r WHERE r.job_id = j.id AND r.state = '{State.QUEUED}' AND r.run_at < %s)"""  # noqa: S608


def tell_of_untaken_runs(now: datetime) -> None:
    """One alert if no job worker runs at all; otherwise one for each job that none of them takes."""
    late = list(Job.objects.raw(LATE, [now - WAITED]))
    workers = live_workers(now)
    if workers:
        resolve_alert(NO_WORKER, now=now, note="a job worker is running")
    elif late:
        _tell_of_nobody(now)
        return
    untaken = {job.name: count for job in late if (count := _count_untaken(job, workers, now))}
    there = "; ".join(_describe(worker) for worker in workers[:5])
    for name, count in untaken.items():
        raise_alert(
            UNTAKEN + name,
            f"No job worker takes runs of {name}",
            now=now,
            severity=Severity.WARNING,
            text=f"{count} are waiting. Start a job worker that has the job in its code and in --jobs. "
            f"Running now: {there}",
        )
    resolve_others(UNTAKEN, untaken, now=now, note="a job worker takes them, or none is waiting")


def _count_untaken(job: Job, workers: Collection[JobWorker], now: datetime) -> int:
    """Waiting runs that no job worker takes: not its job, or a payload that its code cannot read."""
    readers = {worker.declares[job.name] for worker in workers if worker.takes(job.name)}
    late = Run.objects.filter(job=job, state=State.QUEUED, run_at__lt=now - WAITED)
    if len(readers) == 1:
        late = late.filter(unreadable_by__in=readers)
    elif readers:
        return 0  # whichever cannot read it, another one can
    return late.count()


def _tell_of_nobody(now: datetime) -> None:
    count = Run.objects.filter(state=State.QUEUED, run_at__lt=now - WAITED, job__is_paused=False).count()
    raise_alert(
        NO_WORKER,
        "No job worker is running, and runs are waiting",
        now=now,
        severity=Severity.CRITICAL,
        text=f"{count} runs are waiting. Start a job worker: manage.py runworker",
    )


def _describe(worker: JobWorker) -> str:
    only = f", only {', '.join(worker.only_jobs)}" if worker.only_jobs else ""
    return f"{worker.name} ({worker.version}{only})"
