"""Keeps the job rows in step with what live processes declare (J-27).

Old and new code run side by side during an upgrade. The leader writes the jobs of its own code and keeps those that
another process declares. It plans them from their rows; only new scopes of a job have to wait for a leader that has its
code. A job that no process declares any more is retired: its row and history stay, its runs are cancelled.
"""

import logging
import time
from collections.abc import Collection
from datetime import datetime

from django.conf import settings

from jobs.definitions import registration
from jobs.definitions.job_decorator import registry
from jobs.models import Job, JobCursor, Process, Run
from jobs.runs import process_records, queue
from station.alerts import raise_alert, resolve_alert
from station.database.locks import free_rows
from station.models import Alert
from station.models.alert import Severity
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

SYNC_SECONDS = 60.0
BATCH = 500
RETIRED = "the job is no longer in the code"
UNPLANNED = "job_unplanned:"
# An upgrade passes through this state; only if it lasts is it a fault.
UNPLANNED_AFTER_SECONDS = 120.0


class Synced:
    """When this term's leader last synced (monotonic), for which version of its own declarations, and since when it
    lacks the code of a job with scopes."""

    def __init__(self) -> None:
        self.at = float("-inf")
        self.version = -1
        self.lacking: dict[str, float] = {}

    @property
    def is_due(self) -> bool:
        return self.version != registry.version or time.monotonic() - self.at >= SYNC_SECONDS


def sync(now: datetime, synced: Synced | None = None) -> None:
    """Write what is declared, place cursors, retire what no live process declares. Cheap if nothing changed."""
    synced = synced or Synced()
    version = registry.version
    rows = {job.name: job for job in Job.objects.all()}
    for spec in list(registry.jobs.values()):
        row = rows.get(spec.name)
        if row is None or registration.changes(row, spec):
            rows[spec.name] = registration.upsert(spec)
    declarers = process_records.declarers(now - settings.JOB_RETIRE_AFTER)
    _mark([row for row in rows.values() if row.name not in registry.jobs], declarers.keys())
    has_more = _cancel_retired([row.pk for row in rows.values() if not row.is_declared], now)
    planned = [row for row in rows.values() if row.is_declared and row.trigger != Job.Trigger.QUEUE]
    _place(planned, now)
    _tell_of_unplanned(planned, declarers, synced, now)
    if not has_more:
        synced.at, synced.version = time.monotonic(), version


def _mark(others: list[Job], declared: Collection[str]) -> None:
    """Retire the jobs that nobody declares; take back those that somebody declares again."""
    for is_declared in (True, False):
        changed = [row for row in others if row.is_declared != is_declared and (row.name in declared) == is_declared]
        free = free_rows(Job, [row.pk for row in changed]) if changed else set()
        Job.objects.filter(pk__in=free).update(is_declared=is_declared)
        for row in changed:
            if row.pk in free:
                row.is_declared = is_declared
                words = "A live process declares a job again." if is_declared else "No live process declares a job."
                logger.info("%s job=%s", words, row.name)


def _cancel_retired(jobs: list[int], now: datetime) -> bool:
    """Cancel waiting runs of retired jobs in bounded batches, and ask running ones to stop. True if there are more."""
    if not jobs:
        return False
    has_more = False
    for state in (Run.State.SCHEDULED, Run.State.QUEUED, Run.State.RETRY):
        # Not what was queued a moment ago: a newer web process may know the job, and its job workers come next.
        old = Run.objects.filter(job__in=jobs, state=state, created_at__lt=now - settings.JOB_RETIRE_AFTER)
        pks = list(old.values_list("pk", flat=True)[:BATCH])
        if pks:
            queue.cancel_waiting(pks, state, RETIRED, now=now, skip_locked=True)
            has_more |= len(pks) == BATCH
    for run in Run.objects.filter(job__in=jobs, state=Run.State.RUNNING, cancel_requested_at=None)[:BATCH]:
        queue.cancel(run, by=SCHEDULER, reason=RETIRED)
    return has_more


def _place(planned: list[Job], now: datetime) -> None:
    """Read scopes again and try jobs with an error again; others need a cursor only once."""
    has_cursor = set(JobCursor.objects.filter(is_active=True).values_list("job_id", flat=True).distinct())
    for job in planned:
        if job.pk not in has_cursor or job.plan_error or (job.has_scopes and not job.is_paused):
            registration.place(job, now)


def _tell_of_unplanned(planned: list[Job], declarers: dict[str, list[Process]], synced: Synced, now: datetime) -> None:
    """Alert if this leader lacks the code that finds the scopes of a job which other processes declare."""
    moment = time.monotonic()
    lacking = {
        job.name: job for job in planned if job.has_scopes and not job.is_paused and job.name not in registry.jobs
    }
    synced.lacking = {name: synced.lacking.get(name, moment) for name in lacking}
    due = [name for name, since in synced.lacking.items() if moment - since >= UNPLANNED_AFTER_SECONDS]
    for name in due:
        who = ", ".join(f"{each.name} ({each.version})" for each in declarers.get(name, [])[:5])
        raise_alert(
            UNPLANNED + name,
            f"The leading scheduler lacks the code of the job {name}",
            now=now,
            severity=Severity.WARNING,
            text=f"Its known scopes continue; new ones do not start. It is declared by {who}. Upgrade the schedulers.",
            subject=f"job:{lacking[name].pk}",
        )
    resolve_others(UNPLANNED, due, now=now, note="the leader has its code, or nobody declares it")


def resolve_others(prefix: str, names: Collection[str], *, now: datetime, note: str) -> None:
    """Resolve the alerts of this kind that are not about one of these names."""
    unresolved = Alert.objects.filter(key__startswith=prefix).exclude(state=Alert.State.RESOLVED)
    for key in unresolved.values_list("key", flat=True):
        if key.removeprefix(prefix) not in names:
            resolve_alert(key, now=now, note=note)
