"""Claims runs from the queue by compare-and-set, so that each has one winner; limits are counted under a lock.

A job worker polls with one cheap query, promotes runs that are due, and claims as many as it has room for. The claim
is durable: a run that is being executed must never look unclaimed after a crash of the database server.
"""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, transaction

from jobs.definitions.job_decorator import JobSpec
from jobs.definitions.payloads import reader
from jobs.models import Job, Run
from station.clock import database_now
from station.database.prepared_sql import fetch_prepared

State = Run.State
# Reads this many times more candidates than wanted, because other job workers claim at the same time.
SPARE = 2
# Claims of one exclusive job, while other job workers claim runs of the same scopes.
TRIES = 3
# Every claim under JOB_FLEET_LIMIT holds this advisory lock. If its holder freezes, the other claims fail and are
# repeated instead of waiting without a limit.
FLEET_LOCK = 0x41_4952_4A4F_4253
FLEET_LOCK_SECONDS = 2

LOOK = f"""
    WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
    SELECT now,
    LEAST((SELECT min(run_at) FROM jobs_run WHERE state = '{State.SCHEDULED}'),
          (SELECT min(run_at) FROM jobs_run WHERE state = '{State.RETRY}')),
    (SELECT min(run_at) FROM jobs_run WHERE state = '{State.QUEUED}' AND run_at > LEAST(now, %(claimed)s::timestamptz)),
    ARRAY(SELECT j.id FROM jobs_job j WHERE j.id = ANY(%(counted)s::bigint[]) AND EXISTS (
        SELECT FROM jobs_run r WHERE r.job_id = j.id AND r.state = '{State.QUEUED}'))
    FROM clock"""  # noqa: S608  (our own states)
# The next runs of each job in order (of an exclusive job only in scopes with no running run); jobs take turns.
CANDIDATES = f"""
    SELECT c.id, w.job_id, c.scope, w.exclusive
    FROM unnest(%(jobs)s::bigint[], %(exclusive)s::boolean[], %(readers)s::text[]) AS w (job_id, exclusive, reader)
    JOIN jobs_job j ON j.id = w.job_id
    CROSS JOIN LATERAL (
        SELECT r.*, row_number() OVER (ORDER BY r.priority DESC, r.turn, r.id) AS place FROM (
            (SELECT id, scope, priority, turn FROM jobs_run q
             WHERE q.job_id = w.job_id AND q.state = '{State.QUEUED}' AND q.run_at <= %(now)s AND NOT j.is_paused
             AND q.unreadable_by <> w.reader
             AND (NOT w.exclusive OR NOT EXISTS (SELECT FROM jobs_run o
                  WHERE o.job_id = q.job_id AND o.scope = q.scope AND o.state = '{State.RUNNING}'))
             ORDER BY priority DESC, turn, id LIMIT %(limit)s::int)
            UNION ALL
            (SELECT id, scope, priority, turn FROM jobs_run q
             WHERE q.job_id = w.job_id AND q.state = '{State.QUEUED}' AND q.run_at <= %(now)s
             AND q.trigger = '{Run.Trigger.MANUAL}' AND j.is_paused AND q.unreadable_by <> w.reader
             AND (NOT w.exclusive OR NOT EXISTS (SELECT FROM jobs_run o
                  WHERE o.job_id = q.job_id AND o.scope = q.scope AND o.state = '{State.RUNNING}'))
             LIMIT %(limit)s::int)) AS r) AS c
    ORDER BY c.priority DESC, c.place, c.id LIMIT %(limit)s::int"""  # noqa: S608  (our own states)
RETURNING = (
    "job_id",
    "scope",
    "trigger",
    "planned_at",
    "run_at",
    "payload",
    "attempt",
    "attempts_allowed",
    "attempts_forgiven",
    "is_reentrant",
    "token",
    "errors",
)


@dataclass(frozen=True)
class Look:
    """The result of a poll, read once per turn."""

    now: datetime
    # When the first waiting run is due, and the first promoted run that was not due at the last claim.
    waits_until: datetime | None
    instant: datetime | None
    # Jobs with a limit that have queued runs.
    ready: tuple[int, ...]


@dataclass(frozen=True)
class Claimed:
    """A run claimed by this job worker, until its lease is lost."""

    id: int
    job_id: int
    scope: str
    trigger: str
    planned_at: datetime | None
    run_at: datetime
    payload: Any
    attempt: int
    attempts_allowed: int
    attempts_forgiven: int
    is_reentrant: bool
    token: UUID
    errors: list[dict[str, Any]]

    @property
    def attempts_left(self) -> int:
        return max(0, self.attempts_allowed + self.attempts_forgiven - self.attempt)


@dataclass(frozen=True)
class Claimant:
    """The job worker that claims: the id of its row, and its name."""

    ref: int
    name: str


def look(counted: Collection[int], claimed_at: datetime) -> Look:
    """What is next, for a job worker that has claimed everything due at `claimed_at`.

    J-26: the answer begins at that time, not at the time of this question, or a run due in between would be in neither.
    """
    [row] = fetch_prepared(LOOK, {"counted": list(counted), "claimed": claimed_at})
    return Look(row[0], row[1], row[2], tuple(row[3]))


def claim(specs: Mapping[int, JobSpec], jobs: Sequence[int], room: int, who: Claimant, now: datetime) -> list[Claimed]:
    """Claim up to `room` runs of these jobs, highest priority first. None of the jobs may have its own limit."""
    try:
        with fleet_room(room) as free:
            pks = _candidates(jobs, specs, free * SPARE, now) if free > 0 else []
            return _take(pks, specs, free, who, now) if pks else []
    except IntegrityError:
        # Two job workers chose two runs of one exclusive scope at the same time: claim job by job instead.
        return _claim_one_by_one(specs, jobs, room, who, now)


@contextlib.contextmanager
def fleet_room(room: int) -> Iterator[int]:
    """J-18: as much of `room` as JOB_FLEET_LIMIT leaves, reserved until the block ends. Costs nothing without a limit.

    One claim in the whole fleet at a time counts running runs, so that two cannot take the last place.
    """
    if settings.JOB_FLEET_LIMIT <= 0:
        yield room
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{FLEET_LOCK_SECONDS}s'")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [FLEET_LOCK])
        running = Run.objects.filter(state=State.RUNNING).count()
        yield min(room, settings.JOB_FLEET_LIMIT - running)


def _claim_one_by_one(
    specs: Mapping[int, JobSpec], jobs: Sequence[int], room: int, who: Claimant, now: datetime
) -> list[Claimed]:
    """Runs claimed so far are returned even if a later claim fails."""
    claimed: list[Claimed] = []
    for job in jobs:
        for _ in range(TRIES):
            if len(claimed) >= room:
                return claimed
            try:
                claimed += claim_counted(job, specs[job], room - len(claimed), who, now)
                break
            except IntegrityError:
                continue  # another job worker was faster in one scope: the next try sees its run and takes the others
            except DatabaseError:
                if not claimed:
                    raise
                return claimed
    return claimed


def warm_up(specs: Mapping[int, JobSpec], who: Claimant, now: datetime) -> None:
    """An empty claim, so that the next one finds its statements prepared and its data cached."""
    _take([0], specs, 1, who, now)


def claim_counted(job: int, spec: JobSpec, room: int, who: Claimant, now: datetime) -> list[Claimed]:
    """J-18: claim runs of a job with a limit. The lock comes first, so that running runs are counted under it."""
    with fleet_room(room) as room, transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job)
        if spec.concurrency:
            running = Run.objects.filter(job_id=job, state=State.RUNNING).count()
            room = min(room, spec.concurrency - running)
        pks = _candidates([job], {job: spec}, room, now) if room > 0 else []
        # Time passed while we waited for the lock; a lease must not start in the past.
        return _take(pks, {job: spec}, room, who, max(now, database_now())) if pks else []


def _candidates(jobs: Sequence[int], specs: Mapping[int, JobSpec], limit: int, now: datetime) -> list[int]:
    """In the order in which they are claimed; of an exclusive scope only the first."""
    values = {
        "jobs": list(jobs),
        "exclusive": [specs[job].is_exclusive for job in jobs],
        "readers": [reader(specs[job].payload) for job in jobs],
        "limit": limit,
        "now": now,
    }
    rows = fetch_prepared(CANDIDATES, values)
    chosen, scopes = [], set()
    for pk, job_id, scope, is_exclusive in rows:
        if not is_exclusive or (job_id, scope) not in scopes:
            chosen.append(pk)
            scopes.add((job_id, scope))
    return chosen


def _take(pks: Sequence[int], specs: Mapping[int, JobSpec], room: int, who: Claimant, now: datetime) -> list[Claimed]:
    own = "(%({})s::float8[])[array_position(%(jobs)s::bigint[], jobs_run.job_id)] * interval '1 second'"
    rows = Run.move_rows(
        pks,
        State.QUEUED,
        State.RUNNING,
        now=now,
        by=who.name,
        is_durable=True,
        is_noted=False,  # the row stores who claimed it and when, and every failed attempt in `errors`
        at_most=room,
        changes={
            "attempt": "jobs_run.attempt + 1",
            "token": "gen_random_uuid()",
            "leased_until_at": f"%(_now)s + {own.format('leases')}",
            "deadline_at": f"%(_now)s + {own.format('stales')}",
            "heartbeat_at": "%(_now)s",
            "claimed_at": "%(_now)s",
            "worker_ref": "%(ref)s",
            "worker_name": "%(name)s",
            "progress_percent": "NULL",
            "progress_text": "''",
        },
        values={
            "jobs": list(specs),
            "leases": [spec.lease_seconds for spec in specs.values()],
            "stales": [spec.stale_seconds for spec in specs.values()],
            "ref": who.ref,
            "name": who.name,
        },
        returning=RETURNING,
    )
    order = {pk: place for place, pk in enumerate(pks)}
    return [_read(row) for row in sorted(rows, key=lambda row: order[row[0]])]


def _read(row: Sequence[Any]) -> Claimed:
    """Django returns JSON columns of raw statements as text."""
    values = dict(zip(("id", *RETURNING), row, strict=True))
    for name in ("payload", "errors"):
        if isinstance(values[name], str):
            values[name] = json.loads(values[name])
    return Claimed(**values)
