"""Promotion: scheduled runs and retries that are due join the queue, where job workers claim them."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs.models import Run
from jobs.runs import queue
from station.database.prepared_sql import fetch_prepared
from station.states import sql_list

State = Run.State
PROMOTE_LIMIT = 500

WAITING = f"""
    SELECT id, state, job_id FROM jobs_run WHERE state IN ({sql_list(Run.WAITING)}) AND run_at <= %(until)s
    ORDER BY run_at LIMIT %(limit)s::int FOR NO KEY UPDATE SKIP LOCKED"""  # noqa: S608  (our own states)
SUPERSEDED = f"""
    SELECT DISTINCT r.id FROM jobs_run r JOIN jobs_run later
    ON later.job_id = r.job_id AND later.scope = r.scope AND later.planned_at > r.planned_at
    WHERE r.job_id = ANY(%(jobs)s::bigint[]) AND r.scope = ANY(%(scopes)s::text[])
    AND r.state = '{State.QUEUED}' AND r.trigger = '{Run.Trigger.PLAN}' AND r.attempt = 0
    AND later.state = '{State.QUEUED}' AND later.trigger = '{Run.Trigger.PLAN}' AND later.run_at <= %(now)s"""  # noqa: S608  (our own states)
# The current turn of each job: a scope that had no queued runs starts there, not ahead of all others.
FLOORS = f"""
    SELECT j.id, COALESCE((SELECT turn FROM jobs_run q WHERE q.job_id = j.id AND q.priority = 0
                           AND q.state = '{State.QUEUED}' ORDER BY q.turn LIMIT 1), 1) - 1
    FROM jobs_job j WHERE j.id = ANY(%(jobs)s::bigint[])"""  # noqa: S608  (our own states)
PROMOTED_TURN = f"""1 + GREATEST(
    COALESCE((SELECT max(turn) FROM jobs_run q WHERE q.job_id = jobs_run.job_id
              AND q.scope = jobs_run.scope AND q.state = '{State.QUEUED}'), 0),
    (%(floors)s::bigint[])[array_position(%(jobs)s::bigint[], jobs_run.job_id)])"""  # noqa: S608  (our own states)


def promote(now: datetime, until: datetime, latest_only: Collection[int] = ()) -> int:
    """J-21: scheduled runs and retries due by `until` join the queue, behind the last run of their scope.

    They are promoted shortly before they are due, so that only the claim is left to do then. For jobs in `latest_only`,
    a newer planned run cancels an older one that has not started. Returns how many were promoted. Several processes
    may promote at the same time; each promotes different runs.
    """
    moved: list[tuple[Any, ...]] = []
    with transaction.atomic():
        by_state: dict[str, list[int]] = {}
        waiting = fetch_prepared(WAITING, {"until": until, "limit": PROMOTE_LIMIT})
        for pk, state, _ in waiting:
            by_state.setdefault(state, []).append(pk)
        floors = fetch_prepared(FLOORS, {"jobs": sorted({job_id for _, _, job_id in waiting})}) if waiting else []
        for state, pks in by_state.items():
            moved += Run.move_rows(
                pks,
                state,
                State.QUEUED,
                now=now,
                changes={"turn": PROMOTED_TURN},
                values={"jobs": [job for job, _ in floors], "floors": [floor for _, floor in floors]},
                returning=("job_id", "scope"),
                is_noted=False,
            )
    affected = {job_id for _, job_id, _ in moved} & set(latest_only)
    if affected:
        _supersede(affected, {scope for _, job_id, scope in moved if job_id in affected}, now)
    return len(moved)


def _supersede(jobs: set[int], scopes: set[str], now: datetime) -> None:
    pks = [row[0] for row in fetch_prepared(SUPERSEDED, {"jobs": list(jobs), "scopes": list(scopes), "now": now})]
    if pks:
        queue.cancel_waiting(pks, State.QUEUED, "replaced by a later run before it started", now=now, skip_locked=True)
