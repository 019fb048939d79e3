"""The leader's step that rescues runs: expired leases, exceeded hard limits, dead job workers.

A dead job worker on this machine is recognised by its process, and its runs are rescued at once. One on another machine
is considered dead when its leases expire. A reentrant run goes on at once and keeps its attempts (J-28), others fail
(J-07). A run whose job worker dies three times in a row is poison and is not tried again (J-15).
"""

import logging
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction

from jobs.definitions.job_decorator import registry
from jobs.models import Job, JobWorker, Run
from jobs.runs import process_records, promotion
from jobs.runs.finishing import ORPHANED_UNTIL_POISON, Failure, write_verdict
from jobs.runs.untaken import tell_of_untaken_runs
from station.alerts import raise_alert
from station.database.locks import free_rows
from station.database.notify import wake_workers
from station.leader_term import Term
from station.models.alert import Severity

logger = logging.getLogger(__name__)

State, Fault = Run.State, Run.Fault
PER_PASS = 500
# A pass every second while runs are running, otherwise this often.
LOOK = timedelta(seconds=1)
IDLE = timedelta(seconds=30)
# A live job worker renews its leases within this time after the database is back.
PATIENCE_SECONDS = 6.0
# A pass that comes this much later than planned, or a clock that jumps this far.
LATE_SECONDS = 3.0
TELL_SECONDS = 10.0
# One heartbeat renews the job worker's record and its leases. If only the record is newer, the job worker lives.
LATE_BEAT = timedelta(seconds=1)
WHY = {
    Fault.WORKER_CRASHED: "the job worker died, or was cut off, during the run",
    Fault.STALE_TIMEOUT: "the job worker stopped responding, or did not end the run in time",
    Fault.POISON: "the job worker died three times in a row during this run; it is not tried again",
}
# Due at once while a run is running or queued; 2 s after a waiting run should have been promoted; 90 s after a job
# worker's last heartbeat. One subquery per state: for two states at once PostgreSQL would read all rows of both.
DUE_SQL = f"""SELECT LEAST(
    CASE WHEN EXISTS (SELECT FROM jobs_run WHERE state = '{State.RUNNING}')
           OR (SELECT min(run_at) FROM jobs_run WHERE state = '{State.QUEUED}') IS NOT NULL THEN clock_timestamp() END,
    (SELECT min(run_at) FROM jobs_run WHERE state = '{State.SCHEDULED}') + interval '2 s',
    (SELECT min(run_at) FROM jobs_run WHERE state = '{State.RETRY}') + interval '2 s',
    (SELECT min(heartbeat_at) FROM jobs_jobworker WHERE ended_at IS NULL) + interval '90 s')"""  # noqa: S608  (our own states)


def step(term: Term, now: datetime) -> datetime | None:
    """Record dead job workers, rescue their runs, and promote runs that no job worker promoted."""
    patience = term.memory(Patience)
    is_patient = patience.holds(now)
    rescued = bury(now, by_silence=not is_patient)
    rescued += 0 if is_patient else rescue_stale(now)
    if Run.objects.waiting(now - timedelta(seconds=2)).exists():
        rescued += promotion.promote(now, now, latest_only())
    if rescued:
        wake_workers()
    if patience.may_tell():
        tell_of_untaken_runs(now)
    wait = _wait()
    patience.promise(wait)
    return None if wait is None else now + wait


def _wait() -> timedelta | None:
    """How long until the next pass is needed."""
    if Run.objects.filter(state=State.RUNNING).exists():
        return LOOK
    is_anything_waiting = Run.objects.filter(state__in=[State.QUEUED, *Run.WAITING]).exists()
    return IDLE if is_anything_waiting or JobWorker.objects.filter(ended_at=None).exists() else None


class Patience:
    """After an outage of the database, or a change of its clock, leases have expired without a dead job worker.

    A pass that comes late is the sign of it. Every job worker then gets time for a heartbeat; only those proven dead
    are given up at once.
    """

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None
        self._promised = float("-inf")
        self._until = 0.0
        self._told = float("-inf")

    def holds(self, now: datetime) -> bool:
        moment = time.monotonic()
        before, self._last = self._last, (now, moment)
        is_late = moment > self._promised + LATE_SECONDS
        is_set = before is not None and abs((now - before[0]).total_seconds() - (moment - before[1])) > LATE_SECONDS
        if is_late or is_set:
            self._until = moment + PATIENCE_SECONDS
        return moment < self._until

    def promise(self, wait: timedelta | None) -> None:
        self._promised = float("inf") if wait is None else time.monotonic() + wait.total_seconds()

    def may_tell(self) -> bool:
        """The alerts need not be checked in every pass."""
        is_due = time.monotonic() - self._told >= TELL_SECONDS
        if is_due:
            self._told = time.monotonic()
        return is_due


def latest_only() -> list[int]:
    """Ids of the jobs that catch up only the latest planned run."""
    planned = Job.objects.exclude(trigger=Job.Trigger.QUEUE)
    return list(planned.filter(catch_up_mode="latest").values_list("pk", flat=True))


def bury(now: datetime, *, by_silence: bool = True) -> int:
    """Record job workers that are dead: by their process on this machine, otherwise by their missing heartbeat.

    Runs of a proven dead one are rescued at once; those of a silent one when their leases expire.
    """
    count = 0
    for worker in JobWorker.objects.filter(ended_at=None):
        is_proven = process_records.is_dead_here(worker)
        is_dead = is_proven or (by_silence and now - worker.heartbeat_at > process_records.WORKER_SILENCE)
        if not is_dead or not _bury_one(worker, now):
            continue
        count += 1
        for run in Run.objects.filter(state=State.RUNNING, worker_ref=worker.pk) if is_proven else []:
            orphan(run, Fault.WORKER_CRASHED, now)
    return count


def _bury_one(worker: JobWorker, now: datetime) -> bool:
    with transaction.atomic():
        free = free_rows(JobWorker, [worker.pk])
        rows = JobWorker.objects.filter(pk__in=free, ended_at=None, heartbeat_at=worker.heartbeat_at)
        if not rows.update(ended_at=now, ending=JobWorker.Ending.CRASHED):
            return False
    logger.error("A job worker died. worker=%s", worker.name)
    raise_alert(
        f"job_worker:{worker.place}",
        f"Job worker {worker.name} died",
        now=now,
        severity=Severity.WARNING,
        text="Its runs are tried again where that is safe. See Runs, error code worker_crashed.",
        subject=f"jobworker:{worker.pk}",
    )
    return True


def rescue_stale(now: datetime) -> int:
    """J-12, J-13: rescue runs whose lease has expired or is unreadable, or that exceed the hard limit; oldest first."""
    count = 0
    for run in Run.objects.stale(now).select_related("job")[:PER_PASS]:
        worker = JobWorker.objects.filter(pk=run.worker_ref or 0).first()
        count += orphan(run, Fault.STALE_TIMEOUT if _is_responsible(run, worker) else Fault.WORKER_CRASHED, now)
    return count


def _is_responsible(run: Run, worker: JobWorker | None) -> bool:
    """The job worker lives and lost the run by itself: its process runs here, or it still sends heartbeats."""
    if worker is None or worker.ended_at is not None or process_records.is_dead_here(worker):
        return False
    if process_records.is_here(worker) or run.heartbeat_at is None:
        return True
    return worker.heartbeat_at - run.heartbeat_at > LATE_BEAT


def orphan(run: Run, code: str, now: datetime) -> bool:
    """Take one run away from its job worker. A run that cannot be rescued must not stop the others."""
    times = run.orphaned_times + 1 if code == Fault.WORKER_CRASHED else 0
    if times >= ORPHANED_UNTIL_POISON:
        code = Fault.POISON
    spec = registry.get(run.job.name)
    backoff = spec.backoff(run.attempt) if spec else timedelta(seconds=settings.JOB_PLAN_AHEAD_SECONDS)
    if times == 1:
        backoff = timedelta(0)  # most probably the run has nothing to do with the crash
    failure = Failure(code, WHY[Fault(code)] + (f" ({run.worker_name})" if run.worker_name else ""))
    # Only if the claim is still the same; a heartbeat that arrives now saves the run.
    guard = "leased_until_at = %(lease)s::timestamptz" if run.leased_until_at else "leased_until_at IS NULL"
    try:
        with transaction.atomic():
            to = write_verdict(
                run.pk,
                run.token,
                failure,
                run,
                backoff,
                now=now,
                guard=guard,
                lease=run.leased_until_at,
                orphaned_times=times,
                skip_locked=True,  # the leader must not wait for a locked row
            )
            return to is not None
    except (OperationalError, InterfaceError):
        raise  # the database is unavailable: nothing can be rescued
    except Exception:  # the next pass tries this run again
        logger.exception("A run could not be rescued. run=%s", run.pk)
        return False
