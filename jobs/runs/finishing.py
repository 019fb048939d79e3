"""Writes the end of an attempt: state, result and error in one statement, guarded by the lease token (J-08, J-16)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from psycopg.types.json import Jsonb

from jobs.definitions.run_context import plain
from jobs.models import Run
from jobs.runs.claiming import Claimed
from station.database.notify import RUNS_CHANNEL, wake_workers
from station.redaction import redact
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

State, Fault = Run.State, Run.Fault
ERRORS_KEPT = 50
ERROR_LENGTH = 4000
ORPHANED_UNTIL_POISON = 3
# It is not known how far the attempt got: only a reentrant job is tried again (J-07).
UNKNOWN_END = {Fault.STALE_TIMEOUT, Fault.WORKER_CRASHED, Fault.WORKER_STOPPED, Fault.HANDLER_CRASH, Fault.RUN_TIMEOUT}
# The job worker failed, not the work: it costs the run no attempt (J-28).
FREE = {Fault.WORKER_STOPPED, Fault.WORKER_CRASHED}
FINAL = {Fault.BAD_PAYLOAD, Fault.POISON, Fault.HOPELESS}
# Wakes idle job workers when a job with a limit has room again and more of its runs are queued.
WAKE = f"""SELECT pg_notify('{RUNS_CHANNEL}', '') WHERE EXISTS (
              SELECT FROM jobs_run WHERE job_id = ANY(%s) AND state = '{State.QUEUED}')"""  # noqa: S608  (our own states)

# Columns that write_end sets.
END_CHANGES = {
    "attempts_forgiven": "attempts_forgiven + %(forgiven)s",
    "run_at": "%(run_at)s",
    "error_code": "%(code)s",
    "error": "%(text)s",
    "errors": "%(errors)s",
    "orphaned_times": "%(orphaned)s",
    "unreadable_by": "%(unreadable_by)s",
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
    """How an attempt ended, and the conditions under which that may be written."""

    failure: Failure
    run: Claimed | Run
    backoff: timedelta
    now: datetime
    by: str = SCHEDULER
    orphaned_times: int = 0
    guard: str = "true"  # SQL; may name %(lease)s
    lease: datetime | None = None
    skip_locked: bool = False
    # The payload cannot be read yet: the run waits, and job workers with this word leave it to others.
    is_unread: bool = False
    unreadable_by: str = ""
    # The word of the job worker that could not read the payload.
    reader: str = ""


def succeed(runs: Sequence[Claimed], results: Sequence[Any], *, now: datetime, by: str) -> set[int]:
    """Write many successes at once. Returns the ids that were accepted; the others lost their lease and are ignored."""
    done = Run.move_batch(
        [run.id for run in runs],
        State.RUNNING,
        State.SUCCEEDED,
        now=now,
        by=by,
        is_durable=True,
        is_noted=False,  # the row stores when and by whom
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
    """Move the run to retry, failed or cancelled. Returns the new state, or None if the lease is lost."""
    return write_verdict(run.id, run.token, failure, run, backoff, now=now, by=by)


def write_verdict(
    pk: int, token: UUID | None, failure: Failure, run: Claimed | Run, backoff: timedelta, *, now: datetime, **how: Any
) -> str | None:
    """Write the state that follows from the failure. A run with a request to cancel is not retried (J-25).

    `how`: the other fields of Ending.
    """
    ending = Ending(failure, run, backoff, now, **how)
    left = run.attempts_left or int(failure.code in FREE)
    to = State.RETRY if ending.is_unread else verdict(failure.code, attempts_left=left, is_reentrant=run.is_reentrant)
    if to != State.RETRY:
        return to if write_end(pk, token, to, ending) else None
    if write_end(pk, token, to, ending, "cancel_requested_at IS NULL"):
        return to
    if write_end(pk, token, State.CANCELLED, ending, "cancel_requested_at IS NOT NULL"):
        return State.CANCELLED
    return None


def verdict(code: str, *, attempts_left: int, is_reentrant: bool) -> str:
    """The state of a run after an attempt that ended with this code."""
    if code == Fault.CANCELLED:
        return State.CANCELLED
    if code in FINAL or not attempts_left or (code in UNKNOWN_END and not is_reentrant):
        return State.FAILED
    return State.RETRY


def write_end(pk: int, token: UUID | None, to: str, ending: Ending, condition: str = "true") -> bool:
    """Move one row from running to its next state, if its token still matches and the condition holds."""
    now, run, code = ending.now, ending.run, str(ending.failure.code)
    text = plain(redact(ending.failure.text))[:ERROR_LENGTH]
    error = {"attempt": run.attempt, "at": now.isoformat(), "code": code, "text": text}
    if ending.reader:
        error["reader"] = ending.reader
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
            "forgiven": int((code in FREE or ending.is_unread) and to == State.RETRY),
            "lease": ending.lease,
            "run_at": now + ending.backoff if to == State.RETRY else run.run_at,
            "code": code,
            "text": text,
            "errors": Jsonb([*run.errors, error][-ERRORS_KEPT:]),
            "orphaned": ending.orphaned_times,
            "unreadable_by": ending.unreadable_by,
            "finished": None if to == State.RETRY else now,
        },
    )
    return bool(moved)


def tell_of_room(jobs: Sequence[int]) -> None:
    """Wake job workers after runs of these limited jobs ended. Under JOB_FLEET_LIMIT any job may have room now."""
    if settings.JOB_FLEET_LIMIT > 0:
        if Run.objects.filter(state=State.QUEUED).exists():
            wake_workers()
    elif jobs:
        with connection.cursor() as cursor:
            cursor.execute(WAKE, [list(jobs)])


def _json(result: Any) -> Jsonb | None:
    return None if result is None else Jsonb(result)
