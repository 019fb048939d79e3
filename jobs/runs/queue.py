"""Creates runs (queued, by hand, backfill), cancels them and retries them.

Every function is one statement or one transaction on the caller's connection, so that a run is queued only if the
caller's transaction commits. NOTIFY wakes the job workers on commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from psycopg.types.json import Jsonb

from jobs.definitions import fire_times
from jobs.definitions.job_decorator import JobSpec, registry
from jobs.definitions.payloads import dump
from jobs.definitions.registration import row_of
from jobs.models import Job, Run
from station.actions import Refusal
from station.clock import database_now, is_pretended
from station.database.notify import RUNS_CHANNEL, wake_workers

State = Run.State
CANCEL = "cancel"
BY_HAND_PRIORITY = 100
BACKFILL_PRIORITY = -100
BACKFILL_LIMIT = 1000


class NotQueued(Refusal):
    """The run cannot be queued; the text says why."""


class UnknownJob(NotQueued):
    """No such job is declared in this process."""


class AlreadyRunning(NotQueued):
    """An exclusive job is already running or queued by hand."""


@dataclass(frozen=True)
class Order:
    """One run to be made."""

    scope: str = ""
    payload: Any = None
    run_at: datetime | None = None
    planned_at: datetime | None = None
    key: str = ""
    owner: str = ""
    project_id: int | None = None


# Scopes take turns: a new run goes behind the last run of its scope, but never ahead of the current turn.
TURN = f"""1 + GREATEST(
    COALESCE((SELECT max(turn) FROM jobs_run q
              WHERE q.job_id = %(job)s AND q.scope = s.scope AND q.state = '{State.QUEUED}'), 0),
    COALESCE((SELECT turn FROM jobs_run q
              WHERE q.job_id = %(job)s AND q.priority = %(priority)s::smallint AND q.state = '{State.QUEUED}'
              ORDER BY q.turn LIMIT 1), 1) - 1)"""  # noqa: S608  (our own states)
INSERT = f"""
    WITH orders AS (
        SELECT * FROM unnest(%(scopes)s::text[], %(payloads)s::jsonb[], %(run_ats)s::timestamptz[],
                             %(planned_ats)s::timestamptz[], %(keys)s::text[], %(owners)s::text[],
                             %(projects)s::bigint[])
        WITH ORDINALITY AS o (scope, payload, run_at, planned_at, key, owner, project_id, number)),
    bases AS MATERIALIZED (
        SELECT scope, {TURN} AS turn
        FROM (SELECT DISTINCT scope FROM orders) AS s),
    made AS (
        INSERT INTO jobs_run (job_id, scope, payload, run_at, planned_at, key, owner, project_id, trigger,
            priority, turn, state, state_since_at, created_at, requested_by, is_exclusive, is_reentrant,
            attempts_allowed, attempt, attempts_forgiven, worker_name, orphaned_times, cancel_reason,
            progress_text, error_code, error, unreadable_by, errors)
        SELECT %(job)s, o.scope, o.payload, o.run_at, o.planned_at, o.key, o.owner, o.project_id, %(trigger)s,
            %(priority)s, b.turn + row_number() OVER (PARTITION BY o.scope ORDER BY o.number) - 1,
            CASE WHEN o.run_at <= %(now)s THEN '{State.QUEUED}' ELSE '{State.SCHEDULED}' END, %(now)s, %(now)s, %(by)s,
            %(exclusive)s, %(reentrant)s, %(attempts)s, 0, 0, '', 0, '', '', '', '', '', '[]'
        FROM orders o JOIN bases b USING (scope) ORDER BY o.number
        ON CONFLICT DO NOTHING
        RETURNING id, state),
    noted AS (
        INSERT INTO jobs_runevent (subject_id, at, old, new, by, note, detail)
        SELECT id, %(now)s, '', state, %(by)s, %(note)s, '{{}}' FROM made WHERE %(note)s <> '')
    SELECT id, CASE WHEN %(is_soon)s AND row_number() OVER () = 1 THEN pg_notify('{RUNS_CHANNEL}', '') END
    FROM made ORDER BY id"""  # noqa: S608  (our own tables)


def spec_of(name: str) -> JobSpec:
    spec = registry.get(name)
    if spec is None:
        raise UnknownJob(f"There is no job called {name}.")
    return spec


def job_row(name: str) -> Job:
    """The row of a declared job; created if it does not exist yet."""
    return row_of(spec_of(name))


def enqueue(  # noqa: PLR0913  one keyword for each column a caller may set
    name: str,
    payload: Any = None,
    *,
    scope: str = "",
    priority: int = 0,
    run_at: datetime | None = None,
    key: str = "",
    owner: str = "",
    project_id: int | None = None,
    by: str = "",
) -> Run:
    """Queue one run. With a key: while a run with that key is live, that run is returned instead.

    Raises UnknownJob or BadPayload; nothing is stored then.
    """
    order = Order(scope, payload, run_at, None, key, owner, project_id)
    for _ in range(5):
        made = enqueue_many(name, [order], priority=priority, by=by)
        run = Run.objects.filter(pk=made[0]).first() if made else None
        run = run or (Run.objects.live().filter(job__name=name, key=key).first() if key else None)
        if run is not None:
            return run  # the new run, or the live one; if that one has just ended, the loop tries again
    raise NotQueued(f"{name} could not be queued: runs with the key {key} keep starting and ending. Try again.")


def enqueue_many(name: str, orders: Sequence[Order], *, priority: int = 0, by: str = "") -> list[int]:
    """Queue many runs of one job in one statement. Returns the ids of the new runs."""
    spec_of(name)
    return insert(name, orders, trigger=Run.Trigger.QUEUE, priority=priority, by=by)


def insert(
    name: str,
    orders: Sequence[Order],
    *,
    trigger: str,
    priority: int = 0,
    by: str = "",
    note: str = "",
    now: datetime | None = None,
) -> list[int]:
    """The only function that creates runs. Orders whose planned time or key already has a run are left out."""
    spec = registry.get(name)
    job = Job.objects.filter(name=name).first() or row_of(spec_of(name))
    rules = spec or job  # the planner makes runs of jobs that only other processes have in their code
    payloads = [dump(order.payload, spec.payload if spec else None) for order in orders]
    now = now or database_now()
    soon = now + timedelta(seconds=settings.JOB_WORKER_TICK_SECONDS + 5)
    values: dict[str, Any] = {
        "is_soon": not is_pretended() and any(order.run_at is None or order.run_at <= soon for order in orders),
        "job": job.pk,
        "scopes": [order.scope for order in orders],
        "payloads": [None if payload is None else Jsonb(payload) for payload in payloads],
        "run_ats": [order.run_at or now for order in orders],
        "planned_ats": [order.planned_at for order in orders],
        "keys": [order.key for order in orders],
        "owners": [order.owner for order in orders],
        "projects": [order.project_id for order in orders],
        "trigger": trigger,
        "priority": priority,
        "now": now,
        "by": by,
        "note": note,
        "exclusive": rules.is_exclusive,
        "reentrant": rules.is_reentrant,
        "attempts": rules.attempts,
    }
    with connection.cursor() as cursor:
        cursor.execute(INSERT, values)
        return [row[0] for row in cursor.fetchall()]


def run_by_hand(name: str, *, scope: str = "", payload: Any = None, by: str, project_id: int | None = None) -> Run:
    """J-19: run now, even while paused; refused while another run is active. The schedule does not change."""
    job = job_row(name)
    if scope and spec_of(name).when and not job.cursors.filter(scope=scope, is_active=True).exists():
        raise NotQueued(f"{job} has no scope called {scope}.")
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        there = Run.objects.filter(job=job, scope=scope).filter(
            Q(state=State.RUNNING) | Q(state=State.QUEUED, trigger=Run.Trigger.MANUAL)
        )
        if registry.jobs[name].is_exclusive and (other := there.first()) is not None:
            raise AlreadyRunning(f"{job} is already {other.state_word} (run {other.pk}).")
        order = Order(scope=scope, payload=payload, project_id=project_id)
        made = insert(name, [order], trigger=Run.Trigger.MANUAL, priority=BY_HAND_PRIORITY, by=by, note="by hand")
    return Run.objects.get(pk=made[0])


def backfill_moments(job: Job, scope: str, first: datetime, last: datetime) -> list[datetime]:
    """The planned times in this period that have no run yet, oldest first. Raises NotQueued if there are too many."""
    when = job.when
    if when is None:
        raise NotQueued(f"{job} has no schedule, so there is nothing to fill in.")
    if last <= first:
        raise NotQueued("The period must end after it starts.")
    moments = fire_times.between(when, first, min(last, database_now()), BACKFILL_LIMIT + 1)
    if len(moments) > BACKFILL_LIMIT:
        raise NotQueued(f"This period has more than {BACKFILL_LIMIT} runs. Choose a shorter period.")
    there = Run.objects.filter(job=job, scope=scope, planned_at__in=moments).values_list("planned_at", flat=True)
    return sorted(set(moments) - set(there))


def backfill(job: Job, scope: str, first: datetime, last: datetime, *, by: str) -> list[int]:
    """J-05: queue missing runs at the lowest priority. Repeating it adds nothing. Returns their ids."""
    spec_of(job.name)
    orders = [Order(scope=scope, planned_at=moment) for moment in backfill_moments(job, scope, first, last)]
    if not orders:
        return []
    return insert(
        job.name, orders, trigger=Run.Trigger.BACKFILL, priority=BACKFILL_PRIORITY, by=by, note="filled in by hand"
    )


def cancel(run: Run, *, by: str, reason: str = "") -> bool:
    """A waiting run never starts; a running one is asked to stop. False if the run is over."""
    now, reason = database_now(), reason[:200] or f"cancelled by {by}"
    for _ in range(5):
        if run.is_over:
            return False
        if run.state == State.RUNNING:
            asked = {"cancel_requested_at": now, "cancel_reason": reason}
            with transaction.atomic():
                if Run.objects.filter(pk=run.pk, state=State.RUNNING, token=run.token).update(**asked):
                    run.remark(f"asked to stop: {reason}", now=now, by=by)
                    wake_workers(CANCEL)
                    return True
        elif run.move(
            State.CANCELLED,
            now=now,
            by=by,
            note=reason,
            finished_at=now,
            error_code=Run.Fault.CANCELLED,
            error=reason,
            cancel_reason=reason,
        ):
            return True
        run.refresh_from_db()  # the run has just changed state: try again
    return False


def cancel_waiting(pks: Sequence[int], state: str, reason: str, *, now: datetime, skip_locked: bool = False) -> None:
    """Cancel many runs that wait in this state, in one statement."""
    changes = {
        "finished_at": "%(_now)s",
        "error_code": f"'{Run.Fault.CANCELLED}'",
        "error": "%(_note)s::text",
        "cancel_reason": "%(_note)s::text",
    }
    Run.move_rows(pks, state, State.CANCELLED, now=now, note=reason, changes=changes, skip_locked=skip_locked)


def cancel_of(owner: str, *, by: str, reason: str) -> int:
    """J-25: cancel all live runs of a deleted object. Returns how many."""
    return sum(cancel(run, by=by, reason=reason) for run in Run.objects.live().filter(owner=owner))


def retry(run: Run, *, by: str) -> bool:
    """Queue the run again now, with its full number of attempts; its errors are kept. False if it cannot be retried."""
    if not run.may_move(State.QUEUED):
        return False
    now = database_now()
    try:
        with transaction.atomic():
            moved = run.move(
                State.QUEUED,
                now=now,
                by=by,
                note="retried by hand",
                run_at=now,
                attempts_forgiven=run.attempt,
                orphaned_times=0,
                cancel_requested_at=None,
                cancel_reason="",
                finished_at=None,
                token=None,
                unreadable_by="",
            )
            if moved:
                wake_workers()
    except IntegrityError:
        return False  # another live run has the same key
    return moved
