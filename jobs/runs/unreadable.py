"""A payload that a job worker cannot read: during an upgrade, another one's code may be able to.

The run is left to live job workers that read this payload differently. If there is none, it waits: the upgrade may have
begun with the processes that queue runs. It fails only when nobody could read it for some time.
"""

import itertools
from datetime import datetime, timedelta
from typing import Any

from jobs.definitions.job_decorator import JobSpec
from jobs.definitions.payloads import reader
from jobs.models import Run
from jobs.runs.claiming import Claimed
from jobs.runs.finishing import Failure, fail, write_verdict
from jobs.runs.process_records import live_workers

Fault = Run.Fault
WAITS = timedelta(minutes=15)
PAUSES_SECONDS = (2.0, 5.0, 15.0, 30.0, 60.0)


def fail_or_set_aside(run: Claimed, failure: Failure, spec: JobSpec, *, now: datetime, by: str) -> str | None:
    """Write the end of a failed attempt. Returns the new state, or None if the lease is lost."""
    if failure.code != Fault.BAD_PAYLOAD:
        return fail(run, failure, spec.backoff(run.attempt), now=now, by=by)
    mine = reader(spec.payload)
    before, since = _unread(run, now)
    tried = {mine, *(error.get("reader", "") for error in before)}
    others = [worker for worker in live_workers(now) if worker.takes(spec.name)]
    if any(worker.declares[spec.name] not in tried for worker in others):
        how = {"is_unread": True, "unreadable_by": mine, "reader": mine}
        return write_verdict(run.id, run.token, failure, run, timedelta(0), now=now, by=by, **how)
    # Each kind of job worker has tried: they must not pass it to each other without end.
    pause = timedelta(seconds=PAUSES_SECONDS[min(len(before), len(PAUSES_SECONDS) - 1)])
    how = {"is_unread": now - since < WAITS, "reader": mine}
    return write_verdict(run.id, run.token, failure, run, pause, now=now, by=by, **how)


def _unread(run: Claimed, now: datetime) -> tuple[list[dict[str, Any]], datetime]:
    """The errors of the attempts in a row, up to now, that could not read the payload; and since when."""
    before = list(itertools.takewhile(lambda error: error["code"] == Fault.BAD_PAYLOAD, reversed(run.errors)))
    return before, datetime.fromisoformat(before[-1]["at"]) if before else now
