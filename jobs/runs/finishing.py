"""The end of an attempt: state, result and error in one statement, guarded by the lease's token (J-08, J-16)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from psycopg.types.json import Jsonb

from jobs.declared.run_context import plain
from jobs.models import Run
from jobs.runs.claiming import Claimed
from station.database.notify import wake_workers
from station.redaction import redact
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

State, Fault = Run.State, Run.Fault
ERRORS_KEPT = 50
ERROR_LENGTH = 4000
ORPHANED_UNTIL_POISON = 3
# Nobody knows how far it got: only what may be entered again is tried again (J-07).
UNKNOWN_END = {Fault.STALE_TIMEOUT, Fault.WORKER_CRASHED, Fault.WORKER_STOPPED, Fault.HANDLER_CRASH, Fault.RUN_TIMEOUT}
FINAL = {Fault.BAD_PAYLOAD, Fault.POISON, Fault.HOPELESS}
# There is room again under a job's limit, or the fleet's: if more waits, job workers without work should know.
WAKE = f"""SELECT pg_notify('airlock_runs', '') WHERE EXISTS (
              SELECT FROM jobs_run WHERE job_id = ANY(%s) AND state = '{State.QUEUED}')"""  # noqa: S608  (our own states)

# What write_end sets; the values come with each row.
END_CHANGES = {
    "attempts_forgiven": "attempts_forgiven + %(forgiven)s",
    "run_at": "%(run_at)s",
    "error_code": "%(code)s",
    "error": "%(text)s",
    "errors": "%(errors)s",
    "orphaned_times": "%(orphaned)s",
    "finished_at": "%(finished)s",
    "token": "NULL",
    "leased_until_at": "NULL",
}


@dataclass(frozen=True)
class Failure:
    """Why an attempt did not succeed."""

    code: str
    text: str


@dataclass(frozen=True)
class Ending:
    """How an attempt ended, and under which conditions that may be written."""

    failure: Failure
    run: Claimed | Run
    backoff: timedelta
    now: datetime
    by: str = SCHEDULER
    orphaned_times: int = 0
    guard: str = "true"  # SQL; may name %(lease)s
    lease: datetime | None = None
    skip_locked: bool = False


def succeed(runs: Sequence[Claimed], results: Sequence[Any], *, now: datetime, by: str) -> set[int]:
    """Many at once; answers whose end was accepted. The others' leases were lost, and their results are ignored."""
    done = Run.move_batch(
        [run.id for run in runs],
        State.RUNNING,
        State.SUCCEEDED,
        now=now,
        by=by,
        is_durable=True,
        is_noted=False,  # the row itself says when and by whom
        guard=f"token = {Run.own('tokens', 'uuid')}",
        changes={
            "result": Run.own("results", "jsonb"),
            "finished_at": "%(_now)s",
            "error_code": "''",
            "error": "''",
            "orphaned_times": "0",
            "progress_percent": "100",
        },
        values={"tokens": [run.token for run in runs], "results": [_json(result) for result in results]},
    )
    return set(done)


def fail(run: Claimed, failure: Failure, backoff: timedelta, *, now: datetime, by: str) -> str | None:
    """Retry, give up or cancel, as the failure and the attempts say. The new state; None if the lease is lost."""
    return write_verdict(run.id, run.token, failure, run, backoff, now=now, by=by)


def write_verdict(
    pk: int, token: UUID | None, failure: Failure, run: Claimed | Run, backoff: timedelta, *, now: datetime, **how: Any
) -> str | None:
    """Write what the code says. A run that somebody wants cancelled is not tried again, however it ended (J-25).

    `how`: the other fields of Ending.
    """
    ending = Ending(failure, run, backoff, now, **how)
    # A job worker that is stopped costs the run no attempt.
    left = run.attempts_left or (1 if failure.code == Fault.WORKER_STOPPED else 0)
    to = verdict(failure.code, attempts_left=left, is_reentrant=run.is_reentrant)
    if to != State.RETRY:
        return to if write_end(pk, token, to, ending) else None
    if write_end(pk, token, to, ending, "cancel_requested_at IS NULL"):
        return to
    if write_end(pk, token, State.CANCELLED, ending, "cancel_requested_at IS NOT NULL"):
        return State.CANCELLED
    return None


def verdict(code: str, *, attempts_left: int, is_reentrant: bool) -> str:
    """What becomes of a run after an attempt that ended with this code."""
    if code == Fault.CANCELLED:
        return State.CANCELLED
    if code in FINAL or not attempts_left or (code in UNKNOWN_END and not is_reentrant):
        return State.FAILED
    return State.RETRY


def write_end(pk: int, token: UUID | None, to: str, ending: Ending, condition: str = "true") -> bool:
    """Move one row from running to its next state, if its token is still the one we know and the condition holds."""
    now, run, code = ending.now, ending.run, str(ending.failure.code)
    text = plain(redact(ending.failure.text))[:ERROR_LENGTH]
    error = {"attempt": run.attempt, "at": now.isoformat(), "code": code, "text": text}
    moved = Run.move_batch(
        [pk],
        State.RUNNING,
        to,
        now=now,
        by=ending.by,
        note=f"{code}: {text}" if text else code,
        is_durable=True,
        at_most=1 if ending.skip_locked else None,
        guard=f"token IS NOT DISTINCT FROM %(token)s::uuid AND {ending.guard} AND {condition}",
        changes=END_CHANGES,
        values={
            "token": token,
            "forgiven": int(code == Fault.WORKER_STOPPED and to == State.RETRY),
            "lease": ending.lease,
            "run_at": now + ending.backoff if to == State.RETRY else run.run_at,
            "code": code,
            "text": text,
            "errors": Jsonb([*run.errors, error][-ERRORS_KEPT:]),
            "orphaned": ending.orphaned_times,
            "finished": None if to == State.RETRY else now,
        },
    )
    return bool(moved)


def tell_of_room(jobs: Sequence[int]) -> None:
    """After the end of runs of these limited jobs; under a fleet's limit every end makes room for any job."""
    if settings.JOB_FLEET_LIMIT > 0:
        if Run.objects.filter(state=State.QUEUED).exists():
            wake_workers()
    elif jobs:
        with connection.cursor() as cursor:
            cursor.execute(WAKE, [list(jobs)])


def _json(result: Any) -> Jsonb | None:
    return None if result is None else Jsonb(result)
