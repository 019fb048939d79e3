"""The leader's step that makes runs from job schedules, a few seconds ahead, so that they start exactly on time.

Its cost depends on what is due, not on what is stored. A cursor advances by compare-and-set in the transaction that
makes the runs (J-24), and a run's job, scope and planned time are unique, so that planning twice makes one run.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from jobs.definitions import fire_times, registration
from jobs.models import Job, JobCursor, Run
from jobs.runs import declarations, process_records
from jobs.runs.queue import Order, insert
from station.leader_term import Term

logger = logging.getLogger(__name__)

CHUNK = 2000
GROUPS_PER_TURN = 50
FIRES_AHEAD = 200
DUE_SQL = f"""
    SELECT min((SELECT min(c.next_at) FROM jobs_jobcursor c WHERE c.job_id = j.id AND c.is_active))
           - interval '{settings.JOB_PLAN_AHEAD_SECONDS} s'
    FROM jobs_job j WHERE j.is_declared AND NOT j.is_paused AND j.is_plannable"""  # noqa: S608
ADVANCE = """
    WITH due AS MATERIALIZED (
        SELECT id FROM jobs_jobcursor
        WHERE job_id = %(job)s AND next_at = %(old)s AND is_active
        ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
    UPDATE jobs_jobcursor c SET next_at = COALESCE(%(new)s::timestamptz, c.next_at),
        is_active = %(new)s::timestamptz IS NOT NULL
    FROM due WHERE c.id = due.id RETURNING c.scope"""


def step(term: Term, now: datetime) -> datetime | None:
    """Make the runs that are due within the next seconds. Returns when the next ones have to be made."""
    synced = term.memory(declarations.Synced)
    if synced.is_due:  # on taking the lead, every minute, and when this process declares another job
        process_records.tell_scheduler(now)
        declarations.sync(now, synced)
    ahead = timedelta(seconds=settings.JOB_PLAN_AHEAD_SECONDS)
    jobs = {job.pk: job for job in Job.objects.planned()}
    active = JobCursor.objects.filter(job__in=jobs, is_active=True).order_by("next_at")
    due = active.filter(next_at__lte=now + ahead).values_list("job_id", "next_at").distinct()
    for job_id, next_at in list(due[:GROUPS_PER_TURN]):
        try:
            plan(jobs[job_id], next_at, now, now + ahead)
        except (OperationalError, InterfaceError):
            raise  # the database is unavailable: not an error of the job
        except Exception as error:  # a job that cannot be planned must not stop the others; it raises an alert
            logger.exception("A job could not be planned. job=%s", jobs[job_id].name)
            registration.note_trouble(jobs[job_id], error, now, is_plannable=False)
    first = active.filter(job__is_plannable=True).values_list("next_at", flat=True).first()
    wait = timedelta(seconds=1.0 if synced.is_due else declarations.SYNC_SECONDS)
    return min(now + wait, first - ahead) if first else now + wait


def plan(job: Job, next_at: datetime, now: datetime, horizon: datetime) -> int:
    """Make the runs of all scopes of one job whose cursor is at `next_at`. Returns how many were made."""
    when = job.when
    if when is None:
        return 0
    fires, following = choose(when, job.catch_up, next_at, now, horizon)
    made = 0
    while True:
        with transaction.atomic():
            # The lock keeps the job from being paused between this check and the insert.
            if not Job.objects.select_for_update(no_key=True).filter(pk=job.pk, is_paused=False).exists():
                return made
            scopes = _advance(job, next_at, following)
            orders = [Order(scope=scope, planned_at=fire, run_at=fire) for scope in scopes for fire in fires]
            if orders:
                made += len(insert(job.name, orders, trigger=Run.Trigger.PLAN, now=now, by="planner"))
        if len(scopes) < CHUNK:
            return made


def _advance(job: Job, old: datetime, new: datetime | None) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(ADVANCE, {"job": job.pk, "old": old, "new": new, "limit": CHUNK})
        return [row[0] for row in cursor.fetchall()]


def choose(
    when: fire_times.When, catch_up: fire_times.CatchUp, next_at: datetime, now: datetime, horizon: datetime
) -> tuple[list[datetime], datetime | None]:
    """The fire times up to the horizon to make runs for, and the cursor's next position (J-05)."""
    fires: list[datetime] = []
    last = next_at - timedelta(microseconds=1)
    if next_at <= now and catch_up.mode == "latest":
        fires = [when.latest(next_at, now)]
        last = fires[-1]
    elif next_at <= now:
        earliest = max(next_at, now - timedelta(seconds=catch_up.window_seconds))
        fires = fire_times.between(when, earliest, now, catch_up.per_turn)
        last = fires[-1] if fires else now
        if len(fires) == catch_up.per_turn:
            return fires, fire_times.first_after(when, last)
    ahead = fire_times.between(when, last + timedelta(microseconds=1), horizon, FIRES_AHEAD)
    last = ahead[-1] if ahead else last
    return [*fires, *ahead], fire_times.first_after(when, last)
