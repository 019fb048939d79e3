"""Figures about jobs and job workers (J-23), for the command line, the pages and /metrics."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery

from jobs.models import Job, JobWorker, Process, Run
from jobs.runs import process_records
from station.clock import database_now

State = Run.State
RECENT = timedelta(days=1)
# A scheduler that stands by sends a heartbeat with each try for the lock (LEADER_LOCK_TRY_SECONDS).
SCHEDULER_SILENT = timedelta(seconds=300)


@dataclass(frozen=True)
class JobFigures:
    name: str
    in_words: str
    is_paused: bool
    is_declared: bool
    plan_error: str
    next_at: datetime | None
    last_state: str
    last_at: datetime | None
    queued: int
    running: int
    # In the last 24 hours. A crash of a job worker is not a failure of the work (J-17).
    failed: int
    worker_crashed: int


@dataclass(frozen=True)
class WorkerFigures:
    name: str
    version: str
    is_alive: bool
    ending: str
    heartbeat_at: datetime
    running: int
    runs_done: int


@dataclass(frozen=True)
class Figures:
    now: datetime
    jobs: list[JobFigures]
    workers: list[WorkerFigures]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def with_figures(jobs: QuerySet[Job]) -> QuerySet[Any]:
    """Annotate jobs with their next and last run. Every subquery uses an index."""
    finished = Run.objects.filter(job=OuterRef("pk"), state__in=Run.OVER).order_by("-finished_at")
    fires = Q(cursors__is_active=True, is_paused=False, is_declared=True, is_plannable=True)
    return jobs.annotate(
        next_at=Min("cursors__next_at", filter=fires),
        last_state=Subquery(finished.values("state")[:1]),
        last_at=Subquery(finished.values("finished_at")[:1]),
        last_code=Subquery(finished.values("error_code")[:1]),
    )


def read_figures() -> Figures:
    now = database_now()
    live = (
        Run.objects.live()
        .values_list("job")
        .annotate(
            queued=Count("pk", filter=~Q(state=State.RUNNING)), running=Count("pk", filter=Q(state=State.RUNNING))
        )
    )
    counts = {job: (queued, running) for job, queued, running in live}
    bad = (
        Run.objects.filter(state=State.FAILED, finished_at__gt=now - RECENT)
        .values_list("job")
        .annotate(
            failed=Count("pk", filter=~Q(error_code__in=Run.WORKER_FAULTS)),
            crashed=Count("pk", filter=Q(error_code__in=Run.WORKER_FAULTS)),
        )
    )
    failures = {job: (failed, crashed) for job, failed, crashed in bad}
    jobs = [
        JobFigures(
            job.name,
            job.in_words,
            job.is_paused,
            job.is_declared,
            job.plan_error,
            job.next_at,
            job.last_state or "",
            job.last_at,
            *counts.get(job.pk, (0, 0)),
            *failures.get(job.pk, (0, 0)),
        )
        for job in with_figures(Job.objects.all())
    ]
    return Figures(now, jobs, read_workers(now))


def read_workers(now: datetime) -> list[WorkerFigures]:
    """Job workers that are running, or that ended within the last 24 hours."""
    rows = JobWorker.objects.filter(Q(ended_at=None) | Q(ended_at__gt=now - RECENT))
    running = dict(
        Run.objects.filter(state=State.RUNNING).values_list("worker_ref").annotate(count=Count("pk")).order_by()
    )
    return [
        WorkerFigures(
            row.name,
            row.version,
            is_alive(row, now),
            row.ending,
            row.heartbeat_at,
            running.get(row.pk, 0),
            row.runs_done,
        )
        for row in rows
    ]


def is_alive(row: Process, now: datetime) -> bool:
    limit = process_records.WORKER_SILENCE if isinstance(row, JobWorker) else SCHEDULER_SILENT
    return row.ended_at is None and now - row.heartbeat_at < limit and not process_records.is_dead_here(row)
