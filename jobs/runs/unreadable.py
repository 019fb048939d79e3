"""A payload that a job worker cannot read: during an upgrade, another one's code may be able to.

The run is left to live job workers that read this payload differently. If there is none, it waits: the upgrade may have
begun with the processes that queue runs. It fails only when nobody could read it for some time.
"""

from datetime import datetime, timedelta

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
    times, since = _unread(run, now)
    has_others = any(worker.takes(spec.name) and worker.declares[spec.name] != mine for worker in live_workers(now))
    if has_others and not times:
        how = {"is_unread": True, "unreadable_by": mine}
        return write_verdict(run.id, run.token, failure, run, timedelta(0), now=now, by=by, **how)
    # Nobody else, or the others could not read it either: they must not pass it to each other without end.
    pause = timedelta(seconds=PAUSES_SECONDS[min(times, len(PAUSES_SECONDS) - 1)])
    return write_verdict(run.id, run.token, failure, run, pause, now=now, by=by, is_unread=now - since < WAITS)


def _unread(run: Claimed, now: datetime) -> tuple[int, datetime]:
    """How often in a row the payload could not be read before, and since when."""
    times, since = 0, now
    for error in reversed(run.errors):
        if error["code"] != Fault.BAD_PAYLOAD:
            break
        times, since = times + 1, datetime.fromisoformat(error["at"])
    return times, since
